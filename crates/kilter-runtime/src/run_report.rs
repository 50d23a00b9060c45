//! Results of a run.

use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use kilter_model::ResourceRef;
use rustc_hash::FxHashSet;

use crate::prepare::Prepared;
use crate::report::{Counts, ResourceReport};

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The resources of the run, those in sync included. At the end of a run that held a state: the last ones.
    pub prepared: Option<Arc<Prepared>>,
    /// Resources that were not simply in sync, in manifest order.
    pub resources: Vec<ResourceReport>,
    /// Number of resources by result.
    pub counts: Counts,
    /// For a run that held a state: number of settlements by result. `counts` has the final states.
    pub settled: Option<Counts>,
    /// True if the run was interrupted.
    pub interrupted: bool,
    /// Resource with a fatal failure, which ended the run. An edit may have removed it.
    pub ended_by: Option<ResourceRef>,
    /// Reasons why changes may not survive a crash, by provider.
    pub unflushed: Vec<EcoString>,
    /// Reason why refreshes could not be recorded: the journal cannot be written.
    pub journal: Option<EcoString>,
    /// Refreshes that remain pending for the next run: the resource that changed, and the resource to refresh.
    pub owed: Vec<(ResourceRef, ResourceRef)>,
    /// Duration of the run.
    pub duration: Duration,
    /// Changed resources whose change repaired drift, as opposed to an edit of the declaration; none if kilter does
    /// not know which ones.
    pub corrected: Option<FxHashSet<ResourceRef>>,
}

impl Report {
    /// Returns the number of resources that the run did not check: hidden ones, and those that it did not reach.
    /// Skipped resources have a count of their own.
    pub fn not_checked(&self) -> usize {
        self.counts.hidden + self.resources.iter().filter(|one| one.is_unreached()).count()
    }

    /// Returns true if the change of a resource is known to have repaired drift.
    pub fn is_corrected(&self, resource: &ResourceReport) -> bool {
        self.corrected.as_ref().is_some_and(|corrected| corrected.contains(&resource.reference))
    }

    /// Returns true if a resource failed or was skipped, or if changes may not survive a crash. A fatal failure
    /// counts even if the resource is no longer declared.
    pub fn has_failures(&self) -> bool {
        let is_certain = self.unflushed.is_empty() && self.journal.is_none();
        self.counts.failed + self.counts.skipped > 0 || self.ended_by.is_some() || !is_certain
    }
}
