//! Report of a run as one HTML page, without scripts and without references to other files.

pub(crate) mod period;
mod timeline;

use std::fmt::Write;

use kilter_model::Difference;
use kilter_runtime::{ResourceReport, Status};
use rustc_hash::FxHashSet;

use super::escape::markup;
use super::{json, report};
use crate::reported_run::ReportedRun;

const STYLE: &str = include_str!("html/style.css");

/// Number of drifting resources that the page shows at once.
const MAX_DRIFTING: usize = 50;

/// Maximum number of unchanged resources that the page names.
const MAX_UNCHANGED: usize = 5_000;

/// Returns the page.
pub(crate) fn page(run: &ReportedRun<'_>) -> String {
    let title = format!("kilter {} on {}", run.command, markup(run.host));
    let sections =
        [head(run), counts(run), drift(run), timeline::section(run), resources(run), unchanged(run)].concat();
    document(&title, &sections)
}

/// Returns a page with a title and a body, both with escapes.
fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\
         </main>\n</body>\n</html>\n"
    )
}

/// Returns the result of the run, its time and its problems.
fn head(run: &ReportedRun<'_>) -> String {
    let report = run.report;
    let done = report.settled.unwrap_or(report.counts);
    let (class, result) = match (report.has_failures(), report.interrupted) {
        (true, _) => ("bad", "Something failed"),
        (false, true) => ("bad", "Interrupted"),
        (false, false) if report.counts.pending() > 0 && run.noop => ("todo", "Changes are pending"),
        (false, false) if report.counts.pending() > 0 => ("todo", "Resources are left out of sync"),
        (false, false) if done.changed + done.refreshed > 0 => ("done", "Changed as declared"),
        (false, false) => ("good", "Nothing to do"),
    };
    let mode = if run.noop { "dry run, nothing was changed" } else { "changes were made where needed" };
    let mut text = format!(
        "<p class=\"result {class}\">{result}</p>\n<p class=\"faint\">Started {}, took {} · {mode} · kilter {}</p>\n",
        run.started("%Y-%m-%d %H:%M:%S UTC"),
        report::seconds(report.duration),
        env!("CARGO_PKG_VERSION")
    );
    if let Some(settled) = &report.settled {
        let meanwhile = report::meanwhile(settled);
        let _ = writeln!(text, "<p class=\"faint\">{}</p>", meanwhile.trim_start_matches("; "));
    }
    let unflushed = report.unflushed.iter().map(|why| format!("not on the disk for certain: {why}"));
    let journal = report.journal.iter().map(ToString::to_string);
    let ended = report.ended_by.iter().map(|by| format!("the failure of {by} ended the run"));
    let owed = report
        .owed
        .iter()
        .map(|(first, second)| format!("{second} is still to be refreshed because of {first}; the next run does so"));
    for problem in unflushed.chain(journal).chain(ended).chain(owed) {
        let _ = writeln!(text, "<p class=\"error\">{}</p>", markup(&problem));
    }
    text
}

/// Returns the counts as tiles, and their shares as a bar.
fn counts(run: &ReportedRun<'_>) -> String {
    let parts: Vec<_> = report::parts(run.report, run.noop).into_iter().filter(|(count, _)| *count > 0).collect();
    let total = run.report.counts.total as u64;
    let all = (total, if total == 1 { "resource" } else { "resources" }, "");
    let counts = parts.iter().map(|(count, word)| (*count as u64, *word, class_of(word)));
    let mut text =
        format!("<section>\n<h2>Counts</h2>\n{}", tiles(&std::iter::once(all).chain(counts).collect::<Vec<_>>()));
    text += "<div class=\"bar\" aria-hidden=\"true\">";
    for (count, word) in parts.iter().filter(|(_, word)| !is_extra(word)) {
        let _ = write!(text, "<i class=\"{}\" style=\"flex:{count}\"></i>", class_of(word));
    }
    text + "</div>\n</section>\n"
}

/// Returns counts as tiles, with their words and classes.
fn tiles(counts: &[(u64, &str, &str)]) -> String {
    let tile = |(count, word, class): &(u64, &str, &str)| {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        format!("<li{class}><b>{count}</b> {}</li>\n", markup(word))
    };
    format!("<ul class=\"counts\">\n{}</ul>\n", counts.iter().map(tile).collect::<String>())
}

/// Returns true for counts of resources that count elsewhere, or do not belong to the run.
fn is_extra(word: &str) -> bool {
    matches!(word, "of them corrected" | "left out by `when`")
}

