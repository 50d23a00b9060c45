//! A child that stays and answers requests on its standard input.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::event::{Event, Stream};
use crate::finished::{Output, SpawnError};
use crate::invocation::{Capture, Invocation};
use crate::run::{Cancel, run_observed};

/// Stack size of the thread that waits for the child, in bytes.
const STACK: usize = 256 * 1024;

/// Maximum number of events that wait for the caller. A child that writes more has to wait, too.
const MAX_PENDING_EVENTS: usize = 16;

/// Interval of checks for a cancel during a write to a full pipe.
const TICK: Duration = Duration::from_millis(50);

/// Event of a [`Coprocess`].
#[derive(Debug)]
pub enum CoprocessEvent {
    /// The child wrote to standard output.
    Stdout(Vec<u8>),
    /// The child wrote to standard error.
    Stderr(Vec<u8>),
    /// The child has ended, or could not be started. There are no further events.
    Ended(Box<Result<Output, SpawnError>>),
}

/// Reason why an input was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The child no longer reads.
    #[error("it no longer reads its input")]
    Closed,
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The time has passed.
    #[error("it did not read its input in time")]
    TimedOut,
    /// Error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A child that answers requests until its input ends. A thread reads its outputs, so that it never blocks on them.
/// Dropping the value ends the child.
#[derive(Debug)]
pub struct Coprocess {
    input: Option<OwnedFd>,
    events: Receiver<CoprocessEvent>,
    /// The last event, if `end` has received it.
    last: Option<CoprocessEvent>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Coprocess {
    /// Starts a child. Its standard input is a pipe; its outputs become events. The capture of standard error applies
    /// to [`CoprocessEvent::Ended`].
    ///
    /// # Errors
    /// If the system has no descriptors or threads left. A program that cannot be started is the event
    /// [`CoprocessEvent::Ended`].
    pub fn start(mut invocation: Invocation) -> io::Result<Coprocess> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&write, rustix::fs::fcntl_getfl(&write)? | OFlags::NONBLOCK)?;
        invocation.input = Some(Arc::new(read));
        invocation.stdout = Capture::First(0);
        // Each output is then read as soon as it is written.
        invocation.together = Capture::First(0);
        let (sender, events) = sync_channel(MAX_PENDING_EVENTS);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("coprocess".into()).stack_size(STACK);
        let thread = thread.spawn(move || attend(invocation, &flag, &sender))?;
        Ok(Coprocess { input: Some(write), events, last: None, stop, thread: Some(thread) })
    }

    /// Writes to the input of the child.
    ///
    /// # Errors
    /// If the child does not read everything before `until` or a cancel, or no longer reads.
    pub fn write(
        &mut self,
        mut bytes: &[u8],
        until: Option<Instant>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), WriteError> {
        let Some(input) = &self.input else { return Err(WriteError::Closed) };
        while !bytes.is_empty() {
            match rustix::io::write(input, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::PIPE) => return Err(WriteError::Closed),
                Err(Errno::AGAIN) if is_cancelled() => return Err(WriteError::Cancelled),
                Err(Errno::AGAIN) if until.is_some_and(|until| Instant::now() >= until) => {
                    return Err(WriteError::TimedOut);
                }
                Err(Errno::AGAIN) => wait_for_room(input)?,
                Err(error) => return Err(WriteError::Io(error.into())),
            }
        }
        Ok(())
    }

    /// Returns the next event; none if there is none within `timeout`, or after the end.
    pub fn next(&mut self, timeout: Duration) -> Option<CoprocessEvent> {
        self.last.take().or_else(|| self.events.recv_timeout(timeout).ok())
    }

    /// Closes the input of the child, which ends a well-behaved child.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Ends the child and waits for its end.
    pub fn end(&mut self) {
        self.close_input();
        self.stop.store(true, Ordering::Release);
        // The thread may be waiting until its events are received.
        while let Ok(event) = self.events.recv() {
            self.last = Some(event);
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Coprocess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs the child and sends its events.
fn attend(invocation: Invocation, stop: &AtomicBool, events: &SyncSender<CoprocessEvent>) {
    // Nobody receives the events of a coprocess that is being dropped.
    let send = |event| {
        let _ = events.send(event);
    };
    let ended = run_observed(&invocation, Some(Cancel::new(stop)), &mut |event| match event {
        Event::Chunk { stream: Stream::Stdout, bytes } => send(CoprocessEvent::Stdout(bytes.to_vec())),
        Event::Chunk { stream: Stream::Stderr, bytes } => send(CoprocessEvent::Stderr(bytes.to_vec())),
        _ => {}
    });
    // The reading end of the input closes before the last event, so that a later write fails.
    drop(invocation);
    send(CoprocessEvent::Ended(Box::new(ended)));
}

/// Waits until the pipe has room, for at most [`TICK`].
fn wait_for_room(input: &OwnedFd) -> io::Result<()> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    match poll(&mut [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::OUT)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finished::{Status, Termination};

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Coprocess {
        let mut invocation = Invocation::new("sh").arg("-c").arg(script);
        invocation.stderr = Capture::Last(1000);
        invocation.grace = Duration::from_millis(100);
        Coprocess::start(invocation).unwrap()
    }

    /// Returns the end, which is the next event.
    fn ended(child: &mut Coprocess) -> Result<Output, SpawnError> {
        match child.next(LONG) {
            Some(CoprocessEvent::Ended(ended)) => *ended,
            other => panic!("it has not ended: {other:?}"),
        }
    }

    fn never() -> bool {
        false
    }

    #[test]
    fn child_answers_requests_until_its_input_ends() {
        let mut child = shell("while read -r word; do echo \"debug: got it\" >&2; echo \"<$word>\"; done; exit 3");
        for word in ["one", "two"] {
            child.write(format!("{word}\n").as_bytes(), None, &never).unwrap();
            // The log line comes first, although both may arrive together.
            assert!(matches!(child.next(LONG), Some(CoprocessEvent::Stderr(text)) if text == b"debug: got it\n"));
            let answer = format!("<{word}>\n").into_bytes();
            assert!(matches!(child.next(LONG), Some(CoprocessEvent::Stdout(text)) if text == answer));
        }
        child.close_input();
        let output = ended(&mut child).unwrap();
        assert_eq!((output.status, output.ending), (Status::Code(3), Termination::Exited));
        assert_eq!(output.stderr.text(), "debug: got it\ndebug: got it\n");
        assert!(child.next(Duration::ZERO).is_none());
    }

    #[test]
    fn child_that_ignores_its_input_is_ended() {
        let mut child = shell("trap '' TERM; echo ready; while :; do sleep 60; done");
        assert!(matches!(child.next(LONG), Some(CoprocessEvent::Stdout(_))));
        let much = vec![b'x'; 1 << 20];
        let full = child.write(&much, Some(Instant::now()), &never);
        assert!(matches!(full, Err(WriteError::TimedOut)), "{full:?}");
        let cancelled = child.write(&much, None, &|| true);
        assert!(matches!(cancelled, Err(WriteError::Cancelled)), "{cancelled:?}");
        child.end();
        let output = ended(&mut child).unwrap();
        assert_eq!(output.ending, Termination::Cancelled);
        assert!(matches!(child.write(b"x", None, &never), Err(WriteError::Closed)));
    }

    #[test]
    fn child_that_floods_is_ended() {
        let mut child = shell("echo ready >&2; exec yes");
        while !matches!(child.next(LONG), Some(CoprocessEvent::Stderr(_))) {}
        child.end();
        assert_eq!(ended(&mut child).unwrap().ending, Termination::Cancelled);
        assert!(child.next(Duration::ZERO).is_none());
    }

    #[test]
    fn writes_to_an_ended_child_fail() {
        let mut child = shell("exit 0");
        assert!(ended(&mut child).is_ok());
        assert!(matches!(child.write(b"x", None, &never), Err(WriteError::Closed)));
    }

    #[test]
    fn missing_program_is_reported_as_the_end() {
        let mut child = Coprocess::start(Invocation::new("/nonexistent/program")).unwrap();
        assert!(ended(&mut child).is_err());
    }
}
