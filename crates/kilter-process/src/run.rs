//! Runs a child from start to end.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::event::Observer;
use crate::finished::{Output, SpawnError, Termination};
use crate::invocation::Invocation;
use crate::running::Running;
use crate::start::start;

/// Lets another thread end a running child.
#[derive(Clone, Copy, Debug)]
pub struct Cancel<'a> {
    /// Flag that ends the child.
    pub flag: &'a AtomicBool,
    /// Becomes readable when the flag is set. Without it kilter checks the flag 20 times a second.
    pub fd: Option<BorrowedFd<'a>>,
    /// Flag that kills the child at once, without further grace. kilter checks it 20 times a second during the
    /// grace.
    pub urgent: Option<&'a AtomicBool>,
}

impl<'a> Cancel<'a> {
    /// Creates a `Cancel` with a flag only.
    pub fn new(flag: &'a AtomicBool) -> Cancel<'a> {
        Cancel { flag, fd: None, urgent: None }
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.is_some_and(|urgent| urgent.load(Ordering::Acquire))
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

/// Starts a child and returns when it has ended.
///
/// # Errors
/// If kilter could not start the child, or could not wait for it. The exit code of a child is never an error.
pub fn run(invocation: &Invocation, cancel: Option<Cancel<'_>>) -> Result<Output, SpawnError> {
    run_through(invocation, cancel, None)
}

/// Like [`run`], and reports events to `observer` while the child runs.
///
/// # Errors
/// As [`run`].
pub fn run_observed<'a>(
    invocation: &'a Invocation,
    cancel: Option<Cancel<'_>>,
    observer: Observer<'a>,
) -> Result<Output, SpawnError> {
    run_through(invocation, cancel, Some(observer))
}

fn run_through<'a>(
    invocation: &'a Invocation,
    cancel: Option<Cancel<'_>>,
    observer: Option<Observer<'a>>,
) -> Result<Output, SpawnError> {
    if cancel.is_some_and(|cancel| cancel.is_raised()) {
        return Err(SpawnError::Cancelled { program: invocation.program.clone() });
    }
    let begun = Instant::now();
    let started = start(invocation)?;
    let waiting = |source| SpawnError::Wait { program: invocation.program.clone(), source };
    let mut running = Running::new(started, invocation, observer).map_err(waiting)?;
    // Arguments may contain secrets.
    let (program, pid) = (&invocation.program, running.child.id());
    tracing::debug!(?program, pid, "started");
    let ending = running.until_end(cancel).map_err(waiting)?;
    if ending != Termination::Exited && !running.stop(cancel).map_err(waiting)? {
        let pid = running.child.id();
        return Err(SpawnError::Unkillable { program: invocation.program.clone(), pid });
    }
    let output = running.finish(ending).map_err(waiting)?;
    let ms = begun.elapsed().as_millis() as u64;
    tracing::debug!(?program, pid, ms, status = %output.status, "ended");
    Ok(output)
}
