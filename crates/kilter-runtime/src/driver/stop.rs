//! Messages to the driver from other threads: answers, log lines, stop requests.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_provider::{Interrupt, Level, Log};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::calls::CallId;
use super::provider_watch::WatchChannel;
use super::shelf::Read;
use super::timeout::Deadline;
use super::window::Question;
use super::{PROGRESS_INTERVAL, RunError};
use crate::step::CallResult;

/// Effect of a stop request on calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// They run to completion.
    Finished,
    /// They are cancelled.
    Ended,
    /// Their processes are killed.
    Killed,
}

/// Ends a run from another thread.
///
/// The first request cancels checks and lets changes in flight finish, the second cancels changes too, and the third
/// kills them. In a run without changes, the first request cancels every call.
#[derive(Debug)]
pub struct ShutdownHandle {
    requests: AtomicU32,
    /// Number of requests that let calls in flight finish.
    patience: u32,
    ending: AtomicBool,
    /// Cancels all changes.
    alarm: CancelToken,
    /// Cancels all checks, which change nothing.
    checks: CancelToken,
    /// Calls with a timeout, each with its own alarm.
    calls: Mutex<Vec<Arc<Deadline>>>,
    driver: Mutex<Option<Sender<Message>>>,
}

impl ShutdownHandle {
    /// Creates a stop without a request.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> Result<ShutdownHandle, RunError> {
        ShutdownHandle::with_patience(1)
    }

    /// Creates a stop for a run without changes, whose calls need not finish.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn of_looks() -> Result<ShutdownHandle, RunError> {
        ShutdownHandle::with_patience(0)
    }

    fn with_patience(patience: u32) -> Result<ShutdownHandle, RunError> {
        let (alarm, checks) = (CancelToken::new(), CancelToken::new());
        for alarm in [&alarm, &checks] {
            if let Err(errno) = alarm.event {
                return Err(RunError::Event(errno.into()));
            }
        }
        Ok(ShutdownHandle {
            requests: AtomicU32::new(0),
            patience,
            ending: AtomicBool::new(false),
            alarm,
            checks,
            calls: Mutex::default(),
            driver: Mutex::new(None),
        })
    }

    /// Requests the end of the run. May be called from any thread.
    pub fn request(&self) {
        self.ending.store(true, Ordering::Release);
        let fate = self.fate_after(self.requests.fetch_add(1, Ordering::AcqRel).saturating_add(1));
        if fate == InFlight::Killed {
            self.alarm.kill();
            self.checks.kill();
            self.calls().iter().for_each(|call| call.alarm.kill());
        }
        self.checks.raise();
        if fate != InFlight::Finished {
            self.alarm.raise();
        }
        for call in self.calls().iter().filter(|call| fate != InFlight::Finished || call.doing == CallKind::Check) {
            call.alarm.raise();
        }
        if let Some(driver) = &*self.driver.lock().unwrap_or_else(PoisonError::into_inner) {
            // Without a driver there is no receiver.
            let _ = driver.send(Message::Stop);
        }
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Acquire)
    }

    /// Returns the effect of this number of requests on calls in flight.
    pub(super) fn fate_after(&self, requests: u32) -> InFlight {
        match requests.saturating_sub(self.patience) {
            0 => InFlight::Finished,
            1 => InFlight::Ended,
            _ => InFlight::Killed,
        }
    }

    /// Returns the flag that tells providers that the run is about to end.
    pub(super) fn ending(&self) -> &AtomicBool {
        &self.ending
    }

    /// Returns the interrupt for providers. The request that cancels calls of this kind raises it.
    pub(super) fn interrupt(&self, doing: CallKind) -> Interrupt<'_> {
        match doing {
            CallKind::Check => self.checks.interrupt(),
            CallKind::Apply | CallKind::Refresh => self.alarm.interrupt(),
        }
    }

    /// Returns the flag that demands a kill instead of a cancellation.
    pub(super) fn urgent(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.alarm.urgent)
    }

    /// Registers a call with its own alarm, so that a request also cancels it.
    pub(super) fn also_ends(&self, call: &Arc<Deadline>) {
        self.calls().push(Arc::clone(call));
        // The request may have come before the registration.
        if self.fate_after(self.requests()) == InFlight::Killed {
            call.alarm.kill();
        }
        if self.interrupt(call.doing).is_raised() {
            call.alarm.raise();
        }
    }

    /// Removes an ended call.
    pub(super) fn ends_no_longer(&self, call: &Arc<Deadline>) {
        self.calls().retain(|known| !Arc::ptr_eq(known, call));
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Arc<Deadline>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listen(&self, driver: Option<Sender<Message>>) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = driver;
    }
}

