//! Overlay layers above the file systems of this machine.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::kernel_fs::{self, KERNELS, SHARED};
use super::mounted_file::{self, MountedFile};
use super::mounts::{self, Mount};
use super::skeleton::{self, MountPoint};
use super::{SandboxError, Top, open, paths};

/// Directory in which sandboxes are built. Each sandbox mounts over it, in its own namespace only.
pub(super) struct Stage {
    path: PathBuf,
}

impl Stage {
    pub(super) fn new() -> Result<Stage, SandboxError> {
        let mut source = io::Error::from(io::ErrorKind::NotFound);
        for place in ["/run", "/tmp", "/var/tmp"] {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = Path::new(place).join(format!("kilter-sandboxes-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Stage { path }),
                Err(error) => source = error,
            }
        }
        Err(SandboxError::Stage { source })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The directory is empty outside of sandboxes.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Structure of all sandboxes.
pub(super) struct Plan {
    /// Parts without a layer: the directories between layers.
    bones: Vec<MountPoint>,
    /// File systems and directories below layers.
    pub(super) bottoms: Vec<Bottom>,
}

/// A file system or a directory below a layer.
pub(super) struct Bottom {
    pub(super) at: PathBuf,
    is: Is,
}

enum Is {
    /// Root of the file system, and its mount restrictions.
    Directory(OwnedFd, MountFlags),
    /// A mount on a file.
    File(MountedFile),
    /// Not available in sandboxes.
    LeftOut,
}

impl Bottom {
    pub(super) fn is_left_out(&self) -> bool {
        matches!(self.is, Is::LeftOut)
    }

    fn directory(at: PathBuf) -> Bottom {
        let opened = open(&at, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW);
        let is = match opened.and_then(|root| Ok((paths::limits_of(&root)?, root))) {
            Ok((limits, root)) => Is::Directory(root, limits),
            Err(_) => Is::LeftOut,
        };
        Bottom { at, is }
    }
}

/// Determines the structure of sandboxes on this machine.
pub(super) fn plan(by_user: bool) -> Result<Plan, SandboxError> {
    let found = mounts::here()?;
    let (bones, mut bottoms) = if by_user {
        // Users other than root may not see the directories below mounts. So layers lie above directories without
        // mounts.
        let places: Vec<PathBuf> = found.iter().map(|mount| mount.at.clone()).collect();
        let (bones, directories) = skeleton::of(&places);
        (bones, directories.into_iter().map(Bottom::directory).collect())
    } else {
        (Vec::new(), bottoms(&found))
    };
    let is_above_others =
        found.iter().any(|mount| mount.at.as_path() != Path::new(SHARED) && mount.at.starts_with(SHARED));
    if !is_above_others && fs::symlink_metadata(SHARED).is_ok_and(|kind| kind.is_dir()) {
        bottoms.push(Bottom::directory(PathBuf::from(SHARED)));
    }
    Ok(Plan { bones, bottoms })
}

/// Returns the file systems with files. Nested mounts follow their parents.
fn bottoms(found: &[Mount]) -> Vec<Bottom> {
    let is_meant = |mount: &&Mount| mount.has_files() && !KERNELS.iter().any(|kernels| mount.at.starts_with(kernels));
    // Covered or inaccessible mounts are left out.
    let seen = found.iter().filter(is_meant).filter_map(|mount| Some((mount.at.clone(), mount.seen()?)));
    let bottom = |(at, place): (PathBuf, OwnedFd)| match fs::metadata(paths::path_of(&place)) {
        Ok(kind) if kind.is_dir() => Bottom::directory(at),
        _ => {
            let is = mounted_file::open(&place).map_or(Is::LeftOut, Is::File);
            Bottom { at, is }
        }
    };
    seen.map(bottom).collect()
}

/// Mounts layers over all file systems in the namespace of this thread, and makes the result its root.
pub(super) fn lay(stage: &Stage, plan: &Plan, by_user: bool) -> Result<Vec<Top>, SandboxError> {
    let stage = stage.path.as_path();
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(SandboxError::of("keep mounts from others"))?;
    mount("tmpfs", c"mode=0755", "memory", stage)?;
    let root = stage.join("root");
    make(&root)?;
    let mut tops = Vec::new();
    if !plan.bones.is_empty() {
        rustix::mount::mount_bind(&root, &root).map_err(|error| refused("itself", &root, error.into()))?;
        skeleton::lay(&plan.bones, &root).map_err(SandboxError::of("make the directories of a sandbox"))?;
        kernel_fs::show(&root)?;
    }
    for (number, bottom) in plan.bottoms.iter().enumerate() {
        tops.extend(cover(stage, &root, number, bottom, by_user)?);
        if number == 0 && plan.bones.is_empty() {
            // The first layer is the root. The mounts below `/proc`, `/sys` and `/dev` lie above it.
            kernel_fs::show(&root)?;
        }
    }
    // The restrictions come last, because no files can be created in a read-only mount.
    limit(&root, &plan.bottoms, &tops)?;
    std::env::set_current_dir(&root).map_err(SandboxError::of("enter the root of a sandbox"))?;
    rustix::process::pivot_root(".", ".").map_err(SandboxError::of("make a root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(SandboxError::of("leave the machine's root"))?;
    std::env::set_current_dir("/").map_err(SandboxError::of("enter the new root"))?;
    Ok(tops)
}

/// Mounts one layer, if possible.
fn cover(
    stage: &Path,
    root: &Path,
    number: usize,
    bottom: &Bottom,
    by_user: bool,
) -> Result<Option<Top>, SandboxError> {
    let lower = match &bottom.is {
        Is::Directory(lower, _) => lower,
        Is::File(file) => {
            file.copy(root, &bottom.at).map_err(SandboxError::of("copy a file that is mounted"))?;
            return Ok(None);
        }
        Is::LeftOut => return Ok(None),
    };
    let upper = match layer(stage, number, &bottom.at, &beneath(root, &bottom.at), by_user) {
        // One of many adjacent directories may have been removed meanwhile.
        Err(_) if by_user && !bottom.at.exists() => return Ok(None),
        laid => laid?,
    };
    let lower = lower.try_clone().map_err(SandboxError::of("keep a directory open"))?;
    Ok(Some(Top { at: bottom.at.clone(), upper, lower, by_user }))
}

/// Applies the mount restrictions of the file systems to their layers.
fn limit(root: &Path, bottoms: &[Bottom], tops: &[Top]) -> Result<(), SandboxError> {
    for bottom in bottoms {
        let limits = match &bottom.is {
            Is::Directory(_, limits) if !limits.is_empty() => limits,
            _ => continue,
        };
        if !tops.iter().any(|top| top.at == bottom.at) {
            continue;
        }
        let at = beneath(root, &bottom.at);
        let limited = paths::place(&at).and_then(|place| paths::limit(&place, *limits));
        limited.map_err(|error| refused("the limits of what is beneath it", &at, error.into()))?;
    }
    Ok(())
}

pub(super) fn beneath(root: &Path, at: &Path) -> PathBuf {
    root.join(at.strip_prefix("/").unwrap_or(at))
}

/// Mounts one layer, and returns its upper directory.
fn layer(stage: &Path, number: usize, lower: &Path, over: &Path, by_user: bool) -> Result<OwnedFd, SandboxError> {
    let (upper, work) = (stage.join(format!("upper{number}")), stage.join(format!("work{number}")));
    make(&upper)?;
    make(&work)?;
    // The root of the layer determines owner and mode of the visible directory.
    alike(lower, &upper).map_err(SandboxError::of("make a layer like what is beneath it"))?;
    let mut options = b"lowerdir=".to_vec();
    options.extend(escaped(lower));
    options.extend(format!(",upperdir={},workdir={}", upper.display(), work.display()).into_bytes());
    // Without redirects a renamed directory would have to be copied, and rename(2) does not copy.
    options.extend_from_slice(if by_user { b",userxattr" } else { b",redirect_dir=on,index=off,metacopy=off" });
    let options = CString::new(options).map_err(|error| refused("a layer", over, error.into()))?;
    mount("overlay", &options, &format!("a layer above {}", lower.display()), over)?;
    open(&upper, OFlags::RDONLY | OFlags::DIRECTORY).map_err(SandboxError::of("open a layer"))
}

/// Copies mode and owner from one directory to another.
fn alike(of: &Path, directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let found = fs::metadata(of)?;
    // In a user namespace some owners have no mapping.
    let _ = std::os::unix::fs::chown(directory, Some(found.uid()), Some(found.gid()));
    fs::set_permissions(directory, fs::Permissions::from_mode(found.permissions().mode()))
}

/// Escapes a path for the mount options of overlayfs.
fn escaped(path: &Path) -> Vec<u8> {
    let escape = |byte: &u8| if matches!(byte, b':' | b',' | b'\\') { vec![b'\\', *byte] } else { vec![*byte] };
    path.as_os_str().as_bytes().iter().flat_map(escape).collect()
}

fn make(directory: &Path) -> Result<(), SandboxError> {
    DirBuilder::new().mode(0o755).create(directory).map_err(SandboxError::of("make a directory in memory"))
}

fn mount(kind: &str, options: &std::ffi::CStr, what: &str, at: &Path) -> Result<(), SandboxError> {
    let mounted = rustix::mount::mount("kilter", at, kind, MountFlags::empty(), options);
    mounted.map_err(|error| refused(what, at, error.into()))
}

pub(super) fn refused(what: &str, at: &Path, source: io::Error) -> SandboxError {
    SandboxError::Mount { what: what.to_owned(), at: at.to_owned(), source }
}
