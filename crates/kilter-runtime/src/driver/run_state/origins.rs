//! Origins of differences: the process that changed a resource, and the time of its change.

use std::time::{Duration, Instant};

use kilter_engine::ResourceId;
use kilter_model::Difference;
use rustc_hash::FxHashMap;

use super::RunState;
use crate::process_tracker::{ChangedBy, ChangingProcess, ProcessTracker, RecordedProcess};
use crate::report::Status;

/// Origins of the differences of resources that were in sync.
#[derive(Default)]
pub(in crate::driver) struct DriftOrigins {
    /// Processes that change held files.
    pub(in crate::driver) tracker: ProcessTracker,
    /// Times of the first events.
    pub(super) events: FxHashMap<ResourceId, Instant>,
}

impl RunState<'_> {
    /// Records an event on a resource that was in sync. Its drift has begun if the next check finds a difference.
    pub(in super::super) fn has_event(&mut self, vertex: ResourceId) {
        if self.has_settled(vertex) {
            self.origins.events.entry(vertex).or_insert_with(Instant::now);
        }
    }

    /// Returns true if a resource has settled once in a run that holds a state.
    pub(super) fn has_settled(&self, vertex: ResourceId) -> bool {
        self.held_status().is_some_and(|held_status| held_status.has_settled(vertex))
    }

    /// Finds the process that caused the differences of a resource. Differences at its first check are older than the
    /// run.
    pub(super) fn search_process(&mut self, vertex: ResourceId) {
        if self.has_settled(vertex)
            && let Some(process) = self.origins.tracker.changed_by(vertex, self.prepared.resource(vertex))
        {
            self.draft(vertex).changed_by = Some(process);
        }
    }

    /// Returns the differences of the last change of a resource, until the change has settled.
    pub(in super::super) fn repaired(&self, vertex: ResourceId) -> &[Difference] {
        let Some(draft) = self.drafts.get(&vertex) else { return &[] };
        if draft.differences.is_empty() { &draft.repaired } else { &draft.differences }
    }

    /// Returns the process that caused the differences of a resource that has not settled, if kilter did not start it.
    pub(in super::super) fn opponent(&self, vertex: ResourceId) -> Option<ChangingProcess> {
        let process = self.origins.tracker.process(self.drafts.get(&vertex)?.changed_by.as_ref()?)?;
        process.is_foreign().then(|| self.without_secrets_in(vertex, process))
    }

    /// Returns the origin of the differences of a resource, and records the opponent of a contest.
    ///
    /// `is_drift` is true if the resource was in sync before in this run.
    pub(super) fn origin(
        &mut self,
        vertex: ResourceId,
        status: Status,
        recorded: Option<&RecordedProcess>,
        is_drift: bool,
    ) -> Option<ChangedBy> {
        if let Some(process) = recorded.and_then(|recorded| self.origins.tracker.process(recorded)) {
            let process = self.without_secrets_in(vertex, process);
            self.contests.record_opponent(vertex, &process);
            return Some(ChangedBy::Process(process));
        }
        if status != Status::Changed || !is_drift {
            return None;
        }
        self.origins.tracker.news_of_unknown(vertex, self.prepared.resource(vertex)).map(ChangedBy::Unknown)
    }

    /// Records that a resource is in sync. Returns the time since the event that began its drift.
    pub(super) fn end_drift(&mut self, vertex: ResourceId, status: Status, is_drift: bool) -> Option<Duration> {
        self.origins.tracker.settled(vertex, self.prepared.resource(vertex), status == Status::Changed, is_drift);
        self.origins.events.remove(&vertex).map(|at| at.elapsed())
    }

    /// Ends a drift of a resource that has had another event since. Returns the time since the event that began it.
    pub(super) fn next_drift(&mut self, vertex: ResourceId) -> Option<Duration> {
        let at = self.origins.events.get_mut(&vertex)?;
        Some(std::mem::replace(at, Instant::now()).elapsed())
    }

    fn without_secrets_in(&self, vertex: ResourceId, mut process: ChangingProcess) -> ChangingProcess {
        if let Some(details) = process.details.as_mut().filter(|details| !details.command.is_empty()) {
            let seal = self.seal(vertex);
            details.command.iter_mut().for_each(|argument| *argument = seal.redact(argument.clone()));
        }
        process
    }
}
