//! What a run amounts to.

use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Difference, ResourceRef, Span, Value};

/// How a resource ended its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It was in its state.
    InSync,
    /// It was brought to its state.
    Changed,
    /// It was in its state and was refreshed.
    Refreshed,
    /// It would be changed.
    WouldChange,
    /// It would be refreshed.
    WouldRefresh,
    /// Whether it would be changed depends on a value that is not known yet.
    Unknown,
    /// It could not be brought to its state, or not be checked.
    Failed,
    /// It was left alone because another one failed.
    Skipped,
    /// The run ended before it was its turn.
    Interrupted,
}

impl Status {
    /// The word in JSON and reports.
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

/// How a resource deviates from the plan that is applied.
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
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Deviation::Stale => "stale",
            Deviation::Unknown => "unknown",
            Deviation::NotNeeded => "not_needed",
        }
    }
}

/// What became of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceReport {
    /// The resource.
    pub reference: ResourceRef,
    /// Where it was declared.
    pub span: Span,
    /// How it ended.
    pub status: Status,
    /// What was, or would be, changed.
    pub differences: Vec<Difference>,
    /// What its provider says it has changed, or would, where it says so itself.
    pub told: Vec<Difference>,
    /// What of that is not among `differences`: other attributes, and other values than are wanted.
    pub otherwise: Vec<Difference>,
    /// Whether it failed although its provider says that the change was made: it still differs.
    pub is_unsettled: bool,
    /// Attributes whose value is not known yet, and why.
    pub unknown: Vec<(EcoString, EcoString)>,
    /// Why it failed.
    pub failure: Option<EcoString>,
    /// The resource whose failure kept this one from running, or that makes it unknown.
    pub because_of: Option<ResourceRef>,
    /// Whether it was refreshed, or would be.
    pub refreshed: bool,
    /// The resources whose changes refreshed it, or would.
    pub refreshed_by: Vec<ResourceRef>,
    /// The resources that notify it, if its own change leaves nothing to refresh: a service that the change starts.
    pub refresh_not_needed: Vec<ResourceRef>,
    /// Lines of the provider for the person who reads the report.
    pub notes: Vec<EcoString>,
    /// True if it has to wait for its repair because another program undoes its repairs.
    pub is_contested: bool,
    /// The digest of what its change reads and replaces, if the plan is kept.
    pub basis: Option<Value>,
    /// How it deviates from the plan that is applied, if one is.
    pub deviation: Option<Deviation>,
    /// How often it was tried.
    pub tries: u32,
    /// How long its changes took.
    pub duration: Duration,
}

/// How many resources ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All resources.
    pub total: usize,
    /// In their state before the run.
    pub in_sync: usize,
    /// Brought to their state.
    pub changed: usize,
    /// Refreshed, changed ones included.
    pub refreshed: usize,
    /// Would be changed.
    pub would_change: usize,
    /// Would be refreshed.
    pub would_refresh: usize,
    /// Not known yet.
    pub unknown: usize,
    /// Not brought to their state, or not checked.
    pub failed: usize,
    /// Left alone because of a failure.
    pub skipped: usize,
    /// Not reached before the end.
    pub interrupted: usize,
    /// Left out of the run because their `when` is false. They are not part of `total`.
    pub left_out: usize,
}

impl Counts {
    pub(crate) fn count(&mut self, status: Status, refreshed: bool) {
        self.total += 1;
        match status {
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

    /// How many changes are pending: changes, refreshes and unknowns of resources only looked at.
    pub fn pending(&self) -> usize {
        self.would_change + self.would_refresh + self.unknown
    }
}

/// What a run amounts to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The resources that were not simply in their state, in manifest order.
    pub resources: Vec<ResourceReport>,
    /// How many ended in which way.
    pub counts: Counts,
    /// While a state was held: how often anything settled, and how. `counts` says what came of it.
    pub settled: Option<Counts>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
    /// The resource whose failure was of a kind after which nothing else is begun, as it is declared or was before an edit.
    pub ended_by: Option<ResourceRef>,
    /// Why what was done may not survive a crash, by provider.
    pub unflushed: Vec<EcoString>,
    /// Why refreshes could not be recorded: the journal cannot be written.
    pub journal: Option<EcoString>,
    /// Refreshes that remain owed and are served by the next run: who changed, and who is to be
    /// refreshed.
    pub owed: Vec<(ResourceRef, ResourceRef)>,
    /// How long it took.
    pub duration: Duration,
}

impl Report {
    /// Whether something failed, was skipped because of a failure, or may not survive a crash. What has failed, and ended the
    /// run by that, need not be declared any more.
    pub fn has_failures(&self) -> bool {
        let is_certain = self.unflushed.is_empty() && self.journal.is_none();
        self.counts.failed + self.counts.skipped > 0 || self.ended_by.is_some() || !is_certain
    }
}
