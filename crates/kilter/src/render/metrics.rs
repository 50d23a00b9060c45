//! Metrics of a run in the text format of Prometheus (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value as Json;

/// Counted states of resources, with their names in the JSON of `kilter status`.
const STATES: [&str; 8] =
    ["in_sync", "would_change", "would_refresh", "unknown", "failed", "skipped", "interrupted", "hidden"];

/// Returns the metrics of a status (docs/reference/status.md).
pub(crate) fn text(status: &Json) -> String {
    let mut text = String::new();
    let number = |json: &Json| json.as_u64().unwrap_or(0);
    let seconds = |json: &Json| number(json) as f64 / 1000.0;
    let (counts, settled) = (&status["counts"], &status["settled"]);
    metric(&mut text, "kilter_info", "gauge", "The program.");
    let _ = writeln!(text, "kilter_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    metric(&mut text, "kilter_held_seconds", "gauge", "Duration of the run in seconds.");
    let _ = writeln!(text, "kilter_held_seconds {}", seconds(&status["held_for_ms"]));
    metric(&mut text, "kilter_noop", "gauge", "Whether nothing is changed.");
    let _ = writeln!(text, "kilter_noop {}", u8::from(status["noop"] == true));
    metric(&mut text, "kilter_quiet", "gauge", "1 if nothing is left to do, except for failed resources.");
    let _ = writeln!(text, "kilter_quiet {}", u8::from(!status["quiet_for_ms"].is_null()));
    metric(&mut text, "kilter_paused", "gauge", "1 if the run is paused.");
    let _ = writeln!(text, "kilter_paused {}", u8::from(status["paused"].is_object()));
    let outdated = &status["outdated"];
    metric(
        &mut text,
        "kilter_manifest_errors",
        "gauge",
        "Errors in the manifest; if there are any, the run uses the previous manifest.",
    );
    let _ = writeln!(text, "kilter_manifest_errors {}", number(&outdated["errors"]));
    metric(
        &mut text,
        "kilter_manifest_polled",
        "gauge",
        "Whether the manifest is polled because it cannot be watched.",
    );
    let _ = writeln!(text, "kilter_manifest_polled {}", u8::from(status["declared_polled"] == true));
    let help = "Age of the collected resources while no newer ones can be collected; otherwise 0.";
    metric(&mut text, "kilter_collected_age_seconds", "gauge", help);
    let _ = writeln!(text, "kilter_collected_age_seconds {}", seconds(&status["collected"]["age_ms"]));
    let help = "Time since the source offered the newest usable version of the manifests; 0 without --from.";
    metric(&mut text, "kilter_source_age_seconds", "gauge", help);
    let _ = writeln!(text, "kilter_source_age_seconds {}", seconds(&status["source"]["age_ms"]));
    let failure = &status["source"]["failure"];
    metric(&mut text, "kilter_source_failed", "gauge", "1 if the last fetch of the manifests failed, by reason.");
    for (reason, is_rejected) in [("unavailable", false), ("rejected", true)] {
        let is_it = failure.is_object() && failure["rejected"] == is_rejected;
        let _ = writeln!(text, "kilter_source_failed{{reason=\"{reason}\"}} {}", u8::from(is_it));
    }
    metric(&mut text, "kilter_journal_failed", "gauge", "1 if the journal of pending refreshes cannot be written.");
    let _ = writeln!(text, "kilter_journal_failed {}", u8::from(status["journal"].is_string()));
    metric(&mut text, "kilter_resources", "gauge", "Resources by the state in which they last settled.");
    for state in STATES {
        let _ = writeln!(text, "kilter_resources{{state=\"{state}\"}} {}", number(&counts[state]));
    }
    metric(&mut text, "kilter_resources_contested", "gauge", "Resources whose repairs another program undoes.");
    let _ = writeln!(text, "kilter_resources_contested {}", number(&counts["contested"]));
    let help = "Resources that are no longer repaired because they were contested (`contested: observe`).";
    metric(&mut text, "kilter_resources_watched_only", "gauge", help);
    let _ = writeln!(text, "kilter_resources_watched_only {}", number(&counts["watched_only"]));
    metric(
        &mut text,
        "kilter_resources_unwatched",
        "gauge",
        "Resources that are polled because they cannot be watched.",
    );
    let _ = writeln!(text, "kilter_resources_unwatched {}", number(&counts["unwatched"]));
    metric(&mut text, "kilter_resources_polled", "gauge", "Resources that are polled.");
    let _ = writeln!(text, "kilter_resources_polled {}", number(&counts["polled"]));
    metric(&mut text, "kilter_oldest_check_seconds", "gauge", "Age of the oldest check of a polled resource.");
    let _ = writeln!(text, "kilter_oldest_check_seconds {}", seconds(&status["oldest_check_ms"]));
    metric(&mut text, "kilter_resources_under_way", "gauge", "Resources of which it is not known yet.");
    let _ = writeln!(text, "kilter_resources_under_way {}", number(&counts["under_way"]));
    metric(&mut text, "kilter_resources_notable", "gauge", "Resources that are not in their state, by type and state.");
    for ((type_name, state), count) in notable(status) {
        let _ = writeln!(text, "kilter_resources_notable{{type=\"{type_name}\",state=\"{state}\"}} {count}");
    }
    metric(&mut text, "kilter_settled_total", "counter", "How often resources have settled, and how.");
    for (outcome, count) in settled.as_object().into_iter().flatten() {
        let _ = writeln!(text, "kilter_settled_total{{outcome=\"{outcome}\"}} {}", number(count));
    }
    metric(&mut text, "kilter_watches", "gauge", "Watches of the kernel that are in use.");
    let _ = writeln!(text, "kilter_watches {}", number(&status["watches"]));
    metric(
        &mut text,
        "kilter_watch_overflows_total",
        "counter",
        "Number of event losses, after each of which all resources were checked.",
    );
    let _ = writeln!(text, "kilter_watch_overflows_total {}", number(&status["overflows"]));
    text
}

pub(super) fn metric(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Counts the resources that are not simply in sync, by type and state. Neither name needs escapes.
fn notable(status: &Json) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for resource in status["resources"].as_array().into_iter().flatten() {
        let type_name = resource["resource"].as_str().and_then(|name| name.split('[').next()).unwrap_or_default();
        let state = resource["state"].as_str().unwrap_or_default();
        if matches!(state, "in_sync" | "hidden") {
            continue;
        }
        *counts.entry((type_name.to_owned(), state.to_owned())).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_is_rendered_as_metrics() {
        let status = json!({
            "held_for_ms": 1500, "noop": false, "quiet_for_ms": 10, "watches": 3, "overflows": 1,
            "counts": {"total": 4, "in_sync": 2, "failed": 2, "under_way": 0},
            "settled": {"changed": 7},
            "resources": [
                {"resource": "file[/a]", "state": "failed"}, {"resource": "file[/b]", "state": "failed"},
                {"resource": "exec[x]", "state": "delayed"},
            ],
        });
        let text = text(&status);
        for line in [
            "kilter_held_seconds 1.5",
            "kilter_quiet 1",
            "kilter_resources{state=\"in_sync\"} 2",
            "kilter_resources{state=\"failed\"} 2",
            "kilter_resources_notable{type=\"file\",state=\"failed\"} 2",
            "kilter_resources_notable{type=\"exec\",state=\"delayed\"} 1",
            "kilter_settled_total{outcome=\"changed\"} 7",
            "kilter_watch_overflows_total 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        // Each family is described before its first value, and its values are adjacent.
        let names: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(names.iter().all(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok()), "{text}");
    }
}
