//! A command on several devices: one process of kilter for each, and one output for each group of equal results.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kilter_process::{Cancel, Capture, Invocation, Output, Status, run};
use serde_json::{Map, Value as Json, json};

use super::DeviceUse;
use crate::cli::{Cli, Command, FactsFormat, RemoteArgs, ReportArgs, ReportFormat, ResourceFormat};
use crate::exit::Exit;
use crate::style::{NAME, styled};
use crate::{output, signals};

/// Stack size of the thread that waits for a process, in bytes.
const STACK: usize = 128 << 10;

/// Maximum size in bytes of the output of a device.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Maximum size in bytes of the messages of a device.
const MAX_MESSAGE_BYTES: usize = 256 << 10;

/// Time in which a process ends after a signal. It finishes its current changes.
const GRACE: Duration = Duration::from_secs(120);

/// Result of a command on a device.
struct DeviceResult<'a> {
    device: &'a str,
    code: i32,
    stdout: String,
    stderr: String,
}

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
    let count = devices.len().min(usize::try_from(cli.global.remote.parallel).unwrap_or(1));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(devices.len())));
    std::thread::scope(|scope| {
        for _ in 0..count {
            let work = || {
                while let Some(device) = devices.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = on_device(program.as_os_str(), device, &words);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            };
            let thread = std::thread::Builder::new().name("device".into()).stack_size(STACK);
            if thread.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|result: &DeviceResult<'_>| devices.iter().position(|device| device == result.device));
    let shown = if is_json(&cli.command) { documents(&results) } else { groups(&results, cli.global.quiet) };
    match (shown, exit(&results, devices.len())) {
        (Exit::NotStarted, Exit::Done) => Exit::NotStarted,
        (_, exit) => exit,
    }
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
fn on_device<'a>(program: &OsStr, device: &'a str, words: &[String]) -> DeviceResult<'a> {
    let mut invocation = Invocation::new(program);
    invocation.args = arguments(device, words, output::is_styled());
    // It is the same program for the same user.
    invocation.env = std::env::vars_os().collect();
    invocation.stdout = Capture::First(MAX_OUTPUT_BYTES);
    invocation.stderr = Capture::Last(MAX_MESSAGE_BYTES);
    invocation.grace = GRACE;
    match run(&invocation, Some(Cancel::new(signals::raised()))) {
        Ok(Output { status, stdout, stderr, .. }) => {
            let code = match status {
                Status::Code(code) => code,
                Status::Signal(number) => 128 + number,
            };
            DeviceResult { device, code, stdout: stdout.text().into_owned(), stderr: stderr.text().into_owned() }
        }
        Err(error) => {
            let code = i32::from(signals::exit().unwrap_or(Exit::NotStarted).code());
            DeviceResult { device, code, stdout: String::new(), stderr: format!("error: {}\n", error.with_sources()) }
        }
    }
}

/// Returns the arguments for a single device. `words` are those of this command line without `--on`.
fn arguments(device: &str, words: &[String], is_styled: bool) -> Vec<OsString> {
    let color = if is_styled { "always" } else { "never" };
    let own = [format!("--on={device}"), format!("--color={color}")];
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (options, rest) = words.split_at(end);
    let is_color = |at: usize| options[at].starts_with("--color") || at > 0 && options[at - 1] == "--color";
    let options = (0..options.len()).filter(|at| !is_color(*at)).map(|at| options[at].clone());
    own.into_iter().chain(options).chain(rest.iter().cloned()).map(OsString::from).collect()
}

/// Returns true if the output of a command is a JSON document.
fn is_json(command: &Command) -> bool {
    match command {
        Command::Apply(args) => args.format == ReportFormat::Json,
        Command::Plan(args) => args.format == ReportFormat::Json,
        Command::Check(args) => args.format == ReportFormat::Json,
        Command::Set(args) => args.format == ReportFormat::Json,
        Command::Get(args) => args.format == ResourceFormat::Json,
        Command::Facts(args) => args.format == FactsFormat::Json,
        _ => false,
    }
}

/// Prints an object with a member for each device.
fn documents(results: &[DeviceResult<'_>]) -> Exit {
    let member = |result: &DeviceResult<'_>| {
        let output = serde_json::from_str(&result.stdout).unwrap_or_else(|_| Json::from(result.stdout.as_str()));
        let mut json = json!({ "answer": "finished", "exit": result.code, "output": output });
        if !result.stderr.is_empty() {
            json["messages"] = result.stderr.as_str().into();
        }
        (result.device.to_owned(), json)
    };
    let document: Map<String, Json> = results.iter().map(member).collect();
    output::data(&format!("{:#}\n", Json::Object(document)))
}

/// Prints the output of each group of equal results, below the names of its devices.
fn groups(results: &[DeviceResult<'_>], quiet: bool) -> Exit {
    let mut groups: Vec<(String, Vec<&DeviceResult<'_>>)> = Vec::new();
    for result in results {
        let key = comparable(result);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(result),
            None => groups.push((key, vec![result])),
        }
    }
    let mut exit = Exit::Done;
    for (_, group) in &groups {
        let Some(first) = group.first() else { continue };
        if first.stdout.is_empty() && first.stderr.is_empty() {
            continue;
        }
        let names: Vec<&str> = group.iter().map(|result| result.device).collect();
        exit = worse(exit, output::data(&format!("{}\n", styled(NAME, format!("{}:", names.join(", "))))));
        if !first.stderr.is_empty() {
            output::line(indented(&first.stderr).trim_end());
        }
        exit = worse(exit, output::data(&indented(&first.stdout)));
    }
    let count = |wanted: &str| results.iter().filter(|result| word(result.code) == wanted).count();
    let counts = ["succeeded", "pending", "failed", "not started", "interrupted"];
    let counts: Vec<String> =
        counts.iter().filter(|word| count(word) > 0).map(|word| format!("{} {word}", count(word))).collect();
    if quiet {
        return exit;
    }
    worse(exit, output::data(&format!("{} devices: {}\n", results.len(), counts.join(", "))))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}

fn worse(one: Exit, other: Exit) -> Exit {
    if one == Exit::Done { other } else { one }
}

/// Returns a result without its device and its durations, for comparison with others.
fn comparable(result: &DeviceResult<'_>) -> String {
    let text = format!("{}\n{}\n{}", result.code, result.stdout, result.stderr);
    without_durations(&text.replace(result.device, "\0"))
}

/// Removes the durations of summaries: `(8 ms)`, `(2.1 s)`.
fn without_durations(text: &str) -> String {
    let mut shortened = String::with_capacity(text.len());
    for line in text.lines() {
        let rest = line.strip_suffix(" ms)").or_else(|| line.strip_suffix(" s)"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let start = rest.and_then(|rest| rest.rsplit_once('(')).filter(|(_, number)| is_number(number));
        shortened.push_str(start.map_or(line, |(start, _)| start));
        shortened.push('\n');
    }
    shortened
}

/// Returns the word for the result of a device.
fn word(code: i32) -> &'static str {
    match code {
        0 => "succeeded",
        1 => "not started",
        2 => "pending",
        130 | 143 => "interrupted",
        _ => "failed",
    }
}

/// Returns the exit code for all devices.
fn exit(results: &[DeviceResult<'_>], devices: usize) -> Exit {
    let count = |wanted: &str| results.iter().filter(|result| word(result.code) == wanted).count();
    let not_started = count("not started");
    if let Some(exit) = signals::exit() {
        return exit;
    }
    match results.len() < devices {
        true => Exit::Failed,
        // Exit code 1 means that nothing was changed.
        false if not_started == devices => Exit::NotStarted,
        false if not_started + count("failed") + count("interrupted") > 0 => Exit::Failed,
        false if count("pending") > 0 => Exit::Pending,
        false => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<T: From<String>>(text: &str) -> Vec<T> {
        text.split(' ').map(|word| T::from(word.to_owned())).collect()
    }

    #[test]
    fn each_process_gets_one_device() {
        let given = words("plan -v site.yaml --color auto -- --on");
        assert_eq!(arguments("b", &given, false), words::<OsString>("--on=b --color=never plan -v site.yaml -- --on"));
        assert_eq!(
            arguments("b", &words("--color=auto get x"), true),
            words::<OsString>("--on=b --color=always get x")
        );
    }

    #[test]
    fn results_are_equal_without_names_and_durations() {
        let of = |device: &'static str, stdout: &str| {
            let stderr = format!("notice: box[{device}]: x");
            comparable(&DeviceResult { device, code: 0, stdout: stdout.into(), stderr })
        };
        assert_eq!(of("a1", "1 resource: 1 changed (12 ms)\n"), of("b2", "1 resource: 1 changed (2.1 s)\n"));
        assert_ne!(of("a1", "size (12 MB)\n"), of("b2", "size (13 MB)\n"));
    }

    #[test]
    fn exit_code_shows_the_worst_result() {
        let of = |codes: &[i32]| {
            let result =
                |code: &i32| DeviceResult { device: "a", code: *code, stdout: String::new(), stderr: String::new() };
            exit(&codes.iter().map(result).collect::<Vec<_>>(), codes.len())
        };
        assert_eq!(of(&[0, 0]), Exit::Done);
        assert_eq!(of(&[0, 2]), Exit::Pending);
        assert_eq!(of(&[2, 4]), Exit::Failed);
        assert_eq!(of(&[1, 1]), Exit::NotStarted);
        assert_eq!(of(&[1, 0]), Exit::Failed);
    }
}
