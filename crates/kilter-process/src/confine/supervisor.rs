//! Answers seccomp notifications of a confined child and records its attempts.
//!
//! This module enforces nothing. kilter lets a call continue if Landlock controls it, and Landlock decides. It
//! refuses the calls that the filter would refuse, by their numbers only. A path in memory can change before the
//! kernel reads it, so the record shows the request and not the effect.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::{O_ACCMODE, O_CREAT, O_EXCL, O_PATH, O_RDONLY, O_TMPFILE, O_TRUNC, O_WRONLY};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::attempt::{Attempt, Attempts, Operation};
use super::calls::{TruncateGuard, is_cut};
use super::landlock::DEVICES;
use super::listener::{CallVerdict, NotifyListener, PendingCall};
use super::resolve_path::{Base, Last, ProcessView, ResolvedPath};
use super::table::{self, At, CallEffect, Needs};

/// Maximum number of attempts to examine. Beyond it, a flood of attempts costs no additional time.
const LOOKED_AT: u32 = 1000;

/// Requests that simulate input to a terminal or control the console. They are refused but change no file.
const OF_TERMINALS: [u64; 2] = [0x5412, 0x541c];

/// Answers the calls of a child and its descendants.
pub(crate) struct SeccompSupervisor {
    listener: Option<NotifyListener>,
    /// Directory in which the child may write.
    scratch: PathBuf,
    /// `scratch` with its links resolved, on first use.
    resolved: OnceCell<PathBuf>,
    attempts: Attempts,
}

impl SeccompSupervisor {
    /// Creates the witness of a child without a listener.
    pub(crate) fn absent() -> SeccompSupervisor {
        SeccompSupervisor {
            listener: None,
            scratch: PathBuf::new(),
            resolved: OnceCell::new(),
            attempts: Attempts::default(),
        }
    }

    pub(crate) fn new(listener: Option<NotifyListener>, scratch: &Path) -> SeccompSupervisor {
        SeccompSupervisor {
            listener,
            scratch: scratch.to_owned(),
            resolved: OnceCell::new(),
            attempts: Attempts::default(),
        }
    }

    /// Returns a descriptor that is readable when a call waits; none when no process can ask any more.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(NotifyListener::fd)
    }

    /// Answers the next call if `ready`, the state of [`SeccompSupervisor::fd`], shows that there is one.
    pub(crate) fn serve(&mut self, ready: PollFlags) {
        if ready.is_empty() {
            return;
        }
        if !ready.contains(PollFlags::IN) {
            // All processes with the filter have ended.
            self.listener = None;
        }
        let Some(listener) = &self.listener else { return };
        let served = match listener.receive() {
            Ok(call) => {
                let answer = answer(&call, listener.cutting);
                let attempts = if self.is_worth_a_look() { self.seen(listener, &call) } else { Vec::new() };
                let sent = listener.answer(&call, answer);
                attempts.into_iter().for_each(|attempt| self.attempts.add(attempt));
                sent
            }
            // The caller was killed or interrupted.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(error) => Err(error),
        };
        if served.is_err() {
            // Closing the listener makes the kernel fail the calls with ENOSYS, so that no process waits for an
            // answer.
            self.listener = None;
        }
    }

    pub(crate) fn into_attempts(self) -> Attempts {
        self.attempts
    }

    fn is_worth_a_look(&self) -> bool {
        self.attempts.more < LOOKED_AT
    }

    /// Returns the forbidden changes that a call would make.
    fn seen(&self, listener: &NotifyListener, call: &PendingCall) -> Vec<Attempt> {
        let attempts: Vec<Attempt> = table::asked(call.number).filter_map(|asked| self.attempt(call, asked)).collect();
        // If the caller has ended, the memory may have been that of another process.
        if attempts.is_empty() || listener.is_pending(call) { attempts } else { Vec::new() }
    }

    fn attempt(&self, call: &PendingCall, asked: &CallEffect) -> Option<Attempt> {
        let operation = asked.operation;
        if let At::Nowhere = asked.at {
            return Some(Attempt { operation, path: None });
        }
        let is_of_terminal =
            call.number == libc::SYS_ioctl && OF_TERMINALS.contains(&(call.arguments[1] & 0xffff_ffff));
        if is_of_terminal {
            return None;
        }
        let Some(named) = NamedFile::by(call, asked.at) else {
            // An attempt without a known path is reported only if the call is refused in any case. Otherwise it may
            // be harmless.
            return (asked.answer == CallVerdict::Refused).then_some(Attempt { operation, path: None });
        };
        // Shortcut for the most frequent case: every bash opens a terminal.
        if operation == Operation::Write && DEVICES.iter().any(|device| named.path == Path::new(device)) {
            return None;
        }
        let needs = Needed::of(call, asked.needs)?;
        let view = ProcessView::of(call.caller)?;
        if let Needs::Given(at) = asked.needs {
            needed(Last::Itself, true, false).met(NamedFile::by(call, at)?.lead(&view, Last::Itself)?)?;
        }
        let path = needs.met(named.lead(&view, needs.last)?)?;
        (!self.is_free(call, operation, &path)).then_some(Attempt { operation, path: Some(path) })
    }

    /// Returns true if the call changes only files that belong to the child.
    fn is_free(&self, call: &PendingCall, operation: Operation, path: &Path) -> bool {
        let resolve = || std::fs::canonicalize(&self.scratch).unwrap_or_else(|_| self.scratch.clone());
        path.starts_with(self.resolved.get_or_init(resolve))
            || path.starts_with(format!("/proc/{}", call.caller))
            || operation == Operation::Write && DEVICES.iter().any(|device| path.starts_with(device))
    }
}

