//! `kilter history report`: a period as one HTML page.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use kilter_history::{EventKind, History, HistoryEvent, Order, RunId, RunRecord};
use serde_json::Value as Json;

use super::drift::Drift;
use super::{Filter, drift, process, runs, timeline};
use crate::exit::Exit;
use crate::output;
use crate::output_file::{self, FileMode};
use crate::past::{command, refuse, time, user};
use crate::recorder::milliseconds;
use crate::render::html::period::{
    DriftRow, PeriodBucket, PeriodReport, RecordedDifference, RecordedOutcome, RecordedRun, page,
};
use crate::render::report;
use crate::session::Session;

/// Maximum number of results that the page shows.
const MAX_OUTCOMES: usize = 5_000;

/// Maximum number of runs that the page shows. Runs without results are only counted.
const MAX_RUNS: usize = 1_000;

/// Maximum number of bars of the timeline.
const MAX_BUCKETS: i64 = 96;

/// Durations of a bar in milliseconds, with their names.
const BUCKETS: [(i64, &str); 7] = [
    (60_000, "minute"),
    (10 * 60_000, "ten minutes"),
    (60 * 60_000, "hour"),
    (6 * 60 * 60_000, "six hours"),
    (24 * 60 * 60_000, "day"),
    (7 * 24 * 60 * 60_000, "week"),
    (30 * 24 * 60 * 60_000, "thirty days"),
];

/// Writes the report.
pub(super) fn run(history: &History, session: &Session, filter: &Filter, path: &Path) -> Result<Exit, Exit> {
    let unwritable = |why: &str| output::fail(format_args!("cannot write the report {}: {why}", path.display()));
    output_file::check(path).map_err(|why| unwritable(&why))?;
    let period = period(history, session, filter)?;
    output_file::write(path, &page(&period), FileMode::KeptOrPrivate).map_err(|why| unwritable(&why))?;
    Ok(Exit::Done)
}

/// Numbers of results of the period.
#[derive(Default)]
struct PeriodCounts {
    changed: u64,
    corrected: u64,
    refreshed: u64,
    failed: u64,
    skipped: u64,
}

fn period(history: &History, session: &Session, filter: &Filter) -> Result<PeriodReport, Exit> {
    let mut all: Vec<RunRecord> = Vec::new();
    let mut take = |run: RunRecord| {
        all.push(run);
        ControlFlow::Continue(())
    };
    history.runs(&filter.selection(Order::Descending, None), &mut take).map_err(|error| refuse(&error))?;
    let now = milliseconds(SystemTime::now());
    let begin = filter.selection.since.or(all.last().map(|run| run.begin.at)).unwrap_or(now);
    let end = filter.selection.until.unwrap_or(now).max(begin + 1);
    let mut timeline = Timeline::new(begin, end);
    let (mut counts, mut chosen, mut outcomes) = (PeriodCounts::default(), Chosen::default(), 0usize);
    let mut add = |event: HistoryEvent| {
        match event.kind {
            EventKind::Outcome if filter.has_outcome(&event) => {
                count(&mut counts, &event);
                timeline.add(&event);
                outcomes += 1;
                chosen.take(event, outcomes <= MAX_OUTCOMES);
            }
            EventKind::Process | EventKind::Declared => chosen.take(event, outcomes < MAX_OUTCOMES),
            _ => {}
        }
        ControlFlow::Continue(())
    };
    // The newest results are shown, if there are too many.
    history.events(&filter.selection(Order::Descending, None), &mut add).map_err(|error| refuse(&error))?;
    let repeats = runs::Repeats::of(&all, session);
    let number_of_runs = all.len() as u64 + all.iter().filter_map(|run| repeats.count(run.id)).sum::<u64>();
    let is_shown = |run: &&RunRecord| chosen.0.get(&run.id).is_some_and(RunEvents::has_outcomes);
    let mut shown: Vec<&RunRecord> = all.iter().filter(is_shown).collect();
    let left_out = shown.len().saturating_sub(MAX_RUNS);
    shown.truncate(MAX_RUNS);
    let note = (outcomes > MAX_OUTCOMES || left_out > 0).then(|| {
        format!(
            "The counts, the timeline and the drift are those of the whole period. Of the results, the page has the \
             newest {MAX_OUTCOMES} of at most {MAX_RUNS} runs."
        )
    });
    let counts = [
        (number_of_runs, if number_of_runs == 1 { "run" } else { "runs" }, ""),
        (counts.changed, "changed", "done"),
        (counts.corrected, "corrected", "todo"),
        (counts.refreshed, "refreshed", "done"),
        (counts.failed, "failed", "bad"),
        (counts.skipped, "skipped", "none"),
    ];
    Ok(PeriodReport {
        host: all.first().and_then(|run| run.begin.body["host"].as_str()).unwrap_or("this machine").to_owned(),
        range: format!("{} – {}", time::shown(begin), time::shown(end)),
        counts: counts.into_iter().enumerate().filter(|(at, one)| *at == 0 || one.0 > 0).map(|(_, one)| one).collect(),
        bucket_words: timeline.words,
        buckets: timeline.buckets,
        drift: drift::collected(history, filter)?.iter().map(drift_row).collect(),
        runs: shown.into_iter().map(|run| recorded_run(run, &chosen.0[&run.id])).collect(),
        note,
    })
}

