//! Interrupts that laws raise, and cancellation of trials that take too long.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kilter_provider::Interrupt;

/// Cancellation of a trial: interrupts all current and later calls in its sandboxes.
#[derive(Default)]
pub(super) struct Halt {
    state: Mutex<CancelState>,
}

#[derive(Default)]
struct CancelState {
    is_raised: bool,
    alarms: Vec<Weak<CancelToken>>,
}

impl Halt {
    /// Creates the interrupt of another sandbox of the trial.
    ///
    /// # Errors
    /// If no socket pair can be created.
    pub(super) fn alarm(self: &Arc<Halt>) -> io::Result<Arc<CancelToken>> {
        let (reader, writer) = UnixStream::pair()?;
        let alarm = Arc::new(CancelToken { flag: AtomicBool::new(false), reader, writer, halt: Arc::clone(self) });
        let mut state = self.state();
        state.alarms.push(Arc::downgrade(&alarm));
        if state.is_raised {
            alarm.cancel();
        }
        Ok(alarm)
    }

    pub(super) fn raise(&self) {
        let mut state = self.state();
        state.is_raised = true;
        state.alarms.iter().filter_map(Weak::upgrade).for_each(|alarm| alarm.cancel());
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Interrupt of a test sandbox.
pub(super) struct CancelToken {
    flag: AtomicBool,
    reader: UnixStream,
    writer: UnixStream,
    halt: Arc<Halt>,
}

impl CancelToken {
    /// Returns the interrupt for the context of a call.
    pub(super) fn interrupt(&self) -> Interrupt<'_> {
        Interrupt::new(&self.flag, Some(self.reader.as_fd()))
    }

    pub(super) fn cancel(&self) {
        self.flag.store(true, Ordering::Release);
        // The struct also owns the read end, so writing one byte cannot fail.
        let _ = (&self.writer).write(b"!");
    }

    /// Resets the interrupt, as a new run would. Has no effect if the trial is cancelled.
    pub(super) fn calm(&self) {
        let state = self.halt.state();
        if !state.is_raised && self.flag.swap(false, Ordering::AcqRel) {
            let _ = (&self.reader).read(&mut [0; 8]);
        }
    }
}
