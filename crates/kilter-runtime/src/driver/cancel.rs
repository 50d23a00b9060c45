//! Cancellation of calls.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kilter_provider::Interrupt;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Interval at which a flag without a descriptor is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Cancellation of calls, as providers see it: a flag, and a descriptor that becomes readable with it.
#[derive(Debug)]
pub(super) struct CancelToken {
    flag: AtomicBool,
    /// True if cancelled processes are to be killed at once.
    pub(super) urgent: Arc<AtomicBool>,
    /// Without a descriptor, the flag is polled.
    pub(super) event: Result<OwnedFd, Errno>,
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
    pub(super) fn kill(&self) {
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
                std::thread::sleep(longest.saturating_sub(begun.elapsed()).min(POLL_INTERVAL));
            }
            return;
        };
        let timeout = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
        // An early wake-up is harmless.
        let _ = poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&timeout));
    }
}
