//! Confinement: children that cannot change the machine.
//!
//! # Mechanism
//! On Linux a confinement applies to the calling thread and to all processes that it starts. So a separate thread
//! starts a confined child. It confines itself first, and ends when the child runs. kilter's other threads are not
//! affected. Four mechanisms work together:
//! 1. *Landlock* ([`landlock`]): prevents writing, making, moving, removing or truncating files outside of the child's
//!    temporary directory. It also prevents control of devices, and signals to and traces of processes outside.
//! 2. *A filter of system calls* ([`calls`]): covers the changes that Landlock does not control, such as modes,
//!    owners, times and extended attributes of files, mounts, host name, clock, kernel modules and reboot. Before
//!    Linux 6.2 it also covers truncation.
//! 3. *Capabilities* ([`capabilities`]): a child of root keeps those for reading and for becoming another user.
//! 4. *no_new_privs*: set-uid programs do not regain the rights that the child has lost.
//!
//! The only writable files that the child inherits are the pipes of its streams.
//!
//! The filter also reports attempts. It makes the kernel ask a [`NotifyListener`] about calls that make changes
//! ([`table`]). The thread that waits for the child answers, and records the attempts ([`supervisor`]). Without a
//! listener the filter itself refuses the calls that it would refuse. The other attempts stay unknown.

mod attempt;
mod calls;
mod capabilities;
mod filter;
mod landlock;
mod listener;
mod resolve_path;
mod supervisor;
mod table;
mod temp_dir;

use std::fmt;
use std::path::Path;

use ::landlock::ABI;
use calls::TruncateGuard;

pub use attempt::{Attempt, Attempts, Operation};
pub(crate) use listener::NotifyListener;
pub(crate) use supervisor::SeccompSupervisor;
pub(crate) use temp_dir::TempDir;

/// Changes that a child and all its descendants are prevented from making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// None.
    #[default]
    None,
    /// All changes of the machine. The child may read, run programs, and use the network and Unix sockets. Actions
    /// of other processes on its behalf are not prevented (`systemctl stop` asks systemd, which stops the unit).
    ReadOnly,
    /// All changes of the machine and all communication. The child can create only socket pairs and netlink sockets,
    /// which query the kernel.
    ReadOnlyAlone,
}

/// Degree to which a child was confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confined {
    /// The caller did not ask for confinement.
    NotAsked,
    /// As requested.
    Fully,
    /// This kernel supports only part of the confinement.
    Partly {
        /// Changes that the child can still make.
        gaps: Vec<MissingFeature>,
    },
    /// The child was not confined, although the caller asked for it.
    No {
        /// The reason.
        why: String,
    },
}

/// A change that a partly confined child can still make if its user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissingFeature {
    /// Truncate files (Linux before 6.2 without a filter of system calls).
    Truncation,
    /// Control devices (Linux before 6.10).
    Devices,
    /// Signal processes, and use abstract Unix sockets (Linux before 6.12).
    Signals,
    /// Use root's capabilities: network configuration, clock, host name.
    Capabilities,
    /// Change modes, owners, times and extended attributes of files, and make all other changes that the filter of
    /// system calls prevents.
    Calls,
}

impl Confined {
    /// Returns true if the confinement is as requested.
    pub fn is_as_asked(&self) -> bool {
        matches!(self, Confined::NotAsked | Confined::Fully)
    }
}

/// Prints `confined`, `confined in part: it may still …` or `not confined: …`.
impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Confined::NotAsked => f.write_str("not confined"),
            Confined::Fully => f.write_str("confined"),
            Confined::Partly { gaps } => {
                let gaps: Vec<String> = gaps.iter().map(MissingFeature::to_string).collect();
                write!(f, "confined in part: it may still {}", gaps.join(", "))
            }
            Confined::No { why } => write!(f, "not confined: {why}"),
        }
    }
}

/// Prints the changes that a child can still make, as the end of a sentence.
impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MissingFeature::Truncation => "truncate files",
            MissingFeature::Devices => "control devices",
            MissingFeature::Signals => "signal processes",
            MissingFeature::Capabilities => "use the capabilities of root",
            MissingFeature::Calls => "change modes, owners and times of files",
        })
    }
}

