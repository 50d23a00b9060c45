//! Changes of a resource, the newest first.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use kilter_history::{EventId, EventKind, History, HistoryEvent, Order, RunId};
use kilter_provider::INSYNC_TRIGGER;
use serde_json::{Value as Json, json};

use super::List;
use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::past::{RecordedResource, refuse, time, user};
use crate::render::{diff, report};
use crate::style::{FAILED, FAINT, NAME, styled};
use crate::visible::visible;

/// Shows the chosen changes of a resource.
pub(super) fn run(history: &History, subject: &RecordedResource, list: &List) -> Result<Exit, Exit> {
    let events = chosen(history, subject, list, Order::Descending, None)?;
    if events.is_empty() && list.format == ReportFormat::Human {
        output::line("no change matches");
    }
    shown(history, &events, list.format)
}

/// Shows the chosen changes after an event, the oldest first.
pub(super) fn follow(history: &History, subject: &RecordedResource, list: &List, after: EventId) -> Result<Exit, Exit> {
    shown(history, &chosen(history, subject, list, Order::Ascending, Some(after))?, list.format)
}

fn chosen(
    history: &History,
    subject: &RecordedResource,
    list: &List,
    order: Order,
    after: Option<EventId>,
) -> Result<Vec<HistoryEvent>, Exit> {
    let mut events = Vec::new();
    let mut take = |event: HistoryEvent| {
        let is_chosen = match event.kind {
            EventKind::Before | EventKind::Process => false,
            EventKind::Outcome => list.filter.has_outcome(&event),
            _ => true,
        };
        if is_chosen {
            events.push(event);
        }
        let is_enough = after.is_none() && list.lines > 0 && events.len() >= list.lines;
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let selection = list.filter.selection(order, after);
    let read = history.timeline(&subject.type_name, &subject.title, &selection, &mut take);
    read.map_err(|error| refuse(&error))?;
    Ok(events)
}

fn shown(history: &History, events: &[HistoryEvent], format: ReportFormat) -> Result<Exit, Exit> {
    let mut begins: HashMap<RunId, Json> = HashMap::new();
    let mut text = String::new();
    for event in events {
        let begin = match begins.entry(event.run) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let run = history.run(event.run).map_err(|error| refuse(&error))?;
                new.insert(run.map(|run| run.begin.body).unwrap_or_default())
            }
        };
        text += &match format {
            ReportFormat::Json => format!("{}\n", document(event, Some(begin))),
            ReportFormat::Human => entry(event, begin),
        };
    }
    Ok(output::data(&text))
}

/// Returns an event for programs.
pub(super) fn document(event: &HistoryEvent, begin: Option<&Json>) -> Json {
    let mut document = json!({
        "event": event.id.0,
        "run": event.run.0,
        "time": time::exact(event.at),
        "kind": event.kind.word(),
    });
    if let Some((type_name, title)) = &event.resource {
        document["resource"] = format!("{type_name}[{title}]").into();
    }
    if let Some(begin) = begin {
        document["command"] = begin["command"].clone();
        document["user"] = user(begin).into();
    }
    for (key, value) in event.body.as_object().into_iter().flatten() {
        document[key] = value.clone();
    }
    document
}

fn entry(event: &HistoryEvent, begin: &Json) -> String {
    let by = format!(
        "run {}, {} by {}",
        event.run.0,
        visible(begin["command"].as_str().unwrap_or("?")),
        visible(&user(begin))
    );
    let place = event.body["place"].as_str().map(|place| format!(", {}", visible(place))).unwrap_or_default();
    let head = format!(
        "{}  {}  {}\n",
        styled(NAME, time::shown(event.at)),
        word(event),
        styled(FAINT, format!("{by}{place}"))
    );
    head + &details(event)
}

