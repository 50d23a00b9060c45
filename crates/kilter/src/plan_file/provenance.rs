//! Messages about the host and the time at which a plan was made, and about earlier applies.

use std::path::Path;

use kilter_runtime::{PlanProvenance, Report, StateDir};

use crate::output;
use crate::session::Session;

/// Returns the time, in seconds, as in RFC 3339.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reports that a plan was written.
pub(crate) fn written(plan: &PlanProvenance, path: &Path, session: &Session) {
    if !session.global.quiet {
        output::line(format_args!("{} is written to {}", described(plan), path.display()));
    }
}

/// Reports the provenance of a plan before its apply. Warns if it was carried out completely before.
pub(crate) fn introduce(plan: &PlanProvenance, session: &Session) {
    if !session.global.quiet {
        output::line(described(plan));
    }
    let about = || plan.id.as_str().into();
    let applied = session
        .record
        .record_or_replay("plan applied", about, || plan.applied_at(&StateDir::new(session.state_dir_if_any()?)));
    if let Some(at) = applied {
        output::warning(format_args!("plan {} was carried out already, at {at}", plan.short_id()));
        output::hint(
            "commands without a guard and steps that were unknown run again; make a new plan to see the remaining \
             steps",
        );
    }
}

/// Records that a plan was carried out completely, if it was.
pub(crate) fn record_applied(plan: &PlanProvenance, report: &Report, session: &Session) {
    let is_complete = !report.has_failures() && !report.interrupted && report.counts.interrupted == 0;
    if !is_complete || session.record.is_replay() {
        return;
    }
    let Some(state) = session.state_dir_if_any() else { return };
    if let Err(error) = plan.record_applied(&StateDir::new(state), &now()) {
        output::warning(format_args!("cannot record that plan {} was carried out: {error}", plan.short_id()));
    }
}

fn described(plan: &PlanProvenance) -> String {
    let PlanProvenance { host, at, .. } = plan;
    let machine = if plan.is_of_another_machine() { " (another machine)" } else { "" };
    format!("plan {}, made on {host}{machine} at {at}", plan.short_id())
}
