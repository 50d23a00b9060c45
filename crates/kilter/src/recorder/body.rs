//! Bodies of events.

use kilter_model::{Difference, Value, to_json};
use kilter_runtime::{Report, ResourceReport, Status};
use serde_json::{Map, Value as Json, json};

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

/// Returns the result of a resource. `is_corrective` decides for an attribute whether its change is the repair of a
/// drift.
pub(super) fn outcome(report: &ResourceReport, place: Option<String>, is_corrective: &dyn Fn(&str) -> bool) -> Json {
    let mut body = Map::new();
    body.insert("status".into(), report.status.word().into());
    let changes: Vec<(Json, bool)> = report
        .differences
        .iter()
        .map(|one| {
            // A command that ran has no values: it repaired nothing.
            let has_values = one.entry.is_some() || !one.is.is_undef() || !one.should.is_undef();
            let is_corrective = has_values && is_corrective(one.attribute.as_str());
            (change(one, is_corrective), is_corrective)
        })
        .collect();
    if report.status == Status::Changed && !changes.is_empty() {
        // A change of which a part was declared anew is intentional.
        body.insert("corrective".into(), changes.iter().all(|(_, is_corrective)| *is_corrective).into());
    }
    if !changes.is_empty() {
        body.insert("changes".into(), changes.into_iter().map(|(change, _)| change).collect());
    }
    if report.refreshed {
        body.insert("refreshed_by".into(), report.refreshed_by.iter().map(ToString::to_string).collect());
    }
    if let Some(failure) = &report.failure {
        body.insert("failure".into(), cut(failure).into());
    }
    if let Some(cause) = &report.because_of {
        body.insert("because_of".into(), cause.to_string().into());
    }
    if let Some(by) = &report.changed_by {
        body.insert("process".into(), report_json::changed_by(by));
    }
    if let Some(drift) = report.drift {
        body.insert("drift_ms".into(), (drift.as_millis() as u64).into());
    }
    if !report.unknown.is_empty() {
        let unknown =
            report.unknown.iter().map(|(attribute, why)| json!({ "attribute": &**attribute, "reason": &**why }));
        body.insert("unknown".into(), unknown.collect());
    }
    if !report.notes.is_empty() {
        body.insert("notes".into(), report.notes.iter().map(|note| cut(note)).collect());
    }
    if let Some(place) = place {
        body.insert("place".into(), place.into());
    }
    if report.tries > 1 {
        body.insert("tries".into(), report.tries.into());
    }
    body.insert("duration_ms".into(), (report.duration.as_millis() as u64).into());
    Json::Object(body)
}

fn change(difference: &Difference, is_corrective: bool) -> Json {
    let mut change = Map::new();
    change.insert("attribute".into(), difference.attribute.as_str().into());
    if let Some(entry) = &difference.entry {
        change.insert("entry".into(), entry.as_str().into());
    }
    change.insert("old".into(), value(&difference.is));
    change.insert("new".into(), value(&difference.should));
    change.insert("corrective".into(), is_corrective.into());
    if let Some(message) = &difference.message {
        change.insert("message".into(), cut(message).into());
    }
    if let Some(diff) = difference.diff.as_ref().filter(|diff| diff.len() <= MAX_DIFF) {
        change.insert("diff".into(), diff.as_str().into());
    }
    Json::Object(change)
}

/// Returns a value without secrets. A long value is replaced by its length and its digest.
fn value(value: &Value) -> Json {
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
fn cut(text: &str) -> String {
    let limit = 4 * MAX_TEXT;
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes)", &text[..end], text.len())
}
