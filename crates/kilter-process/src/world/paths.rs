//! Paths that lead where they say: without links.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::open;

/// A place, which is not opened: what is done with it is done with nothing else.
///
/// # Errors
/// When a link, or nothing, is on the way or at its end.
pub(super) fn place(path: &Path) -> rustix::io::Result<OwnedFd> {
    beneath(open("/", OFlags::PATH | OFlags::DIRECTORY)?.as_fd(), path)
}

/// A place below a directory; a root in `path` is that directory.
pub(super) fn beneath(directory: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut names: Vec<&OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
        }
    }
    let mut at = openat(directory, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let last = names.pop();
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for name in names {
        at = openat(&at, name, flags | OFlags::DIRECTORY, Mode::empty())?;
    }
    match last {
        Some(last) => openat(&at, last, flags, Mode::empty()),
        None => Ok(at),
    }
}

/// The number of the mount that a place is in.
pub(super) fn mount_of(place: &OwnedFd) -> Option<u64> {
    let told = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", place.as_raw_fd())).ok()?;
    told.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// A path to exactly this place, for calls that take only paths.
pub(super) fn path_of(place: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/thread-self/fd/{}", place.as_raw_fd()))
}

/// What may not be done on the mount that a place is in. Whoever is not root may not take any of that away.
pub(super) fn limits_of(place: &OwnedFd) -> rustix::io::Result<MountFlags> {
    use rustix::fs::StatVfsMountFlags as Found;
    let found = rustix::fs::fstatvfs(place)?.f_flag;
    let known = [
        (Found::RDONLY, MountFlags::RDONLY),
        (Found::NOSUID, MountFlags::NOSUID),
        (Found::NODEV, MountFlags::NODEV),
        (Found::NOEXEC, MountFlags::NOEXEC),
    ];
    Ok(known.into_iter().filter(|(one, _)| found.contains(*one)).map(|(_, flag)| flag).collect())
}

/// Adds to what may not be done on the mount that begins at a place.
pub(super) fn limit(place: &OwnedFd, limits: MountFlags) -> rustix::io::Result<()> {
    let limits = MountFlags::BIND | limits | limits_of(place)?;
    rustix::mount::mount_remount(path_of(place), limits, c"")
}
