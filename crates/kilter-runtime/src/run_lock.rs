//! Lock of a state directory outside of the directory: it survives the removal of the directory.
//!
//! It is a file below `/run`, or below `/run/user/UID` for other users than root, named after the path of the state
//! directory.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::io::Errno;

/// Maximum number of bytes of the path that the name of the lock contains.
const NAMED_BYTES: usize = 100;

/// Lock of one state directory. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    path: PathBuf,
    _file: File,
}

/// Reason why the lock cannot be used.
#[derive(Debug)]
pub(crate) enum RunLockError {
    /// Another process holds it.
    Taken(File),
    /// The directory for locks, or the lock in it, cannot be used.
    Unusable(String),
}

/// Maximum number of retries for a lock that another process holds: that process may only be removing leftovers.
const TRIES: u32 = 5;

/// Interval between these retries.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of locks that are examined for leftovers.
const MAX_LEFTOVERS: usize = 1000;

impl RunLock {
    /// Locks a state directory by its canonical path. Returns `None` if the system has no directory for such locks.
    ///
    /// # Errors
    /// If another process holds it, or it cannot be used.
    pub(crate) fn take(directory: &Path) -> Result<Option<RunLock>, RunLockError> {
        let Some(place) = place().map_err(RunLockError::Unusable)? else { return Ok(None) };
        let path = place.join(name(directory));
        let unusable = |error: &io::Error| RunLockError::Unusable(format!("{}: {error}", path.display()));
        let mut tries = 0;
        loop {
            let file = open(&path).map_err(|error| unusable(&error))?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The process that held it may have removed it in between.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => return Ok(Some(RunLock { path, _file: file })),
                Err(Errno::AGAIN | Errno::ACCESS) if tries == TRIES => return Err(RunLockError::Taken(file)),
                Err(Errno::AGAIN | Errno::ACCESS) => {
                    tries += 1;
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(errno) => return Err(unusable(&errno.into())),
            }
        }
    }

    /// Removes locks beside this one that killed processes left.
    ///
    /// `own` are locks that this process holds: the system would release them if they were opened and closed.
    pub(crate) fn remove_leftovers<'a>(&'a self, own: impl Iterator<Item = &'a RunLock>) {
        let own: Vec<&Path> = own.chain([self]).map(|lock| lock.path.as_path()).collect();
        let entries = self.path.parent().and_then(|place| std::fs::read_dir(place).ok());
        let paths = entries.into_iter().flatten().flatten().take(MAX_LEFTOVERS).map(|entry| entry.path());
        for path in paths.filter(|path| !own.contains(&path.as_path())) {
            let Ok(file) = open_existing(&path) else { continue };
            let is_left = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, &path);
            if is_left {
                // A leftover is harmless.
                let _ = std::fs::remove_file(&path);
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

/// Returns the directory for locks of this user, and creates it if needed. Users other than root may have none.
///
/// # Errors
/// If it cannot be created, or others could write to it.
fn place() -> Result<Option<PathBuf>, String> {
    let uid = rustix::process::geteuid();
    let base = if uid.is_root() { "/run".to_owned() } else { format!("/run/user/{}", uid.as_raw()) };
    let base = Path::new(&base);
    if !uid.is_root() && std::fs::symlink_metadata(base).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    place_in(base, uid.as_raw()).map(Some)
}

/// Returns the directory for locks in a directory that belongs to a user.
fn place_in(base: &Path, uid: u32) -> Result<PathBuf, String> {
    let is_ours = |path: &Path, others: u32| {
        let found = std::fs::symlink_metadata(path);
        found.is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & others == 0)
    };
    if !is_ours(base, 0o022) {
        return Err(format!("{} is not a directory that only its owner can write", base.display()));
    }
    let place = base.join("kilter-locks");
    if is_ours(&place, 0o077) {
        return Ok(place);
    }
    match DirBuilder::new().mode(0o700).create(&place) {
        Ok(()) => Ok(place),
        // Another process may have created it in between.
        Err(_) if is_ours(&place, 0o077) => Ok(place),
        Err(error) => Err(format!("{}: {error}", place.display())),
    }
}

/// Returns the name of the lock: a checksum and the end of the path.
fn name(directory: &Path) -> String {
    let bytes = directory.as_os_str().as_bytes();
    let end = &bytes[bytes.len().saturating_sub(NAMED_BYTES)..];
    let readable = end.iter().map(|byte| if byte.is_ascii_alphanumeric() { char::from(*byte) } else { '-' });
    format!("{:08x}-{}{}", crc32fast::hash(bytes), bytes.len(), readable.collect::<String>())
}

fn open(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).mode(0o600).open(path)
}

fn open_existing(path: &Path) -> io::Result<File> {
    options().open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    options.read(true).write(true).custom_flags(flags);
    options
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
    fn place_that_cannot_be_made_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(base.path(), 0o755);
        let place = place_in(base.path(), uid).unwrap();
        assert_eq!(place_in(base.path(), uid), Ok(place.clone()));
        mode(&place, 0o755);
        assert!(place_in(base.path(), uid).unwrap_err().contains("kilter-locks: File exists"));
        mode(base.path(), 0o777);
        assert!(place_in(base.path(), uid).unwrap_err().contains("only its owner can write"));
    }

    #[test]
    fn leftovers_are_removed_and_held_locks_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let lock = |name: &str| RunLock { path: path(name), _file: open(&path(name)).unwrap() };
        let (this, own) = (lock("this"), lock("own"));
        std::fs::write(path("left"), "").unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        // Start a process that holds a lock.
        std::fs::write(path("held"), "").unwrap();
        let script = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', \
                      flush=True); sys.stdin.read()";
        let mut other = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(path("held"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut said).unwrap();
        this.remove_leftovers([&own].into_iter());
        let left = |names: &[&str]| names.iter().map(|name| path(name).exists()).collect::<Vec<_>>();
        assert_eq!(left(&["this", "own", "held", "directory", "left"]), [true, true, true, true, false]);
        drop(other.stdin.take());
        other.wait().unwrap();
        this.remove_leftovers([&own].into_iter());
        assert_eq!(left(&["this", "own", "held"]), [true, true, false]);
    }

    #[test]
    fn name_of_two_directories_differs() {
        let long = "x".repeat(4000);
        let names =
            ["/a/b", "/a-b", "/a", &format!("/1/{long}"), &format!("/2/{long}")].map(|path| name(Path::new(path)));
        assert!(names.iter().all(|one| one.len() < 200 && names.iter().filter(|other| *other == one).count() == 1));
        assert_eq!(name(Path::new("/var/lib/kilter")).split_once('-').unwrap().1, "15-var-lib-kilter");
    }
}
