//! Runs a command and reports the result.

use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_model::{Attributes, Outcome, Value};
use kilter_process::{Capture, Output, Status, Termination};
use kilter_provider::Context;

use super::command::CommandLine;
use super::command_runner::{CommandRunner, seconds};
use super::expected::without_line_breaks;
use super::secrets::SensitiveTexts;
use crate::tool::ending_of;

const STDOUT: usize = 1024 * 1024;
const STDERR: usize = 64 * 1024;
const TOGETHER: usize = STDOUT + STDERR;

/// Runs a command up to the configured number of tries.
pub(super) fn run_with_retries(launch: &CommandRunner<'_>, command: &CommandLine) -> Outcome {
    let secrets = SensitiveTexts::of(launch.should);
    let tries = launch.should.get("tries").and_then(Value::as_integer).unwrap_or(1).max(1);
    for at in 1..=tries {
        let finished = launch.run(command, |invocation| {
            invocation.stdout = Capture::First(STDOUT);
            invocation.stderr = Capture::Last(STDERR);
            invocation.together = Capture::First(TOGETHER);
        });
        let finished = match finished {
            Ok(finished) => finished,
            Err(why) => return Outcome::failed(secrets.redact(&why)),
        };
        if is_success(&finished, launch.should) {
            return succeeded(launch.should, command, &finished, &secrets);
        }
        let is_last = at == tries || finished.ending != Termination::Exited;
        if is_last || !pause(launch.cx, launch.should) {
            return failed(launch, command, &finished, at, &secrets);
        }
    }
    unreachable!("the last try returns")
}

/// Waits between two tries. Returns true if there is another try.
fn pause(cx: &Context<'_>, should: &Attributes) -> bool {
    // A time beyond the range of the clock means forever.
    let until = Instant::now().checked_add(seconds(should.get("try_sleep")).unwrap_or_default());
    while !cx.is_stopping() && !cx.interrupt().is_raised() {
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

fn is_success(finished: &Output, should: &Attributes) -> bool {
    let returns = should.get("returns").map(Value::as_list).unwrap_or(&[Value::Integer(0)]);
    let code = finished.status.code().filter(|_| finished.ending == Termination::Exited);
    code.is_some_and(|code| returns.contains(&Value::Integer(code.into())))
}

fn succeeded(should: &Attributes, command: &CommandLine, finished: &Output, secrets: &SensitiveTexts) -> Outcome {
    let mut notes = Vec::new();
    if should.get_bool("logoutput") == Some(true) && !command.is_sealed {
        // A secret mixed with the other output cannot be recognised for redaction.
        let all = match finished.together.is_truncated() || !secrets.is_empty() {
            true => vec![&finished.stdout, &finished.stderr],
            false => vec![&finished.together],
        };
        for output in all {
            notes.extend(output.text().lines().map(|line| secrets.redact(line)));
        }
    }
    if finished.stdout.is_truncated() {
        notes.push(format!("its output was cut after {STDOUT} bytes").into());
    }
    Outcome { outputs: outputs(finished, secrets), notes, ..Outcome::done() }
}

fn outputs(finished: &Output, secrets: &SensitiveTexts) -> Attributes {
    let text = |bytes: &[u8]| secrets.sealing(Value::from_bytes(without_line_breaks(bytes)));
    let mut outputs = Attributes::with_capacity(4);
    outputs.push("stdout", text(&finished.stdout.bytes));
    outputs.push("stderr", text(&finished.stderr.bytes));
    outputs.push("output", text(&finished.together.bytes));
    outputs.push("exit_code", i64::from(finished.status.code().unwrap_or(-1)));
    outputs
}

fn failed(
    launch: &CommandRunner<'_>,
    command: &CommandLine,
    finished: &Output,
    tries: i64,
    secrets: &SensitiveTexts,
) -> Outcome {
    let should = launch.should;
    let how = match (finished.ending, finished.status) {
        (Termination::Exited, Status::Code(code)) => format!("returned {code} instead of {}", expected(should)),
        (Termination::Exited, Status::Signal(signal)) => format!("was ended by signal {signal}"),
        (Termination::Deadline, _) => {
            format!("took longer than {} s and was ended", launch.timeout().unwrap_or_default().as_secs_f64())
        }
        (Termination::OutputLimit, _) => "wrote too much".to_owned(),
        (Termination::Cancelled, _) => "was interrupted".to_owned(),
    };
    let times = if tries > 1 { format!(" (tried {tries} times)") } else { String::new() };
    let mut failure = format!("`{}` {how}{times}", command.shown);
    let outputs = [&finished.stderr, &finished.stdout];
    if command.is_sealed {
        failure.push_str(" (its output is not shown, for it is sensitive)");
    } else if should.get_bool("logoutput") != Some(false)
        && let Some(said) = outputs.iter().find_map(|output| ending_of(&output.text()))
    {
        failure.push_str(":\n");
        failure.push_str(&said);
    }
    let failure: EcoString = secrets.redact(&failure);
    Outcome { failure: Some(failure), outputs: self::outputs(finished, secrets), ..Outcome::default() }
}

fn expected(should: &Attributes) -> String {
    let returns = should.get("returns").map(Value::as_list).unwrap_or(&[Value::Integer(0)]);
    returns.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ")
}
