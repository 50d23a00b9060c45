//! Reports of settled resources, and the report of the run.

use kilter_engine::ResourceId;

use super::status::HeldStatus;
use crate::prepare::Prepared;
use crate::report::{Counts, ResourceReport, Status};
use crate::run_report::Report;

/// Reports of settled resources.
#[derive(Default)]
pub(super) struct Reports {
    counts: Counts,
    /// Reports of a single pass. Resources that are in sync have none.
    all: Vec<(ResourceId, ResourceReport)>,
    /// State of the resources while a state is held, instead of all reports.
    pub(super) held_status: Option<HeldStatus>,
}

impl Reports {
    /// Counts a settlement. A hidden resource was not checked.
    pub(super) fn count(&mut self, status: Status, refreshed: bool, is_hidden: bool) {
        self.counts.count(status, refreshed, is_hidden);
    }

    /// Returns the numbers of settlements, by status.
    pub(super) fn settled(&self) -> Counts {
        self.counts
    }

    /// Adds the report of a resource. While a state is held, it replaces the report before, and only a resource that is
    /// out of sync has one.
    pub(super) fn add(&mut self, vertex: ResourceId, report: ResourceReport) {
        match &mut self.held_status {
            Some(_) if matches!(report.status, Status::Changed | Status::Refreshed | Status::InSync) => {}
            Some(held_status) => drop(held_status.reports.insert(vertex, report)),
            None => self.all.push((vertex, report)),
        }
    }

    /// Returns the report of the run.
    pub(super) fn finish(mut self, prepared: &Prepared) -> Report {
        let left_out = prepared.catalog.left_out;
        let Some(held_status) = self.held_status else {
            self.all.sort_by_key(|(vertex, _)| *vertex);
            let resources = self.all.into_iter().map(|(_, report)| report).collect();
            return Report { resources, counts: Counts { left_out, ..self.counts }, ..Report::default() };
        };
        let counts = held_status.counts(prepared.resources().len(), left_out);
        let mut reports: Vec<_> = held_status.reports.into_iter().collect();
        reports.sort_unstable_by_key(|(vertex, _)| prepared.graph.place(*vertex));
        let resources = reports.into_iter().map(|(_, report)| report).collect();
        Report { resources, counts, settled: Some(self.counts), ..Report::default() }
    }
}
