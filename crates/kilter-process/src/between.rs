//! The one place that runs code between fork and exec.
#![expect(
    unsafe_code,
    reason = "session, umask, supplementary groups and descriptor 3 of a child can only be set between fork and exec"
)]

use std::ffi::CString;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::io::{Errno, FdFlags};
use rustix::process::{Gid, Uid};

use crate::channel::{CHANNEL, FileId, Writer};
use crate::identity::Identity;

/// Added to the errno of a working directory that could not be entered: a child has one number to
/// say why it did not start, and the program gives the same ones.
const NO_ENTRY: i32 = 1 << 16;

/// The errno of a child whose descriptor 3 is not what it was before the fork.
const CHANNEL_MOVED: i32 = 1 << 17;

/// What a child takes on before it executes its program.
#[derive(Default)]
pub(crate) struct Before<'a> {
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) cwd: Option<CString>,
    pub(crate) umask: Option<u32>,
    pub(crate) channel: Option<Writer>,
}

/// Has the child take on all that `before` says.
///
/// Another user must not share the caller's terminal, where it could type in the caller's name: the
/// child gets a session of its own, and with it a process group. The directory is entered with the
/// rights of that user.
///
/// Where there is nothing to take on the command stays free of closures, and the standard library's
/// `posix_spawn` path stays open to it.
pub(crate) fn take_on(command: &mut Command, before: Before<'_>) {
    let Before { identity, cwd, umask, channel } = before;
    if identity.is_none() && cwd.is_none() && umask.is_none() && channel.is_none() {
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
        Ok(())
    };
    // SAFETY: between fork and exec in a program with threads only async-signal-safe functions may
    // run. The closure makes up to nine raw system calls (umask, setsid, geteuid, setgroups,
    // setresgid, setresuid, chdir, fstat, dup2 or fcntl) on values that were built before the fork. It
    // takes no lock, allocates nothing (an `io::Error` from an errno is a number) and cannot panic.
    unsafe {
        command.pre_exec(in_child);
    }
}

/// Why the working directory given to [`take_on`] could not be entered, if that is what an error of
/// the start says.
pub(crate) fn no_entry(error: &io::Error) -> Option<io::Error> {
    error
        .raw_os_error()
        .filter(|number| (NO_ENTRY + 1..CHANNEL_MOVED).contains(number))
        .map(|number| io::Error::from_raw_os_error(number - NO_ENTRY))
}

/// Whether a child did not start because its descriptor 3 was in use by the start itself.
pub(crate) fn is_channel_moved(error: &io::Error) -> bool {
    error.raw_os_error() == Some(CHANNEL_MOVED)
}

impl Writer {
    /// Makes the pipe descriptor 3 of this process, which is a child just forked.
    ///
    /// The standard library tells the parent through a pipe why a child did not start, and that pipe has some
    /// number. Were it 3, the child's failure would be lost. Hence nothing is put over what was not there,
    /// under this number, before the start began.
    fn put_in_place(&self) -> io::Result<()> {
        if self.fd.as_raw_fd() == CHANNEL {
            return Ok(rustix::io::fcntl_setfd(&self.fd, FdFlags::empty())?);
        }
        // SAFETY: the only thread of this process closes nothing while the descriptor is borrowed. If it is
        // not open, the call says so.
        let present = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(CHANNEL) });
        if !present.is_ok_and(|present| FileId::of(&present) == self.replaces) {
            return Err(io::Error::from_raw_os_error(CHANNEL_MOVED));
        }
        // SAFETY: what is replaced is a copy of a descriptor of the parent, which nobody uses in this
        // process. It is not closed here: the program is to have it.
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
    /// Groups first: after the change of user they are out of reach. The calls are those of the
    /// thread, which is the only one of a process just forked.
    fn assume(&self) -> io::Result<()> {
        // A caller without privileges may still ask for what it is; setgroups it may not.
        if rustix::process::geteuid().is_root() {
            rustix::thread::set_thread_groups(&self.groups)?;
        }
        rustix::thread::set_thread_res_gid(self.gid, self.gid, self.gid)?;
        rustix::thread::set_thread_res_uid(self.uid, self.uid, self.uid)?;
        Ok(())
    }
}
