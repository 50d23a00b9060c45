//! Programs that change the system, and the messages of their failures.

use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::REDACTED;
use kilter_process::{Cancel, DEFAULT_PATH, Invocation, Output, SpawnError, Status, Termination, which};
use kilter_provider::{Context, ProcessEnd, ProcessRecord, Suitability};

use crate::accounts::{RealRunner, Runner};

/// Maximum size of each output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Maximum number of output lines in a report.
const MAX_REPORTED_LINES: usize = 10;

/// Checks that programs are installed. The message names the package that contains them, if it is given.
pub(crate) fn installed(programs: &[&str], package: Option<&str>) -> Suitability {
    let is_missing = |program: &&&str| which(program.as_ref(), DEFAULT_PATH.as_ref()).is_none();
    match (programs.iter().find(is_missing), package) {
        (None, _) => Suitability::Suitable,
        (Some(program), None) => Suitability::Unsuitable(eco_format!("there is no command {program}")),
        (Some(program), Some(package)) => {
            Suitability::Unsuitable(eco_format!("there is no command {program}: install the package {package}"))
        }
    }
}

/// Returns the means to cancel a command in flight.
pub(crate) fn cancel<'a>(cx: &Context<'a>) -> Cancel<'a> {
    let interrupt = cx.interrupt();
    Cancel { flag: interrupt.flag(), fd: interrupt.fd(), urgent: interrupt.urgent() }
}

/// Part of a process that the history records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedPart {
    /// Arguments, end and both outputs.
    Outputs,
    /// Arguments, end and the errors: the output of a query may contain values that nobody declared.
    Errors,
    /// Arguments and end.
    Arguments,
    /// End only, because the whole command is a secret.
    End,
}

/// Runs a program and records it for the history.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn start(
    runner: &dyn Runner,
    cx: &Context<'_>,
    invocation: &Invocation,
    part: RecordedPart,
) -> Result<Output, SpawnError> {
    let begun = Instant::now();
    let result = runner.run(invocation, cancel(cx));
    if cx.records_processes() {
        cx.record_process(record(invocation, &result, begun.elapsed(), part));
    }
    result
}

/// Like [`start`], without another runner.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn start_real(cx: &Context<'_>, invocation: &Invocation, part: RecordedPart) -> Result<Output, SpawnError> {
    start(&RealRunner, cx, invocation, part)
}

/// Returns the record of a process.
pub(crate) fn record(
    invocation: &Invocation,
    result: &Result<Output, SpawnError>,
    duration: Duration,
    part: RecordedPart,
) -> ProcessRecord {
    let words = std::iter::once(&invocation.program).chain(&invocation.args);
    let argv: Vec<EcoString> = match part {
        RecordedPart::End => vec![REDACTED.into()],
        _ => words.map(|word| word.to_string_lossy().as_ref().into()).collect(),
    };
    let end = match result {
        Ok(Output { status: Status::Code(code), .. }) => ProcessEnd::Code(*code),
        Ok(Output { status: Status::Signal(signal), .. }) => ProcessEnd::Signal(*signal),
        // The error names the program, which may be part of the secret.
        Err(_) if part == RecordedPart::End => ProcessEnd::NotStarted(REDACTED.into()),
        Err(error) => ProcessEnd::NotStarted(error.with_sources().into()),
    };
    let record = ProcessRecord { duration, ..ProcessRecord::new(argv, end) };
    let Ok(output) = result else { return record };
    let record = ProcessRecord { cut_short: output.ending.word(), ..record };
    match part {
        RecordedPart::Outputs => record.with_outputs(&output.stdout.bytes, &output.stderr.bytes),
        RecordedPart::Errors => record.with_outputs(&[], &output.stderr.bytes),
        RecordedPart::Arguments | RecordedPart::End => record,
    }
}

/// Returns the last lines of an output; none if it is blank.
pub(crate) fn ending_of(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(MAX_REPORTED_LINES)..];
    (!last.is_empty()).then(|| last.join("\n"))
}

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
    let tool = tool.captured(MAX_OUTPUT_BYTES).deadline(deadline);
    let finished = start(runner, cx, &tool, RecordedPart::Outputs);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_its_package() {
        assert_eq!(installed(&["sh", "env"], None), Suitability::Suitable);
        let unsuitable = |why: &str| Suitability::Unsuitable(why.into());
        assert_eq!(installed(&["sh", "no-such"], None), unsuitable("there is no command no-such"));
        let why = "there is no command no-such: install the package p";
        assert_eq!(installed(&["no-such"], Some("p")), unsuitable(why));
    }

    #[test]
    fn output_ending_has_last_nonempty_lines() {
        assert_eq!(ending_of(" \n\n"), None);
        let long: String = (0..20).map(|n| format!("{n}\n\n")).collect();
        assert_eq!(ending_of(&long).unwrap(), "10\n11\n12\n13\n14\n15\n16\n17\n18\n19");
    }
}
