//! Numbers of resources by type and state, for metrics of a finished run.

use std::collections::BTreeMap;

use kilter_runtime::Status;
use rustc_hash::FxHashMap;

use crate::reported_run::ReportedRun;

/// States in which a resource can be at the end of a run, each resource in exactly one.
pub(super) const STATES: [&str; 10] = [
    "in_sync",
    "changed",
    "refreshed",
    "would_change",
    "would_refresh",
    "unknown",
    "failed",
    "skipped",
    "interrupted",
    "hidden",
];

/// Returns the number of resources by type and state, without zeros.
pub(super) fn tally<'a>(run: &ReportedRun<'a>) -> BTreeMap<(&'a str, &'static str), usize> {
    let states: FxHashMap<_, Status> = run.report.resources.iter().map(|one| (&one.reference, one.status)).collect();
    let mut counts = BTreeMap::new();
    for resource in run.resources() {
        let state = match states.get(&resource.reference) {
            Some(status) => status.word(),
            None if resource.is_hidden() => "hidden",
            None => Status::InSync.word(),
        };
        *counts.entry((resource.reference.type_name.as_str(), state)).or_default() += 1;
    }
    counts
}
