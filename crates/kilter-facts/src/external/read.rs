//! Reads fact files.

use std::path::Path;

use kilter_model::Hash;
use kilter_process::trust::TrustPolicy;

use super::{MAX_FACTS_BYTES, from_json_text, from_lines, why_not};

pub(super) fn json_file(path: &Path, policy: &TrustPolicy) -> Result<Hash, String> {
    from_json_text(&text(path, policy)?)
}

pub(super) fn lines_file(path: &Path, policy: &TrustPolicy) -> Result<Hash, String> {
    from_lines(&text(path, policy)?)
}

fn text(path: &Path, policy: &TrustPolicy) -> Result<String, String> {
    let bytes = policy.read(path, MAX_FACTS_BYTES as u64).map_err(|distrust| why_not(&distrust))?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}
