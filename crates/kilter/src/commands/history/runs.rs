//! List of runs.

use std::collections::HashMap;
use std::ops::ControlFlow;

use kilter_history::{EventId, EventKind, History, HistoryEvent, Order, RunId, RunRecord, Selection};
use serde_json::{Value as Json, json};

use super::{List, is_under_way};
use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::past::{command, refuse, time, user};
use crate::recorder::Unchanged;
use crate::session::Session;
use crate::style::{FAILED, FAINT, styled};
use crate::table::Table;
use crate::visible::visible;

/// Shows the chosen runs, the newest first.
pub(super) fn run(history: &History, session: &Session, list: &List) -> Result<Exit, Exit> {
    let runs = chosen(history, list)?;
    shown(&runs, session, list, true)
}

/// Shows the chosen runs that have ended after an event, the oldest first.
pub(super) fn follow(history: &History, session: &Session, list: &List, after: EventId) -> Result<Exit, Exit> {
    let mut ended = Vec::new();
    let mut find = |event: HistoryEvent| {
        ended.extend((event.kind == EventKind::End).then_some(event.run));
        ControlFlow::Continue(())
    };
    let selection = Selection { after: Some(after), order: Order::Ascending, ..Selection::default() };
    history.events(&selection, &mut find).map_err(|error| refuse(&error))?;
    let mut runs = Vec::new();
    for run in ended {
        if let Some(run) = history.run(run).map_err(|error| refuse(&error))?
            && (!list.filter.is_narrow() || has_chosen(history, list, &run)?)
        {
            runs.push(run);
        }
    }
    if runs.is_empty() { Ok(Exit::Done) } else { shown(&runs, session, list, false) }
}

