//! Programs that change the system, and the messages of their failures.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Invocation, Output, Termination};
use kilter_provider::Context;

use crate::accounts::Runner;
use crate::words::{cancel, ending_of};

/// Maximum size of each output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Runs a program that changes the system.
///
/// # Errors
/// Names the program, the reason and the end of its errors, but no arguments.
pub(crate) fn run(
    runner: &dyn Runner,
    cx: &Context<'_>,
    tool: Invocation,
    deadline: Duration,
) -> Result<(), EcoString> {
    let name = tool.program.to_string_lossy().into_owned();
    let finished = runner.run(&tool.captured(MAX_OUTPUT_BYTES).deadline(deadline), cancel(cx));
    let finished = finished.map_err(|error| error.with_sources())?;
    match finished.is_success() {
        true => Ok(()),
        false => Err(failure(&name, &finished, deadline, ending_of(&finished.stderr.text()))),
    }
}

/// Describes a failed program by its end and by a part of its output.
pub(crate) fn failure(name: &str, finished: &Output, deadline: Duration, said: Option<String>) -> EcoString {
    let how = match finished.ending {
        Termination::Exited => eco_format!("{name} failed with {}", finished.status),
        Termination::Deadline => eco_format!("{name} did not finish within {} s", deadline.as_secs()),
        Termination::OutputLimit => eco_format!("{name} wrote too much"),
        Termination::Cancelled => eco_format!("{name} was interrupted"),
    };
    match said {
        Some(said) => eco_format!("{how}: {said}"),
        None => how,
    }
}