/// Returns the result of an event in a word.
pub(super) fn word(event: &HistoryEvent) -> String {
    let status = event.body["status"].as_str().unwrap_or_else(|| event.body["message"].as_str().unwrap_or("?"));
    match status {
        "changed" if event.body["corrective"] == true => "corrected".to_owned(),
        "failed" => styled(FAILED, "failed"),
        other => visible(&other.replace('_', " ")),
    }
}

/// Returns the changes, the failure and the process of an event.
pub(super) fn details(event: &HistoryEvent) -> String {
    let mut text = String::new();
    for change in event.body["changes"].as_array().into_iter().flatten() {
        let entry = change["entry"].as_str().map(|entry| format!("{}: ", visible(entry))).unwrap_or_default();
        let attribute = visible(&attribute(change));
        let words = match change["message"].as_str() {
            Some(message) => visible(message),
            None => format!("{} → {}", value(&change["old"]), value(&change["new"])),
        };
        let attribute = if attribute.is_empty() { attribute } else { format!("{attribute}: ") };
        text += &format!("    {entry}{attribute}{words}\n");
        if let Some(lines) = unified_diff(change) {
            text += &diff::diff(&lines, "      ");
        }
    }
    if let Some(by) = refreshed_by(&event.body) {
        text += &format!("    refreshed by {}\n", visible(&by));
    }
    if let Some(failure) = event.body["failure"].as_str() {
        // `visible` escapes line breaks, so each line is made visible on its own.
        let lines: Vec<String> = failure.lines().map(visible).collect();
        text += &format!("    {} {}\n", styled(FAILED, "error:"), lines.join("\n      "));
    }
    if let Some(cause) = event.body["because_of"].as_str() {
        text += &format!("    because of {}\n", visible(cause));
    }
    if event.body["process"].is_object() {
        text += &format!("    changed by {}\n", report::process(&event.body["process"]));
    }
    for note in event.body["notes"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        text += &format!("    {}\n", styled(FAINT, format!("| {}", visible(note))));
    }
    text
}

/// Returns the unified diff of a change.
pub(super) fn unified_diff(change: &Json) -> Option<Cow<'_, str>> {
    if change["diff_of"] != "new" {
        return change["diff"].as_str().map(Cow::Borrowed);
    }
    let new = change["new"].as_str()?;
    let mut diff = format!("@@ -0,0 +1,{} @@\n", new.lines().count());
    diff.extend(new.lines().flat_map(|line| ["+", line, "\n"]));
    if !new.ends_with('\n') {
        diff += "\\ No newline at end of file\n";
    }
    Some(diff.into())
}

/// Returns the attribute of a change; empty for an action of a provider, which is no attribute.
pub(super) fn attribute(change: &Json) -> String {
    change["attribute"].as_str().filter(|name| *name != INSYNC_TRIGGER).unwrap_or_default().to_owned()
}

/// Returns a recorded value on one line.
pub(crate) fn value(value: &Json) -> String {
    match value {
        Json::Null => "(none)".to_owned(),
        Json::String(text) if text.is_empty() => "''".to_owned(),
        Json::String(text) => visible(&text.replace('\n', "\\n")),
        Json::Object(long) if long.contains_key("sha256") => {
            let digest = value["sha256"].as_str().unwrap_or_default();
            format!("{} bytes (sha256 {})", value["bytes"], digest.get(..12).unwrap_or(digest))
        }
        Json::Object(bytes) if bytes.len() == 1 && bytes.contains_key("base64") => "(binary)".to_owned(),
        other => visible(&other.to_string()),
    }
}

/// Returns the cause of a refresh; none if there was no refresh.
pub(super) fn refreshed_by(body: &Json) -> Option<String> {
    let by: Vec<&str> = body["refreshed_by"].as_array()?.iter().filter_map(Json::as_str).collect();
    match body["owed_from"].as_i64() {
        _ if !by.is_empty() => Some(by.join(", ")),
        Some(run) => Some(format!("a change of run {run}")),
        None => Some("an earlier run".to_owned()),
    }
}
