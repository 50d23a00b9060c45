//! A running child: a loop that waits for all its streams and for its end at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::confine::{Confined, SeccompSupervisor, TempDir, refusal_hint};
use crate::event::{Event, Observer, Stream};
use crate::finished::{Output, Status, Termination};
use crate::invocation::{Capture, Group, Invocation, KillMode};
use crate::pipes::{ReadResult, Sink, StdinWriter};
use crate::process_tree::ProcessTree;
use crate::run::Cancel;
use crate::start::{Started, is_any_starting};

/// Time to keep reading outputs after the child has exited, if a descendant keeps them open.
const LEAK: Duration = Duration::from_millis(100);

/// Maximum extra time if another child of kilter may be keeping the outputs open. While it starts, and until its
/// exec, it holds all descriptors of kilter.
const SIBLING_EXEC_GRACE: Duration = Duration::from_millis(500);

/// Reads shorter than this many bytes suggest that the child writes line by line.
const SMALL_READ: usize = 4096;

/// Pause between reads for a child that writes line by line. A wake-up for each line costs more than the read.
const PAUSE: Duration = Duration::from_micros(500);

/// Interval of checks of the flag of a [`Cancel`] without a descriptor.
const TICK: Duration = Duration::from_millis(50);

/// A child that has not been waited for. Dropping it kills the child.
pub(crate) struct Running<'a> {
    pub(crate) child: Child,
    /// Readable when the child has exited; none if kilter only waits for the child.
    pidfd: Option<OwnedFd>,
    pub(crate) group: Group,
    /// Processes that end together with the child. kilter searches for them when the child has to end.
    pub(crate) kin: ProcessTree,
    pub(crate) invocation: &'a Invocation,
    deadline: Option<Instant>,
    stdin: StdinWriter<'a>,
    /// Outputs, in the order of [`STREAMS`].
    sinks: [Sink; 3],
    /// Standard output and standard error together, in the order of the reads.
    together: Sink,
    /// Buffer for bytes that are not read directly into a capture.
    chunk: Vec<u8>,
    observer: Option<Observer<'a>>,
    confined: Confined,
    witness: SeccompSupervisor,
    /// Removed when this value is dropped.
    _scratch: Option<TempDir>,
    /// True if the last read was short.
    slow_reads: bool,
    /// True if the process is no longer kilter's to kill.
    pub(crate) over: bool,
}

/// Output streams of a child.
const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Channel];

/// Reason of the end of a wait, apart from the streams.
pub(crate) struct Wakeup {
    /// The child has exited.
    pub(crate) exited: bool,
    /// The descriptor of the cancel is readable.
    woken: bool,
    /// A stream had data or ended.
    served: bool,
}

