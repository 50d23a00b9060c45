//! Durability: changes survive a crash of the machine.
//!
//! A replacement is flushed before its rename, so that a crash leaves the old content or the new content, but never
//! an empty file. A new file is flushed only before the run reports success. A single `syncfs` covers many files. An
//! `fsync` per file is fifty times slower.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::fd::OwnedFd;
use rustix::fs::{fsync, syncfs};
use rustix::io::Errno;

use super::error::FileError;
use super::open::Parent;

/// Maximum number of files to flush individually, in parallel.
const FEW: usize = 8;

/// Minimum number of changes for a flush that starts before all changes are made.
const MIN_EARLY_FLUSH: usize = 512;

/// File systems that were changed since the last flush.
#[derive(Debug, Default)]
pub(super) struct Touched(Mutex<Filesystems>);

#[derive(Debug, Default)]
struct Filesystems {
    /// A descriptor for each device.
    known: Vec<(u64, OwnedFd)>,
    /// True if a changed directory could not be opened for a flush.
    other: bool,
    /// A flush that runs while further changes are made.
    ahead: Option<JoinHandle<Result<(), Errno>>>,
    /// Error of an earlier flush, which the last flush reports.
    failed: Option<Errno>,
}

impl Touched {
    /// Records that a directory has changed.
    pub(super) fn note(&self, parent: &Parent) {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if touched.known.iter().any(|(device, _)| *device == parent.stat.st_dev) {
            return;
        }
        match parent.readable.then(|| parent.fd.try_clone()) {
            Some(Ok(fd)) => touched.known.push((parent.stat.st_dev, fd)),
            _ => touched.other = true,
        }
    }

    /// Starts a flush in the background if there are enough changes and no other flush runs. It reduces the wait in
    /// the last flush.
    pub(super) fn flush_ahead(&self, changes: usize) {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = touched.ahead.take_if(|ahead| ahead.is_finished()) {
            touched.failed = touched.failed.or(joined(ended).err());
        }
        if changes < MIN_EARLY_FLUSH || touched.ahead.is_some() {
            return;
        }
        let known = touched.known.iter().map(|(_, fd)| fd.try_clone()).collect::<Result<Vec<_>, _>>();
        // Without spare descriptors the last flush writes everything.
        let flush = |known: Vec<OwnedFd>| Builder::new().spawn(move || known.iter().try_for_each(syncfs)).ok();
        touched.ahead = known.ok().and_then(flush);
    }

    /// Flushes all recorded file systems.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        let touched = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let ahead = touched.failed.map_or(Ok(()), Err).and(touched.ahead.map_or(Ok(()), joined));
        if touched.other {
            rustix::fs::sync();
        }
        ahead.and(touched.known.iter().try_for_each(|(_, fd)| syncfs(fd)))
    }
}

fn joined(flush: JoinHandle<Result<(), Errno>>) -> Result<(), Errno> {
    flush.join().expect("syncfs does not panic")
}

/// Files that must be on disk before they may replace others.
#[derive(Debug, Default)]
pub(super) struct PendingFsync {
    files: Vec<(OwnedFd, String)>,
    count: usize,
    filesystems: Vec<(u64, OwnedFd)>,
}

impl PendingFsync {
    /// Adds a written file.
    pub(super) fn add(&mut self, device: u64, fd: OwnedFd, path: String) -> Result<(), FileError> {
        if !self.filesystems.iter().any(|(known, _)| *known == device) {
            let clone = fd.try_clone().map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
                FileError::io("keep open", path.clone(), errno)
            })?;
            self.filesystems.push((device, clone));
        }
        self.count += 1;
        if self.files.len() < FEW {
            self.files.push((fd, path));
        }
        Ok(())
    }

    /// Waits until all files are on disk.
    pub(super) fn wait(self) -> Result<(), FileError> {
        if self.count > FEW {
            let flush =
                |(_, fd): &(u64, OwnedFd)| syncfs(fd).map_err(|errno| FileError::io("flush", "the file system", errno));
            return self.filesystems.iter().try_for_each(flush);
        }
        let flush = |(fd, path): &(OwnedFd, String)| fsync(fd).map_err(|errno| FileError::io("flush", path, errno));
        match &self.files[..] {
            [] => Ok(()),
            [one] => flush(one),
            several => std::thread::scope(|scope| {
                let begin = |file| Builder::new().spawn_scoped(scope, move || flush(file)).map_err(|_| file);
                let threads: Vec<_> = several.iter().map(begin).collect();
                let results = threads.into_iter().map(|thread| match thread {
                    Ok(thread) => thread.join().expect("fsync does not panic"),
                    // If no thread can be started, this thread flushes.
                    Err(file) => flush(file),
                });
                results.collect::<Result<(), _>>()
            }),
        }
    }
}
