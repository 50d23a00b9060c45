//! Whether a file may be believed, or even run.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kilter_process::trust::{self, Changer, Distrust};

use crate::kernel::Ids;

/// Checks a directory and all above it.
pub(super) fn directory(path: &Path, ids: Ids) -> Result<(), String> {
    if ids.uid != 0 {
        return Ok(());
    }
    trust::directory(path).map_err(|distrust| match distrust {
        Distrust::Unresolved(error) => format!("cannot be resolved: {error}"),
        Distrust::Unread(error) => format!("cannot be read: {error}"),
        Distrust::Changeable { above: 0, by, .. } => format!("not used by root: {}", told(by)),
        Distrust::Changeable { directory, by, .. } => {
            format!("not used by root: {} {}", directory.display(), told(by))
        }
    })
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
        if let Some(by) = Changer::of(&metadata) {
            return Err(format!("not used by root: {}", told(by)));
        }
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let real = path.canonicalize().map_err(|error| format!("cannot be resolved: {error}"))?;
        if let Some(parent) = real.parent().filter(|_| is_link) {
            directory(parent, ids)?;
        }
    }
    Ok(Some(metadata.permissions().mode()))
}

/// What is said of a file that somebody else can change.
fn told(by: Changer) -> String {
    match by {
        Changer::Owner(uid) => format!("it belongs to user {uid}"),
        Changer::Everybody(mode) => format!("everybody can write to it (mode {mode:04o})"),
        Changer::Group(gid, mode) => format!("group {gid} can write to it (mode {mode:04o})"),
    }
}
