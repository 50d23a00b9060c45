//! Resources that drift.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryEvent, Order};
use serde_json::{Value as Json, json};

use super::Filter;
use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::past::{refuse, time};
use crate::render::report;
use crate::table::Table;
use crate::visible::visible;

/// Repairs of a resource.
#[derive(Default)]
pub(super) struct Drift {
    pub(super) repairs: u64,
    pub(super) first: i64,
    pub(super) last: i64,
    /// Numbers of repairs by attribute.
    pub(super) attributes: BTreeMap<String, u64>,
    /// Last known process that caused it.
    pub(super) process: Json,
    /// Number, sum and maximum of the known times from drift to repair, in milliseconds.
    times: (u64, u64, u64),
}

impl Drift {
    /// Returns the times from drift to repair; empty if none is known.
    pub(super) fn repair_time(&self) -> String {
        match self.times {
            (0, ..) => String::new(),
            (1, sum, _) => time::short_span(sum),
            (count, sum, longest) => {
                format!("{} on average, at most {}", time::short_span(sum / count), time::short_span(longest))
            }
        }
    }
}

/// Returns the resources that drift, the most frequent first.
///
/// # Errors
/// If the history cannot be read; reported.
pub(super) fn collected(history: &History, filter: &Filter) -> Result<Vec<(String, Drift)>, Exit> {
    let mut all: BTreeMap<String, Drift> = BTreeMap::new();
    let mut add = |event: HistoryEvent| {
        if event.kind == EventKind::Outcome && has_repair(&event) && filter.has_outcome(&event) {
            add_repair(&mut all, event);
        }
        ControlFlow::Continue(())
    };
    history.events(&filter.selection(Order::Ascending, None), &mut add).map_err(|error| refuse(&error))?;
    let mut all: Vec<(String, Drift)> = all.into_iter().collect();
    all.sort_by_key(|(_, drift)| std::cmp::Reverse(drift.repairs));
    Ok(all)
}

/// Shows the resources that drift, the most frequent first.
pub(super) fn run(history: &History, filter: &Filter, format: ReportFormat) -> Result<Exit, Exit> {
    let all = collected(history, filter)?;
    if format == ReportFormat::Json {
        return Ok(output::data(
            &all.iter().map(|(name, drift)| format!("{}\n", document(name, drift))).collect::<String>(),
        ));
    }
    if all.is_empty() {
        output::line("no repair of a drift is on record");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["resource", "repairs", "first", "last", "attributes", "repaired after", "changed by"]);
    for (name, drift) in &all {
        let attributes: Vec<String> = drift.attributes.keys().map(|name| visible(name)).collect();
        let process = if drift.process.is_object() { report::process(&drift.process) } else { String::new() };
        table.row([
            visible(name),
            drift.repairs.to_string(),
            time::shown(drift.first),
            time::shown(drift.last),
            attributes.join(", "),
            drift.repair_time(),
            process,
        ]);
    }
    Ok(output::data(&table.render(None).0))
}

/// Returns true if a change of the resource repaired a drift. Its declaration may have been edited as well.
fn has_repair(event: &HistoryEvent) -> bool {
    let mut changes = event.body["changes"].as_array().into_iter().flatten();
    event.body["status"] == "changed" && changes.any(|change| change["corrective"] == true)
}

fn add_repair(all: &mut BTreeMap<String, Drift>, event: HistoryEvent) {
    let Some((type_name, title)) = &event.resource else { return };
    let drift = all.entry(format!("{type_name}[{title}]")).or_default();
    if drift.repairs == 0 {
        drift.first = event.at;
    }
    drift.repairs += 1;
    drift.last = event.at;
    let changes = event.body["changes"].as_array().into_iter().flatten();
    for change in changes.filter(|change| change["corrective"] == true) {
        *drift.attributes.entry(change["attribute"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    if let Some(after) = event.body["drift_ms"].as_u64() {
        let (count, sum, longest) = drift.times;
        drift.times = (count + 1, sum + after, longest.max(after));
    }
    if event.body["process"]["pid"].is_u64() {
        drift.process = event.body["process"].clone();
    }
}

fn document(name: &str, drift: &Drift) -> Json {
    let mut document = json!({
        "resource": name,
        "repairs": drift.repairs,
        "first": time::exact(drift.first),
        "last": time::exact(drift.last),
        "attributes": drift.attributes,
    });
    if drift.process.is_object() {
        document["process"] = drift.process.clone();
    }
    let (count, sum, longest) = drift.times;
    if count > 0 {
        document["drift_ms"] = json!({"repairs": count, "mean": sum / count, "max": longest});
    }
    document
}
