//! The one place that runs code between fork and exec.
#![expect(unsafe_code, reason = "the umask and supplementary groups of a child can only be set between fork and exec")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::process::{Gid, Uid};

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

/// Has the child take on `identity` and `umask` before it executes its program.
///
/// With neither the command stays free of closures, and the standard library's `posix_spawn` path
/// stays open to it.
pub(crate) fn take_on(command: &mut Command, identity: Option<&Identity>, umask: Option<u32>) {
    if identity.is_none() && umask.is_none() {
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
        match &identity {
            Some(identity) => identity.assume(),
            None => Ok(()),
        }
    };
    // SAFETY: between fork and exec in a program with threads only async-signal-safe functions may
    // run. The closure makes up to four raw system calls (umask, setgroups, setresgid, setresuid)
    // on values that were built before the fork. It takes no lock, allocates nothing (an
    // `io::Error` from an errno is a number) and cannot panic.
    unsafe {
        command.pre_exec(in_child);
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