/// Returns the class of a word of the summary, which selects the colour.
fn class_of(word: &str) -> &'static str {
    match word {
        "failed" => "bad",
        "changed" | "of them corrected" | "refreshed" => "done",
        "to change" | "to refresh" | "left out of sync" | "not known yet" => "todo",
        "unchanged" => "good",
        _ => "none",
    }
}

/// Returns the resources that are known to drift, or may do so.
fn drift(run: &ReportedRun<'_>) -> String {
    let mut text = "<section>\n<h2>What drifts</h2>\n".to_owned();
    let why = |one: &ResourceReport| match one.status {
        Status::WouldChange if one.is_contested => Some(match &one.changed_by {
            Some(by) => format!("another program undoes its repairs: {}", report::process(&json::changed_by(by))),
            None => "another program undoes its repairs".to_owned(),
        }),
        Status::WouldChange if one.is_left || !run.noop => Some("out of sync, and only checked".to_owned()),
        Status::WouldChange => Some("out of sync".to_owned()),
        Status::Changed if run.report.is_corrected(one) => Some("repaired: it had drifted".to_owned()),
        _ => None,
    };
    let of_end =
        run.report.resources.iter().enumerate().filter_map(|(at, one)| Some((format!("r{at}"), one, why(one)?)));
    // The newest repair of a resource: the first change in the run may follow from an edit.
    let results: Vec<_> = run.trace.results.iter().flatten().enumerate().collect();
    let mut seen = FxHashSet::default();
    let repaired = results.into_iter().rev().filter_map(|(at, (_, one))| {
        let is_repaired = one.status == Status::Changed && run.report.is_corrected(one) && seen.insert(&one.reference);
        is_repaired.then(|| (format!("c{at}"), one, "repaired: it had drifted".to_owned()))
    });
    let rows: Vec<String> = of_end
        .chain(repaired)
        .map(|(id, one, why)| format!("<li><a href=\"#{id}\">{}</a>: {}</li>\n", name(one), markup(&why)))
        .collect();
    let (first, more) = rows.split_at(rows.len().min(MAX_DRIFTING));
    if !first.is_empty() {
        text += &format!("<ul>\n{}</ul>\n", first.concat());
    }
    if !more.is_empty() {
        let (count, more) = (more.len(), more.concat());
        text += &format!("<details>\n<summary>{count} more</summary>\n<ul>\n{more}</ul>\n</details>\n");
    }
    let note = match (&run.report.corrected, run.noop, rows.is_empty()) {
        (Some(_), _, true) => "No resource drifts.",
        (Some(_), _, false) => "",
        (None, true, true) => "Every checked resource is in its declared state.",
        (None, true, false) => "A difference is drift, or follows from an edit of the manifest.",
        (None, false, true) => "No resource is left out of sync. Which changes repaired drift is not recorded.",
        (None, false, false) => "Which of the changes repaired drift is not recorded.",
    };
    if !note.is_empty() {
        let _ = writeln!(text, "<p class=\"faint\">{note}</p>");
    }
    text + "</section>\n"
}

fn name(one: &ResourceReport) -> String {
    markup(&one.reference.to_string())
}

/// Returns the word and the class of a result.
fn result(one: &ResourceReport) -> (&'static str, &'static str) {
    match one.status {
        Status::InSync => ("unchanged", "good"),
        Status::Changed => ("changed", "done"),
        Status::Refreshed => ("refreshed", "done"),
        Status::WouldChange => ("would change", "todo"),
        Status::WouldRefresh => ("would be refreshed", "todo"),
        Status::Unknown => ("not known yet", "todo"),
        Status::Failed => ("failed", "bad"),
        Status::Skipped => ("skipped", "none"),
        Status::Interrupted if one.is_unreached() => ("not checked", "none"),
        Status::Interrupted => ("not done", "none"),
    }
}

/// Returns all resources that were not simply in sync, with their details. For a run that holds a state, they are those
/// at its end, and its results before follow.
fn resources(run: &ReportedRun<'_>) -> String {
    let of_end = run.report.resources.iter().enumerate();
    let of_end: String = of_end.map(|(at, one)| resource(&format!("r{at}"), one, "")).collect();
    let results = run.trace.results.iter().flatten().enumerate();
    let results: String = results
        .map(|(at, (time, one))| resource(&format!("c{at}"), one, &format!(" after {}", report::seconds(*time))))
        .collect();
    let mut text = String::new();
    for (title, entries) in [("Resources", of_end), ("While the state was held", results)] {
        if !entries.is_empty() {
            let _ = writeln!(text, "<section>\n<h2>{title}</h2>\n{entries}</section>");
        }
    }
    text
}

