//! A command on several devices: one process of kilter for each, and one output for each group of equal results.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use kilter_process::{Cancel, Capture, Invocation, Output, Status, run};
use serde_json::{Map, Value as Json};

use super::DeviceUse;
use crate::cli::{Cli, Command, RemoteArgs, ReportArgs};
use crate::exit::Exit;
use crate::target_results::{self, TargetResult, on_each};
use crate::{output, signals};

/// Maximum size in bytes of the output of a device.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Maximum size in bytes of the messages of a device.
const MAX_MESSAGE_BYTES: usize = 256 << 10;

/// Time in which a process ends after a signal. It finishes its current changes.
const GRACE: Duration = Duration::from_secs(120);

/// Runs a command on each of these devices. `words` are the words of the command line after the name of the program.
pub(crate) fn run_on_each(cli: &Cli, devices: &[String], words: Vec<String>) -> Exit {
    if let Err(exit) = check(cli, &words) {
        return exit;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return output::fail(format_args!("cannot find the program of kilter: {error}")),
    };
    if let Err(exit) = signals::listen() {
        return exit;
    }
    let words = RemoteArgs::removed_from(words);
    let parallel = cli.global.remote.parallel;
    let results = on_each(devices, parallel, |device| on_device(program.as_os_str(), device, &words));
    match target_results::is_json(&cli.command) {
        true => {
            let document: Map<String, Json> = results.iter().map(target_results::json).collect();
            output::data(&format!("{:#}\n", Json::Object(document)));
        }
        false => {
            target_results::show_groups(&results);
            if !cli.global.quiet {
                output::data(&summary(&results));
            }
        }
    }
    target_results::exit(&results.iter().map(|result| result.code).collect::<Vec<u8>>())
}

/// Checks a command line for several devices.
fn check(cli: &Cli, words: &[String]) -> Result<(), Exit> {
    if DeviceUse::of(&cli.command) == DeviceUse::Unsupported {
        return Err(super::unsupported());
    }
    let writes = |reports: &ReportArgs| reports.writes_files();
    let what = match &cli.command {
        Command::Plan(args) if args.output.is_some() => Some("a plan in a file"),
        Command::Plan(args) if writes(&args.reports) => Some("a report in a file"),
        Command::Apply(args) if writes(&args.reports) => Some("a report in a file"),
        Command::Set(args) if writes(&args.reports) => Some("a report in a file"),
        _ if words.iter().any(|word| word == "-" || word.ends_with("=-")) => Some("standard input"),
        _ => None,
    };
    what.map_or(Ok(()), |what| {
        Err(output::fail_with(format_args!("{what} is for a single device"), ["name one device with --on"]))
    })
}

/// Runs the command on a device in a process of its own.
fn on_device(program: &OsStr, device: &str, words: &[String]) -> TargetResult {
    let mut invocation = Invocation::new(program);
    invocation.args = arguments(device, words, output::is_styled());
    // It is the same program for the same user.
    invocation.env = std::env::vars_os().collect();
    invocation.stdout = Capture::First(MAX_OUTPUT_BYTES);
    invocation.stderr = Capture::Last(MAX_MESSAGE_BYTES);
    invocation.grace = GRACE;
    let name = device.to_owned();
    match run(&invocation, Some(Cancel::new(signals::raised()))) {
        Ok(Output { status, stdout, stderr, .. }) => {
            let code = match status {
                Status::Code(code) => code,
                Status::Signal(number) => 128 + number,
            };
            let code = u8::try_from(code).unwrap_or(u8::MAX);
            TargetResult { name, code, stdout: stdout.bytes, stderr: stderr.bytes }
        }
        Err(error) => {
            let code = signals::exit().unwrap_or(Exit::NotStarted).code();
            let stderr = format!("error: {}\n", error.with_sources()).into_bytes();
            TargetResult { name, code, stdout: Vec::new(), stderr }
        }
    }
}

/// Returns the arguments for a single device. `words` are those of this command line without `--on`.
fn arguments(device: &str, words: &[String], is_styled: bool) -> Vec<OsString> {
    let color = if is_styled { "always" } else { "never" };
    let own = [format!("--on={device}"), format!("--color={color}")];
    own.into_iter().chain(words.iter().cloned()).map(OsString::from).collect()
}

/// Returns the line that counts the results.
fn summary(results: &[TargetResult]) -> String {
    let count = |wanted: &str| results.iter().filter(|result| word(result.code) == wanted).count();
    let counts = ["succeeded", "pending", "failed", "not started", "interrupted"];
    let counts: Vec<String> =
        counts.iter().filter(|word| count(word) > 0).map(|word| format!("{} {word}", count(word))).collect();
    format!("{} devices: {}\n", results.len(), counts.join(", "))
}

/// Returns the word for the result of a device.
fn word(code: u8) -> &'static str {
    match code {
        0 => "succeeded",
        1 => "not started",
        2 => "pending",
        130 | 143 => "interrupted",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_gets_one_device() {
        let words = ["plan", "-v", "site.yaml", "--", "--on"].map(str::to_owned);
        let given = arguments("b", &words, false);
        assert_eq!(given, ["--on=b", "--color=never", "plan", "-v", "site.yaml", "--", "--on"]);
    }
}
