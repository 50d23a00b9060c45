//! Children that cannot change the machine.
//!
//! # How
//! What confines a child on Linux confines the thread that asks for it and all that it starts. A
//! confined child is therefore started by a thread of its own, which confines itself first and ends
//! when the child runs; kilter's other threads stay as they are. Four things work together:
//! 1. *Landlock* ([`files`]): no file is written, made, moved, removed or truncated outside of the child's temporary
//!    directory, no device is controlled, no process outside is signalled or traced.
//! 2. *A filter of system calls* ([`calls`]): what Landlock leaves open, such as modes, owners, times and extended
//!    attributes of files, mounts, host name, clock, kernel modules, reboot; before Linux 6.2 also truncation.
//! 3. *Capabilities* ([`capabilities`]): a child of root keeps those for reading and for becoming another user.
//! 4. *no_new_privs*: set-uid programs do not gain what the child has lost.
//!
//! It inherits no open file that it could write to but the pipes of its streams.
//!
//! What it tries is told by the filter: it has the kernel ask a [`Listener`] about calls that change something ([`table`]), and
//! the thread that waits for the child answers and writes down what was asked ([`witness`]). Where there is no listener the
//! filter refuses by itself what it would refuse, and of the others nobody hears.

mod attempt;
mod calls;
mod capabilities;
mod files;
mod filter;
mod listener;
mod place;
mod scratch;
mod table;
mod witness;

use std::fmt;
use std::path::Path;

use calls::Cutting;
use landlock::ABI;

pub use attempt::{Attempt, Attempts, Deed};
pub(crate) use listener::Listener;
pub(crate) use scratch::Scratch;
pub(crate) use witness::Witness;

/// What a child, with all its descendants, is kept from doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// Nothing.
    #[default]
    None,
    /// Changing the machine. It may read, run programs, and talk to others over the network and Unix sockets;
    /// what those do in its name is not prevented (`systemctl stop` asks systemd, which does it).
    ReadOnly,
    /// Changing the machine and talking to anybody: it can make no sockets but pairs, and those by which
    /// the kernel is asked (netlink).
    ReadOnlyAlone,
}

/// How a child was kept from changing the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confined {
    /// Nobody asked for it.
    NotAsked,
    /// As asked for.
    Fully,
    /// This kernel does not offer all that it takes.
    Partly {
        /// What is possible to the child all the same.
        gaps: Vec<Gap>,
    },
    /// Not at all, although it was asked for.
    No {
        /// Why not.
        why: String,
    },
}

/// What a child that is confined in part can do all the same, as far as its user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gap {
    /// Truncate files (Linux before 6.2 without a filter of system calls).
    Truncation,
    /// Control devices (Linux before 6.10).
    Devices,
    /// Signal processes, and talk over abstract Unix sockets (Linux before 6.12).
    Signals,
    /// Use root's capabilities: network configuration, clock, host name.
    Capabilities,
    /// Change modes, owners, times and extended attributes of files, and all else that is kept from it by a
    /// filter of system calls.
    Calls,
}

impl Confined {
    /// Whether all that was asked for is there.
    pub fn is_as_asked(&self) -> bool {
        matches!(self, Confined::NotAsked | Confined::Fully)
    }
}

/// `confined`, `confined in part: it may still …`, `not confined: …`.
impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Confined::NotAsked => f.write_str("not confined"),
            Confined::Fully => f.write_str("confined"),
            Confined::Partly { gaps } => {
                let gaps: Vec<String> = gaps.iter().map(Gap::to_string).collect();
                write!(f, "confined in part: it may still {}", gaps.join(", "))
            }
            Confined::No { why } => write!(f, "not confined: {why}"),
        }
    }
}

/// What it lets a child do, as the end of a sentence.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gap::Truncation => "truncate files",
            Gap::Devices => "control devices",
            Gap::Signals => "signal processes",
            Gap::Capabilities => "use the capabilities of root",
            Gap::Calls => "change modes, owners and times of files",
        })
    }
}

/// What children can be kept from on this machine, as it would be told of one that is started now.
///
/// It costs a thread; who asks more than once keeps the answer.
pub fn can_confine(confinement: Confinement) -> Confined {
    let thread = std::thread::Builder::new().spawn(move || confine_this_thread(confinement, None).0);
    let answer = thread
        .map_err(|error| format!("no thread can be started: {error}"))
        .and_then(|thread| thread.join().map_err(|_| "the attempt failed".to_owned()));
    answer.unwrap_or_else(|why| Confined::No { why })
}

/// Confines this thread, and with it what it starts from now on. There is no way back.
///
/// Where there is a directory to write to, and the kernel can, somebody has to answer what is asked before anything is
/// changed: whoever gets the listener, or nobody, once it is closed.
pub(crate) fn confine_this_thread(confinement: Confinement, scratch: Option<&Path>) -> (Confined, Option<Listener>) {
    confine_by(files::KNOWN, confinement, scratch)
}

