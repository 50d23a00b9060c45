//! Reports for people: one small function per kind of thing shown.

use kilter_model::{Difference, ResourceRef, Value};
use kilter_runtime::{Counts, Deviation, Report, ResourceReport, Status};
use serde_json::Value as Json;

use super::diff::diff;
use super::json;
use crate::style::{ADDED, CHANGED, FAILED, FAINT, NAME, REMOVED, styled};
use crate::visible::visible;

/// Maximum number of characters of values in "is → should" lines.
const MAX_VALUE_CHARS: usize = 100;

/// Returns one resource: the result, the differences, the failure. In a run with changes, noop resources are
/// marked.
pub(crate) fn resource(report: &ResourceReport, noop: bool) -> String {
    let name = visible(&report.reference.to_string());
    let mut text = format!("{} {}{}\n", mark(report), styled(NAME, name), headline(report, noop));
    for difference in &report.differences {
        text += &attribute(difference);
    }
    for difference in &report.unplanned_changes {
        text += &provider_change(difference);
    }
    for (attribute, reason) in &report.unknown {
        let is_creation = report.status == Status::WouldChange && attribute == "ensure";
        let reason = visible(&format!("{} {reason}", if is_creation { "may exist" } else { "known" }));
        text += &match attribute.is_empty() {
            true => format!("    {}\n", styled(FAINT, reason)),
            false => format!("    {attribute}: {}\n", styled(FAINT, reason)),
        };
    }
    if let Some(by) = report.changed_by.as_ref().filter(|_| !report.is_contested) {
        text += &format!("    changed by {}\n", process(&json::changed_by(by)));
    }
    if report.refreshed {
        text += &refreshed(report);
    }
    if !report.refresh_not_needed.is_empty() {
        text += &format!("    refresh by {} not needed after this change\n", listed(&report.refresh_not_needed));
    }
    for note in &report.notes {
        text += &indented(note, "    | ");
    }
    if let Some(failure) = &report.failure {
        text += &failed(failure);
    }
    text
}

fn mark(report: &ResourceReport) -> String {
    match report.status {
        Status::Failed => styled(FAILED, "✗"),
        Status::Skipped | Status::Interrupted => styled(FAINT, "⊘"),
        Status::Unknown => styled(CHANGED, "?"),
        Status::Refreshed | Status::WouldRefresh => styled(CHANGED, "↻"),
        Status::InSync => styled(FAINT, "="),
        Status::Changed | Status::WouldChange => match kind(report) {
            ChangeKind::Created => styled(ADDED, "+"),
            ChangeKind::Removed => styled(REMOVED, "-"),
            ChangeKind::Changed => styled(CHANGED, "~"),
        },
    }
}

enum ChangeKind {
    Created,
    Removed,
    Changed,
}

fn kind(report: &ResourceReport) -> ChangeKind {
    let ensure = report.differences.iter().find(|d| d.attribute == "ensure" && d.entry.is_none());
    match ensure {
        Some(d) if d.is.as_str() == Some("absent") => ChangeKind::Created,
        Some(d) if d.should.as_str() == Some("absent") => ChangeKind::Removed,
        _ => ChangeKind::Changed,
    }
}

fn headline(report: &ResourceReport, noop: bool) -> String {
    let text = match report.status {
        Status::WouldChange if report.is_contested => match &report.changed_by {
            Some(by) => format!(" contested: its repair has to wait; changed by {}", process(&json::changed_by(by))),
            None => " contested: its repair has to wait".to_owned(),
        },
        Status::WouldChange | Status::WouldRefresh if !noop => " not changed: it is only checked".to_owned(),
        Status::WouldChange | Status::WouldRefresh if report.is_left => " is only checked".to_owned(),
        Status::Failed if report.tries > 1 => format!(" failed after {} tries", report.tries),
        Status::Failed if report.deviation == Some(Deviation::Stale) => " refused".to_owned(),
        Status::Failed => " failed".to_owned(),
        Status::Skipped => match &report.because_of {
            Some(cause) => format!(" skipped because of {}", visible(&cause.to_string())),
            None => " skipped".to_owned(),
        },
        Status::Interrupted => match &report.because_of {
            Some(cause) => format!(" not done: the run was ended by {}", visible(&cause.to_string())),
            None => " not done: the run ended before that".to_owned(),
        },
        Status::Unknown => " not known yet".to_owned(),
        Status::Changed | Status::WouldChange | Status::Refreshed | Status::WouldRefresh | Status::InSync => {
            return String::new();
        }
    };
    styled(FAINT, text)
}

