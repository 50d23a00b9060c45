//! Directory in which kilter stores state between runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::FlockOperation;

use crate::run_lock::{RunLock, RunLockError, is_at};

/// Directory in which kilter stores state between runs, mode 0700.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// Reason why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// It cannot be created or opened.
    #[error("cannot use the state directory {path}")]
    Io {
        /// Path of the operation.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Others could write to it.
    #[error("the state directory {path} {why}: it must belong to the user who runs kilter, with mode 0700")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// Problem of the directory.
        why: String,
    },
    /// Another run holds the lock.
    #[error("another run holds the lock on {path} (process {holder}); wait for it, or choose another --state-dir")]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Process that holds the lock.
        holder: String,
    },
}

/// Lock on a state directory, held until it is dropped.
///
/// The lock belongs to the process: several runs of a process share it.
#[derive(Debug)]
pub struct Lock {
    held: Option<Arc<Held>>,
}

/// State directory that this process has locked.
#[derive(Debug)]
struct Held {
    /// Its canonical path.
    directory: PathBuf,
    locks: Mutex<HeldLocks>,
}

/// Locks on one state directory.
#[derive(Debug, Default)]
struct HeldLocks {
    /// Lock file in it; none if the disk is full or read-only. It is replaced after the directory was removed.
    file: Option<File>,
    /// Lock outside of it, if the system has a directory for such locks.
    run_lock: Option<RunLock>,
    /// Reason why there is no lock outside of it, if there should be one.
    failure: Option<String>,
    /// True while another process may take the locks.
    is_lent: bool,
}

impl Held {
    fn locks(&self) -> MutexGuard<'_, HeldLocks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at(&self, path: &Path) -> bool {
        self.locks().file.as_ref().is_some_and(|file| is_at(file, path))
    }
}

/// State directories that this process has locked. The system releases a lock when any descriptor of its file is
/// closed, so that the file must be open only once.
static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

fn registry() -> MutexGuard<'static, Vec<Weak<Held>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lock {
    /// Returns the reason if the lock outside of the state directory could not be taken.
    ///
    /// Without it, a process that starts after the removal of the state directory does not notice this one.
    pub fn failure(&self) -> Option<String> {
        self.held.as_ref()?.locks().failure.clone()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file must not be reopened before this one is closed.
        let _held = registry();
        drop(self.held.take());
    }
}

/// Locks of this process that another process may take until [`LentLock::take_back`].
#[derive(Debug)]
pub struct LentLock {
    state_dir: StateDir,
    held: Arc<Held>,
}

impl LentLock {
    /// Takes the locks again. The run holds the state directory as before.
    ///
    /// # Errors
    /// If the directory cannot be used, or another process still holds a lock.
    pub fn take_back(&self) -> Result<(), StateDirError> {
        let held = registry();
        self.state_dir.prepare()?;
        let locks = self.state_dir.take_locks(&self.held.directory, &held)?;
        *self.held.locks() = locks;
        Ok(())
    }
}

impl StateDir {
    /// Returns the state directory at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> StateDir {
        StateDir { path: path.into() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory if needed, and verifies that only its owner can use it.
    ///
    /// # Errors
    /// If it cannot be created, or others can use it.
    pub fn prepare(&self) -> Result<(), StateDirError> {
        let io = |source| StateDirError::Io { path: self.path.clone(), source };
        if let Err(error) = std::fs::symlink_metadata(&self.path)
            && error.kind() == io::ErrorKind::NotFound
        {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(io)?;
        }
        self.verify()
    }

    /// Verifies that only its owner can use the directory, if it exists.
    ///
    /// # Errors
    /// If it is no directory, belongs to another user, or others can use it.
    pub fn verify(&self) -> Result<(), StateDirError> {
        let found = match std::fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(StateDirError::Io { path: self.path.clone(), source }),
        };
        let faulty = |why: &str| Err(StateDirError::Unsafe { path: self.path.clone(), why: why.to_owned() });
        if !found.is_dir() {
            return faulty("is not a directory");
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return faulty(&format!("belongs to the user with uid {}", found.uid()));
        }
        if found.mode() & 0o077 != 0 {
            return faulty(&format!("has mode {:04o}", found.mode() & 0o7777));
        }
        Ok(())
    }

