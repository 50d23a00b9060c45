//! Interfaces to the kernel in a world: a setting changed there applies to the whole machine.

use std::fs;
use std::path::Path;

use rustix::mount::MountFlags;

use super::overlay::{beneath, refused};
use super::{SandboxError, mounts, paths};

/// Directories with no user's files below them.
pub(super) const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Memory that programs share through files. It is no kernel interface, although it lies below `/dev`.
pub(super) const SHARED: &str = "/dev/shm";

/// Read-only parts. Programs can still write to devices, because that does not write to their directory.
const ONLY_READ: [&str; 7] = ["/sys", "/dev", "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Mounts the kernel interfaces that exist on this machine below `root`.
pub(super) fn show(root: &Path) -> Result<(), SandboxError> {
    for kernels in KERNELS.map(Path::new).into_iter().filter(|path| path.is_dir()) {
        bind(kernels, &beneath(root, kernels))?;
    }
    for only_read in ONLY_READ.map(Path::new) {
        let at = beneath(root, only_read);
        if !fs::symlink_metadata(&at).is_ok_and(|kind| kind.is_dir() || kind.is_file()) {
            continue;
        }
        if !KERNELS.map(Path::new).contains(&only_read) {
            bind(&at, &at)?;
        }
        protect(&at)?;
    }
    let shared = beneath(root, Path::new(SHARED));
    if fs::symlink_metadata(&shared).is_ok_and(|kind| kind.is_dir()) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("kilter", &shared, "tmpfs", flags, c"mode=1777")
            .map_err(|error| refused("memory", &shared, error.into()))?;
    }
    Ok(())
}

fn bind(what: &Path, at: &Path) -> Result<(), SandboxError> {
    rustix::mount::mount_bind_recursive(what, at)
        .map_err(|error| refused(&what.display().to_string(), at, error.into()))
}

/// Makes all mounts at or below a path read-only. A mount does not inherit this from the mount below it.
fn protect(path: &Path) -> Result<(), SandboxError> {
    for mount in mounts::here()?.iter().filter(|mount| mount.at.starts_with(path)) {
        // Opening a terminal sets its owner and mode.
        let Some(place) = mount.seen().filter(|_| !mount.has_terminals()) else { continue };
        paths::limit(&place, MountFlags::RDONLY)
            .map_err(|error| refused("itself, to be read only", &mount.at, error.into()))?;
    }
    Ok(())
}
