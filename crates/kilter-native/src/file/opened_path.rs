//! Examines a path through a single descriptor.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, openat, openat2, statx};
use rustix::io::Errno;

use super::error::FileError;
use super::kind::Kind;
use super::open::{self, LIST, PATH_ONLY, READ};

/// An examined file.
pub(super) struct OpenedPath {
    /// Descriptor of the file itself, never of a link's target.
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    pub(super) kind: Kind,
    /// True if the descriptor is readable.
    pub(super) readable: bool,
}

impl OpenedPath {
    fn of(fd: OwnedFd, path: &str, readable: bool) -> Result<OpenedPath, FileError> {
        let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
        let kind = Kind::of(&stat);
        Ok(OpenedPath { fd, stat, kind, readable })
    }

    /// Returns the size of a file in bytes.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

/// Examines a path; returns none if it does not exist.
pub(super) fn examine(path: &str, to_read: bool) -> Result<Option<OpenedPath>, FileError> {
    let opened = if to_read { open::open(path, READ) } else { open::open(path, PATH_ONLY) };
    match opened {
        Ok(fd) => OpenedPath::of(fd, path, to_read).map(Some),
        Err(error) if error.is_missing() => Ok(None),
        // Not readable: a file of another user, a link, a socket.
        Err(FileError::Io { errno: Errno::ACCESS | Errno::LOOP | Errno::NXIO | Errno::NODEV, .. }) if to_read => {
            match open::open(path, PATH_ONLY) {
                Ok(fd) => OpenedPath::of(fd, path, false).map(Some),
                Err(error) if error.is_missing() => Ok(None),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Examines an entry of a directory; returns none if it does not exist.
pub(super) fn look_at(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<Option<OpenedPath>, FileError> {
    match openat(directory, leaf, PATH_ONLY, Mode::empty()) {
        Ok(fd) => OpenedPath::of(fd, path, false).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(FileError::io("open", path, errno)),
    }
}

/// An entry of a directory, restricted to the directory's mount.
pub(super) enum FoundEntry {
    /// The entry does not exist.
    Missing,
    Here(OpenedPath),
    /// A mount point, even of the same file system.
    Mounted,
}

/// Examines an entry of a directory, restricted to the directory's mount.
///
/// Device numbers are not sufficient for this: on overlay file systems, files and directories of the same mount can
/// have different ones.
pub(super) fn look_within(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<FoundEntry, FileError> {
    match openat2(directory, leaf, PATH_ONLY, Mode::empty(), ResolveFlags::NO_XDEV) {
        Ok(fd) => Ok(FoundEntry::Here(OpenedPath::of(fd, path, false)?)),
        Err(Errno::NOENT) => Ok(FoundEntry::Missing),
        Err(Errno::XDEV) => Ok(FoundEntry::Mounted),
        // Linux before 5.6, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => look_within_by_mount(directory, leaf, path),
        Err(errno) => Err(FileError::io("open", path, errno)),
    }
}

fn look_within_by_mount(directory: &OwnedFd, leaf: &[u8], path: &str) -> Result<FoundEntry, FileError> {
    let Some(looked) = look_at(directory, leaf, path)? else { return Ok(FoundEntry::Missing) };
    let failed = |errno| FileError::io("inspect", path, errno);
    let is_here = match (mount_of(directory).map_err(failed)?, mount_of(&looked.fd).map_err(failed)?) {
        (Some(one), Some(other)) => one == other,
        // Linux before 5.8: a mount of the same device looks like a directory.
        _ => fstat(directory).map_err(failed)?.st_dev == looked.stat.st_dev,
    };
    Ok(if is_here { FoundEntry::Here(looked) } else { FoundEntry::Mounted })
}

/// Returns the mount id of an open file; none if the kernel does not report it.
fn mount_of(fd: &OwnedFd) -> Result<Option<u64>, Errno> {
    match statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
        Ok(found) => Ok((found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Opens an examined entry for reading, and checks that it is the same file.
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

/// Returns the names in a directory, sorted, without temporary files of kilter.
pub(super) fn list(directory: &OwnedFd, path: &str) -> Result<Vec<Vec<u8>>, FileError> {
    let mut names = list_all(directory, path)?;
    names.retain(|name| !super::temp_names::is_temporary(name));
    Ok(names)
}

/// Returns all names in a directory, sorted.
pub(super) fn list_all(directory: &OwnedFd, path: &str) -> Result<Vec<Vec<u8>>, FileError> {
    let failed = |errno| FileError::io("list", path, errno);
    let fresh = openat(directory, c".", LIST, Mode::empty()).map_err(failed)?;
    let mut names = Vec::new();
    each_name(&fresh, &mut |name| names.push(name.to_vec())).map_err(failed)?;
    names.sort_unstable();
    Ok(names)
}

/// Calls `take` with each name in a newly opened directory.
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