fn count(counts: &mut PeriodCounts, event: &HistoryEvent) {
    match event.body["status"].as_str() {
        Some("changed") if event.body["corrective"] == true => counts.corrected += 1,
        Some("changed") => counts.changed += 1,
        Some("refreshed") => counts.refreshed += 1,
        Some("failed") => counts.failed += 1,
        Some("skipped") => counts.skipped += 1,
        _ => {}
    }
}

/// Events of a run that the page shows, the newest first.
#[derive(Default)]
struct RunEvents(Vec<HistoryEvent>);

impl RunEvents {
    fn has_outcomes(&self) -> bool {
        self.0.iter().any(|event| event.kind == EventKind::Outcome)
    }
}

/// Events that the page shows, by run.
#[derive(Default)]
struct Chosen(HashMap<RunId, RunEvents>);

impl Chosen {
    fn take(&mut self, event: HistoryEvent, is_shown: bool) {
        if is_shown && event.run != RunId(0) {
            self.0.entry(event.run).or_default().0.push(event);
        }
    }
}

/// Numbers of results over the time.
struct Timeline {
    begin: i64,
    width: i64,
    words: &'static str,
    buckets: Vec<PeriodBucket>,
}

impl Timeline {
    fn new(begin: i64, end: i64) -> Timeline {
        let fits = |(width, _): &&(i64, &str)| (end - begin).div_euclid(*width) < MAX_BUCKETS;
        let (width, words) = BUCKETS.iter().find(fits).copied().unwrap_or_else(|| {
            // A history of decades.
            ((end - begin) / MAX_BUCKETS + 1, "part of the period")
        });
        let begin = begin.div_euclid(width) * width;
        let count = (end - 1 - begin).div_euclid(width) + 1;
        let bucket = |at: i64| PeriodBucket { label: label(begin + at * width, width), ..PeriodBucket::default() };
        Timeline { begin, width, words, buckets: (0..count).map(bucket).collect() }
    }

    fn add(&mut self, event: &HistoryEvent) {
        let at = usize::try_from((event.at - self.begin).div_euclid(self.width)).unwrap_or(usize::MAX);
        let Some(bucket) = self.buckets.get_mut(at) else { return };
        match event.body["status"].as_str() {
            Some("changed") if event.body["corrective"] == true => bucket.corrected += 1,
            Some("changed" | "refreshed") => bucket.changed += 1,
            Some("failed") => bucket.failed += 1,
            _ => {}
        }
    }
}

/// Returns the begin of a bar, without parts that all bars have in common.
fn label(at: i64, width: i64) -> String {
    let text = time::shown(at);
    let is_long = width >= 24 * 60 * 60_000;
    text.get(if is_long { 0..10 } else { 5..16 }).unwrap_or(&text).to_owned()
}

