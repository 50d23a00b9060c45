//! Events of a run as JSON.

use std::time::SystemTime;

use kilter_runtime::{Event, Mode, Report};
use serde_json::{Value as Json, json};

use super::document::{collected, outdated, source};
use super::{ms, unix};
use crate::render::json;

/// Returns an event for followers; none for events that only concern displays. A change is a correction, an intentional
/// change, or neither is known.
pub(crate) fn event(event: &Event<'_>, is_corrective: Option<bool>) -> Option<Json> {
    let mut json = match event {
        Event::Begun { reference, doing } => {
            json!({"event": "started", "resource": reference.to_string(), "doing": doing})
        }
        Event::Settled(report) => {
            let mut json = json::resource(report);
            json["event"] = "settled".into();
            if let Some(is_corrective) = is_corrective {
                json["corrected"] = is_corrective.into();
            }
            json
        }
        Event::Retrying { reference, failure, delay } => {
            json!({"event": "retrying", "resource": reference.to_string(), "failure": failure, "delay_ms": delay})
        }
        Event::Log { level, type_name, name, message } => {
            json!({"event": "log", "level": level.word(), "type": type_name, "name": name, "message": message})
        }
        Event::Converged(converged) => json!({"event": "converged", "converged": converged}),
        Event::Contested { reference, repairs, next, differences, opponent } => {
            let differences: Vec<Json> = differences.iter().map(json::difference).collect();
            json!({
                "event": "contested",
                "resource": reference.to_string(),
                "repairs": repairs,
                "next_repair_ms": ms(*next),
                "differences": differences,
                "opponent": opponent.map(json::process),
            })
        }
        Event::Uncontested { reference } => json!({"event": "uncontested", "resource": reference.to_string()}),
        Event::Demoted { reference, repairs, within, differences } => {
            let differences: Vec<Json> = differences.iter().map(json::difference).collect();
            json!({
                "event": "demoted",
                "resource": reference.to_string(),
                "repairs": repairs,
                "within_ms": within,
                "differences": differences,
            })
        }
        Event::Unwatched { count, why, every } => {
            json!({"event": "unwatched", "resources": count, "why": why, "every_ms": every.map(ms)})
        }
        Event::DeclaredUnwatched { why, every } => {
            json!({"event": "declared_unwatched", "why": why, "every_ms": ms(*every)})
        }
        Event::Rewatched { count } => json!({"event": "rewatched", "resources": count}),
        Event::Paused { why, longest, .. } => json!({"event": "paused", "why": why, "longest_ms": longest.map(ms)}),
        Event::Resumed => json!({"event": "resumed"}),
        Event::Reloading => json!({"event": "reloading"}),
        Event::Interrupted { in_flight, .. } => json!({"event": "interrupted", "in_flight": in_flight}),
        Event::Conditions(conditions) => json!({
            "event": "conditions",
            "outdated": conditions.outdated.as_ref().map(outdated),
            "source": conditions.source.as_ref().map(source),
            "collected": conditions.collected.as_ref().map(collected),
            "journal": conditions.journal.as_deref(),
            "declared_polled": conditions.is_declared_polled,
            "unwatched": conditions.unwatched,
            "contested": conditions.contested,
            "watched_only": conditions.watched_only,
        }),
        Event::Quiet(of) => json!({"event": "quiet", "counts": json::counts(of)}),
        Event::Called { .. }
        | Event::Flushed
        | Event::Watchdog
        | Event::StatusSocketChanged
        | Event::Waiting { .. }
        | Event::Idle
        | Event::Progress { .. } => {
            return None;
        }
    };
    json["unix_ms"] = unix(SystemTime::now());
    Some(json)
}

/// Returns the last event of a run that prints events: its report.
pub(crate) fn ended(report: &Report, mode: Mode) -> Json {
    let report = json::report(report, mode == Mode::Noop);
    json!({"event": "ended", "report": report, "unix_ms": unix(SystemTime::now())})
}
