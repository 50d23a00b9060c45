//! New directories, created where no other user has access.

use std::rc::Rc;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, fchmod, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, Xattrs};
use super::error::FileError;
use super::kind::Kind;
use super::open::{LIST, Parent};
use super::opened_path::OpenedPath;
use super::ownership::{Ownership, settle};
use super::stage::rename_new;
use super::temp_names::temporary_name;

/// A private directory next to the location of a new one, accessible only to kilter's user. Removed when dropped.
pub(super) struct StagingDir<'a> {
    parent: &'a Rc<Parent>,
    leaf: &'a [u8],
    name: String,
    /// Its content, with the path of the parent, because messages name the final path.
    inside: Parent,
}

impl<'a> StagingDir<'a> {
    /// Creates a private directory for an entry.
    pub(super) fn new(parent: &'a Rc<Parent>, leaf: &'a [u8]) -> Result<StagingDir<'a>, FileError> {
        let name = temporary_name();
        mkdirat(&parent.fd, name.as_str(), Mode::RWXU)
            .map_err(|errno| FileError::io("create a directory beside", parent.join(leaf), errno))?;
        let inside = open(parent, leaf, &name).inspect_err(|_| {
            let _ = unlinkat(&parent.fd, name.as_str(), AtFlags::REMOVEDIR);
        })?;
        Ok(StagingDir { parent, leaf, name, inside })
    }

    /// Creates the future entry in the private directory.
    pub(super) fn make(&self) -> Result<OpenedPath, FileError> {
        let path = || self.parent.join(self.leaf);
        match mkdirat(&self.inside.fd, self.leaf, Mode::RWXU) {
            Ok(()) => {}
            // Another user exchanged the private directory before it was opened.
            Err(Errno::EXIST) => return Err(FileError::Swapped(path())),
            Err(errno) => return Err(FileError::io("create the directory", path(), errno)),
        }
        let failed = |errno| FileError::io("open the new directory", path(), errno);
        let fd = openat(&self.inside.fd, self.leaf, LIST, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        Ok(OpenedPath { fd, stat, kind: Kind::Directory, readable: true })
    }

    /// Sets owner and mode of the directory, and moves it to its final name, which must be free.
    pub(super) fn place(self, made: &OpenedPath, wanted: Ownership, policy: &AclPolicy) -> Result<(), FileError> {
        let path = || self.parent.join(self.leaf);
        if *policy == AclPolicy::NoForeign {
            let removed = Xattrs::of(made).remove_inherited(Kind::Directory);
            removed.map_err(|errno| FileError::io("set the access list of", path(), errno))?;
        }
        settle(&self.inside, self.leaf, made, wanted, policy)?;
        let rename = || rename_new(&self.inside.fd, self.leaf, &self.parent.fd, self.leaf);
        let renamed = match (rename(), wanted.bits) {
            // A user other than root can move only writable directories.
            (Err(Errno::ACCESS), Some(bits)) if bits & 0o200 == 0 => {
                let chmod = |fd: &OwnedFd, bits| fchmod(fd, Mode::from_raw_mode(bits));
                chmod(&made.fd, bits | 0o200).and_then(|()| rename()).and_then(|()| chmod(&made.fd, bits))
            }
            (renamed, _) => renamed,
        };
        match renamed {
            Ok(()) => Ok(()),
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => Err(FileError::Appeared(path())),
            Err(errno) => Err(FileError::io("create the directory", path(), errno)),
        }
    }
}

impl Drop for StagingDir<'_> {
    fn drop(&mut self) {
        let _ = unlinkat(&self.inside.fd, self.leaf, AtFlags::REMOVEDIR);
        let _ = unlinkat(&self.parent.fd, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

/// Opens a private directory. A user with write access to the parent can replace it, but only with a directory that
/// fails these checks.
fn open(parent: &Parent, leaf: &[u8], name: &str) -> Result<Parent, FileError> {
    let path = parent.join(leaf);
    let fd = match openat(&parent.fd, name, LIST, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(FileError::Swapped(path)),
        Err(errno) => return Err(FileError::io("open the new directory", path, errno)),
    };
    let inside = Parent::of(fd, &parent.path, true)?;
    if inside.stat.st_uid != rustix::process::geteuid().as_raw() || inside.stat.st_mode & 0o777 != 0o700 {
        return Err(FileError::Swapped(path));
    }
    Ok(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::open::open_directory;

    #[test]
    fn directory_open_to_others_is_not_private() {
        let home = tempfile::tempdir().unwrap();
        let parent = open_directory(home.path().to_str().unwrap()).unwrap();
        let make = |name: &str, mode| {
            mkdirat(&parent.fd, name, Mode::RWXU).unwrap();
            rustix::fs::chmodat(&parent.fd, name, Mode::from_raw_mode(mode), AtFlags::empty()).unwrap();
        };
        make("open", 0o755);
        make("closed", 0o700);
        std::os::unix::fs::symlink("closed", home.path().join("link")).unwrap();
        for name in ["open", "link", "gone"] {
            let opened = open(&parent, b"x", name);
            assert!(matches!(opened, Err(FileError::Swapped(_))), "{name}: {opened:?}");
        }
        open(&parent, b"x", "closed").unwrap();
    }
}
