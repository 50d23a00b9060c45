//! Removes files and directories.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::open::LIST;
use super::opened_path::{FoundEntry, OpenedPath, each_name, look_within, open_seen};

/// Removes a directory with everything below it. Never removes mounted file systems.
pub(super) fn tree(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<(), FileError> {
    match look_within(directory, leaf, path)? {
        FoundEntry::Here(looked) => below(directory, leaf, path, &looked, 0),
        FoundEntry::Missing => Ok(()),
        FoundEntry::Mounted => Err(FileError::OtherFileSystem(path.to_owned())),
    }
}

fn below(directory: &OwnedFd, leaf: &[u8], path: &str, looked: &OpenedPath, depth: usize) -> Result<(), FileError> {
    if looked.kind != Kind::Directory {
        return unlink(directory, leaf, path);
    }
    if depth > MAX_DEPTH {
        return Err(FileError::TooDeep(path.to_owned()));
    }
    let opened = open_seen(directory, leaf, path, &looked.stat, LIST)?;
    let mut names = Vec::new();
    each_name(&opened, &mut |name| names.push(name.to_vec())).map_err(|errno| FileError::io("list", path, errno))?;
    for name in names {
        let path = format!("{path}/{}", String::from_utf8_lossy(&name));
        match look_within(&opened, &name, &path)? {
            FoundEntry::Here(entry) => below(&opened, &name, &path, &entry, depth + 1)?,
            FoundEntry::Missing => {}
            FoundEntry::Mounted => return Err(FileError::OtherFileSystem(path)),
        }
    }
    rmdir(directory, leaf).map_err(|errno| FileError::io("remove", path, errno))
}

/// Removes an entry that is not a directory.
pub(super) fn unlink(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<(), FileError> {
    match unlinkat(directory, leaf, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(FileError::io("remove", path, errno)),
    }
}

/// Removes an empty directory.
pub(super) fn rmdir(directory: &OwnedFd, leaf: &[u8]) -> Result<(), Errno> {
    match unlinkat(directory, leaf, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
