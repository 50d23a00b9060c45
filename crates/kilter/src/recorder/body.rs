//! Bodies of events.

use std::borrow::Cow;

use kilter_history::RunId;
use kilter_model::{Difference, Value, to_json};
use kilter_runtime::{Report, ResourceReport, Status};
use serde_core::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value as Json, json};

use super::processes;
use crate::render::json as report_json;

/// Maximum length in bytes of a recorded text. A longer value has its digest instead.
const MAX_TEXT: usize = 1024;

/// Maximum length in bytes of a recorded diff.
const MAX_DIFF: usize = 16 * 1024;

/// Returns the end of a run.
pub(super) fn end(report: &Report, repairs: usize) -> Json {
    let mut counts = report_json::counts(&report.settled.unwrap_or(report.counts));
    counts["corrected"] = repairs.into();
    json!({
        "counts": counts,
        "failed": report.has_failures(),
        "interrupted": report.interrupted,
        "duration_ms": report.duration.as_millis() as u64,
    })
}

/// Returns the body of an event, without a tree in memory. It is written in `space`, so that the text has no spare
/// capacity.
pub(super) fn json_text(space: &mut Vec<u8>, body: &impl Serialize) -> String {
    space.clear();
    match serde_json::to_writer(&mut *space, body) {
        // JSON is always UTF-8. This check is faster than the lossy conversion.
        Ok(()) => std::str::from_utf8(space).unwrap_or_default().to_owned(),
        Err(error) => json!({ "error": error.to_string() }).to_string(),
    }
}

/// Result of a resource as the history stores it.
pub(super) struct OutcomeBody<'a> {
    report: &'a ResourceReport,
    changes: Vec<ChangeBody<'a>>,
    place: Option<String>,
    /// Earlier run that owed the refresh.
    pub(super) owed_from: Option<RunId>,
    /// True for the repair of a drift, false for another change, none without a change.
    pub(super) is_corrective: Option<bool>,
}

/// Changed attribute of a result.
struct ChangeBody<'a> {
    difference: &'a Difference,
    is_corrective: bool,
}

impl<'a> OutcomeBody<'a> {
    /// Returns the result of a resource. `is_corrective` decides for an attribute whether its change is the repair of
    /// a drift.
    pub(super) fn new(report: &'a ResourceReport, place: Option<String>, is_corrective: &dyn Fn(&str) -> bool) -> Self {
        let change = |difference: &'a Difference| {
            // A command that ran has no values: it repaired nothing.
            let has_values = difference.entry.is_some() || !difference.is.is_undef() || !difference.should.is_undef();
            let is_corrective = has_values && is_corrective(difference.attribute.as_str());
            ChangeBody { difference, is_corrective }
        };
        let changes: Vec<ChangeBody> = report.differences.iter().map(change).collect();
        let is_changed = report.status == Status::Changed && !changes.is_empty();
        // A change of which a part was declared anew is intentional.
        let is_corrective = is_changed.then(|| changes.iter().all(|change| change.is_corrective));
        OutcomeBody { report, changes, place, owed_from: None, is_corrective }
    }
}