fn resource(id: &str, one: &ResourceReport, when: &str) -> String {
    let (word, class) = result(one);
    let summary =
        format!("<span class=\"mark {class}\">{word}</span> {} <span class=\"faint\">{when}</span>", name(one));
    details(id, one.status == Status::Failed, &summary, &resource_details(one))
}

/// Returns a part that can be opened.
fn details(id: &str, is_open: bool, summary: &str, body: &str) -> String {
    let open = if is_open { " open" } else { "" };
    format!("<details id=\"{id}\"{open}>\n<summary>{summary}</summary>\n{body}</details>\n")
}

fn resource_details(one: &ResourceReport) -> String {
    let mut text = String::new();
    if let Some(failure) = &one.failure {
        let _ = writeln!(text, "<pre class=\"error\">{}</pre>", markup(failure));
    }
    let mut line = |line: &str| {
        let _ = writeln!(text, "<p>{}</p>", markup(line));
    };
    if let Some(cause) = &one.because_of {
        line(&format!("because of {cause}"));
    }
    if one.refreshed {
        let by: Vec<String> = one.refreshed_by.iter().map(ToString::to_string).collect();
        let by =
            if by.is_empty() { "pending since an earlier run".to_owned() } else { format!("by {}", by.join(", ")) };
        line(&format!("refresh {by}"));
    }
    for (attribute, reason) in &one.unknown {
        line(format!("{attribute} is not known yet: {reason}").trim_start());
    }
    if one.tries > 1 {
        line(&format!("{} tries", one.tries));
    }
    if !one.duration.is_zero() {
        line(&format!("its changes took {}", report::seconds(one.duration)));
    }
    text.extend(one.differences.iter().map(|each| difference(each, "")));
    text.extend(one.unplanned_changes.iter().map(|each| difference(each, " (reported by its provider)")));
    if !one.notes.is_empty() {
        let notes: Vec<&str> = one.notes.iter().map(|note| note.as_str()).collect();
        let _ = writeln!(text, "<pre>{}</pre>", markup(&notes.join("\n")));
    }
    text
}

fn difference(one: &Difference, remark: &str) -> String {
    let entry = one.entry.as_ref().map(|entry| format!("{entry}: ")).unwrap_or_default();
    let change = match &one.message {
        Some(message) => format!("<span>{}</span>", markup(message)),
        None => changed_values(&report::short(&one.is), &report::short(&one.should)),
    };
    let mut text = format!(
        "<p class=\"difference\"><b>{}{}</b> {change}{remark}</p>\n",
        markup(&entry),
        markup(one.attribute.as_str())
    );
    text.extend(one.diff.as_deref().map(diff_block));
    text
}

/// Returns an old and a new value.
fn changed_values(old: &str, new: &str) -> String {
    format!("<del>{}</del> → <ins>{}</ins>", markup(old), markup(new))
}

/// Returns a unified diff.
fn diff_block(diff: &str) -> String {
    format!("<pre class=\"diff\">{}</pre>\n", diff.lines().map(diff_line).collect::<String>())
}

/// Returns a line of a unified diff.
fn diff_line(line: &str) -> String {
    let class = match line.as_bytes().first() {
        _ if line.starts_with("---") || line.starts_with("+++") || line.starts_with("@@") => "faint",
        Some(b'+') => "added",
        Some(b'-') => "removed",
        _ => return format!("{}\n", markup(line)),
    };
    format!("<span class=\"{class}\">{}</span>\n", markup(line))
}

/// Returns the names of the resources that were in sync, apart from those that were not checked.
fn unchanged(run: &ReportedRun<'_>) -> String {
    let reported: FxHashSet<_> = run.report.resources.iter().map(|one| &one.reference).collect();
    let (hidden, in_sync): (Vec<_>, Vec<_>) =
        run.resources().iter().filter(|one| !reported.contains(&one.reference)).partition(|one| one.is_hidden());
    let mut text = String::new();
    for (title, list) in [("Unchanged", in_sync), ("Not checked (hidden)", hidden)] {
        if list.is_empty() {
            continue;
        }
        let names: String = list
            .iter()
            .take(MAX_UNCHANGED)
            .map(|one| format!("<li>{}</li>\n", markup(&one.reference.to_string())))
            .collect();
        let count = list.len();
        let more = count.saturating_sub(MAX_UNCHANGED);
        let more = if more > 0 { format!("<p>and {more} more</p>\n") } else { String::new() };
        let _ = writeln!(
            text,
            "<section>\n<h2>{title}</h2>\n<details>\n<summary>{}</summary>\n<ul class=\"names\">\n{names}</ul>\n{more}\
             </details>\n</section>",
            report::counted(count as u64)
        );
    }
    text
}
