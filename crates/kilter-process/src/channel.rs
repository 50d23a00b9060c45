//! The pipe at descriptor 3 of a child.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::Stat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// The number.
pub(crate) const CHANNEL: RawFd = 3;

/// A file of this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(stat: &Stat) -> FileId {
        #[expect(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
        FileId { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

/// The end that the child gets.
pub(crate) struct Writer {
    pub(crate) fd: OwnedFd,
    /// What descriptor 3 of this program was just before the start.
    pub(crate) replaces: FileId,
    /// Keeps the number, where it was free, from being taken by the start itself.
    _hold: Option<OwnedFd>,
}

impl Writer {
    /// Of the written end of a pipe. None if another thread has just given up descriptor 3: to be tried again.
    pub(crate) fn new(end: &OwnedFd) -> io::Result<Option<Writer>> {
        let fd = end.try_clone()?;
        let hold = fcntl_dupfd_cloexec(end, CHANNEL)?;
        if hold.as_raw_fd() == CHANNEL {
            let replaces = FileId::of(&rustix::fs::fstat(&hold)?);
            return Ok(Some(Writer { fd, replaces, _hold: Some(hold) }));
        }
        match rustix::fs::stat("/proc/self/fd/3") {
            Ok(stat) => Ok(Some(Writer { fd, replaces: FileId::of(&stat), _hold: None })),
            Err(Errno::NOENT) if rustix::fs::stat("/proc/self/fd").is_ok() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