/// The same as by a kernel that has this version of Landlock, if it has a newer one.
fn confine_by(known: ABI, confinement: Confinement, scratch: Option<&Path>) -> (Confined, Option<Listener>) {
    if confinement == Confinement::None {
        return (Confined::NotAsked, None);
    }
    let mut gaps = match files::restrict(scratch, known) {
        Ok(gaps) => gaps,
        Err(why) => return (Confined::No { why }, None),
    };
    if capabilities::drop_those_that_change().is_err() {
        gaps.push(Gap::Capabilities);
    }
    let cutting = if gaps.contains(&Gap::Truncation) { Cutting::Refused } else { Cutting::Ruled };
    let listener = scratch.and_then(|_| calls::refuse_and_listen(confinement, cutting).ok());
    match listener.is_some() || calls::refuse(confinement, cutting).is_ok() {
        true => gaps.retain(|gap| *gap != Gap::Truncation),
        false => gaps.push(Gap::Calls),
    }
    (if gaps.is_empty() { Confined::Fully } else { Confined::Partly { gaps } }, listener)
}

/// The last line of an error output that reads as if something had been refused.
pub(crate) fn refusal_hint(stderr: &[u8]) -> Option<String> {
    // What libc says to EACCES, EPERM, EROFS and EXDEV in the locale that children have.
    const REFUSALS: [&str; 4] =
        ["permission denied", "operation not permitted", "read-only file system", "invalid cross-device link"];
    let text = String::from_utf8_lossy(stderr);
    let is_one = |line: &&str| {
        let line = line.to_ascii_lowercase();
        REFUSALS.iter().any(|refusal| line.contains(refusal))
    };
    text.lines().rev().find(is_one).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn how_a_child_was_confined_reads_as_a_sentence() {
        let gaps = vec![Gap::Truncation, Gap::Signals];
        let told = Confined::Partly { gaps }.to_string();
        assert_eq!(told, "confined in part: it may still truncate files, signal processes");
        assert_eq!(Confined::No { why: "no Landlock".into() }.to_string(), "not confined: no Landlock");
    }

    /// What comes of cutting a file in four ways, as on a kernel with this version of Landlock.
    fn cut(known: ABI, is_heard: bool, file: &Path) -> (Confined, Vec<Result<(), Errno>>, Vec<Attempt>) {
        let scratch = file.parent().unwrap().join("scratch");
        std::fs::create_dir_all(&scratch).unwrap();
        let (sender, listener) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let child = scope.spawn(|| {
                let (confined, listener) = confine_by(known, Confinement::ReadOnly, is_heard.then_some(&scratch));
                assert_eq!(listener.is_some(), is_heard);
                sender.send(listener).unwrap();
                let open = |flags| rustix::fs::open(file, flags, Mode::empty()).map(drop);
                let open2 = |flags| {
                    rustix::fs::openat2(rustix::fs::CWD, file, flags, Mode::empty(), ResolveFlags::empty()).map(drop)
                };
                let neither = OFlags::from_bits_retain(3);
                let tried = vec![
                    open(OFlags::RDONLY),
                    open(OFlags::RDONLY | OFlags::TRUNC),
                    open(neither | OFlags::TRUNC),
                    open(OFlags::WRONLY | OFlags::TRUNC),
                    open2(OFlags::RDONLY | OFlags::TRUNC),
                    truncate(file),
                ];
                (confined, tried)
            });
            let mut witness = Witness::new(listener.recv().unwrap(), &scratch);
            while !child.is_finished() {
                let Some(fd) = witness.fd() else { break };
                let mut ready = [PollFd::new(&fd, PollFlags::IN)];
                poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 })).unwrap();
                let ready = ready[0].revents();
                witness.serve(ready);
            }
            let (confined, tried) = child.join().unwrap();
            (confined, tried, witness.into_attempts().first)
        })
    }

    /// By its path, as `truncate(2)`.
    fn truncate(file: &Path) -> Result<(), Errno> {
        let mut python = std::process::Command::new("python3");
        let python = python.args(["-c", "import os, sys; os.truncate(sys.argv[1], 1)"]).arg(file);
        let ended = python.stderr(std::process::Stdio::piped()).output().unwrap();
        let is_refused = String::from_utf8_lossy(&ended.stderr).contains("PermissionError");
        assert!(ended.status.success() || is_refused, "{ended:?}");
        if is_refused { Err(Errno::PERM) } else { Ok(()) }
    }

    #[test]
    fn nobody_cuts_a_file_on_a_kernel_whose_landlock_does_not_know_of_that() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("f");
        std::fs::write(&file, "whole").unwrap();
        for known in [ABI::V1, ABI::V2, ABI::V3, files::KNOWN] {
            for is_heard in [true, false] {
                let (confined, tried, attempts) = cut(known, is_heard, &file);
                assert_eq!(std::fs::read(&file).unwrap(), b"whole", "{known:?}, {is_heard}");
                assert!(tried[0].is_ok() && tried[1..].iter().all(Result::is_err), "{known:?}: {tried:?}");
                let is_cut = Attempt { deed: Deed::Write, path: Some(file.clone()) };
                assert_eq!(attempts, if is_heard { vec![is_cut] } else { vec![] });
                let gaps = match (known >= ABI::V6, confined) {
                    (true, Confined::Fully) => vec![],
                    (false, Confined::Partly { gaps }) => gaps,
                    (_, confined) => panic!("{confined:?}"),
                };
                let expected = if known < ABI::V6 { vec![Gap::Devices, Gap::Signals] } else { vec![] };
                assert_eq!(gaps, expected);
            }
        }
    }

    #[test]
    fn the_last_refusal_is_the_hint() {
        let stderr = b"sh: 1: cannot create /a: Permission denied\nchmod: changing /b: Operation not permitted\nbye\n";
        assert_eq!(refusal_hint(stderr).unwrap(), "chmod: changing /b: Operation not permitted");
        assert_eq!(refusal_hint(b"all is well\n"), None);
    }
}
