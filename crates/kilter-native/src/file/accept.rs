//! `validate_cmd`: a command that must accept a new content.

use std::time::Duration;

use kilter_model::Value;
use kilter_process::{Cancel, Ending, Invocation, Status};
use kilter_provider::Context;

use super::error::FileError;

const DEADLINE: Duration = Duration::from_secs(60);
const KEPT: usize = 4096;

/// Asks the command whether it accepts the file at `candidate`.
pub(super) fn accept(cx: &Context<'_>, command: &Value, candidate: &str, path: &str) -> Result<(), FileError> {
    let refused = |why: String| FileError::Refused { path: path.to_owned(), why };
    let mut words = words(command).into_iter().map(|word| word.replace('%', candidate));
    let program = words.next().ok_or_else(|| refused("the command is empty".to_owned()))?;
    let invocation = Invocation::new(program).args(words).captured(KEPT).deadline(DEADLINE);
    let interrupt = cx.interrupt();
    let cancel = Cancel { flag: interrupt.flag(), fd: interrupt.fd() };
    let finished = kilter_process::run(&invocation, Some(cancel)).map_err(|error| refused(with_source(&error)))?;
    if finished.is_success() {
        return Ok(());
    }
    let ended = match (finished.ending, finished.status) {
        (Ending::Deadline, _) => "it took more than a minute".to_owned(),
        (Ending::Flooded, _) => "it wrote too much".to_owned(),
        (Ending::Cancelled, _) => "interrupted".to_owned(),
        (Ending::Exited, Status::Code(code)) => format!("exit code {code}"),
        (Ending::Exited, status) => status.to_string(),
    };
    let (stderr, stdout) = (finished.stderr.text(), finished.stdout.text());
    let said = if stderr.trim().is_empty() { stdout.trim() } else { stderr.trim() };
    // The reader knows the file by its own name.
    let said = said.replace(candidate, path);
    Err(refused(if said.is_empty() { ended } else { format!("{ended}: {said}") }))
}

fn words(command: &Value) -> Vec<String> {
    match command.as_array() {
        Some(words) => words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
        None => command.as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
