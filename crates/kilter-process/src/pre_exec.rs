//! Code that runs between fork and exec. No other module runs any there.
#![expect(
    unsafe_code,
    reason = "session, umask, limits, supplementary groups and inherited descriptors can only be set between fork and \
              exec"
)]

use std::ffi::CString;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::io::{Errno, FdFlags};
use rustix::process::{Gid, Resource, Rlimit, Uid};

use crate::channel::{CHANNEL, FileId, Writer};
use crate::identity::Identity;

/// Offset added to the errno of a working directory that could not be entered.
///
/// A child reports its failure to start as one number, and a failed exec reports the same errno values.
const NO_ENTRY: i32 = 1 << 16;

/// Errno of a child whose descriptor 3 is not the file it was before the fork.
const CHANNEL_MOVED: i32 = 1 << 17;

/// Settings that a child applies to itself before it executes its program.
#[derive(Default)]
pub(crate) struct ChildSetup<'a> {
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) cwd: Option<CString>,
    pub(crate) umask: Option<u32>,
    pub(crate) max_file_bytes: Option<u64>,
    pub(crate) channel: Option<Writer>,
    /// Descriptor that the program inherits under the same number.
    pub(crate) inherited: Option<Arc<OwnedFd>>,
}

/// Makes the child apply the settings in `before`.
///
/// A child that runs as another user gets its own session and process group. Without them it could write to the
/// caller's terminal as if the caller typed. The child enters the working directory with that user's rights.
///
/// If there are no settings, the command gets no closure, so that the standard library can still use `posix_spawn`.
pub(crate) fn apply_pre_exec(command: &mut Command, before: ChildSetup<'_>) {
    let ChildSetup { identity, cwd, umask, max_file_bytes, channel, inherited } = before;
    let is_unchanged = identity.is_none() && cwd.is_none() && umask.is_none() && max_file_bytes.is_none();
    if is_unchanged && channel.is_none() && inherited.is_none() {
        return;
    }
    let identity = identity.map(|identity| Raw {
        uid: Uid::from_raw(identity.uid),
        gid: Gid::from_raw(identity.gid),
        groups: identity.groups.iter().map(|&gid| Gid::from_raw(gid)).collect(),
    });
    let umask = umask.map(Mode::from_raw_mode);
    let in_child = move || -> io::Result<()> {
        if let Some(umask) = umask {
            rustix::process::umask(umask);
        }
        if let Some(most) = max_file_bytes {
            // The hard limit stays, so that a lower one of the caller continues to apply.
            let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Fsize);
            let current = Some(current.map_or(most, |current| current.min(most)));
            rustix::process::setrlimit(Resource::Fsize, Rlimit { current, maximum })?;
        }
        if let Some(identity) = &identity {
            rustix::process::setsid()?;
            identity.assume()?;
        }
        if let Some(cwd) = &cwd {
            let marked = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error() + NO_ENTRY);
            rustix::process::chdir(cwd.as_c_str()).map_err(marked)?;
        }
        if let Some(channel) = &channel {
            channel.put_in_place()?;
        }
        if let Some(inherited) = &inherited {
            rustix::io::fcntl_setfd(&**inherited, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec in a program with threads only async-signal-safe functions may run. The closure
    // makes up to twelve raw system calls (umask, two prlimit64, setsid, geteuid, setgroups, setresgid, setresuid,
    // chdir, fstat, dup2 or fcntl, fcntl) on values that were built before the fork. It takes no lock, allocates
    // nothing (an `io::Error` from an errno is a number) and cannot panic.
    unsafe {
        command.pre_exec(in_child);
    }
}

/// Returns why the child could not enter the working directory given to [`take_on`], if `error` is that failure.
pub(crate) fn no_entry(error: &io::Error) -> Option<io::Error> {
    error
        .raw_os_error()
        .filter(|number| (NO_ENTRY + 1..CHANNEL_MOVED).contains(number))
        .map(|number| io::Error::from_raw_os_error(number - NO_ENTRY))
}

/// Returns true if a child did not start because the start itself used descriptor 3.
pub(crate) fn is_channel_moved(error: &io::Error) -> bool {
    error.raw_os_error() == Some(CHANNEL_MOVED)
}

impl Writer {
    /// Makes the pipe descriptor 3 of this process, a child directly after its fork.
    ///
    /// The standard library reports a failed start to the parent through a pipe, and that pipe could have number 3.
    /// Replacing it would lose the report. So this function replaces descriptor 3 only if it is the file it was
    /// before the start began.
    fn put_in_place(&self) -> io::Result<()> {
        if self.fd.as_raw_fd() == CHANNEL {
            return Ok(rustix::io::fcntl_setfd(&self.fd, FdFlags::empty())?);
        }
        // SAFETY: the only thread of this process closes nothing while the descriptor is borrowed. If it is not
        // open, the call returns an error.
        let present = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(CHANNEL) });
        if !present.is_ok_and(|present| FileId::of(&present) == self.replaces) {
            return Err(io::Error::from_raw_os_error(CHANNEL_MOVED));
        }
        // SAFETY: the replaced descriptor is a copy of one of the parent, and no code in this process uses it. It is
        // not closed here because the program inherits it.
        let mut three = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(CHANNEL as RawFd) });
        Ok(rustix::io::dup2(&self.fd, &mut three)?)
    }
}

struct Raw {
    uid: Uid,
    gid: Gid,
    groups: Box<[Gid]>,
}

impl Raw {
    /// Sets groups, group and user of this process.
    ///
    /// Groups come first, because the process loses the right to set them when it changes its user. The system calls
    /// affect the calling thread only. It is the only thread directly after a fork.
    fn assume(&self) -> io::Result<()> {
        // A caller without privileges may set its own ids again, but may not call setgroups.
        if rustix::process::geteuid().is_root() {
            rustix::thread::set_thread_groups(&self.groups)?;
        }
        rustix::thread::set_thread_res_gid(self.gid, self.gid, self.gid)?;
        rustix::thread::set_thread_res_uid(self.uid, self.uid, self.uid)?;
        Ok(())
    }
}
