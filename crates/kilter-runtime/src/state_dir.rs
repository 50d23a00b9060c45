//! The directory in which kilter keeps state between runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::FlockOperation;

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
    file: Option<Arc<File>>,
}

/// The locks that this process holds. The system lets go of one as soon as any descriptor of its file is closed, so the file is open
/// once at most.
static HELD: Mutex<Vec<Weak<File>>> = Mutex::new(Vec::new());

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody opens the file anew before this one is closed.
        let _held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.file.take());
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
        let path = self.path.join("lock");
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|file| file.strong_count() > 0);
        if let Some(file) = held.iter().filter_map(Weak::upgrade).find(|file| is_at(file, &path)) {
            return Ok(Lock { file: Some(file) });
        }
        let io = |source: io::Error| StateDirError::Io { path: path.clone(), source };
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32)
            .open(&path)
            .map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(io(io::Error::other("it is no regular file: move it away")));
        }
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let file = Arc::new(file);
                held.push(Arc::downgrade(&file));
                Ok(Lock { file: Some(file) })
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                Err(StateDirError::Locked { path: self.path.clone(), holder: holder(&file) })
            }
            Err(errno) => Err(io(errno.into())),
        }
    }
}

/// Whether an open file is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, found) = (file.metadata().map(id), std::fs::symlink_metadata(path).map(id));
    open.ok().zip(found.ok()).is_some_and(|(open, found)| open == found)
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
