//! New contents, complete before they become visible.

use std::rc::Rc;

use kilter_provider::Interrupt;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, Uid, fchmod, fchown, fstat, fstatvfs,
    futimens, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, FinalOwnership, Xattrs};
use super::content;
use super::copy::Source;
use super::error::FileError;
use super::kind::Kind;
use super::open::{Parent, READ};
use super::opened_path::{OpenedPath, open_seen};
use super::ownership::Ownership;
use super::preserve::{self, NotKept};
use super::temp_names::temporary_name;

/// Size in bytes up to which a source is copied without a check of the free space.
const UNCHECKED_SIZE: u64 = 1 << 20;

/// Source of a content.
pub(super) enum Data<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A file. If the flag is true, its modification time is copied too.
    Copy(&'a Source, bool, Interrupt<'a>),
}

/// An entry with a temporary name. Removed when dropped, unless it got its final name.
#[derive(Debug)]
pub(super) struct Temporary {
    parent: Rc<Parent>,
    name: Option<String>,
}

impl Temporary {
    /// Returns a new name for a file that does not exist yet.
    pub(super) fn new(parent: &Rc<Parent>) -> Temporary {
        Temporary { parent: Rc::clone(parent), name: Some(temporary_name()) }
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns the path, for commands and messages.
    pub(super) fn path(&self) -> String {
        self.parent.join(self.name().as_bytes())
    }

    /// Renames it to its final name, which must be free.
    pub(super) fn become_new(mut self, leaf: &[u8]) -> Result<(), FileError> {
        match self.persist_as(leaf) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(FileError::Appeared(self.parent.join(leaf))),
            Err(errno) => Err(FileError::io("create", self.parent.join(leaf), errno)),
        }
    }

    /// Renames it to a free name. After a failure another name can be tried.
    pub(super) fn persist_as(&mut self, name: &[u8]) -> Result<(), Errno> {
        rename_new(&self.parent.fd, self.name().as_bytes(), &self.parent.fd, name)?;
        self.name = None;
        Ok(())
    }

    /// Replaces the file that has its final name, if `is_old` accepts that file. Another program may replace or write
    /// the file up to the last moment: the names are exchanged, and exchanged back if the other file is another one.
    pub(super) fn replace_only(self, leaf: &[u8], is_old: impl Fn(&Stat) -> bool) -> Result<(), FileError> {
        let (fd, path) = (&self.parent.fd, self.parent.join(leaf));
        let exchange = || renameat_with(fd, self.name(), fd, leaf, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) => {}
            // The file system does not support the flag.
            Err(Errno::INVAL | Errno::NOSYS) => return self.replace(leaf),
            Err(errno) => return Err(FileError::io("replace", path, errno)),
        }
        let displaced = statat(fd, self.name(), AtFlags::SYMLINK_NOFOLLOW);
        if displaced.is_ok_and(|stat| is_old(&stat)) {
            return Ok(());
        }
        exchange().map_err(|errno| FileError::io("restore", &path, errno))?;
        Err(FileError::Swapped(path))
    }

    /// Replaces the file that has its final name.
    pub(super) fn replace(mut self, leaf: &[u8]) -> Result<(), FileError> {
        let fd = &self.parent.fd;
        renameat(fd, self.name(), fd, leaf).map_err(|errno| FileError::io("replace", self.parent.join(leaf), errno))?;
        self.name = None;
        Ok(())
    }
}

/// Removes a file if `is_old` accepts it. Another program may replace or write the file up to the last moment: it gets
/// a temporary name, and its old name again if it is another one.
pub(super) fn remove_only(parent: &Rc<Parent>, leaf: &[u8], is_old: impl Fn(&Stat) -> bool) -> Result<(), FileError> {
    let (fd, path) = (&parent.fd, parent.join(leaf));
    let mut temporary = Temporary::new(parent);
    match rename_new(fd, leaf, fd, temporary.name().as_bytes()) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Err(FileError::Swapped(path)),
        Err(errno) => return Err(FileError::io("remove", path, errno)),
    }
    if statat(fd, temporary.name(), AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_old(&stat)) {
        return Ok(());
    }
    temporary.persist_as(leaf).map_err(|errno| FileError::io("restore", &path, errno))?;
    Err(FileError::Swapped(path))
}