impl Serialize for OutcomeBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.report;
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("status", report.status.word())?;
        if let Some(is_corrective) = self.is_corrective {
            body.serialize_entry("corrective", &is_corrective)?;
        }
        if !self.changes.is_empty() {
            body.serialize_entry("changes", &self.changes)?;
        }
        if report.refreshed {
            let by: Vec<String> = report.refreshed_by.iter().map(ToString::to_string).collect();
            body.serialize_entry("refreshed_by", &by)?;
        }
        if let Some(run) = self.owed_from {
            body.serialize_entry("owed_from", &run.0)?;
        }
        if let Some(failure) = &report.failure {
            body.serialize_entry("failure", &cut(failure))?;
        }
        if let Some(cause) = &report.because_of {
            body.serialize_entry("because_of", &cause.to_string())?;
        }
        if let Some(by) = &report.changed_by {
            body.serialize_entry("process", &report_json::changed_by(by))?;
        }
        if let Some(drift) = report.drift {
            body.serialize_entry("drift_ms", &(drift.as_millis() as u64))?;
        }
        if !report.unknown.is_empty() {
            let unknown = report.unknown.iter();
            let unknown = unknown.map(|(attribute, why)| json!({ "attribute": &**attribute, "reason": &**why }));
            body.serialize_entry("unknown", &unknown.collect::<Json>())?;
        }
        if !report.notes.is_empty() {
            let notes: Vec<Cow<'_, str>> = report.notes.iter().map(|note| cut(note)).collect();
            body.serialize_entry("notes", &notes)?;
        }
        if let Some(place) = &self.place {
            body.serialize_entry("place", place)?;
        }
        if report.tries > 1 {
            body.serialize_entry("tries", &report.tries)?;
        }
        body.serialize_entry("duration_ms", &(report.duration.as_millis() as u64))?;
        if !report.processes.is_empty() && processes::is_recorded(report.status) {
            let numbers: Vec<u64> = report.processes.iter().map(|record| record.number).collect();
            body.serialize_entry("processes", &numbers)?;
            if report.processes.dropped > 0 {
                body.serialize_entry("processes_dropped", &report.processes.dropped)?;
            }
        }
        body.end()
    }
}

impl Serialize for ChangeBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let difference = self.difference;
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("attribute", difference.attribute.as_str())?;
        if let Some(entry) = &difference.entry {
            body.serialize_entry("entry", entry.as_str())?;
        }
        for (name, value) in [("old", &difference.is), ("new", &difference.should)] {
            match value {
                Value::Undef => {}
                Value::String(text) if text.len() <= MAX_TEXT => body.serialize_entry(name, text.as_str())?,
                value => body.serialize_entry(name, &stored_value(value))?,
            }
        }
        if self.is_corrective {
            body.serialize_entry("corrective", &true)?;
        }
        if let Some(message) = &difference.message {
            body.serialize_entry("message", &cut(message))?;
        }
        match (difference.diff.as_ref().filter(|diff| diff.len() <= MAX_DIFF), &difference.should) {
            (Some(diff), Value::String(new)) if new.len() <= MAX_TEXT && only_adds(diff, new) => {
                body.serialize_entry("diff_of", "new")?;
            }
            (Some(diff), _) => body.serialize_entry("diff", diff.as_str())?,
            (None, _) => {}
        }
        body.end()
    }
}

/// Returns true if a unified diff only adds the lines of `new`.
fn only_adds(diff: &str, new: &str) -> bool {
    let after_head = diff.split_once("\n@@ ").and_then(|(_, hunk)| hunk.split_once('\n'));
    let Some((_, added)) = after_head else { return false };
    let mut added = added.lines().filter(|line| !line.starts_with('\\'));
    new.lines().all(|line| added.next().and_then(|one| one.strip_prefix('+')) == Some(line)) && added.next().is_none()
}

/// Returns a value without secrets. A long value is replaced by its length and its digest.
fn stored_value(value: &Value) -> Json {
    if value.holds_sensitive() {
        return to_json(value);
    }
    if let Some(bytes) = value.as_bytes().filter(|bytes| bytes.len() > MAX_TEXT) {
        return json!({ "bytes": bytes.len(), "sha256": kilter_history::sha256(bytes) });
    }
    let json = to_json(value);
    let text = match &json {
        Json::Array(_) | Json::Object(_) => json.to_string(),
        _ => return json,
    };
    if text.len() > 4 * MAX_TEXT {
        return json!({ "bytes": text.len(), "sha256": kilter_history::sha256(text.as_bytes()) });
    }
    json
}

/// Returns a text that is not too long.
fn cut(text: &str) -> Cow<'_, str> {
    let limit = 4 * MAX_TEXT;
    if text.len() <= limit {
        return text.into();
    }
    let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes)", &text[..end], text.len()).into()
}
