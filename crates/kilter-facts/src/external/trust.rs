//! Whether a file may be believed, or even run.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::kernel::Ids;

const STICKY: u32 = 0o1000;

/// Checks a directory and all above it: who can rename one of them can replace the files.
pub(super) fn directory(path: &Path, ids: Ids) -> Result<(), String> {
    if ids.uid != 0 {
        return Ok(());
    }
    let real = path.canonicalize().map_err(|error| format!("cannot be resolved: {error}"))?;
    for (depth, directory) in real.ancestors().enumerate() {
        let metadata = directory.metadata().map_err(|error| format!("cannot be read: {error}"))?;
        // In a sticky directory, others can add names but cannot take the ones of root. Of the
        // directory itself, added names are what matters.
        let is_sticky = depth > 0 && metadata.mode() & STICKY != 0;
        if let Some(why) = changeable(&metadata).filter(|_| metadata.uid() != 0 || !is_sticky) {
            return Err(match depth {
                0 => format!("not used by root: {why}"),
                _ => format!("not used by root: {} {why}", directory.display()),
            });
        }
    }
    Ok(())
}

/// Checks a file, through symbolic links; its mode, or none if it is a directory.
pub(super) fn file(path: &Path, ids: Ids) -> Result<Option<u32>, String> {
    let metadata = path.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if metadata.is_dir() {
        return Ok(None);
    }
    // Opening a FIFO would wait for a writer.
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    if ids.uid == 0 {
        if let Some(why) = changeable(&metadata) {
            return Err(format!("not used by root: {why}"));
        }
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let real = path.canonicalize().map_err(|error| format!("cannot be resolved: {error}"))?;
        if let Some(parent) = real.parent().filter(|_| is_link) {
            directory(parent, ids)?;
        }
    }
    Ok(Some(metadata.permissions().mode()))
}

/// Why somebody else than root can change it.
fn changeable(metadata: &Metadata) -> Option<String> {
    if metadata.uid() != 0 {
        return Some(format!("it belongs to user {}", metadata.uid()));
    }
    match metadata.mode() {
        mode if mode & 0o002 != 0 => Some(format!("everybody can write to it (mode {:04o})", mode & 0o7777)),
        mode if mode & 0o020 != 0 && metadata.gid() != 0 => {
            Some(format!("group {} can write to it (mode {:04o})", metadata.gid(), mode & 0o7777))
        }
        _ => None,
    }
}
