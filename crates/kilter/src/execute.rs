//! Execution of a prepared run: signals end it.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use kilter_runtime::{Mode, Observer, Options, Prepared, Report, RunError, ShutdownHandle};

use crate::{signals, streams};

/// Executes `prepared`. Signals end it.
///
/// # Errors
/// If it could not start, or had to end.
pub(crate) fn executed(
    prepared: &Prepared,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, RunError> {
    let stop = Arc::new(stop_of(options.mode)?);
    signals::stop(&stop);
    match streams::until() {
        Some(until) => limited(until, &stop, || prepared.execute(options, &stop, observer)),
        None => prepared.execute(options, &stop, observer),
    }
}

/// Calls `execute`, and stops its run at a time.
fn limited<T>(until: Instant, stop: &ShutdownHandle, execute: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (ended, is_ended) = channel::<()>();
        scope.spawn(move || {
            let rest = until.saturating_duration_since(Instant::now());
            if is_ended.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                stop.request();
            }
        });
        let done = execute();
        drop(ended);
        done
    })
}

/// Returns the stop of a run. A run without changes does not wait for calls in flight.
pub(crate) fn stop_of(mode: Mode) -> Result<ShutdownHandle, RunError> {
    match mode {
        Mode::Noop => ShutdownHandle::of_looks(),
        Mode::Apply => ShutdownHandle::new(),
    }
}

/// Returns an error with its causes.
pub(crate) fn fail_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