/// Returns the answer to a call, for any caller.
fn answer(call: &PendingCall, cutting: TruncateGuard) -> CallVerdict {
    if cutting == TruncateGuard::Refused && is_cut(call.number, &call.arguments) {
        return CallVerdict::Refused;
    }
    match table::asked(call.number).all(|asked| asked.answer == CallVerdict::GoOn) {
        true if table::asked(call.number).next().is_some() => CallVerdict::GoOn,
        _ => CallVerdict::Refused,
    }
}

/// Argument of a call that names a file.
struct NamedFile {
    base: Base,
    /// Empty if the descriptor itself is meant.
    path: PathBuf,
}

impl NamedFile {
    fn by(call: &PendingCall, at: At) -> Option<NamedFile> {
        let text = |index: usize| {
            let text = call.text(call.arguments[index])?;
            Some(PathBuf::from(OsStr::from_bytes(text.as_bytes())))
        };
        // A descriptor is the lower half of an argument.
        let base = |index: usize| match call.arguments[index] as u32 as i32 {
            libc::AT_FDCWD => Base::WorkingDirectory,
            descriptor => Base::Descriptor(descriptor),
        };
        match at {
            At::Path(index) => Some(NamedFile { base: Base::WorkingDirectory, path: text(index)? }),
            At::From(directory, index) if call.arguments[index] == 0 => {
                Some(NamedFile { base: base(directory), path: PathBuf::new() })
            }
            At::From(directory, index) => Some(NamedFile { base: base(directory), path: text(index)? }),
            At::Descriptor(index) => Some(NamedFile { base: base(index), path: PathBuf::new() }),
            At::Socket(address, length) => {
                Some(NamedFile { base: Base::WorkingDirectory, path: socket(call, address, length)? })
            }
            At::Nowhere => None,
        }
    }

    fn lead(&self, view: &ProcessView, last: Last) -> Option<ResolvedPath> {
        match self.path.as_os_str().is_empty() {
            true => view.opened(self.base),
            false => view.lead(self.base, &self.path, last),
        }
    }
}

/// Returns the path in the address of a Unix socket (unix(7)).
fn socket(call: &PendingCall, address: usize, length: usize) -> Option<PathBuf> {
    const PATH: usize = offset_of!(libc::sockaddr_un, sun_path);
    let length = usize::try_from(call.arguments[length]).ok()?.min(size_of::<libc::sockaddr_un>());
    let bytes = call.memory(call.arguments[address], length)?;
    let family = u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    let path = bytes.get(PATH..)?.split(|&byte| byte == 0).next()?;
    (i32::from(family) == libc::AF_UNIX && !path.is_empty()).then(|| OsStr::from_bytes(path).into())
}

/// State of the file that a call needs to succeed.
struct Needed {
    last: Last,
    is_there: bool,
    is_free: bool,
    is_directory: bool,
}

/// Returns the precondition of a call other than an open.
fn needed(last: Last, is_there: bool, is_free: bool) -> Needed {
    Needed { last, is_there, is_free, is_directory: true }
}

impl Needed {
    fn of(call: &PendingCall, needs: Needs) -> Option<Needed> {
        match needs {
            Needs::There(last) => Some(needed(last, true, false)),
            Needs::Free => Some(needed(Last::Itself, false, true)),
            Needs::Given(_) => Some(needed(Last::Itself, true, true)),
            Needs::Creates => Needed::of_open(u64::from((O_WRONLY | O_CREAT | O_TRUNC).unsigned_abs())),
            Needs::Nothing => None,
            Needs::Flags(index) => Needed::of_open(call.arguments[index]),
            Needs::FlagsBehind(index) => {
                let flags = call.memory(call.arguments[index], size_of::<u64>())?;
                Needed::of_open(u64::from_ne_bytes(flags.try_into().ok()?))
            }
        }
    }

