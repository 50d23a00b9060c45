//! The directory in which kilter keeps state between runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::FlockOperation;

use crate::run_lock::{RunLock, RunLockError, is_at};

/// The directory in which kilter keeps state between runs, mode 0700.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// It cannot be made or opened.
    #[error("cannot use the state directory {path}")]
    Io {
        /// What was attempted on.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Others could write to it.
    #[error("the state directory {path} {why}: it must belong to the user who runs kilter, with mode 0700")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another run holds the lock.
    #[error("another run holds the lock on {path} (process {holder}); wait for it, or choose another --state-dir")]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that holds it.
        holder: String,
    },
}

/// Holds the lock on a state directory until it is dropped.
///
/// The lock is the process's: whoever asks for it in the same process shares it.
#[derive(Debug)]
pub struct Lock {
    held: Option<Arc<Held>>,
}

/// A state directory that this process holds.
#[derive(Debug)]
struct Held {
    /// Its canonical path.
    directory: PathBuf,
    /// The lock in it; none if the disk is full. Another one after the directory was removed.
    file: Mutex<Option<File>>,
    /// The lock outside of it, if the system has a place for that.
    run_lock: Option<RunLock>,
    /// Why there is no lock outside of it, if there should be one.
    failure: Option<String>,
}

impl Held {
    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at(&self, path: &Path) -> bool {
        self.file().as_ref().is_some_and(|file| is_at(file, path))
    }
}

/// The state directories that this process holds. The system lets go of a lock as soon as any descriptor of its file is closed, so the
/// file is open once at most.
static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

impl Lock {
    /// Returns why only the lock in the state directory is held, if another one outside of it could not be taken. A process that
    /// starts after somebody has removed the state directory would not notice this one.
    pub fn failure(&self) -> Option<&str> {
        self.held.as_ref()?.failure.as_deref()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody opens the file anew before this one is closed.
        let _held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.held.take());
    }
}

impl StateDir {
    /// The state directory at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> StateDir {
        StateDir { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory if it is not there, and sees to it that only its owner can use it.
    pub(crate) fn prepare(&self) -> Result<(), StateDirError> {
        let io = |source| StateDirError::Io { path: self.path.clone(), source };
        if let Err(error) = std::fs::symlink_metadata(&self.path)
            && error.kind() == io::ErrorKind::NotFound
        {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(io)?;
        }
        self.verify()
    }

    /// Sees to it that only its owner can use the directory, if it is there.
    pub(crate) fn verify(&self) -> Result<(), StateDirError> {
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

    /// Makes the directory if it is not there, and keeps all other processes from changing anything on its account. Runs of this
    /// process may take place meanwhile.
    ///
    /// # Errors
    /// When it cannot be used, or another process holds it.
    pub fn hold(&self) -> Result<Lock, StateDirError> {
        self.prepare()?;
        self.lock()
    }

    /// Takes the lock. Nothing is written: a run that changes nothing leaves no trace.
    fn lock(&self) -> Result<Lock, StateDirError> {
        let io = |source: io::Error| StateDirError::Io { path: self.path.clone(), source };
        let directory = std::fs::canonicalize(&self.path).map_err(io)?;
        let path = directory.join("lock");
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|held| held.strong_count() > 0);
        let known = held.iter().filter_map(Weak::upgrade).find(|held| held.directory == directory || held.is_at(&path));
        if let Some(known) = known {
            // Somebody may have removed it, with the directory.
            if !known.is_at(&path) {
                let file = self.open_locked(&path, known.run_lock.is_some())?;
                *known.file() = file;
            }
            return Ok(Lock { held: Some(known) });
        }
        let (run_lock, failure) = match RunLock::take(&directory) {
            Ok(run_lock) => (run_lock, None),
            Err(RunLockError::Unusable(why)) => (None, Some(why)),
            Err(RunLockError::Taken(file)) => {
                return Err(StateDirError::Locked { path: self.path.clone(), holder: holder(&file) });
            }
        };
        if let Some(run_lock) = &run_lock {
            let all: Vec<Arc<Held>> = held.iter().filter_map(Weak::upgrade).collect();
            run_lock.remove_leftovers(all.iter().filter_map(|held| held.run_lock.as_ref()));
        }
        let file = Mutex::new(self.open_locked(&path, run_lock.is_some())?);
        let lock = Arc::new(Held { directory, file, run_lock, failure });
        held.push(Arc::downgrade(&lock));
        Ok(Lock { held: Some(lock) })
    }

    /// Opens the lock in the directory and takes it. On a full disk it may be missing if another lock is held.
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
        let is_full =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let file = match opened {
            Err(error) if has_other && is_full(&error) => return Ok(None),
            opened => opened.map_err(io)?,
        };
        if !file.metadata().map_err(io)?.is_file() {
            return Err(io(io::Error::other("it is no regular file: move it away")));
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

/// Who holds the lock: its pid, which the kernel knows, and its name.
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
