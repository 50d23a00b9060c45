//! The windows to the kernel in a world: what is set through them is set for the whole machine.

use std::fs;
use std::path::Path;

use rustix::mount::MountFlags;

use super::layers::{beneath, refused};
use super::{WorldError, mounts, paths};

/// Below these nobody's files are.
pub(super) const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Memory that programs share by files: no window, though it is in one.
pub(super) const SHARED: &str = "/dev/shm";

/// What of them can be read only. Devices can be written to all the same: that is no writing to their directory.
const ONLY_READ: [&str; 7] = ["/sys", "/dev", "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Shows the windows below `root`, as far as they are there.
pub(super) fn show(root: &Path) -> Result<(), WorldError> {
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

fn bind(what: &Path, at: &Path) -> Result<(), WorldError> {
    rustix::mount::mount_bind_recursive(what, at)
        .map_err(|error| refused(&what.display().to_string(), at, error.into()))
}

/// Makes everything read only that is mounted at a path or below it: a mount takes nothing over from the one it is mounted on.
fn protect(path: &Path) -> Result<(), WorldError> {
    for mount in mounts::here()?.iter().filter(|mount| mount.at.starts_with(path)) {
        // A terminal's owner and mode are set by whoever opens it.
        let Some(place) = mount.seen().filter(|_| !mount.has_terminals()) else { continue };
        paths::limit(&place, MountFlags::RDONLY)
            .map_err(|error| refused("itself, to be read only", &mount.at, error.into()))?;
    }
    Ok(())
}