/// Returns the process that changed a resource, as `chmod 600 /etc/f (pid 2314, user eve, ssh.service)`.
pub(crate) fn process(json: &Json) -> String {
    if let Some(why) = json["unknown"].as_str() {
        return format!("an unknown process: {}", visible(why));
    }
    let pid = &json["pid"];
    let Some(program) = json["program"].as_str() else {
        return match json["started_by"].as_str() {
            Some("unknown") => format!("a process with unknown program (pid {pid}, perhaps started by kilter)"),
            _ => format!("a process that has ended (pid {pid}, user unknown)"),
        };
    };
    let mut origin = match json["user"].as_str() {
        Some(user) => format!("user {}", visible(user)),
        None => format!("uid {}", json["uid"]),
    };
    for value in ["unit", "terminal"].into_iter().filter_map(|key| json[key].as_str()) {
        origin += &format!(", {}", visible(value));
    }
    if json["started_by"] == "kilter" {
        origin += ", started by kilter";
    }
    format!("{} (pid {pid}, {origin})", command(json).unwrap_or_else(|| visible(program)))
}

/// Returns a command line without its end, if it is long.
fn command(json: &Json) -> Option<String> {
    let command: Vec<&str> = json["command"].as_array()?.iter().filter_map(Json::as_str).collect();
    let command = visible(&command.join(" "));
    let end = command.char_indices().nth(MAX_VALUE_CHARS).map(|(at, _)| at);
    Some(end.map_or_else(|| command.clone(), |end| format!("{}…", &command[..end])))
}

pub(super) fn attribute(difference: &Difference) -> String {
    line(difference, "")
}

/// Returns a change that only the provider reports.
fn provider_change(difference: &Difference) -> String {
    line(difference, &styled(FAINT, " (reported by its provider)"))
}

fn line(difference: &Difference, remark: &str) -> String {
    let entry = difference.entry.as_ref().map(|entry| format!("{}: ", visible(entry))).unwrap_or_default();
    let change = match &difference.message {
        Some(message) => visible(message),
        None => format!("{} → {}", short(&difference.is), short(&difference.should)),
    };
    let mut text = format!("    {entry}{}: {change}{remark}\n", difference.attribute);
    if let Some(lines) = &difference.diff {
        text += &diff(lines, "      ");
    }
    text
}

/// Returns a value on one line.
pub(super) fn short(value: &Value) -> String {
    let text = match value {
        Value::Undef => return "(none)".to_owned(),
        Value::String(text) if text.is_empty() => return "''".to_owned(),
        value => value.to_string(),
    };
    let text = text.replace('\n', "\\n");
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((cut, _)) => format!("{}…", visible(&text[..cut])),
        None => visible(&text),
    }
}

fn refreshed(report: &ResourceReport) -> String {
    let would = if matches!(report.status, Status::WouldChange | Status::WouldRefresh) { "would be " } else { "" };
    match report.refreshed_by.as_slice() {
        [] => format!("    {would}refreshed: pending since an earlier run\n"),
        by => format!("    {would}refreshed by {}\n", listed(by)),
    }
}

fn listed(resources: &[ResourceRef]) -> String {
    let resources: Vec<String> = resources.iter().map(|one| visible(&one.to_string())).collect();
    resources.join(", ")
}

fn failed(failure: &str) -> String {
    let mut lines = failure.lines();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|line| format!("      {}\n", visible(line))).collect();
    format!("    {} {}\n{rest}", styled(FAILED, "error:"), visible(first))
}

fn indented(text: &str, indent: &str) -> String {
    text.lines().map(|line| styled(FAINT, format!("{indent}{}", visible(line))) + "\n").collect()
}

