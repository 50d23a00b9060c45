//! Results of the resources of a run.

use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Difference, ResourceRef, Span, Value};
use kilter_provider::ProcessList;

use crate::process_tracker::ChangedBy;

/// Result for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It was in sync.
    InSync,
    /// It was changed to its declared state.
    Changed,
    /// It was in sync and was refreshed.
    Refreshed,
    /// It would be changed.
    WouldChange,
    /// It would be refreshed.
    WouldRefresh,
    /// The check depends on a value that is not known yet.
    Unknown,
    /// Its change or its check failed.
    Failed,
    /// It did not run because another resource failed.
    Skipped,
    /// The run ended before it ran.
    Interrupted,
}

impl Status {
    /// Returns the word for JSON and reports.
    pub fn word(self) -> &'static str {
        match self {
            Status::InSync => "in_sync",
            Status::Changed => "changed",
            Status::Refreshed => "refreshed",
            Status::WouldChange => "would_change",
            Status::WouldRefresh => "would_refresh",
            Status::Unknown => "unknown",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
            Status::Interrupted => "interrupted",
        }
    }
}

/// Deviation of a resource from the plan that is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// The resource is not as it was when the plan was made. It was not changed.
    Stale,
    /// The plan had the resource as unknown.
    Unknown,
    /// The plan had a change of the resource, and nothing is left to do.
    NotNeeded,
}

impl Deviation {
    /// Returns the word for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Deviation::Stale => "stale",
            Deviation::Unknown => "unknown",
            Deviation::NotNeeded => "not_needed",
        }
    }
}

/// Report of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceReport {
    /// The resource.
    pub reference: ResourceRef,
    /// Place of its declaration.
    pub span: Span,
    /// Its result.
    pub status: Status,
    /// Differences that were, or would be, changed.
    pub differences: Vec<Difference>,
    /// Changes that its provider reports, if it does so.
    pub told: Vec<Difference>,
    /// Reported changes that are not among `differences`: other attributes, and other values than the declared
    /// ones.
    pub unplanned_changes: Vec<Difference>,
    /// True if it failed because it is still out of sync after a change that its provider reported as successful.
    pub is_unsettled: bool,
    /// Attributes with unknown values, and the reasons.
    pub unknown: Vec<(EcoString, EcoString)>,
    /// Reason of the failure.
    pub failure: Option<EcoString>,
    /// Resource whose failure kept this one from running, or that makes it unknown.
    pub because_of: Option<ResourceRef>,
    /// True if it was refreshed, or would be.
    pub refreshed: bool,
    /// Resources whose changes refreshed it, or would.
    pub refreshed_by: Vec<ResourceRef>,
    /// Resources that notify it, if its own change makes the refresh needless, such as the start of a service.
    pub refresh_not_needed: Vec<ResourceRef>,
    /// Lines of the provider for the person who reads the report.
    pub notes: Vec<EcoString>,
    /// Document that a one-time action printed.
    pub document: Option<Value>,
    /// True if it has to wait for its repair because another program undoes its repairs.
    pub is_contested: bool,
    /// Process that changed the file of a resource that was in sync before, while a state is held.
    pub changed_by: Option<ChangedBy>,
    /// Time from the first event of a drift to the end of its repair, while a state is held.
    pub drift: Option<Duration>,
    /// Digests of the state that its change reads and replaces, if the plan is saved.
    pub basis: Option<Value>,
    /// Found `ensure` of a resource that a plan knows only in part.
    pub found: Option<Value>,
    /// True if its declaration forbids the change, or those of all resources that would refresh it.
    pub is_left: bool,
    /// Deviation from the plan that is applied, if there is one.
    pub deviation: Option<Deviation>,
    /// Number of attempts.
    pub tries: u32,
    /// Processes that were started for it in this run, since its last report.
    pub processes: ProcessList,
    /// Duration of its changes.
    pub duration: Duration,
}

impl ResourceReport {
    /// Returns true if the run ended before it checked the resource.
    pub fn is_unreached(&self) -> bool {
        self.status == Status::Interrupted && self.differences.is_empty() && self.unknown.is_empty()
    }
}

/// Number of resources by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All resources.
    pub total: usize,
    /// In sync before the run.
    pub in_sync: usize,
    /// Changed to their declared state.
    pub changed: usize,
    /// Refreshed, changed ones included.
    pub refreshed: usize,
    /// Would be changed.
    pub would_change: usize,
    /// Would be refreshed.
    pub would_refresh: usize,
    /// Not known yet.
    pub unknown: usize,
    /// Change or check failed.
    pub failed: usize,
    /// Not run because of a failure.
    pub skipped: usize,
    /// Not reached before the end.
    pub interrupted: usize,
    /// Never checked or changed, as their declaration says (`hidden`).
    pub hidden: usize,
    /// Left out of the run because their `when` is false. They are not part of `total`.
    pub left_out: usize,
}

impl Counts {
    pub(crate) fn count(&mut self, status: Status, refreshed: bool, is_hidden: bool) {
        self.total += 1;
        match status {
            Status::InSync if is_hidden => self.hidden += 1,
            Status::InSync => self.in_sync += 1,
            Status::Changed => self.changed += 1,
            Status::Refreshed => {}
            Status::WouldChange => self.would_change += 1,
            Status::WouldRefresh => {}
            Status::Unknown => self.unknown += 1,
            Status::Failed => self.failed += 1,
            Status::Skipped => self.skipped += 1,
            Status::Interrupted => self.interrupted += 1,
        }
        self.refreshed += usize::from(refreshed && matches!(status, Status::Changed | Status::Refreshed));
        self.would_refresh += usize::from(refreshed && matches!(status, Status::WouldRefresh | Status::WouldChange));
    }

    /// Returns the number of pending results of noop resources: changes, refreshes and unknowns.
    pub fn pending(&self) -> usize {
        self.would_change + self.would_refresh + self.unknown
    }
}
