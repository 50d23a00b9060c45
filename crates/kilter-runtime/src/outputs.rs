//! Outputs of resources that did not run this time.
//!
//! A command that ran once (`creates`) is in its state ever after, and still has to send what it
//! printed. What others refer to is therefore kept in the state directory, mode 0600.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kilter_model::{Attributes, ResourceRef, from_canonical_json, to_canonical_json_clear};
use serde_json::{Value as Json, json};

/// What a resource was declared as when it sent its outputs: another one of the same reference, in
/// another manifest or a later version, did not send them.
pub(crate) fn fingerprint(declared: &Attributes) -> String {
    let mut crc = crc32fast::Hasher::new();
    for (name, value) in declared.iter() {
        crc.update(format!("{name}={}\0", to_canonical_json_clear(value)).as_bytes());
    }
    format!("{:08x}", crc.finalize())
}

/// Keeps the outputs of `reference`.
pub(crate) fn keep(state: &Path, reference: &ResourceRef, declared: &str, outputs: &Attributes) -> io::Result<()> {
    let path = path(state, reference);
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let values: serde_json::Map<String, Json> =
        outputs.iter().map(|(name, value)| (name.to_string(), to_canonical_json_clear(value))).collect();
    let text = json!({ "resource": reference.to_string(), "declared": declared, "sent": values }).to_string();
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&new, &path)
}

/// The outputs of `reference` that were kept, if there are any.
pub(crate) fn kept(state: &Path, reference: &ResourceRef, declared: &str) -> Option<Attributes> {
    let json: Json = serde_json::from_slice(&fs::read(path(state, reference)).ok()?).ok()?;
    if json.get("resource")?.as_str()? != reference.to_string() || json.get("declared")?.as_str()? != declared {
        return None;
    }
    let values = json.get("sent")?.as_object()?;
    values.iter().map(|(name, value)| Some((name.as_str(), from_canonical_json(value).ok()?))).collect()
}

/// One file a resource, its name made of what is harmless in the reference, told apart by a hash.
fn path(state: &Path, reference: &ResourceRef) -> PathBuf {
    let text = reference.to_string();
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = text.chars().map(harmless).take(80).collect();
    state.join("outputs").join(format!("{name}-{:08x}", crc32fast::hash(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use kilter_model::Value;

    use super::*;

    #[test]
    fn outputs_come_back_as_they_were_sent() {
        let state = tempfile::tempdir().unwrap();
        let reference = ResourceRef::new("exec", "token");
        let outputs: Attributes = [
            ("stdout", Value::Binary(b"\xff\x00".as_slice().into())),
            ("stderr", Value::sensitive("hunter2".into())),
            ("lines", Value::array([Value::sensitive("one".into()), "two".into(), Value::Float(1.0)])),
            ("at", Value::Timestamp("2026-01-31".parse().unwrap())),
        ]
        .into_iter()
        .collect();
        keep(state.path(), &reference, "x", &outputs).unwrap();
        assert_eq!(kept(state.path(), &reference, "x"), Some(outputs));
        assert_eq!(kept(state.path(), &reference, "y"), None, "something else was declared then");
    }
}
