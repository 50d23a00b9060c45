//! Files with another file mounted on them. A layer cannot lie above a single file, so a sandbox gets a copy.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::paths;

/// Maximum size in bytes of a copied file, because each sandbox has its own copy in memory.
const MAX_COPIED_BYTES: u64 = 1 << 24;

/// `OVERLAYFS_SUPER_MAGIC` of `linux/magic.h`.
const OVERLAY: u32 = 0x794c_7630;

/// A file that is mounted on another file.
pub(super) struct MountedFile(File);

/// Opens a mounted file if sandboxes can have a copy: a regular file that is not too large.
pub(super) fn open(place: &OwnedFd) -> Option<MountedFile> {
    let is_meant = |file: &File| file.metadata().is_ok_and(|kind| kind.is_file() && kind.len() <= MAX_COPIED_BYTES);
    // Opening another kind of file can block, or have side effects.
    let place = File::from(place.try_clone().ok()?);
    if !is_meant(&place) {
        return None;
    }
    let opened = super::open(paths::path_of(&place.into()), OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    Some(File::from(opened)).filter(is_meant).map(MountedFile)
}

impl MountedFile {
    /// Puts a copy into a sandbox, in place of the mount point. Creates a new file, in an overlay layer only, so it
    /// never writes to an existing file, wherever the path leads.
    ///
    /// # Errors
    /// If the file can be created but not written.
    pub(super) fn copy(&self, root: &Path, at: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return Ok(()) };
        let directory = paths::place(root).and_then(|root| paths::beneath(root.as_fd(), parent));
        // The directory may belong to a mount that is left out.
        let Ok(directory) = directory else { return Ok(()) };
        if u32::try_from(rustix::fs::fstatfs(&directory)?.f_type) != Ok(OVERLAY) {
            return Ok(());
        }
        match unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.write(File::from(openat(&directory, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    fn write(&self, copy: File) -> io::Result<()> {
        let (mut buffer, mut done) = ([0; 1 << 14], 0);
        // The file may grow meanwhile.
        while done < MAX_COPIED_BYTES {
            let read = match self.0.read_at(&mut buffer, done)? {
                0 => break,
                read => read,
            };
            copy.write_all_at(&buffer[..read], done)?;
            done += u64::try_from(read).expect("a buffer is not that large");
        }
        let found = self.0.metadata()?;
        fchown(&copy, Some(found.uid()), Some(found.gid()))?;
        copy.set_permissions(Permissions::from_mode(found.mode() & 0o7777))
    }
}
