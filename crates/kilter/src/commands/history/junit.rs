//! Results of past runs in the format of JUnit, for CI systems.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryEvent, Order, RunRecord, Selection};

use super::{Filter, export, timeline};
use crate::exit::Exit;
use crate::output;
use crate::past::{refuse, time, user};
use crate::render::escape::markup;

/// Prints a test suite for each run with chosen results, the oldest first.
pub(super) fn run(history: &History, filter: &Filter) -> Result<Exit, Exit> {
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kilter history\">\n";
    let mut written = output::write(head);
    let mut failed = None;
    let mut print = |run: RunRecord| {
        match suite(history, filter, &run) {
            Ok(text) => written = output::write(&text),
            Err(exit) => failed = Some(exit),
        }
        if written.is_ok() && failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let all = Selection { order: Order::Ascending, ..Selection::default() };
    history.runs(&all, &mut print).map_err(|error| refuse(&error))?;
    match failed {
        Some(exit) => Err(exit),
        None => Ok(export::end(written.and_then(|()| output::write("</testsuites>\n")))),
    }
}

/// Returns the test suite of a run; empty if no result is chosen.
fn suite(history: &History, filter: &Filter, run: &RunRecord) -> Result<String, Exit> {
    let mut cases = Vec::new();
    let mut duration = None;
    let mut take = |event: HistoryEvent| {
        if event.kind == EventKind::End {
            duration = event.body["duration_ms"].as_u64();
        }
        if event.kind == EventKind::Outcome && filter.has_outcome(&event) && filter.has_time(event.at) {
            cases.extend(test_case(&event));
        }
        ControlFlow::Continue(())
    };
    history.events_of(run.id, &mut take).map_err(|error| refuse(&error))?;
    if cases.is_empty() {
        return Ok(String::new());
    }
    let count = |result: &str| cases.iter().filter(|(kind, _)| *kind == result).count();
    let begin = &run.begin.body;
    let began = time::exact(run.begin.at);
    let mut text = format!(
        "  <testsuite name=\"run {}: kilter {}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\" \
         timestamp=\"{}\" hostname=\"{}\">\n    <properties>\n      <property name=\"kilter.user\" value=\"{}\"/>\n    \
         </properties>\n",
        run.id.0,
        markup(begin["command"].as_str().unwrap_or("?")),
        cases.len(),
        count("failure"),
        count("skipped"),
        seconds(duration),
        began.get(..19).unwrap_or(&began),
        markup(begin["host"].as_str().unwrap_or("?")),
        markup(&user(begin)),
    );
    text.extend(cases.into_iter().map(|(_, case)| case));
    text += "  </testsuite>\n";
    Ok(text)
}

/// Returns the element of a result with `failure`, `skipped`, or an empty word.
fn test_case(event: &HistoryEvent) -> Option<(&'static str, String)> {
    let (type_name, title) = event.resource.as_ref()?;
    let status = event.body["status"].as_str().unwrap_or("?");
    let details = markup(&anstream::adapter::strip_str(&timeline::details(event)).to_string());
    let duration = seconds(event.body["duration_ms"].as_u64());
    let (type_name, title) = (markup(type_name), markup(title));
    let mut text = format!("    <testcase classname=\"{type_name}\" name=\"{title}\" time=\"{duration}\">\n");
    let kind = match status {
        "changed" | "refreshed" => "",
        "failed" => "failure",
        _ => "skipped",
    };
    let _ = match kind {
        "failure" => {
            let first = event.body["failure"].as_str().and_then(|failure| failure.lines().next());
            let message = markup(first.unwrap_or("failed"));
            writeln!(text, "      <failure message=\"{message}\" type=\"failed\">{details}</failure>")
        }
        "skipped" => writeln!(
            text,
            "      <skipped message=\"{}\"/>\n      <system-out>{details}</system-out>",
            markup(&status.replace('_', " "))
        ),
        _ => writeln!(text, "      <system-out>{details}</system-out>"),
    };
    text += "    </testcase>\n";
    Some((kind, text))
}

fn seconds(milliseconds: Option<u64>) -> String {
    format!("{:.3}", milliseconds.unwrap_or_default() as f64 / 1000.0)
}
