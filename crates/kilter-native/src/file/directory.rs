//! Directories that programs fill, such as checkouts and unpacked archives: created, given to a user, removed.
//!
//! A user who can write to the directory above must not be able to redirect a change. So each operation works on
//! descriptors and follows no link that another user could have made.

use ecow::{EcoString, eco_format};
use rustix::fs::{Gid, Mode, Uid, fchmod, fchown, mkdirat, openat, syncfs};
use rustix::io::Errno;

use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::open::{self, LIST, Parent};
use super::opened_path::{FoundEntry, OpenedPath, each_name, examine, list_all, look_within, open_seen};
use super::{ownership, remove};

/// A path as found.
pub(crate) struct FoundPath {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The directory; none for a path of another kind.
    pub(crate) directory: Option<OpenDirectory>,
    /// Kind of the path, for messages.
    pub(crate) kind: &'static str,
}

/// A directory, held open.
pub(crate) struct OpenDirectory {
    parent: Parent,
}

impl OpenDirectory {
    /// Returns true if the directory has an entry of this name. Follows no link.
    pub(crate) fn has(&self, name: &str) -> bool {
        openat(&self.parent.fd, name, open::PATH_ONLY, Mode::empty()).is_ok()
    }

    /// Returns true if the directory has no entries.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub(crate) fn is_empty(&self) -> Result<bool, EcoString> {
        list_all(&self.parent.fd, &self.parent.path).map(|names| names.is_empty()).map_err(text)
    }
}

/// Examines a path; returns none if it does not exist. Never follows a link in its last component.
///
/// # Errors
/// If it cannot be examined.
pub(crate) fn find(path: &str) -> Result<Option<FoundPath>, EcoString> {
    let Some(looked) = examine(path, false).map_err(text)? else { return Ok(None) };
    let directory = match looked.kind {
        Kind::Directory => Some(OpenDirectory { parent: open::open_directory(path).map_err(text)? }),
        _ => None,
    };
    let (uid, gid) = (looked.stat.st_uid, looked.stat.st_gid);
    Ok(Some(FoundPath { uid, gid, directory, kind: looked.kind.word() }))
}

/// Creates a directory with mode 0755. The directory above must exist.
///
/// # Errors
/// If it exists, or cannot be created.
pub(crate) fn create(path: &str, owner: Option<(u32, u32)>) -> Result<(), EcoString> {
    let parent = open::open_parent(path).map_err(text)?;
    let leaf = open::split(path).1;
    let failed = |errno: Errno| text(FileError::io("create", path, errno));
    mkdirat(&parent.fd, leaf, Mode::from_raw_mode(0o700)).map_err(failed)?;
    let made = openat(&parent.fd, leaf, LIST, Mode::empty()).map_err(failed)?;
    if let Some((uid, gid)) = owner {
        fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(failed)?;
    }
    fchmod(&made, Mode::from_raw_mode(0o755)).map_err(failed)
}

/// Removes a path with everything below it. Never removes mounted file systems.
///
/// # Errors
/// If an entry cannot be removed.
pub(crate) fn remove(path: &str) -> Result<(), EcoString> {
    let parent = open::open_parent(path).map_err(text)?;
    remove::tree(&parent.fd, open::split(path).1.as_bytes(), path).map_err(text)
}

/// Gives a directory and everything below it to a user and a group. None keeps the present one.
///
/// # Errors
/// If an entry has several hard links, is on another file system, or cannot be changed. The entries before it are
/// changed.
pub(crate) fn give(path: &str, uid: Option<u32>, gid: Option<u32>) -> Result<(), EcoString> {
    let parent = open::open_parent(path).map_err(text)?;
    let leaf = open::split(path).1.as_bytes();
    match look_within(&parent.fd, leaf, path).map_err(text)? {
        FoundEntry::Here(looked) => give_entry(&parent.fd, leaf, path, &looked, (uid, gid), 0).map_err(text),
        FoundEntry::Mounted => {
            let directory = open::open_directory(path).map_err(text)?;
            give_entries(&directory.fd, path, (uid, gid), 0).map_err(text)?;
            let failed = |errno| text(FileError::io("change the owner of", path, errno));
            fchown(&directory.fd, uid.map(Uid::from_raw), gid.map(Gid::from_raw)).map_err(failed)
        }
        FoundEntry::Missing => Err(eco_format!("{path} has gone")),
    }
}

/// The entries come before their directory, so that a new owner cannot change it meanwhile.
fn give_entry(
    directory: &rustix::fd::OwnedFd,
    leaf: &[u8],
    path: &str,
    looked: &OpenedPath,
    (uid, gid): (Option<u32>, Option<u32>),
    depth: usize,
) -> Result<(), FileError> {
    if depth > MAX_DEPTH {
        return Err(FileError::TooDeep(path.to_owned()));
    }
    if looked.kind == Kind::Directory {
        let opened = open_seen(directory, leaf, path, &looked.stat, LIST)?;
        give_entries(&opened, path, (uid, gid), depth)?;
    }
    let is_given = uid.is_none_or(|uid| uid == looked.stat.st_uid) && gid.is_none_or(|gid| gid == looked.stat.st_gid);
    if is_given {
        return Ok(());
    }
    if looked.kind != Kind::Directory && looked.stat.st_nlink > 1 {
        let links = looked.stat.st_nlink.to_string();
        return Err(FileError::Shared { path: path.to_owned(), links, why: "a change of the owner would reach them" });
    }
    ownership::chown(&looked.fd, uid, gid).map_err(|errno| FileError::io("change the owner of", path, errno))
}

fn give_entries(
    directory: &rustix::fd::OwnedFd,
    path: &str,
    owner: (Option<u32>, Option<u32>),
    depth: usize,
) -> Result<(), FileError> {
    let mut names = Vec::new();
    each_name(directory, &mut |name| names.push(name.to_vec())).map_err(|errno| FileError::io("list", path, errno))?;
    for name in names {
        let path = format!("{path}/{}", String::from_utf8_lossy(&name));
        match look_within(directory, &name, &path)? {
            FoundEntry::Here(entry) => give_entry(directory, &name, &path, &entry, owner, depth + 1)?,
            FoundEntry::Missing => {}
            FoundEntry::Mounted => return Err(FileError::OtherFileSystem(path)),
        }
    }
    Ok(())
}

/// Makes everything below a directory durable.
///
/// # Errors
/// If the file system reports an error.
pub(crate) fn flush(path: &str) -> Result<(), EcoString> {
    let directory = open::open_directory(path).map_err(text)?;
    syncfs(&directory.fd).map_err(|errno| text(FileError::io("flush", path, errno)))
}

fn text(error: FileError) -> EcoString {
    eco_format!("{error}")
}
