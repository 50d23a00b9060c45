//! Interrupts: those that laws raise, and the one that ends a trial for which nobody waits any more.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::context::Interrupt;

/// Ends a trial: whatever its worlds have under way is interrupted, and all that they begin later.
#[derive(Default)]
pub(super) struct Halt {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_raised: bool,
    alarms: Vec<Weak<Alarm>>,
}

impl Halt {
    /// The interrupt of another world of the trial.
    ///
    /// # Errors
    /// When there is no pair of sockets.
    pub(super) fn alarm(self: &Arc<Halt>) -> io::Result<Arc<Alarm>> {
        let (reader, writer) = UnixStream::pair()?;
        let alarm = Arc::new(Alarm { flag: AtomicBool::new(false), reader, writer, halt: Arc::clone(self) });
        let mut state = self.state();
        state.alarms.push(Arc::downgrade(&alarm));
        if state.is_raised {
            alarm.ring();
        }
        Ok(alarm)
    }

    pub(super) fn raise(&self) {
        let mut state = self.state();
        state.is_raised = true;
        state.alarms.iter().filter_map(Weak::upgrade).for_each(|alarm| alarm.ring());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The interrupt of a world.
pub(super) struct Alarm {
    flag: AtomicBool,
    reader: UnixStream,
    writer: UnixStream,
    halt: Arc<Halt>,
}

impl Alarm {
    /// How calls are told of it.
    pub(super) fn interrupt(&self) -> Interrupt<'_> {
        Interrupt::new(&self.flag, Some(self.reader.as_fd()))
    }

    pub(super) fn ring(&self) {
        self.flag.store(true, Ordering::Release);
        // The reader's end is held beside it: writing one byte cannot fail.
        let _ = (&self.writer).write(b"!");
    }

    /// Takes it back, as the next run would not have it; not when the trial is to end.
    pub(super) fn calm(&self) {
        let state = self.halt.state();
        if !state.is_raised && self.flag.swap(false, Ordering::AcqRel) {
            let _ = (&self.reader).read(&mut [0; 8]);
        }
    }
}
