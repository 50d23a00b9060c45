//! Reports for programs (docs/reference/json.md).

use kilter_model::{Difference, to_json};
use kilter_runtime::{ChangedBy, ChangingProcess, Counts, Report, ResourceReport, Status};
use serde_json::{Map, Value as Json, json};

use crate::users::user_name;

/// Returns a complete report.
pub(crate) fn report(report: &Report, noop: bool) -> Json {
    let pending: Vec<Json> =
        report.owed.iter().map(|(a, b)| json!({"because_of": a.to_string(), "resource": b.to_string()})).collect();
    let mut counted = counts(&report.counts);
    counted["not_checked"] = report.not_checked().into();
    if let Some(corrected) = &report.corrected {
        counted["corrected"] = corrected.len().into();
    }
    let resource = |one: &ResourceReport| {
        let mut json = resource(one);
        if report.is_corrected(one) {
            json["corrected"] = true.into();
        }
        json
    };
    json!({
        "noop": noop,
        "resources": report.resources.iter().map(resource).collect::<Vec<_>>(),
        "counts": counted,
        "interrupted": report.interrupted,
        "ended_by": report.ended_by.as_ref().map(ToString::to_string),
        "unflushed": report.unflushed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "journal": report.journal.as_deref(),
        "pending_refreshes": pending,
        "duration_ms": report.duration.as_millis() as u64,
    })
}

/// Returns the numbers of resources by state.
pub(crate) fn counts(counts: &Counts) -> Json {
    json!({
        "total": counts.total,
        "in_sync": counts.in_sync,
        "changed": counts.changed,
        "refreshed": counts.refreshed,
        "would_change": counts.would_change,
        "would_refresh": counts.would_refresh,
        "unknown": counts.unknown,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "interrupted": counts.interrupted,
        "hidden": counts.hidden,
        "left_out": counts.left_out,
    })
}

/// Returns one resource without empty keys.
pub(crate) fn resource(report: &ResourceReport) -> Json {
    let mut json = Map::new();
    json.insert("resource".into(), report.reference.to_string().into());
    json.insert("type".into(), report.reference.type_name.as_str().into());
    json.insert("title".into(), report.reference.title.as_str().into());
    json.insert("status".into(), report.status.word().into());
    if !report.differences.is_empty() {
        json.insert("differences".into(), report.differences.iter().map(difference).collect());
    }
    if !report.unplanned_changes.is_empty() {
        json.insert("unplanned_changes".into(), report.unplanned_changes.iter().map(difference).collect());
    }
    if !report.unknown.is_empty() {
        // An empty attribute stands for the resource as a whole.
        let unknown = report
            .unknown
            .iter()
            .map(|(name, why)| json!({"attribute": Some(&**name).filter(|name| !name.is_empty()), "reason": &**why}));
        json.insert("unknown".into(), unknown.collect());
    }
    if let Some(failure) = &report.failure {
        json.insert("failure".into(), failure.as_str().into());
    }
    if let Some(cause) = &report.because_of {
        json.insert("because_of".into(), cause.to_string().into());
    }
    if let Some(by) = &report.changed_by {
        json.insert("changed_by".into(), changed_by(by));
    }
    if let Some(drift) = report.drift {
        json.insert("drift_ms".into(), (drift.as_millis() as u64).into());
    }
    if report.refreshed {
        json.insert("refreshed_by".into(), report.refreshed_by.iter().map(ToString::to_string).collect());
    }
    if !report.refresh_not_needed.is_empty() {
        let by = report.refresh_not_needed.iter().map(ToString::to_string).collect();
        json.insert("refresh_not_needed".into(), by);
    }
    if report.is_left && matches!(report.status, Status::WouldChange | Status::WouldRefresh) {
        json.insert("only_checked".into(), true.into());
    }
    if !report.notes.is_empty() {
        json.insert("notes".into(), report.notes.iter().map(ToString::to_string).collect());
    }
    if let Some(deviation) = report.deviation {
        json.insert("plan".into(), deviation.word().into());
    }
    if report.tries > 1 {
        json.insert("tries".into(), report.tries.into());
    }
    json.insert("duration_ms".into(), (report.duration.as_millis() as u64).into());
    Json::Object(json)
}

/// Returns the process that changed a resource, or the reason why it is unknown.
pub(crate) fn changed_by(by: &ChangedBy) -> Json {
    match by {
        ChangedBy::Process(by) => process(by),
        ChangedBy::Unknown(why) => json!({"unknown": why.as_str()}),
    }
}

/// Returns the process that changed a resource.
pub(crate) fn process(process: &ChangingProcess) -> Json {
    let started_by = match process.is_own {
        Some(true) => "kilter",
        Some(false) => "other",
        None => "unknown",
    };
    let mut json = json!({"pid": process.pid, "started_by": started_by});
    let Some(details) = &process.details else { return json };
    json["program"] = details.program.as_str().into();
    json["uid"] = details.uid.into();
    json["user"] = user_name(details.uid).into();
    if !details.command.is_empty() {
        json["command"] = details.command.iter().map(|argument| argument.as_str()).collect();
    }
    for (key, value) in [("unit", &details.unit), ("terminal", &details.terminal)] {
        if let Some(value) = value {
            json[key] = value.as_str().into();
        }
    }
    json
}

pub(super) fn difference(difference: &Difference) -> Json {
    let mut json = Map::new();
    json.insert("attribute".into(), difference.attribute.as_str().into());
    if let Some(entry) = &difference.entry {
        json.insert("entry".into(), entry.as_str().into());
    }
    json.insert("is".into(), to_json(&difference.is));
    json.insert("should".into(), to_json(&difference.should));
    if let Some(message) = &difference.message {
        json.insert("message".into(), message.as_str().into());
    }
    if let Some(diff) = &difference.diff {
        json.insert("diff".into(), diff.as_str().into());
    }
    Json::Object(json)
}
