//! Report of a run, with its circumstances.

use std::sync::Arc;

use kilter_model::Resource;
use kilter_runtime::Report;

use crate::trace::Trace;

/// Report of a run with the circumstances that its renderers show.
pub(crate) struct ReportedRun<'a> {
    /// The command.
    pub(crate) command: &'static str,
    /// True for a run without changes.
    pub(crate) noop: bool,
    /// Name of this machine.
    pub(crate) host: &'a str,
    pub(crate) report: &'a Report,
    pub(crate) trace: &'a Trace,
}

impl<'a> ReportedRun<'a> {
    /// Returns all resources of the run, in manifest order.
    pub(crate) fn resources(&self) -> &'a [Arc<Resource>] {
        self.report.prepared.as_ref().map_or(&[], |prepared| prepared.resources())
    }

    /// Returns the start of the run in UTC, in a format of strftime(3).
    pub(crate) fn started(&self, format: &str) -> String {
        let started = jiff::Timestamp::try_from(self.trace.started);
        started.map_or_else(|_| "unknown".to_owned(), |at| at.strftime(format).to_string())
    }
}