/// Returns the confinement that a child would get on this machine now.
///
/// The call starts a thread. Callers that need the answer often keep it.
pub fn can_confine(confinement: Confinement) -> Confined {
    let thread = std::thread::Builder::new().spawn(move || confine_this_thread(confinement, None).0);
    let answer = thread
        .map_err(|error| format!("no thread can be started: {error}"))
        .and_then(|thread| thread.join().map_err(|_| "the attempt failed".to_owned()));
    answer.unwrap_or_else(|why| Confined::No { why })
}

/// Confines this thread and all processes that it starts from now on. The confinement is permanent.
///
/// Returns a listener if `scratch` is given and the kernel supports it. The holder must then answer before each
/// change. If the listener is closed, the calls fail.
pub(crate) fn confine_this_thread(
    confinement: Confinement,
    scratch: Option<&Path>,
) -> (Confined, Option<NotifyListener>) {
    confine_by(landlock::KNOWN, confinement, scratch)
}

/// Confines as a kernel with this version of Landlock would, if the actual version is newer.
fn confine_by(known: ABI, confinement: Confinement, scratch: Option<&Path>) -> (Confined, Option<NotifyListener>) {
    if confinement == Confinement::None {
        return (Confined::NotAsked, None);
    }
    let mut gaps = match landlock::restrict(scratch, known) {
        Ok(gaps) => gaps,
        Err(why) => return (Confined::No { why }, None),
    };
    if capabilities::drop_those_that_change().is_err() {
        gaps.push(MissingFeature::Capabilities);
    }
    let cutting =
        if gaps.contains(&MissingFeature::Truncation) { TruncateGuard::Refused } else { TruncateGuard::Ruled };
    let listener = scratch.and_then(|_| calls::refuse_and_listen(confinement, cutting).ok());
    match listener.is_some() || calls::refuse(confinement, cutting).is_ok() {
        true => gaps.retain(|gap| *gap != MissingFeature::Truncation),
        false => gaps.push(MissingFeature::Calls),
    }
    (if gaps.is_empty() { Confined::Fully } else { Confined::Partly { gaps } }, listener)
}

/// Returns the last line on standard error that looks like a refusal.
pub(crate) fn refusal_hint(stderr: &[u8]) -> Option<String> {
    // Messages of libc for EACCES, EPERM, EROFS and EXDEV in the locale of children.
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
    fn confinement_displays_as_sentence() {
        let gaps = vec![MissingFeature::Truncation, MissingFeature::Signals];
        let told = Confined::Partly { gaps }.to_string();
        assert_eq!(told, "confined in part: it may still truncate files, signal processes");
        assert_eq!(Confined::No { why: "no Landlock".into() }.to_string(), "not confined: no Landlock");
    }

    /// Returns the results of four kinds of truncation, on a kernel with this version of Landlock.
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
            let mut witness = SeccompSupervisor::new(listener.recv().unwrap(), &scratch);
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

    /// Truncates a file by its path, with `truncate(2)`.
    fn truncate(file: &Path) -> Result<(), Errno> {
        let mut python = std::process::Command::new("python3");
        let python = python.args(["-c", "import os, sys; os.truncate(sys.argv[1], 1)"]).arg(file);
        let ended = python.stderr(std::process::Stdio::piped()).output().unwrap();
        let is_refused = String::from_utf8_lossy(&ended.stderr).contains("PermissionError");
        assert!(ended.status.success() || is_refused, "{ended:?}");
        if is_refused { Err(Errno::PERM) } else { Ok(()) }
    }

    #[test]
    fn truncate_is_refused_if_landlock_cannot_restrict_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("f");
        std::fs::write(&file, "whole").unwrap();
        for known in [ABI::V1, ABI::V2, ABI::V3, landlock::KNOWN] {
            for is_heard in [true, false] {
                let (confined, tried, attempts) = cut(known, is_heard, &file);
                assert_eq!(std::fs::read(&file).unwrap(), b"whole", "{known:?}, {is_heard}");
                assert!(tried[0].is_ok() && tried[1..].iter().all(Result::is_err), "{known:?}: {tried:?}");
                let is_cut = Attempt { operation: Operation::Write, path: Some(file.clone()) };
                assert_eq!(attempts, if is_heard { vec![is_cut] } else { vec![] });
                let gaps = match (known >= ABI::V6, confined) {
                    (true, Confined::Fully) => vec![],
                    (false, Confined::Partly { gaps }) => gaps,
                    (_, confined) => panic!("{confined:?}"),
                };
                let expected =
                    if known < ABI::V6 { vec![MissingFeature::Devices, MissingFeature::Signals] } else { vec![] };
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
