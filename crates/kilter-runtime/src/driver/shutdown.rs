//! Stop requests, and the timeouts of calls that a request also cancels.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kilter_provider::Interrupt;

use super::calls::CallKind;
use super::cancel::CancelToken;
use super::deadline::Deadline;
use super::message::Message;
use crate::observer::InFlight;
use crate::options::RunError;
use crate::worker::CallId;

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

/// Call with a timeout that waits for a worker.
pub(super) struct PendingDeadline {
    pub(super) call: CallId,
    pub(super) doing: CallKind,
    pub(super) longest: Duration,
    pub(super) sender: Sender<Message>,
}

impl PendingDeadline {
    /// Starts the timeout. The time in the queue does not count.
    pub(super) fn begin(self, stop: &ShutdownHandle) -> Arc<Deadline> {
        let PendingDeadline { call, doing, longest, sender } = self;
        let deadline = Arc::new(Deadline { call, doing, begun: Instant::now(), longest, alarm: CancelToken::new() });
        stop.also_ends(&deadline);
        // The receiver outlives the workers.
        let _ = sender.send(Message::Begun(Arc::clone(&deadline)));
        deadline
    }
}