/// Renames to a free name.
pub(super) fn rename_new(from: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> Result<(), Errno> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // The file system does not support the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(from, name, to, new),
            Ok(_) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        },
        other => other,
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.parent.fd, name.as_str(), AtFlags::empty());
        }
    }
}

/// A complete file without its final name.
pub(super) struct Staged {
    pub(super) temporary: Temporary,
    pub(super) fd: OwnedFd,
    /// Extended attributes of the old file that were not kept.
    pub(super) not_kept: NotKept,
}

/// Creates a new file with its final content, owner and mode. Returns false if the file system does not support
/// files without names. The file must then be staged under a temporary name.
///
/// The file has no name until it is complete. So a killed run leaves no file behind, and the directory changes only
/// once.
pub(super) fn create(
    parent: &Rc<Parent>,
    leaf: &[u8],
    data: &Data<'_>,
    wanted: Ownership,
    policy: &AclPolicy,
) -> Result<bool, FileError> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(fd) = openat(&parent.fd, c".", flags, Mode::RUSR | Mode::WUSR) {
        let path = parent.join(leaf);
        fill(&fd, data, &path)?;
        let after = own(&fd, wanted, &path)?;
        set_list(&fd, policy, after, &path, None)?;
        finish(&fd, data, after.bits, &path)?;
        match name(&fd, parent, leaf) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => return Err(FileError::Appeared(path)),
            // A container without the capability and without /proc, or an unusual file system.
            Err(_) => {}
        }
    }
    Ok(false)
}

