//! Lock of a state directory outside of it: it survives the removal of the directory.
//!
//! It is a file below `/run`, or below `/run/user/UID` for other users than root, named after the path of the state directory.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::io::Errno;

/// Maximum number of bytes of the path that the name of the lock has.
const NAMED_BYTES: usize = 100;

/// The lock of one state directory. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    path: PathBuf,
    _file: File,
}

/// Another process holds the lock.
#[derive(Debug)]
pub(crate) struct Taken(pub(crate) File);

impl RunLock {
    /// Locks a state directory by its canonical path. Returns `None` if the system has no directory for such locks.
    pub(crate) fn take(directory: &Path) -> Result<Option<RunLock>, Taken> {
        let Some(place) = place() else { return Ok(None) };
        let path = place.join(name(directory));
        loop {
            let Ok(file) = open(&path) else { return Ok(None) };
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The process that held it may have removed it in between.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => return Ok(Some(RunLock { path, _file: file })),
                Err(Errno::AGAIN | Errno::ACCESS) => return Err(Taken(file)),
                Err(_) => return Ok(None),
            }
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // The lock is held until the file is closed, after this.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Directory for locks of this user. It is made if it is not there.
fn place() -> Option<PathBuf> {
    let uid = rustix::process::geteuid();
    let base = if uid.is_root() { "/run".to_owned() } else { format!("/run/user/{}", uid.as_raw()) };
    let is_ours = |path: &Path, others: u32| {
        let found = std::fs::symlink_metadata(path);
        found.is_ok_and(|found| found.is_dir() && found.uid() == uid.as_raw() && found.mode() & others == 0)
    };
    let place = PathBuf::from(&base).join("kilter-locks");
    if !is_ours(Path::new(&base), 0o022) {
        return None;
    }
    if !is_ours(&place, 0o077) {
        DirBuilder::new().mode(0o700).create(&place).ok()?;
    }
    is_ours(&place, 0o077).then_some(place)
}

/// Name of the lock: a checksum and the end of the path.
fn name(directory: &Path) -> String {
    let bytes = directory.as_os_str().as_bytes();
    let end = &bytes[bytes.len().saturating_sub(NAMED_BYTES)..];
    let readable = end.iter().map(|byte| if byte.is_ascii_alphanumeric() { char::from(*byte) } else { '-' });
    format!("{:08x}-{}{}", crc32fast::hash(bytes), bytes.len(), readable.collect::<String>())
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

/// Returns true if an open file is the one at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, found) = (file.metadata().map(id), std::fs::symlink_metadata(path).map(id));
    open.ok().zip(found.ok()).is_some_and(|(open, found)| open == found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_two_directories_differs() {
        let long = "x".repeat(4000);
        let names =
            ["/a/b", "/a-b", "/a", &format!("/1/{long}"), &format!("/2/{long}")].map(|path| name(Path::new(path)));
        assert!(names.iter().all(|one| one.len() < 200 && names.iter().filter(|other| *other == one).count() == 1));
        assert_eq!(name(Path::new("/var/lib/kilter")).split_once('-').unwrap().1, "15-var-lib-kilter");
    }
}
