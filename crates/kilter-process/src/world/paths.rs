//! Path resolution without symbolic links.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::open;

/// Returns a descriptor of a path, without opening the file. Later operations through the descriptor affect exactly
/// this file.
///
/// # Errors
/// If the path contains a link, or does not exist.
pub(super) fn place(path: &Path) -> rustix::io::Result<OwnedFd> {
    beneath(open("/", OFlags::PATH | OFlags::DIRECTORY)?.as_fd(), path)
}

/// Returns a descriptor of a path below a directory. A root in `path` means that directory.
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

/// Returns the number of the mount that contains a file.
pub(super) fn mount_of(place: &OwnedFd) -> Option<u64> {
    let told = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", place.as_raw_fd())).ok()?;
    told.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Returns a path to exactly this file, for calls that take only paths.
pub(super) fn path_of(place: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/thread-self/fd/{}", place.as_raw_fd()))
}

/// Returns the restrictions of the mount that contains a file. Users other than root may not remove any of them.
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

/// Adds restrictions to the mount that begins at a directory.
pub(super) fn limit(place: &OwnedFd, limits: MountFlags) -> rustix::io::Result<()> {
    let limits = MountFlags::BIND | limits | limits_of(place)?;
    rustix::mount::mount_remount(path_of(place), limits, c"")
}
