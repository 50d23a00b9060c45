//! Execution of a prepared run: signals end it.

use std::sync::Arc;

use kilter_runtime::{Mode, Observer, Options, Prepared, Report, RunError, ShutdownHandle};

use crate::signals;

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
    prepared.execute(options, &stop, observer)
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
