//! Whether a script may be run, and a file be believed.

use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_process::trust::{self, Changer, Distrust};

use crate::surroundings::Rights;

/// Checks a directory and all above it.
pub(crate) fn directory(path: &Path, rights: Rights) -> Result<(), EcoString> {
    if rights == Rights::User {
        return Ok(());
    }
    trust::directory(path).map_err(|distrust| match distrust {
        Distrust::Unresolved(error) => eco_format!("cannot be resolved: {error}"),
        Distrust::Unread(error) => eco_format!("cannot be read: {error}"),
        Distrust::Changeable { directory, by, .. } => eco_format!("not used by root: {} {by}", directory.display()),
    })
}

/// Checks a file, through symbolic links.
pub(crate) fn file(path: &Path, rights: Rights) -> Result<(), EcoString> {
    if rights == Rights::User {
        return Ok(());
    }
    let real = path.canonicalize().map_err(|error| eco_format!("cannot be resolved: {error}"))?;
    let metadata = real.metadata().map_err(|error| eco_format!("cannot be read: {error}"))?;
    if let Some(by) = Changer::of(&metadata) {
        return Err(eco_format!("not used by root: it {by}"));
    }
    match real.parent() {
        Some(parent) if real != path => directory(parent, rights),
        _ => Ok(()),
    }
}

/// The text of a file that may be believed, of at most so many bytes.
pub(crate) fn text(path: &Path, longest: usize, rights: Rights) -> Result<EcoString, EcoString> {
    file(path, rights)?;
    let found = std::fs::metadata(path).map_err(|error| eco_format!("it cannot be read: {error}"))?;
    if !found.is_file() || found.len() > longest as u64 {
        return Err(eco_format!("it is no file of at most {longest} bytes"));
    }
    let bytes = std::fs::read(path).map_err(|error| eco_format!("it cannot be read: {error}"))?;
    String::from_utf8(bytes).map(EcoString::from).map_err(|_| "it is not UTF-8".into())
}
