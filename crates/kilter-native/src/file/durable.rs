//! What it takes for changes to survive a crash of the machine.
//!
//! A file that replaces another is flushed before it takes its place, so that a crash leaves the old
//! content or the new one and never an empty file. What is new needs that only before the run
//! reports success. One `syncfs` does it for many files; `fsync` one by one is fifty times as slow.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::fd::OwnedFd;
use rustix::fs::{fsync, syncfs};
use rustix::io::Errno;

use super::error::FileError;
use super::place::Parent;

/// Up to this many files are flushed one by one, side by side.
const FEW: usize = 8;

/// From this many changes on a flush is begun before all changes are made.
const MANY: usize = 512;

/// The file systems that were changed since the last flush.
#[derive(Debug, Default)]
pub(super) struct Touched(Mutex<Filesystems>);

#[derive(Debug, Default)]
struct Filesystems {
    /// One descriptor for each device.
    known: Vec<(u64, OwnedFd)>,
    /// A change was made where nothing could be opened for flushing.
    other: bool,
    /// A flush that goes on while further changes are made.
    ahead: Option<JoinHandle<Result<(), Errno>>>,
    /// What went wrong with one that has ended; the last flush tells it.
    failed: Option<Errno>,
}

impl Touched {
    /// Something in the directory was changed.
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

    /// Begins to flush what so many changes have left, if that pays and no other flush goes on: the last one
    /// has less to wait for then.
    pub(super) fn flush_ahead(&self, changes: usize) {
        let mut touched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = touched.ahead.take_if(|ahead| ahead.is_finished()) {
            touched.failed = touched.failed.or(joined(ended).err());
        }
        if changes < MANY || touched.ahead.is_some() {
            return;
        }
        let known = touched.known.iter().map(|(_, fd)| fd.try_clone()).collect::<Result<Vec<_>, _>>();
        // Without descriptors to spare the last flush does all of it.
        let flush = |known: Vec<OwnedFd>| Builder::new().spawn(move || known.iter().try_for_each(syncfs)).ok();
        touched.ahead = known.ok().and_then(flush);
    }

    /// Flushes what was noted.
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

/// Files that must be on disk before others may be replaced by them.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    files: Vec<(OwnedFd, String)>,
    count: usize,
    filesystems: Vec<(u64, OwnedFd)>,
}

impl Barrier {
    /// Adds a file that was written.
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

    /// Returns when all of them are on disk.
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
                    // Without a thread this one waits.
                    Err(file) => flush(file),
                });
                results.collect::<Result<(), _>>()
            }),
        }
    }
}