/// Returns the closing lines: the numbers of changes, made or pending.
pub(crate) fn summary(report: &Report, noop: bool) -> String {
    let counts = &report.counts;
    let parts = parts(report, noop);
    let words: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let what = if words.is_empty() { "nothing to do".to_owned() } else { words.join(", ") };
    let meanwhile = report.settled.map(|settled| meanwhile(&settled)).unwrap_or_default();
    let total = counted(counts.total as u64);
    let mut text = format!("{total}: {what}{meanwhile} ({})\n", seconds(report.duration));
    let stale = report.resources.iter().filter(|one| one.deviation == Some(Deviation::Stale)).count();
    if stale > 0 {
        let what = if stale == 1 { "step of the plan is" } else { "steps of the plan are" };
        text += &format!("{stale} {what} stale and not carried out: make a new plan with `kilter plan -o FILE`\n");
    }
    for problem in &report.unflushed {
        let problem = visible(problem);
        text += &format!("{} not on the disk for certain: {problem}\n", styled(FAILED, "error:"));
    }
    if let Some(problem) = &report.journal {
        let problem = visible(problem);
        text += &format!("{} {problem}; changes that notify other resources were not made\n", styled(FAILED, "error:"));
    }
    if let Some(by) = &report.ended_by {
        text += &format!("{} the failure of {} ended the run\n", styled(FAILED, "error:"), visible(&by.to_string()));
    }
    if report.interrupted {
        text += "interrupted\n";
    }
    for (first, second) in &report.owed {
        let (first, second) = (visible(&first.to_string()), visible(&second.to_string()));
        text += &format!("{second} is still to be refreshed because of {first}; the next run does so\n");
    }
    text
}

/// Returns the numbers of resources by result, with the word for each. Every resource counts once, except that a
/// changed one may count as corrected and refreshed too.
pub(super) fn parts(report: &Report, noop: bool) -> Vec<(usize, &'static str)> {
    let counts = &report.counts;
    let not_done = counts.interrupted.saturating_sub(report.resources.iter().filter(|one| one.is_unreached()).count());
    let mut parts = if noop { pending(report) } else { done(report) };
    parts.extend([
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (not_done, "not done"),
        (report.not_checked(), "not checked"),
        (counts.in_sync, "unchanged"),
        (counts.left_out, "left out by `when`"),
    ]);
    parts
}

/// Returns the changes during a run that held a state.
pub(super) fn meanwhile(settled: &Counts) -> String {
    let times = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let parts = [
        times(settled.changed, "change", "changes"),
        times(settled.refreshed, "refresh", "refreshes"),
        times(settled.failed, "failure", "failures"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("; {} meanwhile", parts.join(", ")) }
}

fn done(report: &Report) -> Vec<(usize, &'static str)> {
    let counts = &report.counts;
    let corrected = report.corrected.as_ref().filter(|_| report.settled.is_none());
    let corrected = corrected.map_or(0, |corrected| corrected.len());
    vec![
        (counts.changed, "changed"),
        // The final states of a run that held a state have no changes.
        (corrected, "of them corrected"),
        (counts.refreshed, "refreshed"),
        (counts.pending(), "left out of sync"),
    ]
}

fn pending(report: &Report) -> Vec<(usize, &'static str)> {
    let counts = &report.counts;
    let is_left =
        |one: &&ResourceReport| one.is_left && matches!(one.status, Status::WouldChange | Status::WouldRefresh);
    let left: Vec<&ResourceReport> = report.resources.iter().filter(is_left).collect();
    let changes = left.iter().filter(|one| one.status == Status::WouldChange).count();
    let refreshes = left.iter().filter(|one| one.refreshed).count();
    vec![
        (counts.would_change.saturating_sub(changes), "to change"),
        (counts.would_refresh.saturating_sub(refreshes), "to refresh"),
        (left.len(), "left out of sync"),
        (counts.unknown, "not known yet"),
    ]
}

/// Returns `1 resource`, `2 resources`.
pub(crate) fn counted(count: u64) -> String {
    format!("{count} {}", if count == 1 { "resource" } else { "resources" })
}

pub(super) fn seconds(duration: std::time::Duration) -> String {
    match duration.as_millis() {
        0..1000 => format!("{} ms", duration.as_millis()),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