/// Cancellation of calls, as providers see it: a flag, and a descriptor that becomes readable with it.
#[derive(Debug)]
pub(super) struct CancelToken {
    flag: AtomicBool,
    /// True if cancelled processes are to be killed at once.
    urgent: Arc<AtomicBool>,
    /// Without a descriptor, the flag is polled.
    event: Result<OwnedFd, Errno>,
}

impl CancelToken {
    pub(super) fn new() -> CancelToken {
        CancelToken { flag: AtomicBool::default(), urgent: Arc::default(), event: eventfd(0, EventfdFlags::CLOEXEC) }
    }

    pub(super) fn raise(&self) {
        self.flag.store(true, Ordering::Release);
        if let Ok(event) = &self.event {
            // The counter can only be full after 2^64 writes.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Demands a kill.
    fn kill(&self) {
        self.urgent.store(true, Ordering::Release);
    }

    pub(super) fn interrupt(&self) -> Interrupt<'_> {
        Interrupt::new(&self.flag, self.event.as_ref().ok().map(AsFd::as_fd)).or_urgent(&self.urgent)
    }

    /// Waits until it is raised, or until the time is over.
    pub(super) fn wait(&self, longest: Duration) {
        let Ok(event) = &self.event else {
            let begun = Instant::now();
            while begun.elapsed() < longest && !self.interrupt().is_raised() {
                std::thread::sleep(longest.saturating_sub(begun.elapsed()).min(PROGRESS_INTERVAL));
            }
            return;
        };
        let timeout = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
        // An early wake-up is harmless.
        let _ = poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&timeout));
    }
}

/// Message to the driver from another thread.
#[derive(Debug)]
pub(super) enum Message {
    Stop,
    Done {
        call: CallId,
        doing: CallKind,
        done: Vec<CallResult>,
    },
    /// A call that read for a provider has ended. It started after `foreign` changes by other providers.
    Read {
        call: CallId,
        provider: u16,
        done: Vec<CallResult>,
        rest: Result<Read, EcoString>,
        foreign: u64,
    },
    Log {
        level: Level,
        type_name: String,
        name: String,
        message: String,
    },
    /// A worker starts a call with a timeout.
    Begun(Arc<Deadline>),
    /// The manifest has been read.
    Declared,
    /// The hub has queued events.
    WatchEvents,
    /// A status, pause or resume request.
    Query(Question),
    /// The watch of a provider has queued events.
    ProviderEvents(Arc<WatchChannel>),
    /// The watch of a provider has ended on request.
    WatchEnded(Arc<WatchChannel>),
}

impl std::fmt::Debug for CallResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Done({:?})", self.vertex)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Check,
    Apply,
    Refresh,
}

impl CallKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            CallKind::Check => "checking",
            CallKind::Apply => "changing",
            CallKind::Refresh => "refreshing",
        }
    }
}

/// Sends log lines of providers to the driver.
pub(super) struct LogSender(pub(super) Sender<Message>);

impl Log for LogSender {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        let (type_name, name, message) = (type_name.to_owned(), name.to_owned(), message.to_owned());
        // Without a driver there is no receiver.
        let _ = self.0.send(Message::Log { level, type_name, name, message });
    }
}