impl<'a> Running<'a> {
    pub(crate) fn new(
        started: Started,
        invocation: &'a Invocation,
        observer: Option<Observer<'a>>,
    ) -> io::Result<Running<'a>> {
        let Started { child, ends, confined, witness, scratch } = started;
        let mut running = Running {
            kin: ProcessTree::of(Pid::from_child(&child)),
            child,
            pidfd: None,
            group: invocation.group_of_child(),
            invocation,
            deadline: invocation.deadline.and_then(|deadline| Instant::now().checked_add(deadline)),
            stdin: StdinWriter::nothing(),
            sinks: [Sink::nothing(), Sink::nothing(), Sink::nothing()],
            together: Sink::of_others(invocation.together),
            chunk: Vec::new(),
            observer,
            confined,
            witness,
            _scratch: scratch,
            slow_reads: false,
            over: false,
        };
        // From here on, an error drops `running`, which ends the child.
        let [stdout, stderr, channel] = ends.outputs;
        running.sinks = [
            Sink::new(stdout, invocation.stdout)?,
            Sink::new(stderr, invocation.stderr)?,
            Sink::new(channel, invocation.channel)?,
        ];
        running.stdin = StdinWriter::new(ends.stdin, invocation.stdin.as_deref().unwrap_or(&[]))?;
        let pid = running.child.id();
        if let Some(observer) = &mut running.observer {
            observer(Event::Spawned { pid, confined: &running.confined });
        }
        // Most inputs fit into the pipe. The child then finds its complete input and the end of file.
        running.give();
        Ok(running)
    }

    /// Waits until the child has exited, the deadline has passed, or the caller cancels.
    pub(crate) fn until_end(&mut self, cancel: Option<Cancel<'_>>) -> io::Result<Termination> {
        if self.has_nothing_but_to_wait() && self.deadline.is_none() && cancel.is_none() {
            return Ok(Termination::Exited);
        }
        self.pidfd = Some(pidfd_open(self.pid(), PidfdFlags::empty())?);
        let mut wake = cancel.and_then(|cancel| cancel.fd);
        loop {
            let tick = cancel.filter(|_| wake.is_none()).map(|_| Instant::now() + TICK);
            let until = [self.deadline, tick].into_iter().flatten().min();
            if std::mem::take(&mut self.slow_reads) && self.invocation.together == Capture::Nothing {
                self.pause(wake)?;
            }
            let step = self.step(until, wake)?;
            if step.exited {
                return Ok(Termination::Exited);
            }
            if self.is_flooded() {
                return Ok(Termination::OutputLimit);
            }
            if cancel.is_some_and(|cancel| cancel.is_raised()) {
                return Ok(Termination::Cancelled);
            }
            if step.woken {
                // The descriptor was readable but the flag is not set. Polling it further would wake this thread all
                // the time.
                wake = None;
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Termination::Deadline);
            }
        }
    }

    fn has_nothing_but_to_wait(&self) -> bool {
        self.stdin.fd().is_none() && !self.has_outputs() && self.witness.fd().is_none()
    }

    fn has_outputs(&self) -> bool {
        self.sinks.iter().any(|sink| sink.fd().is_some())
    }

    fn is_flooded(&self) -> bool {
        self.sinks.iter().chain([&self.together]).any(Sink::is_flooded)
    }

    /// Leaves the outputs unread for a moment, unless the child ends, reads its input, or the caller cancels.
    fn pause(&mut self, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let until = Instant::now() + PAUSE;
        loop {
            let fds = [
                self.pidfd.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
                self.stdin.fd().map(|fd| (fd, PollFlags::OUT)),
                wake.map(|fd| (fd, PollFlags::IN)),
                self.witness.fd().map(|fd| (fd, PollFlags::IN)),
            ];
            let ready = wait_for(fds, Some(until))?;
            self.witness.serve(ready[3]);
            if ready[3].is_empty() || Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Sleeps for `time`, and keeps answering the calls of a confined child meanwhile.
    pub(crate) fn sleep(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.witness.fd().is_some() && Instant::now() < until {
            let asked = self.witness.fd().map(|fd| (fd, PollFlags::IN));
            match wait_for([asked], Some(until)) {
                Ok([ready]) => self.witness.serve(ready),
                Err(_) => break,
            }
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Waits for the next event and serves the streams.
    pub(crate) fn step(&mut self, until: Option<Instant>, wake: Option<BorrowedFd<'_>>) -> io::Result<Wakeup> {
        let ready = {
            let [stdout, stderr, channel] = &self.sinks;
            let fds = [
                self.pidfd.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
                self.stdin.fd().map(|fd| (fd, PollFlags::OUT)),
                stdout.fd().map(|fd| (fd, PollFlags::IN)),
                stderr.fd().map(|fd| (fd, PollFlags::IN)),
                channel.fd().map(|fd| (fd, PollFlags::IN)),
                wake.map(|fd| (fd, PollFlags::IN)),
                self.witness.fd().map(|fd| (fd, PollFlags::IN)),
            ];
            wait_for(fds, until)?
        };
        self.witness.serve(ready[6]);
        let ready = ready.map(|flags| !flags.is_empty());
        if ready[1] {
            self.give();
        }
        // A child that answers on standard output has written its log lines before the answer.
        let order = if self.invocation.input.is_some() { [1, 0, 2] } else { [0, 1, 2] };
        for at in order.into_iter().filter(|at| ready[2 + at]) {
            self.take(at);
        }
        Ok(Wakeup { exited: ready[0], woken: ready[5], served: ready[2..5].contains(&true) })
    }

    fn give(&mut self) {
        let bytes = self.stdin.give();
        if let (Some(observer), false) = (&mut self.observer, bytes.is_empty()) {
            observer(Event::StdinWritten { bytes });
        }
    }

    fn take(&mut self, at: usize) {
        let taken = self.sinks[at].take(&mut self.chunk);
        self.slow_reads = matches!(taken, ReadResult::Bytes(bytes) if bytes.len() < SMALL_READ);
        let stream = STREAMS[at];
        if let (ReadResult::Bytes(bytes), Stream::Stdout | Stream::Stderr) = (&taken, stream) {
            self.together.keep(bytes);
        }
        let Some(observer) = &mut self.observer else { return };
        match taken {
            ReadResult::Nothing => {}
            ReadResult::Bytes(bytes) => observer(Event::Chunk { stream, bytes }),
            ReadResult::End => observer(Event::Closed { stream }),
        }
    }

    /// Closes all outputs.
    fn close(&mut self) {
        for (sink, stream) in self.sinks.iter_mut().zip(STREAMS) {
            if let (true, Some(observer)) = (sink.close(), &mut self.observer) {
                observer(Event::Closed { stream });
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Reads the rest of the pipes and waits for the child, which has exited.
    pub(crate) fn finish(mut self, ending: Termination) -> io::Result<Output> {
        // From here on kilter waits only for the end of the outputs. The child reads no more input.
        self.stdin = StdinWriter::nothing();
        self.pidfd = None;
        let leaked = self.drain()?;
        self.close();
        // Output that arrived with the end of the child, or after it, counts too.
        let ending = if ending == Termination::Exited && self.is_flooded() { Termination::OutputLimit } else { ending };
        let status = Status::from(self.child.wait()?);
        self.over = true;
        if ending != Termination::Exited || self.invocation.leftovers == KillMode::Ended {
            self.end_leftovers();
        }
        if let Some(observer) = &mut self.observer {
            observer(Event::Exited { status, ending });
        }
        let nothing = [Sink::nothing(), Sink::nothing(), Sink::nothing()];
        let [stdout, stderr, channel] = std::mem::replace(&mut self.sinks, nothing).map(Sink::into_captured);
        let together = std::mem::replace(&mut self.together, Sink::nothing()).into_captured();
        let confined = std::mem::replace(&mut self.confined, Confined::NotAsked);
        let is_confined = matches!(confined, Confined::Fully | Confined::Partly { .. });
        let refusal_hint = is_confined.then(|| refusal_hint(&stderr.bytes)).flatten();
        let attempts = std::mem::replace(&mut self.witness, SeccompSupervisor::absent()).into_attempts();
        Ok(Output { status, ending, stdout, stderr, together, channel, leaked, confined, attempts, refusal_hint })
    }

    /// Reads the outputs to their end, for at most [`LEAK`], or longer while other children start.
    fn drain(&mut self) -> io::Result<bool> {
        let until = Instant::now() + LEAK;
        while self.has_outputs() {
            // A busy machine may have delayed this thread. Read the data that has arrived meanwhile.
            let is_late = Instant::now() >= until;
            let step = self.step(Some(until), None)?;
            if is_late && (!step.served || Instant::now() >= until + SIBLING_EXEC_GRACE) {
                return self.is_held();
            }
        }
        Ok(false)
    }

    /// Returns true if an output is still open when no other child is starting.
    fn is_held(&mut self) -> io::Result<bool> {
        let until = Instant::now() + SIBLING_EXEC_GRACE;
        while is_any_starting() && Instant::now() < until {
            self.sleep(Duration::from_millis(1));
        }
        let now = Instant::now();
        while self.has_outputs() && self.step(Some(now), None)?.served && Instant::now() < until {}
        Ok(self.has_outputs())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
            // The error that led here is reported already. The wait avoids a zombie.
            let _ = self.child.wait();
        }
    }
}

/// Waits for some descriptors, and returns the ready events of each.
fn wait_for<const N: usize>(
    fds: [Option<(BorrowedFd<'_>, PollFlags)>; N],
    until: Option<Instant>,
) -> io::Result<[PollFlags; N]> {
    let timeout = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok([PollFlags::empty(); N]),
        Err(error) => return Err(error.into()),
    }
    let mut answers = polled.iter().map(PollFd::revents);
    Ok(fds.map(|fd| fd.and_then(|_| answers.next()).unwrap_or(PollFlags::empty())))
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up to a microsecond, because an early wake-up would only cause another wait.
    let duration = duration + Duration::from_micros(1);
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use rustix::process::{WaitId, WaitIdOptions, test_kill_process, waitid};

    use super::*;
    use crate::start::start;

    #[test]
    fn output_limit_exceeded_at_exit_is_reported() {
        let mut invocation = Invocation::new("echo").arg("a line that is too long");
        invocation.stdout = Capture::AtMost(10);
        let started = start(&invocation).unwrap();
        let gone = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&started.child)), gone).unwrap();
        let mut running = Running::new(started, &invocation, None).unwrap();
        let ending = running.until_end(None).unwrap();
        let finished = running.finish(ending).unwrap();
        assert_eq!((finished.ending, finished.status), (Termination::OutputLimit, Status::Code(0)));
        assert!(!finished.is_success() && finished.stdout.is_truncated());
    }

    #[test]
    fn a_child_whose_pipes_cannot_be_used_is_killed_and_reaped() {
        let invocation = Invocation::new("sleep").arg("60").captured(10);
        let mut started = start(&invocation).unwrap();
        let pid = Pid::from_child(&started.child);
        // The flags of such a descriptor cannot be set.
        let unusable = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        started.ends.outputs[0] = Some(unusable);
        assert!(Running::new(started, &invocation, None).is_err());
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH));
    }
}
