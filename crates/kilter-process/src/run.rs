//! From start to end: one loop that waits for everything at once.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::finished::{Ending, Finished, SpawnError, Status};
use crate::identity::{no_entry, take_on};
use crate::invocation::{Capture, Group, Invocation};
use crate::pipes::{Feed, Sink, chunk};
use crate::which::which;

/// How long the outputs are read on when the child has exited but a descendant keeps them open.
const LEAK: Duration = Duration::from_millis(100);

/// How often the flag of a [`Cancel`] without a descriptor is looked at.
const TICK: Duration = Duration::from_millis(50);

/// How somebody else ends a child that is running.
#[derive(Clone, Copy, Debug)]
pub struct Cancel<'a> {
    /// Whether to end it.
    pub flag: &'a AtomicBool,
    /// Becomes readable when the flag is set. Without it the flag is looked at 20 times a second.
    pub fd: Option<BorrowedFd<'a>>,
}

impl Cancel<'_> {
    fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

/// Starts a child and returns when it has ended.
///
/// # Errors
/// When it could not be started or, once started, not waited for. How it ended is never an error.
pub fn run(invocation: &Invocation, cancel: Option<Cancel<'_>>) -> Result<Finished, SpawnError> {
    if cancel.is_some_and(|cancel| cancel.is_raised()) {
        return Err(SpawnError::Cancelled { program: invocation.program.clone() });
    }
    let child = start(invocation)?;
    let waiting = |source| SpawnError::Wait { program: invocation.program.clone(), source };
    let mut running = Running::new(child, invocation).map_err(waiting)?;
    let ending = running.until_end(cancel).map_err(waiting)?;
    if ending != Ending::Exited && !running.stop(invocation.grace).map_err(waiting)? {
        let pid = running.child.id();
        return Err(SpawnError::Unkillable { program: invocation.program.clone(), pid });
    }
    running.finish(ending).map_err(waiting)
}

fn start(invocation: &Invocation) -> Result<Child, SpawnError> {
    let path = invocation.search_path();
    let not_found = || SpawnError::NotFound { program: invocation.program.clone(), path: path.to_owned() };
    if invocation.identity.as_ref().is_some_and(|identity| !identity.is_sound()) {
        return Err(SpawnError::NoSuchIdentity { program: invocation.program.clone() });
    }
    let program = which(&invocation.program, path).ok_or_else(not_found)?;
    let mut command = Command::new(&program);
    command.args(&invocation.args).env_clear().envs(invocation.env.iter().map(|(name, value)| (name, value)));
    command.stdin(if invocation.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(stdio(invocation.stdout)).stderr(stdio(invocation.stderr));
    let mut late_cwd = None;
    match (&invocation.cwd, &invocation.identity) {
        (Some(cwd), Some(_)) => {
            let entered = CString::new(cwd.as_os_str().as_bytes());
            late_cwd = Some(entered.map_err(|error| SpawnError::Cwd { cwd: cwd.clone(), source: error.into() })?);
        }
        (Some(cwd), None) => {
            command.current_dir(cwd);
        }
        (None, _) => {}
    }
    // The leader of a group cannot begin a session, which brings a group along.
    if invocation.group == Group::Own && invocation.identity.is_none() {
        command.process_group(0);
    }
    take_on(&mut command, invocation.identity.as_ref(), late_cwd, invocation.umask);
    command.spawn().map_err(|source| not_started(invocation, program.into_os_string(), source))
}

fn stdio(capture: Capture) -> Stdio {
    match capture {
        Capture::Nothing => Stdio::null(),
        Capture::First(_) | Capture::Last(_) | Capture::AtMost(_) => Stdio::piped(),
    }
}

/// The system has one errno for a missing program and a missing directory; people need two.
fn not_started(invocation: &Invocation, program: std::ffi::OsString, source: io::Error) -> SpawnError {
    if let Some(cwd) = &invocation.cwd {
        if let Some(source) = no_entry(&source) {
            return SpawnError::Cwd { cwd: cwd.clone(), source };
        }
        let problem = match std::fs::metadata(cwd) {
            Ok(found) if found.is_dir() => None,
            Ok(_) => Some(Errno::NOTDIR.into()),
            Err(error) => Some(error),
        };
        if let Some(source) = problem {
            return SpawnError::Cwd { cwd: cwd.clone(), source };
        }
    }
    SpawnError::Start { program, source }
}

/// A child that has not been waited for. Dropping it kills it.
pub(crate) struct Running<'a> {
    pub(crate) child: Child,
    /// Readable when the child has exited; none where waiting for it is all there is to do.
    pidfd: Option<OwnedFd>,
    pub(crate) group: Group,
    deadline: Option<Instant>,
    stdin: Feed<'a>,
    stdout: Sink,
    stderr: Sink,
    chunk: Box<[u8]>,
    /// Whether the process is no longer ours to kill.
    pub(crate) over: bool,
}

/// What a wait was ended by, beside the streams.
pub(crate) struct Step {
    /// The child has exited.
    pub(crate) exited: bool,
    /// The descriptor of the cancel is readable.
    woken: bool,
}

