//! Results of a command on several targets: hosts or devices.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kilter_process::Stream;
use serde_json::{Value as Json, json};

use crate::cli::{Command, FactsFormat, ReportFormat, ResourceFormat, StatusFormat, TypesFormat};
use crate::exit::Exit;
use crate::style::{NAME, styled};
use crate::{foreign, output, signals};

/// Stack size in bytes of a thread that works on a target. For a device, it executes the command, as usually the main
/// thread does. Only the pages that are used need memory.
const STACK: usize = 8 << 20;

/// Result of a command on a target.
#[derive(Debug)]
pub(crate) struct TargetResult {
    /// Name of the target.
    pub(crate) name: String,
    /// Exit code.
    pub(crate) code: u8,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Calls `work` for each item, at most `parallel` at the same time. Returns the results in the order of the items.
pub(crate) fn on_each<I: Sync, T: Send>(items: &[I], parallel: u32, work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let threads = items.len().min(parallel as usize);
    let until_end = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let thread = std::thread::Builder::new().name("target".into()).stack_size(STACK);
            // With fewer threads it takes longer.
            if thread.spawn_scoped(scope, until_end).is_err() {
                break;
            }
        }
        until_end();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the items with equal keys together, in the order of their first items.
pub(crate) fn grouped<K: PartialEq, T>(items: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Shows the output of each group of equal results, below the names of its targets.
pub(crate) fn show_groups(results: &[TargetResult]) {
    for (_, group) in grouped(results.iter().map(|result| (comparable(result), result))) {
        let Some(first) = group.first().filter(|first| !first.stdout.is_empty() || !first.stderr.is_empty()) else {
            continue;
        };
        let names: Vec<&str> = group.iter().map(|result| result.name.as_str()).collect();
        output::data(&format!("{}\n", styled(NAME, format!("{}:", names.join(", ")))));
        foreign::write(Stream::Stderr, &indented(&first.stderr));
        foreign::write(Stream::Stdout, &indented(&first.stdout));
    }
}

/// Returns a result as a member of a document with all targets.
pub(crate) fn json(result: &TargetResult) -> (String, Json) {
    let text = String::from_utf8_lossy(&result.stdout);
    let output = serde_json::from_str(&text).unwrap_or_else(|_| Json::from(text.as_ref()));
    let mut json = json!({ "answer": "finished", "exit": result.code, "output": output });
    if !result.stderr.is_empty() {
        json["messages"] = String::from_utf8_lossy(&result.stderr).as_ref().into();
    }
    (result.name.clone(), json)
}

/// Returns the exit code for the exit codes of all targets. A target without a result is a failure: 4.
pub(crate) fn exit(codes: &[u8]) -> Exit {
    if let Some(exit) = signals::exit() {
        return exit;
    }
    match codes {
        // Exit code 1 means that nothing was changed.
        codes if codes.iter().all(|code| *code == 1) => Exit::NotStarted,
        codes if codes.iter().any(|code| !matches!(code, 0 | 2)) => Exit::Failed,
        codes if codes.contains(&2) => Exit::Pending,
        _ => Exit::Done,
    }
}

/// Returns true if the output of a command is a JSON document.
pub(crate) fn is_json(command: &Command) -> bool {
    match command {
        Command::Apply(args) => args.format == ReportFormat::Json,
        Command::Plan(args) => args.format == ReportFormat::Json,
        Command::Check(args) => args.format == ReportFormat::Json,
        Command::Set(args) => args.format == ReportFormat::Json,
        Command::Act(args) => args.format == ReportFormat::Json,
        Command::Clean(args) => args.format == ReportFormat::Json,
        Command::History(args) => args.format == ReportFormat::Json,
        Command::Blame(args) => args.format == ReportFormat::Json,
        Command::Undo(args) => args.format == ReportFormat::Json,
        Command::Get(args) => args.format == ResourceFormat::Json,
        Command::Facts(args) => args.format == FactsFormat::Json,
        Command::Types(args) => args.format == TypesFormat::Json,
        Command::Status(args) => args.format == StatusFormat::Json,
        _ => false,
    }
}

/// Removes the durations at the ends of lines: `(8 ms)`, `(2.1 s)`.
pub(crate) fn without_durations(text: &str) -> String {
    let mut shortened = String::with_capacity(text.len());
    for line in text.lines() {
        let rest = line.strip_suffix(" ms)").or_else(|| line.strip_suffix(" s)"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let start = rest.and_then(|rest| rest.rsplit_once(" (")).filter(|(_, number)| is_number(number));
        shortened.push_str(start.map_or(line, |(start, _)| start));
        shortened.push('\n');
    }
    shortened
}

/// Returns a text with each line that is not empty two columns further right.
pub(crate) fn indented(text: &[u8]) -> Vec<u8> {
    let mut indented = Vec::with_capacity(text.len() + 64);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line != b"\n" {
            indented.extend_from_slice(b"  ");
        }
        indented.extend_from_slice(line);
    }
    if indented.last().is_some_and(|last| *last != b'\n') {
        indented.push(b'\n');
    }
    indented
}

/// Returns a result without the name of its target and its durations, for comparison with others.
fn comparable(result: &TargetResult) -> String {
    let [stdout, stderr] = [&result.stdout, &result.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let text = format!("{}\n{stdout}\n{stderr}", result.code);
    without_durations(&text.replace(&result.name, "\0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_equal_without_names_and_durations() {
        let of = |name: &str, stdout: &str| {
            let stderr = format!("notice: box[{name}]: x").into_bytes();
            comparable(&TargetResult { name: name.into(), code: 0, stdout: stdout.into(), stderr })
        };
        assert_eq!(of("a1", "1 resource: 1 changed (12 ms)\n"), of("b2", "1 resource: 1 changed (2.1 s)\n"));
        assert_ne!(of("a1", "size (12 MB)\n"), of("b2", "size (13 MB)\n"));
    }

    #[test]
    fn exit_code_shows_the_worst_result() {
        assert_eq!(exit(&[0, 0]), Exit::Done);
        assert_eq!(exit(&[0, 2]), Exit::Pending);
        assert_eq!(exit(&[2, 4]), Exit::Failed);
        assert_eq!(exit(&[1, 1]), Exit::NotStarted);
        assert_eq!(exit(&[1, 0]), Exit::Failed);
    }

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<usize> = (0..50).collect();
        assert_eq!(on_each(&items, 7, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(on_each(&[0_usize; 0], 7, |item| *item), Vec::<usize>::new());
    }
}