/// Gives a file without a name a free name.
fn name(fd: &OwnedFd, parent: &Parent, leaf: &[u8]) -> Result<(), Errno> {
    match linkat(fd, c"", &parent.fd, leaf, AtFlags::EMPTY_PATH) {
        // Older kernels require a capability for that.
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            linkat(CWD, path, &parent.fd, leaf, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// Writes a file with its final content, owner and mode under a temporary name.
///
/// It is created with access for its owner only. The mode is set after the owner, so that setuid bits never apply to
/// the wrong user. Other properties come from `old`.
pub(super) fn stage(
    parent: &Rc<Parent>,
    leaf: &[u8],
    data: &Data<'_>,
    wanted: Ownership,
    old: Option<&OpenedPath>,
    policy: &AclPolicy,
) -> Result<Staged, FileError> {
    let path = parent.join(leaf);
    let temporary = Temporary::new(parent);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&parent.fd, temporary.name(), flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| FileError::io("create a file beside", &path, errno))?;
    fill(&fd, data, &path)?;
    let after = own(&fd, wanted, &path)?;
    let not_kept = match old {
        Some(old) => replace(parent, leaf, &path, old, &fd, after.bits, policy)?,
        None => NotKept::default(),
    };
    set_list(&fd, policy, after, &path, old)?;
    finish(&fd, data, after.bits, &path)?;
    Ok(Staged { temporary, fd, not_kept })
}

/// Sets the mode, and the modification time if it is copied from the source.
fn finish(fd: &OwnedFd, data: &Data<'_>, bits: u32, path: &str) -> Result<(), FileError> {
    fchmod(fd, Mode::from_raw_mode(bits)).map_err(|errno| FileError::io("set the mode of", path, errno))?;
    if let Data::Copy(source, true, _) = data {
        let time = Timespec { tv_sec: source.stat.st_mtime, tv_nsec: nanoseconds(source) };
        let times = Timestamps { last_access: time, last_modification: time };
        futimens(fd, &times).map_err(|errno| FileError::io("set the time of", path, errno))?;
    }
    Ok(())
}

fn nanoseconds(source: &Source) -> i64 {
    i64::try_from(source.stat.st_mtime_nsec).unwrap_or(0)
}

fn fill(fd: &OwnedFd, data: &Data<'_>, path: &str) -> Result<(), FileError> {
    let failed = |errno| FileError::io("write the content of", path, errno);
    match data {
        Data::Bytes(bytes) => content::write(fd, bytes).map_err(failed),
        Data::Copy(source, _, interrupt) => {
            let mut written = has_room(fd, source.size());
            if written.is_err() {
                return written.map_err(failed);
            }
            // Another user may append to the source without end.
            let mut left = source.size();
            content::each_chunk(source.fd.as_fd(), &mut |chunk| {
                let chunk = &chunk[..usize::try_from(left).map_or(chunk.len(), |left| chunk.len().min(left))];
                left -= chunk.len() as u64;
                written = content::go_on(*interrupt).and_then(|()| content::write(fd, chunk));
                written.is_ok() && left > 0
            })
            .map_err(|errno| FileError::io("read the source", source.path(), errno))?;
            written.map_err(failed)
        }
    }
}

/// Fails with `NOSPC` if the file system has no space for a copy. Another user can create a sparse source of any
/// size, and a copy would fill the disk.
fn has_room(fd: &OwnedFd, size: u64) -> Result<(), Errno> {
    if size <= UNCHECKED_SIZE {
        return Ok(());
    }
    let found = fstatvfs(fd)?;
    if size > found.f_bfree.saturating_mul(found.f_frsize) { Err(Errno::NOSPC) } else { Ok(()) }
}

/// Removes an access list that a new file has inherited, or a foreign one of the old file, or sets the declared one.
fn set_list(
    fd: &OwnedFd,
    policy: &AclPolicy,
    after: FinalOwnership,
    path: &str,
    old: Option<&OpenedPath>,
) -> Result<(), FileError> {
    let file = Xattrs::open(fd);
    let set = match policy {
        AclPolicy::NoForeign if old.is_none() => file.remove_inherited(Kind::File),
        _ => policy.changes(&file, Kind::File, after).and_then(|changes| file.apply_all(&changes)),
    };
    set.map_err(|errno| FileError::io("set the access list of", path, errno))
}

/// Sets owner and group if they differ. Without a difference there is no call that could fail for users other than
/// root.
fn own(fd: &OwnedFd, wanted: Ownership, path: &str) -> Result<FinalOwnership, FileError> {
    let bits = wanted.bits.unwrap_or(0o600);
    let group = wanted.group_permissions.unwrap_or(bits >> 3 & 7);
    if wanted.uid.is_none() && wanted.gid.is_none() {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        return Ok(FinalOwnership { uid, gid, bits, group });
    }
    let stat = fstat(fd).map_err(|errno| FileError::io("inspect", path, errno))?;
    let (own_uid, own_gid) = (wanted.uid.unwrap_or(stat.st_uid), wanted.gid.unwrap_or(stat.st_gid));
    let after = FinalOwnership { uid: own_uid, gid: own_gid, bits, group };
    let uid = wanted.uid.filter(|uid| *uid != stat.st_uid);
    let gid = wanted.gid.filter(|gid| *gid != stat.st_gid);
    if uid.is_none() && gid.is_none() {
        return Ok(after);
    }
    fchown(fd, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
        .map_err(|errno| FileError::io("set the owner of the new content of", path, errno))?;
    Ok(after)
}

fn replace(
    parent: &Parent,
    leaf: &[u8],
    path: &str,
    old: &OpenedPath,
    fd: &OwnedFd,
    bits: u32,
    policy: &AclPolicy,
) -> Result<NotKept, FileError> {
    match open_seen(&parent.fd, leaf, path, &old.stat, READ) {
        Ok(old) => preserve::keep(&old, fd, bits, policy).map_err(|(name, errno)| {
            FileError::io("keep the access list and extended attributes of", format!("{path} ({name})"), errno)
        }),
        // The attributes of an unreadable file are unknown.
        Err(FileError::Io { errno: Errno::ACCESS, .. }) => {
            Ok(NotKept { lost: vec!["extended attributes of an unreadable file".to_owned()], capabilities: false })
        }
        Err(error) => Err(error),
    }
}
