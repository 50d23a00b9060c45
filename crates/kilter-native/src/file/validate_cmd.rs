//! `validate_cmd`: a command that validates new content.

use std::time::Duration;

use kilter_model::Value;
use kilter_process::{Invocation, Status, Termination};
use kilter_provider::Context;

use super::error::FileError;
use crate::exec::split::{SplitError, split};
use crate::tool::{self, RecordedPart};

const DEADLINE: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: usize = 4096;

/// Part of a refusing command's result that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportedPart {
    /// Exit status and output.
    Output,
    /// Exit status only, because the output may contain a secret.
    Ending,
}

/// Asks the command to accept the file at `candidate`.
pub(super) fn accept(
    cx: &Context<'_>,
    command: &Value,
    candidate: &str,
    path: &str,
    told: ReportedPart,
) -> Result<(), FileError> {
    let refused = |why: String| FileError::Refused { path: path.to_owned(), why };
    let words = words(command).map_err(|error| refused(error.to_string()))?;
    let mut words = words.into_iter().map(|word| word.replace('%', candidate));
    let program = words.next().ok_or_else(|| refused("the command is empty".to_owned()))?;
    let invocation = Invocation::new(program).args(words).captured(MAX_OUTPUT_BYTES).deadline(DEADLINE);
    let part = match told {
        ReportedPart::Output => RecordedPart::Outputs,
        ReportedPart::Ending if command.holds_sensitive() => RecordedPart::End,
        ReportedPart::Ending => RecordedPart::Arguments,
    };
    let finished = tool::start_real(&cx.about(path), &invocation, part).map_err(|error| {
        // The error names the program, which may be part of the secret.
        refused(if command.holds_sensitive() { "it cannot be started".to_owned() } else { with_source(&error) })
    })?;
    if finished.is_success() {
        return Ok(());
    }
    let ended = match (finished.ending, finished.status) {
        (Termination::Deadline, _) => "it took more than a minute".to_owned(),
        (Termination::OutputLimit, _) => "it wrote too much".to_owned(),
        (Termination::Cancelled, _) => "interrupted".to_owned(),
        (Termination::Exited, Status::Code(code)) => format!("exit code {code}"),
        (Termination::Exited, status) => status.to_string(),
    };
    if told == ReportedPart::Ending {
        return Err(refused(format!("{ended} (its output is hidden: it may contain the secret)")));
    }
    let (stderr, stdout) = (finished.stderr.text(), finished.stdout.text());
    let said = if stderr.trim().is_empty() { stdout.trim() } else { stderr.trim() };
    // Users know the file by its final name.
    let said = said.replace(candidate, path);
    Err(refused(if said.is_empty() { ended } else { format!("{ended}: {said}") }))
}

/// Returns the program and its arguments.
pub(super) fn words(command: &Value) -> Result<Vec<String>, SplitError> {
    match command.as_array() {
        Some(words) => Ok(words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()),
        None => split(command.as_str().unwrap_or_default()),
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
