//! The one place that runs code between fork and exec.
#![expect(
    unsafe_code,
    reason = "the session, umask and supplementary groups of a child can only be set between fork and exec"
)]

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

/// Added to the errno of a working directory that could not be entered: a child has one number to
/// say why it did not start, and the program gives the same ones.
const NO_ENTRY: i32 = 1 << 16;

/// The user that a child runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// The supplementary groups: exactly these, none of the caller's.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Whether all its numbers name somebody: to the system the largest one means "as before".
    pub(crate) fn is_sound(&self) -> bool {
        ![self.uid, self.gid].iter().chain(&self.groups).any(|&id| id == u32::MAX)
    }
}

/// Has the child take on `identity`, `cwd` and `umask` before it executes its program.
///
/// Another user must not share the caller's terminal, where it could type in the caller's name: the
/// child gets a session of its own, and with it a process group. The directory is entered with the
/// rights of that user.
///
/// With neither identity nor umask the command stays free of closures, and the standard library's
/// `posix_spawn` path stays open to it.
pub(crate) fn take_on(command: &mut Command, identity: Option<&Identity>, cwd: Option<CString>, umask: Option<u32>) {
    if identity.is_none() && cwd.is_none() && umask.is_none() {
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
        Ok(())
    };
    // SAFETY: between fork and exec in a program with threads only async-signal-safe functions may
    // run. The closure makes up to seven raw system calls (umask, setsid, geteuid, setgroups,
    // setresgid, setresuid, chdir) on values that were built before the fork. It takes no lock,
    // allocates nothing (an `io::Error` from an errno is a number) and cannot panic.
    unsafe {
        command.pre_exec(in_child);
    }
}

/// Why the working directory given to [`take_on`] could not be entered, if that is what an error of
/// the start says.
pub(crate) fn no_entry(error: &io::Error) -> Option<io::Error> {
    error
        .raw_os_error()
        .filter(|number| *number > NO_ENTRY)
        .map(|number| io::Error::from_raw_os_error(number - NO_ENTRY))
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
