//! Files of facts.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kilter_model::Hash;

use super::{LONGEST, from_json_text, from_lines};

pub(super) fn json_file(path: &Path) -> Result<Hash, String> {
    from_json_text(&text(path)?)
}

pub(super) fn lines_file(path: &Path) -> Result<Hash, String> {
    from_lines(&text(path)?)
}

fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > LONGEST {
        return Err(format!("longer than {LONGEST} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}
