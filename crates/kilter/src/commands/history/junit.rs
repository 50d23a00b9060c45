//! Results of past runs in the format of JUnit, for CI systems.

use std::ops::ControlFlow;
use std::time::Duration;

use kilter_history::{EventKind, History, HistoryEvent, Order, RunRecord, Selection};
use serde_json::Value as Json;

use super::{Filter, export, timeline};
use crate::exit::Exit;
use crate::output;
use crate::past::{self, refuse, user};
use crate::render::junit::{TestCase, markup, seconds};

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
    let mut events = Vec::new();
    let mut time = Duration::ZERO;
    let mut take = |event: HistoryEvent| {
        if event.kind == EventKind::End {
            time = duration(&event.body);
        }
        if event.kind == EventKind::Outcome && filter.has_outcome(&event) && filter.has_time(event.at) {
            events.push(event);
        }
        ControlFlow::Continue(())
    };
    history.events_of(run.id, &mut take).map_err(|error| refuse(&error))?;
    let cases: Vec<TestCase<'_>> = events.iter().filter_map(test_case).collect();
    if cases.is_empty() {
        return Ok(String::new());
    }
    let count = |result: &str| cases.iter().filter(|case| case.result == result).count();
    let begin = &run.begin.body;
    let began = past::time::exact(run.begin.at);
    let mut text = format!(
        "  <testsuite name=\"run {}: kilter {}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\" \
         timestamp=\"{}\" hostname=\"{}\">\n    <properties>\n      <property name=\"kilter.user\" value=\"{}\"/>\n    \
         </properties>\n",
        run.id.0,
        markup(begin["command"].as_str().unwrap_or("?")),
        cases.len(),
        count("failure"),
        count("skipped"),
        seconds(time),
        began.get(..19).unwrap_or(&began),
        markup(begin["host"].as_str().unwrap_or("?")),
        markup(&user(begin)),
    );
    cases.iter().for_each(|case| case.write(&mut text));
    text += "  </testsuite>\n";
    Ok(text)
}

/// Returns the test case of a result.
fn test_case(event: &HistoryEvent) -> Option<TestCase<'_>> {
    let (type_name, title) = event.resource.as_ref()?;
    let status = event.body["status"].as_str().unwrap_or("?");
    let first = event.body["failure"].as_str().and_then(|failure| failure.lines().next());
    let (result, message) = match status {
        "changed" | "refreshed" => ("", String::new()),
        "failed" => ("failure", first.unwrap_or("failed").to_owned()),
        _ => ("skipped", status.replace('_', " ")),
    };
    Some(TestCase {
        type_name,
        title,
        duration: duration(&event.body),
        result,
        kind: "failed",
        message,
        output: anstream::adapter::strip_str(&timeline::details(event)).to_string(),
    })
}

fn duration(body: &Json) -> Duration {
    Duration::from_millis(body["duration_ms"].as_u64().unwrap_or_default())
}
