//! Directories between the layers, if a single layer above the root is not possible.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use super::kernel_fs::KERNELS;
use super::overlay::beneath;
use super::paths;

/// A part of a sandbox without a layer.
pub(super) enum MountPoint {
    Directory(PathBuf),
    Link(PathBuf, PathBuf),
    /// A file of the machine, read-only.
    File(PathBuf),
}

/// Returns the parts without a layer, and the directories to cover with layers: those without mounts below them.
pub(super) fn of(mounts: &[PathBuf]) -> (Vec<MountPoint>, Vec<PathBuf>) {
    let (mut bones, mut bottoms) = (Vec::new(), Vec::new());
    grow(Path::new("/"), mounts, &mut bones, &mut bottoms);
    (bones, bottoms)
}

fn grow(directory: &Path, mounts: &[PathBuf], bones: &mut Vec<MountPoint>, bottoms: &mut Vec<PathBuf>) {
    let is_kernels = KERNELS.iter().any(|kernels| directory == Path::new(kernels));
    if directory != "/" {
        bones.push(MountPoint::Directory(directory.to_owned()));
    }
    if is_kernels {
        return;
    }
    if !mounts.iter().any(|at| at != directory && at.starts_with(directory)) {
        return bottoms.push(directory.to_owned());
    }
    // Directories that cannot be listed are left out.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => grow(&path, mounts, bones, bottoms),
            Ok(kind) if kind.is_symlink() => bones.extend(fs::read_link(&path).map(|to| MountPoint::Link(path, to))),
            Ok(kind) if kind.is_file() => bones.push(MountPoint::File(path)),
            _ => {}
        }
    }
}

/// Creates the directories below `root`. Programs cannot write there.
pub(super) fn lay(bones: &[MountPoint], root: &Path) -> io::Result<()> {
    for bone in bones {
        match bone {
            MountPoint::Directory(path) => DirBuilder::new().mode(0o755).create(beneath(root, path))?,
            MountPoint::Link(path, to) => symlink(to, beneath(root, path))?,
            MountPoint::File(path) => {
                let at = beneath(root, path);
                fs::write(&at, b"")?;
                // A file that cannot be mounted stays empty. A writable mount would be the machine's own file.
                if rustix::mount::mount_bind(path, &at).is_ok() {
                    paths::limit(&paths::place(&at)?, MountFlags::RDONLY)?;
                }
            }
        }
    }
    for bone in bones {
        if let MountPoint::Directory(path) = bone {
            fs::set_permissions(beneath(root, path), fs::Permissions::from_mode(0o555))?;
        }
    }
    fs::set_permissions(root, fs::Permissions::from_mode(0o555))
}