fn drift_row((resource, drift): &(String, Drift)) -> DriftRow {
    let attributes = drift.attributes.iter().map(|(name, count)| format!("{name} ({count})"));
    let process = if drift.process.is_object() { report::process(&drift.process) } else { String::new() };
    DriftRow {
        resource: resource.clone(),
        repairs: drift.repairs,
        first: time::shown(drift.first),
        last: time::shown(drift.last),
        interval: match drift.repairs {
            0 | 1 => String::new(),
            repairs => time::span((drift.last - drift.first) / (repairs as i64 - 1)),
        },
        attributes: attributes.collect::<Vec<_>>().join(", "),
        repair_time: drift.repair_time(),
        process,
    }
}

fn recorded_run(run: &RunRecord, events: &RunEvents) -> RecordedRun {
    let begin = &run.begin.body;
    let mut lines: Vec<String> = begin["manifests"].as_array().into_iter().flatten().map(manifest).collect();
    let oldest_first = || events.0.iter().rev();
    let declared = oldest_first().filter(|event| event.kind == EventKind::Declared);
    lines.extend(declared.map(|event| format!("declarations: {}", runs::declared(&event.body))));
    let mut outcomes: Vec<RecordedOutcome> = Vec::new();
    for event in oldest_first() {
        match event.kind {
            EventKind::Outcome => outcomes.push(outcome(event)),
            EventKind::Process if process::is_own(event) => {
                if let Some(last) = outcomes.last_mut().filter(|last| last.class == "bad") {
                    last.processes.extend(process::lines(event));
                }
            }
            _ => {}
        }
    }
    let is_bad = run.end.as_ref().is_none_or(|end| end.body["failed"] == true);
    RecordedRun {
        id: run.id.0,
        time: time::shown(run.begin.at),
        origin: format!("{} by {}", command(begin), user(begin)),
        result: runs::words(run),
        class: if is_bad { "bad" } else { "none" },
        lines,
        outcomes,
    }
}

fn manifest(manifest: &Json) -> String {
    let short = |key: &str| manifest[key].as_str().and_then(|text| text.get(..12));
    let commit = short("commit").map(|commit| format!(", commit {commit}")).unwrap_or_default();
    let path = manifest["path"].as_str().unwrap_or("?");
    format!("{path} (sha256 {}{commit})", short("sha256").unwrap_or_default())
}

fn outcome(event: &HistoryEvent) -> RecordedOutcome {
    let body = &event.body;
    let (word, class) = match body["status"].as_str().unwrap_or("?") {
        "changed" if body["corrective"] == true => ("corrected".to_owned(), "todo"),
        "failed" => ("failed".to_owned(), "bad"),
        word @ ("changed" | "refreshed") => (word.to_owned(), "done"),
        word => (word.replace('_', " "), "none"),
    };
    let text = |value: &Json| value.as_str().map(str::to_owned);
    let mut lines = Vec::new();
    lines.extend(timeline::refreshed_by(body).map(|by| format!("refreshed by {by}")));
    lines.extend(text(&body["because_of"]).map(|cause| format!("because of {cause}")));
    if body["process"].is_object() {
        lines.push(format!("changed by {}", report::process(&body["process"])));
    }
    let time = time::shown(event.at);
    let place = body["place"].as_str().map(|place| format!(" · {place}")).unwrap_or_default();
    RecordedOutcome {
        resource: event.resource.as_ref().map(|(of, title)| format!("{of}[{title}]")).unwrap_or_default(),
        word,
        class,
        origin: format!("{time}{place}"),
        failure: text(&body["failure"]),
        changes: body["changes"].as_array().into_iter().flatten().map(difference).collect(),
        lines,
        processes: Vec::new(),
    }
}

fn difference(change: &Json) -> RecordedDifference {
    let text = |key: &str| change[key].as_str().map(str::to_owned);
    let entry = text("entry").map(|entry| format!("{entry}: ")).unwrap_or_default();
    RecordedDifference {
        attribute: format!("{entry}{}", timeline::attribute(change)),
        message: text("message"),
        old: timeline::value(&change["old"]),
        new: timeline::value(&change["new"]),
        diff: timeline::unified_diff(change).map(Into::into),
    }
}
