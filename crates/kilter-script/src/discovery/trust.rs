//! Whether a script may be run, and a file be believed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ecow::{EcoString, eco_format};

use crate::surroundings::Rights;

const STICKY: u32 = 0o1000;

/// Checks a directory and all above it: who can rename one of them can replace the files.
pub(crate) fn directory(path: &Path, rights: Rights) -> Result<(), EcoString> {
    if rights == Rights::User {
        return Ok(());
    }
    let real = path.canonicalize().map_err(|error| eco_format!("cannot be resolved: {error}"))?;
    for (depth, directory) in real.ancestors().enumerate() {
        let metadata = directory.metadata().map_err(|error| eco_format!("cannot be read: {error}"))?;
        // In a sticky directory others can add names, but cannot take those of root.
        let is_sticky = depth > 0 && metadata.mode() & STICKY != 0;
        if let Some(why) = changeable(&metadata).filter(|_| metadata.uid() != 0 || !is_sticky) {
            return Err(eco_format!("not used by root: {} {why}", directory.display()));
        }
    }
    Ok(())
}

/// Checks a file, through symbolic links.
pub(crate) fn file(path: &Path, rights: Rights) -> Result<(), EcoString> {
    if rights == Rights::User {
        return Ok(());
    }
    let real = path.canonicalize().map_err(|error| eco_format!("cannot be resolved: {error}"))?;
    let metadata = real.metadata().map_err(|error| eco_format!("cannot be read: {error}"))?;
    if let Some(why) = changeable(&metadata) {
        return Err(eco_format!("not used by root: it {why}"));
    }
    match real.parent() {
        Some(parent) if real != path => directory(parent, rights),
        _ => Ok(()),
    }
}

/// Why somebody else than root can change it.
fn changeable(metadata: &Metadata) -> Option<EcoString> {
    if metadata.uid() != 0 {
        return Some(eco_format!("belongs to user {}", metadata.uid()));
    }
    match metadata.mode() {
        mode if mode & 0o002 != 0 => Some(eco_format!("can be written by everybody (mode {:04o})", mode & 0o7777)),
        mode if mode & 0o020 != 0 && metadata.gid() != 0 => {
            Some(eco_format!("can be written by group {} (mode {:04o})", metadata.gid(), mode & 0o7777))
        }
        _ => None,
    }
}