fn chosen(history: &History, list: &List) -> Result<Vec<RunRecord>, Exit> {
    let mut runs = Vec::new();
    let mut failed = None;
    let mut take = |run: RunRecord| {
        let is_chosen = match list.filter.is_narrow() {
            false => Ok(true),
            true => has_chosen(history, list, &run),
        };
        match is_chosen {
            Ok(true) => runs.push(run),
            Ok(false) => {}
            Err(exit) => {
                failed = Some(exit);
                return ControlFlow::Break(());
            }
        }
        if list.lines > 0 && runs.len() >= list.lines { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    history.runs(&list.filter.selection(Order::Descending, None), &mut take).map_err(|error| refuse(&error))?;
    failed.map_or(Ok(runs), Err)
}

/// Returns true if a run has a chosen outcome.
fn has_chosen(history: &History, list: &List, run: &RunRecord) -> Result<bool, Exit> {
    let mut is_found = false;
    let mut look = |event: HistoryEvent| {
        is_found = event.kind == EventKind::Outcome && list.filter.has_outcome(&event);
        if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    history.events_of(run.id, &mut look).map_err(|error| refuse(&error))?;
    Ok(is_found)
}

fn shown(runs: &[RunRecord], session: &Session, list: &List, has_headings: bool) -> Result<Exit, Exit> {
    let repeats = Repeats::of(runs, session);
    if list.format == ReportFormat::Json {
        return Ok(output::data(&runs.iter().map(|run| format!("{}\n", document(run, &repeats))).collect::<String>()));
    }
    if runs.is_empty() {
        output::line("no run matches");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["run", "time", "command", "user", "result"]);
    for run in runs {
        let begin = &run.begin.body;
        table.row([
            run.id.0.to_string(),
            time::shown(run.begin.at),
            command(begin),
            visible(&user(begin)),
            result(run, &repeats),
        ]);
    }
    let (text, _) = table.render(None);
    let text = if has_headings { text.as_str() } else { text.split_once('\n').map_or("", |(_, rows)| rows) };
    Ok(output::data(text))
}

/// Returns a run for programs.
fn document(run: &RunRecord, repeats: &Repeats) -> Json {
    let mut document = json!({ "run": run.id.0, "time": time::exact(run.begin.at) });
    for (key, value) in run
        .begin
        .body
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !["started", "unchanged_before"].contains(&key.as_str()))
    {
        document[key] = value.clone();
    }
    match &run.end {
        Some(end) => {
            document["state"] = "ended".into();
            document["ended"] = time::exact(end.at).into();
            for (key, value) in end.body.as_object().into_iter().flatten() {
                document[key] = value.clone();
            }
        }
        None if is_under_way(&run.begin.body) => document["state"] = "under_way".into(),
        None => document["state"] = "cut_off".into(),
    }
    if let Some((count, last)) = repeats.0.get(&run.id) {
        document["repeated"] = json!({ "count": count, "last": time::exact(*last) });
    }
    document
}

/// Runs without changes after each run: their number, and the end of the last one.
pub(super) struct Repeats(HashMap<RunId, (u64, i64)>);

impl Repeats {
    pub(super) fn of(runs: &[RunRecord], session: &Session) -> Repeats {
        let recorded = |run: &RunRecord| {
            let before = &run.begin.body["unchanged_before"];
            Some((RunId(before["run"].as_i64()?), (before["count"].as_u64()?, before["last"].as_i64()?)))
        };
        let mut all: HashMap<_, _> = runs.iter().filter_map(recorded).collect();
        if let Some(state_dir) = session.state_dir_if_any() {
            let unchanged = Unchanged::of(&state_dir);
            all.extend(runs.iter().filter_map(|run| {
                let found = unchanged.after(run.id)?;
                Some((run.id, (found.count, found.last)))
            }));
        }
        Repeats(all)
    }

    /// Returns the number of runs without changes after a run.
    pub(super) fn count(&self, run: RunId) -> Option<u64> {
        self.0.get(&run).map(|(count, _)| *count)
    }
}

/// Returns the result of a run in words, with styles.
fn result(run: &RunRecord, repeats: &Repeats) -> String {
    let is_bad = match &run.end {
        Some(end) => end.body["failed"] == true,
        None => !is_under_way(&run.begin.body),
    };
    let mut text = if is_bad { styled(FAILED, words(run)) } else { words(run) };
    if let Some((n, last)) = repeats.0.get(&run.id) {
        let runs = if *n == 1 { "1 more run".to_owned() } else { format!("{n} more runs") };
        text += &styled(FAINT, format!("; {runs} without changes until {}", time::shown(*last)));
    }
    text
}

/// Returns the result of a run in words.
pub(super) fn words(run: &RunRecord) -> String {
    let Some(end) = &run.end else {
        return match is_under_way(&run.begin.body) {
            true => "under way".to_owned(),
            false => "cut off: the process ended without a report".to_owned(),
        };
    };
    if let Some(messages) = end.body["messages"].as_u64() {
        return format!("{messages} messages");
    }
    let counts = &end.body["counts"];
    let count = |word: &str| counts[word].as_u64().unwrap_or_default();
    let corrected = count("corrected");
    let parts = [
        (count("changed").saturating_sub(corrected), "changed"),
        (corrected, "corrected"),
        (count("refreshed"), "refreshed"),
        (count("failed"), "failed"),
        (count("skipped"), "skipped"),
        (count("interrupted"), "not reached"),
    ];
    let words: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let mut text = if words.is_empty() { "no changes".to_owned() } else { words.join(", ") };
    // A service ends by a signal.
    if end.body["interrupted"] == true && run.begin.body["command"] != "run" {
        text += ", interrupted";
    }
    text
}

/// Returns the numbers of changed declarations in words.
pub(super) fn declared(body: &Json) -> String {
    let count = |key: &str| body[key]["count"].as_u64().unwrap_or_default();
    let parts = [(count("added"), "new"), (count("changed"), "changed"), (count("removed"), "no longer declared")];
    let words: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if words.is_empty() { "the same".to_owned() } else { words.join(", ") }
}