    /// Creates the directory if needed, and locks it against other processes. Runs of this process share the lock.
    ///
    /// # Errors
    /// If it cannot be used, or another process holds the lock.
    pub fn hold(&self) -> Result<Lock, StateDirError> {
        self.prepare()?;
        self.lock()
    }

    /// Takes the lock. It writes nothing, so that a run without changes leaves no trace.
    fn lock(&self) -> Result<Lock, StateDirError> {
        let io = |source: io::Error| StateDirError::Io { path: self.path.clone(), source };
        let directory = std::fs::canonicalize(&self.path).map_err(io)?;
        let path = directory.join("lock");
        let mut held = registry();
        held.retain(|held| held.strong_count() > 0);
        let known = held.iter().filter_map(Weak::upgrade).find(|held| held.directory == directory || held.is_at(&path));
        if let Some(known) = known {
            // The directory may have been removed, with the lock file.
            if !known.locks().is_lent && !known.is_at(&path) {
                let has_run_lock = known.locks().run_lock.is_some();
                let file = self.open_locked(&path, has_run_lock)?;
                known.locks().file = file;
            }
            return Ok(Lock { held: Some(known) });
        }
        let locks = Mutex::new(self.take_locks(&directory, &held)?);
        let lock = Arc::new(Held { directory, locks });
        held.push(Arc::downgrade(&lock));
        Ok(Lock { held: Some(lock) })
    }

    /// Lets other processes take the locks that this process holds; none if it holds none, or has lent them.
    pub fn lend(&self) -> Option<LentLock> {
        let directory = std::fs::canonicalize(&self.path).ok()?;
        let held = registry();
        let known = held.iter().filter_map(Weak::upgrade).find(|held| held.directory == directory)?;
        let mut locks = known.locks();
        if locks.is_lent {
            return None;
        }
        *locks = HeldLocks { is_lent: true, ..HeldLocks::default() };
        drop(locks);
        Some(LentLock { state_dir: self.clone(), held: known })
    }

    /// Takes both locks of a directory, given by its canonical path.
    fn take_locks(&self, directory: &Path, held: &[Weak<Held>]) -> Result<HeldLocks, StateDirError> {
        let (run_lock, failure) = match RunLock::take(directory) {
            Ok(run_lock) => (run_lock, None),
            Err(RunLockError::Unusable(why)) => (None, Some(why)),
            Err(RunLockError::Taken(file)) => {
                return Err(StateDirError::Locked { path: self.path.clone(), holder: holder(&file) });
            }
        };
        if let Some(run_lock) = &run_lock {
            let all: Vec<Arc<Held>> = held.iter().filter_map(Weak::upgrade).collect();
            let all: Vec<MutexGuard<'_, HeldLocks>> = all.iter().map(|held| held.locks()).collect();
            run_lock.remove_leftovers(all.iter().filter_map(|locks| locks.run_lock.as_ref()));
        }
        let file = self.open_locked(&directory.join("lock"), run_lock.is_some())?;
        Ok(HeldLocks { file, run_lock, failure, is_lent: false })
    }

    /// Opens the lock file in the directory and takes the lock. On a full or read-only disk it may be missing if another
    /// lock is held.
    fn open_locked(&self, path: &Path, has_other: bool) -> Result<Option<File>, StateDirError> {
        let io = |source: io::Error| StateDirError::Io { path: path.to_owned(), source };
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32)
            .open(path);
        let takes_no_file = |error: &io::Error| {
            use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
            matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
        };
        let file = match opened {
            Err(error) if has_other && takes_no_file(&error) => return Ok(None),
            opened => opened.map_err(io)?,
        };
        if !file.metadata().map_err(io)?.is_file() {
            return Err(io(io::Error::other("it is not a regular file: move it away")));
        }
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                Err(StateDirError::Locked { path: self.path.clone(), holder: holder(&file) })
            }
            Err(errno) => Err(io(errno.into())),
        }
    }
}

/// Returns the process that holds the lock: its pid, as the kernel knows it, and its name.
fn holder(file: &File) -> String {
    let mut asked = rustix::process::Flock::from(rustix::process::FlockType::WriteLock);
    asked.length = 0;
    let Ok(Some(lock)) = rustix::process::fcntl_getlk(file, &asked) else {
        return "unknown".to_owned();
    };
    let Some(pid) = lock.pid else { return "unknown".to_owned() };
    let pid = pid.as_raw_nonzero();
    // Its arguments may hold secrets.
    let command = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&command).trim().escape_debug())
}
