//! The pipe at descriptor 3 of a child.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::Stat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Number of the descriptor.
pub(crate) const CHANNEL: RawFd = 3;

/// Identity of a file on this machine.
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

/// Write end of the pipe, for the child.
pub(crate) struct Writer {
    pub(crate) fd: OwnedFd,
    /// File that was descriptor 3 of this program just before the start.
    pub(crate) replaces: FileId,
    /// Occupies descriptor 3 if it was free, so that the start itself does not use it.
    _hold: Option<OwnedFd>,
}

impl Writer {
    /// Duplicates the write end of a pipe. Returns none if another thread has just closed descriptor 3; the caller
    /// retries.
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
