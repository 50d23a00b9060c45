//! What is at a path, through one descriptor.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, openat, openat2, statx};
use rustix::io::Errno;

use super::error::FileError;
use super::kind::Kind;
use super::place::{self, LIST, LOOK, READ};

/// What is at a path.
pub(super) struct Looked {
    /// The thing itself, never what a link points to.
    pub(super) fd: OwnedFd,
    /// What it is.
    pub(super) stat: Stat,
    /// Which kind of thing.
    pub(super) kind: Kind,
    /// Whether the descriptor can read it.
    pub(super) readable: bool,
}

impl Looked {
    fn of(fd: OwnedFd, path: &str, readable: bool) -> Result<Looked, FileError> {
        let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
        let kind = Kind::of(&stat);
        Ok(Looked { fd, stat, kind, readable })
    }

    /// The size of a file.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

/// What is at a path; None when there is nothing.
pub(super) fn look(path: &str, to_read: bool) -> Result<Option<Looked>, FileError> {
    let opened = if to_read { place::open(path, READ) } else { place::open(path, LOOK) };
    match opened {
        Ok(fd) => Looked::of(fd, path, to_read).map(Some),
        Err(error) if error.is_missing() => Ok(None),
        // Not for reading: somebody else's file, a link, a socket.
        Err(FileError::Io { errno: Errno::ACCESS | Errno::LOOP | Errno::NXIO | Errno::NODEV, .. }) if to_read => {
            match place::open(path, LOOK) {
                Ok(fd) => Looked::of(fd, path, false).map(Some),
                Err(error) if error.is_missing() => Ok(None),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// What an entry of a directory is; None when there is nothing.
pub(super) fn look_at(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<Option<Looked>, FileError> {
    match openat(directory, leaf, LOOK, Mode::empty()) {
        Ok(fd) => Looked::of(fd, path, false).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(FileError::io("open", path, errno)),
    }
}

/// What an entry of a directory is, when only that directory's file system is meant.
pub(super) enum Entry {
    /// Nothing.
    Missing,
    /// This.
    Here(Looked),
    /// Something that is mounted there, even if from the same file system.
    Mounted,
}

/// What an entry of a directory is, if it lies on the same mount.
///
/// Device numbers do not tell that: on overlay file systems, files and directories of one mount can differ in theirs.
pub(super) fn look_within(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<Entry, FileError> {
    match openat2(directory, leaf, LOOK, Mode::empty(), ResolveFlags::NO_XDEV) {
        Ok(fd) => Ok(Entry::Here(Looked::of(fd, path, false)?)),
        Err(Errno::NOENT) => Ok(Entry::Missing),
        Err(Errno::XDEV) => Ok(Entry::Mounted),
        // Linux before 5.6, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => look_within_by_mount(directory, leaf, path),
        Err(errno) => Err(FileError::io("open", path, errno)),
    }
}

fn look_within_by_mount(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<Entry, FileError> {
    let Some(looked) = look_at(directory, leaf, path)? else { return Ok(Entry::Missing) };
    let failed = |errno| FileError::io("inspect", path, errno);
    let is_here = match (mount_of(directory).map_err(failed)?, mount_of(&looked.fd).map_err(failed)?) {
        (Some(one), Some(other)) => one == other,
        // Linux before 5.8: a mount from the same device passes for a directory.
        _ => fstat(directory).map_err(failed)?.st_dev == looked.stat.st_dev,
    };
    Ok(if is_here { Entry::Here(looked) } else { Entry::Mounted })
}

/// The id of the mount that an open file lies on; none if the kernel does not tell it.
fn mount_of(fd: &OwnedFd) -> Result<Option<u64>, Errno> {
    match statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
        Ok(found) => Ok((found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Opens an entry that was looked at, to read it, and makes sure that it is the same.
pub(super) fn open_seen(
    directory: &OwnedFd,
    leaf: &[u8],
    path: &str,
    seen: &Stat,
    flags: OFlags,
) -> Result<OwnedFd, FileError> {
    let fd = openat(directory, leaf, flags, Mode::empty()).map_err(|errno| FileError::io("read", path, errno))?;
    let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
    match (stat.st_dev, stat.st_ino) == (seen.st_dev, seen.st_ino) {
        true => Ok(fd),
        false => Err(FileError::Swapped(path.to_owned())),
    }
}

/// The names in a directory, sorted; temporary files of kilter left out.
pub(super) fn list(directory: &OwnedFd, path: &str) -> Result<Vec<Vec<u8>>, FileError> {
    let mut names = list_all(directory, path)?;
    names.retain(|name| !super::leftover::is_temporary(name));
    Ok(names)
}

/// All names in a directory, sorted.
pub(super) fn list_all(directory: &OwnedFd, path: &str) -> Result<Vec<Vec<u8>>, FileError> {
    let failed = |errno| FileError::io("list", path, errno);
    let fresh = openat(directory, c".", LIST, Mode::empty()).map_err(failed)?;
    let mut names = Vec::new();
    each_name(&fresh, &mut |name| names.push(name.to_vec())).map_err(failed)?;
    names.sort_unstable();
    Ok(names)
}

/// Calls `take` with each name in a directory that was just opened.
pub(super) fn each_name(directory: &OwnedFd, take: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut entries = rustix::fs::RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            take(name);
        }
    }
    Ok(())
}