impl<'a> Running<'a> {
    fn new(mut child: Child, invocation: &'a Invocation) -> io::Result<Running<'a>> {
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut running = Running {
            child,
            pidfd: None,
            group: invocation.group_of_child(),
            deadline: invocation.deadline.and_then(|deadline| Instant::now().checked_add(deadline)),
            stdin: Feed::nothing(),
            stdout: Sink::nothing(),
            stderr: Sink::nothing(),
            chunk: Box::default(),
            over: false,
        };
        // From here on the child is ended on the way out of an error.
        running.stdout = Sink::new(streams.1.map(OwnedFd::from), invocation.stdout)?;
        running.stderr = Sink::new(streams.2.map(OwnedFd::from), invocation.stderr)?;
        running.stdin = Feed::new(streams.0.map(OwnedFd::from), invocation.stdin.as_deref().unwrap_or(&[]))?;
        if running.stdout.fd().is_some() || running.stderr.fd().is_some() {
            running.chunk = chunk();
        }
        Ok(running)
    }

    /// Waits until the child has exited, its time is up, or somebody cancels.
    fn until_end(&mut self, cancel: Option<Cancel<'_>>) -> io::Result<Ending> {
        if self.has_nothing_but_to_wait() && self.deadline.is_none() && cancel.is_none() {
            return Ok(Ending::Exited);
        }
        self.pidfd = Some(pidfd_open(self.pid(), PidfdFlags::empty())?);
        let mut wake = cancel.and_then(|cancel| cancel.fd);
        loop {
            let tick = cancel.filter(|_| wake.is_none()).map(|_| Instant::now() + TICK);
            let until = [self.deadline, tick].into_iter().flatten().min();
            let step = self.step(until, wake)?;
            if step.exited {
                return Ok(Ending::Exited);
            }
            if self.stdout.is_flooded() || self.stderr.is_flooded() {
                return Ok(Ending::Flooded);
            }
            if cancel.is_some_and(|cancel| cancel.is_raised()) {
                return Ok(Ending::Cancelled);
            }
            if step.woken {
                // Woken for nothing: waiting on would be one wake after the other.
                wake = None;
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Ending::Deadline);
            }
        }
    }

    fn has_nothing_but_to_wait(&self) -> bool {
        self.stdin.fd().is_none() && self.stdout.fd().is_none() && self.stderr.fd().is_none()
    }

    /// Waits for the next event and serves the streams.
    pub(crate) fn step(&mut self, until: Option<Instant>, wake: Option<BorrowedFd<'_>>) -> io::Result<Step> {
        let ready = {
            let fds = [
                self.pidfd.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
                self.stdin.fd().map(|fd| (fd, PollFlags::OUT)),
                self.stdout.fd().map(|fd| (fd, PollFlags::IN)),
                self.stderr.fd().map(|fd| (fd, PollFlags::IN)),
                wake.map(|fd| (fd, PollFlags::IN)),
            ];
            wait_for(fds, until)?
        };
        if ready[1] {
            self.stdin.give();
        }
        if ready[2] {
            self.stdout.take(&mut self.chunk);
        }
        if ready[3] {
            self.stderr.take(&mut self.chunk);
        }
        Ok(Step { exited: ready[0], woken: ready[4] })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Takes what is left in the pipes and waits for the child, which has exited.
    fn finish(mut self, ending: Ending) -> io::Result<Finished> {
        // From here on there is only the child's own end to wait for, not what it would read.
        self.stdin = Feed::nothing();
        self.pidfd = None;
        let leaked = self.drain()?;
        // What came with the end, or after it, counts too.
        let is_flooded = self.stdout.is_flooded() || self.stderr.is_flooded();
        let ending = if ending == Ending::Exited && is_flooded { Ending::Flooded } else { ending };
        let status = Status::from(self.child.wait()?);
        self.over = true;
        let stdout = std::mem::replace(&mut self.stdout, Sink::nothing()).into_captured();
        let stderr = std::mem::replace(&mut self.stderr, Sink::nothing()).into_captured();
        Ok(Finished { status, ending, stdout, stderr, leaked })
    }

    /// Reads the outputs to their end, but for [`LEAK`] at most.
    fn drain(&mut self) -> io::Result<bool> {
        if self.has_nothing_but_to_wait() {
            return Ok(false);
        }
        let until = Instant::now() + LEAK;
        while !self.has_nothing_but_to_wait() {
            self.step(Some(until), None)?;
            if Instant::now() >= until {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
            // Nobody is told: this is the way out of another error. It leaves no zombie behind.
            let _ = self.child.wait();
        }
    }
}

/// Waits for some of up to five descriptors, and says which are ready.
fn wait_for(fds: [Option<(BorrowedFd<'_>, PollFlags)>; 5], until: Option<Instant>) -> io::Result<[bool; 5]> {
    let timeout = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok([false; 5]),
        Err(error) => return Err(error.into()),
    }
    let mut answers = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.map(|fd| fd.is_some() && answers.next().unwrap_or(false)))
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up to a microsecond: waking too early would only mean to wait again.
    let duration = duration + Duration::from_micros(1);
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::ChildStdout;

    use rustix::fs::{CWD, Mode, OFlags, openat};
    use rustix::process::{WaitId, WaitIdOptions, test_kill_process, waitid};

    use super::*;

    #[test]
    fn a_flood_that_is_only_found_after_the_end_is_one() {
        let mut invocation = Invocation::new("echo").arg("a line that is too long");
        invocation.stdout = Capture::AtMost(10);
        let child = start(&invocation).unwrap();
        let gone = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), gone).unwrap();
        let mut running = Running::new(child, &invocation).unwrap();
        let ending = running.until_end(None).unwrap();
        let finished = running.finish(ending).unwrap();
        assert_eq!((finished.ending, finished.status), (Ending::Flooded, Status::Code(0)));
        assert!(!finished.is_success() && finished.stdout.is_truncated());
    }

    #[test]
    fn a_child_whose_pipes_cannot_be_used_is_killed_and_reaped() {
        let invocation = Invocation::new("sleep").arg("60").captured(10);
        let mut child = start(&invocation).unwrap();
        let pid = Pid::from_child(&child);
        // The flags of such a descriptor cannot be set.
        let unusable = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        child.stdout = Some(ChildStdout::from(unusable));
        assert!(Running::new(child, &invocation).is_err());
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH));
    }
}
