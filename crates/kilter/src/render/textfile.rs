//! Metrics of a finished run for the textfile collector of Prometheus' node exporter.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use super::metrics::metric;
use super::tally::{STATES, tally};
use crate::reported_run::ReportedRun;

/// Returns the metrics.
pub(crate) fn text(run: &ReportedRun<'_>) -> String {
    let mut text = String::new();
    let report = run.report;
    metric(&mut text, "kilter_last_run_info", "gauge", "The command of the last run, and the program.");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "kilter_last_run_info{{command=\"{}\",version=\"{version}\"}} 1", run.command);
    let start = run.trace.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = |duration: Duration| format!("{:.3}", duration.as_secs_f64());
    let is_success = !report.has_failures() && !report.interrupted;
    for (name, help, value) in [
        ("timestamp_seconds", "Time of the end of the last run, since 1970.", seconds(start + report.duration)),
        ("duration_seconds", "Duration of the last run.", seconds(report.duration)),
        ("noop", "1 if the last run made no changes: a plan or a dry run.", u8::from(run.noop).to_string()),
        ("success", "1 if nothing failed, and nothing interrupted the run.", u8::from(is_success).to_string()),
        ("not_checked", "Resources that the last run did not check.", report.not_checked().to_string()),
        ("left_out", "Resources whose `when` was false.", report.counts.left_out.to_string()),
    ] {
        single(&mut text, name, help, &value);
    }
    if let Some(corrected) = &report.corrected {
        single(&mut text, "corrected", "Changed resources that had drifted.", &corrected.len().to_string());
    }
    let tally = tally(run);
    metric(&mut text, "kilter_last_run_resources", "gauge", "Resources by their result in the last run.");
    for state in STATES {
        let count: usize = tally.iter().filter(|((_, of), _)| *of == state).map(|(_, count)| count).sum();
        let _ = writeln!(text, "kilter_last_run_resources{{state=\"{state}\"}} {count}");
    }
    let help = "Resources by type and their result in the last run.";
    metric(&mut text, "kilter_last_run_resources_by_type", "gauge", help);
    // Names of types need no escapes.
    for ((type_name, state), count) in tally {
        let _ = writeln!(text, "kilter_last_run_resources_by_type{{type=\"{type_name}\",state=\"{state}\"}} {count}");
    }
    text
}

fn single(text: &mut String, name: &str, help: &str, value: &str) {
    let name = format!("kilter_last_run_{name}");
    metric(text, &name, "gauge", help);
    let _ = writeln!(text, "{name} {value}");
}