    /// Returns the precondition of an open; none if its flags do not change the file.
    fn of_open(flags: u64) -> Option<Needed> {
        let has = |flag: i32| flags & u64::from(flag.unsigned_abs()) == u64::from(flag.unsigned_abs());
        if has(O_PATH) {
            return None;
        }
        let writes = flags & u64::from(O_ACCMODE.unsigned_abs()) != u64::from(O_RDONLY.unsigned_abs());
        // `O_TMPFILE` creates a file without a name in this directory.
        if has(O_TMPFILE) {
            return writes.then_some(Needed {
                last: Last::Followed,
                is_there: true,
                is_free: false,
                is_directory: true,
            });
        }
        let (creates, is_new) = (has(O_CREAT), has(O_CREAT) && has(O_EXCL));
        let is_there = (writes || has(O_TRUNC)) && !is_new;
        let last = if is_new { Last::Itself } else { Last::Followed };
        (is_there || creates).then_some(Needed { last, is_there, is_free: creates, is_directory: false })
    }

    /// Returns the path if the file meets the precondition.
    fn met(&self, place: ResolvedPath) -> Option<PathBuf> {
        match place {
            ResolvedPath::There { path, is_directory } => {
                (self.is_there && (self.is_directory || !is_directory)).then_some(path)
            }
            ResolvedPath::Free { path } => self.is_free.then_some(path),
            ResolvedPath::Nameless => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_restricted_by_landlock_continue() {
        let answer_to = |number| answer(&PendingCall::made_up(number, [0; 6]), TruncateGuard::Ruled);
        for call in [libc::SYS_openat, libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_bind] {
            assert_eq!(answer_to(call), CallVerdict::GoOn);
        }
        for call in [libc::SYS_fchmod, libc::SYS_ioctl, libc::SYS_mount, libc::SYS_reboot, libc::SYS_getpid, 9999] {
            assert_eq!(answer_to(call), CallVerdict::Refused);
        }
    }

    #[test]
    fn calls_outside_landlock_are_refused_by_flags() {
        let answer_to = |number, flags: i32| {
            let arguments = if number == libc::SYS_openat { [0, 0, flags, 0, 0, 0] } else { [0, flags, 0, 0, 0, 0] };
            answer(
                &PendingCall::made_up(number, arguments.map(|one| u64::from(one.unsigned_abs()))),
                TruncateGuard::Refused,
            )
        };
        assert_eq!(answer_to(libc::SYS_truncate, 0), CallVerdict::Refused);
        for call in [
            libc::SYS_openat,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open,
        ] {
            for cut in [O_RDONLY, O_ACCMODE, O_CREAT] {
                assert_eq!(answer_to(call, cut | O_TRUNC), CallVerdict::Refused);
            }
            for ruled in [O_RDONLY, O_ACCMODE, O_CREAT, O_WRONLY | O_TRUNC, libc::O_RDWR | O_TRUNC] {
                assert_eq!(answer_to(call, ruled), CallVerdict::GoOn, "{ruled:#o}");
            }
        }
        assert_eq!(answer_to(libc::SYS_unlinkat, O_TRUNC), CallVerdict::GoOn);
    }

    #[test]
    fn read_only_open_is_not_an_attempt() {
        let is_one = |flags: i32, place: ResolvedPath| {
            let needed = Needed::of_open(u64::from(flags.unsigned_abs()));
            needed.is_some_and(|needed| needed.met(place).is_some())
        };
        let path = PathBuf::from("/f");
        let file = ResolvedPath::There { path: path.clone(), is_directory: false };
        let directory = ResolvedPath::There { path: path.clone(), is_directory: true };
        let free = ResolvedPath::Free { path };
        for (flags, expected) in [
            (O_RDONLY, [false, false, false]),
            (O_RDONLY | O_CREAT, [false, false, true]),
            (O_RDONLY | O_TRUNC, [true, false, false]),
            (O_WRONLY, [true, false, false]),
            (libc::O_RDWR | O_CREAT, [true, false, true]),
            (O_WRONLY | O_CREAT | O_EXCL, [false, false, true]),
            (O_WRONLY | O_TMPFILE, [true, true, false]),
            (O_WRONLY | O_PATH, [false, false, false]),
        ] {
            assert_eq!([&file, &directory, &free].map(|place| is_one(flags, place.clone())), expected, "{flags:#o}");
        }
    }
}
