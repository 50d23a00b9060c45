//! Reports and bookkeeping when a resource settles.

use kilter_engine::{Disposition, Graph, Machine, ResourceId, Stage};
use kilter_model::{Because, Policy, ResourceRef};
use kilter_provider::{Level, ProcessList};

use super::unplanned_changes::unplanned_changes;
use super::{PendingReport, RunState, status};
use crate::observer::{Event, Observer};
use crate::options::Mode;
use crate::report::{ResourceReport, Status};

impl RunState<'_> {
    pub(in super::super) fn settle(
        &mut self,
        vertex: ResourceId,
        settlement: Disposition,
        machine: &Machine,
        observer: &mut dyn Observer,
    ) {
        let is_polled = self.standing_mut().is_some_and(|held_status| held_status.end_poll(vertex));
        let has_failed = self.drafts.get(&vertex).is_some_and(|draft| draft.failure.is_some());
        let status = match status(settlement) {
            // A retry was pending.
            Status::Interrupted if has_failed => Status::Failed,
            // A poll was cancelled, so that the state is the same as before.
            Status::Interrupted if is_polled && !self.found.contains_key(&vertex) => return,
            status => status,
        };
        let status = self.drafts.get(&vertex).map_or(status, |draft| draft.what_is_new(status));
        let is_drift = self.has_settled(vertex);
        let is_hidden = status == Status::InSync && self.prepared.resource(vertex).is_hidden();
        if let Some(held_status) = self.standing_mut() {
            held_status.settled(vertex, is_hidden);
        }
        self.forget_before(vertex, status);
        let drift = match status {
            Status::InSync | Status::Changed | Status::Refreshed => self.end_drift(vertex, status, is_drift),
            _ => None,
        };
        if self.prepared.resource(vertex).is_reversal() && status != Status::InSync {
            let note = self.reversal_note(vertex, status);
            self.draft(vertex).notes.push(note);
        }
        let mut draft = self.drafts.remove(&vertex);
        let processes = self.processes.remove(&vertex).unwrap_or_default();
        if let Some(found) = self.found.remove(&vertex) {
            // The change was pending and did not run.
            draft.get_or_insert_default().differences = self.redacted_differences(vertex, found.differences);
        }
        let would = self.refreshing(vertex, machine.graph());
        let draft_refreshed = draft.as_ref().is_some_and(|draft| draft.refreshed);
        let is_idle = draft.as_ref().is_some_and(|draft| draft.is_idle);
        let refreshed = draft_refreshed
            || settlement == Disposition::WouldRefresh
            || (settlement == Disposition::WouldChange && !is_idle && !would.is_empty() && self.refreshable(vertex));
        let is_explained = draft.as_ref().is_some_and(|draft| !draft.unknown.is_empty());
        let may_refresh = settlement == Disposition::WouldChange && !is_idle && !refreshed && self.refreshable(vertex);
        if (settlement == Disposition::Unknown && !is_explained || may_refresh)
            && let Some(by) = unknown_notifier(vertex, machine)
        {
            let because = Because { resource: self.prepared.resource(by).reference.clone(), is_ordered: true };
            let draft = draft.get_or_insert_default();
            draft.unknown.push(("refresh".into(), because.reason()));
            draft.unknown_by = Some(because.resource);
        }
        if settlement == Disposition::WouldRefresh
            && !machine.is_owed_to(vertex)
            && self.causes.are_all_left(vertex, &self.prepared.graph, |by| self.is_left(by))
        {
            self.causes.note_left(vertex);
        }
        self.reports.count(status, refreshed, is_hidden);
        let is_changed = matches!(settlement, Disposition::Changed | Disposition::WouldChange);
        let needs_no_refresh = is_changed && is_idle && !refreshed && !would.is_empty() && self.refreshable(vertex);
        let is_served = draft_refreshed || needs_no_refresh && settlement == Disposition::Changed;
        self.causes.note(vertex, settlement, is_served, machine);
        let before = self.standing_mut().and_then(|held_status| held_status.reports.remove(&vertex));
        if status == Status::InSync && draft.as_ref().is_none_or(|draft| draft.says_nothing()) {
            return self.progress(observer);
        }
        let draft = draft.unwrap_or_default();
        let changed_by = self.origin(vertex, status, draft.changed_by.as_deref(), is_drift);
        let resource = self.prepared.resource(vertex);
        if let Some(held_status) = self.reports.held_status.as_mut().filter(|_| status == Status::Failed) {
            held_status.counters.failed(vertex);
        }
        let (refreshed_by, unneeded) = match needs_no_refresh {
            true => (None, would),
            false => (refreshed.then_some(would), Vec::new()),
        };
        let mut report = self.report_of(vertex, status, settlement, refreshed_by, *draft);
        report.refresh_not_needed = unneeded;
        report.processes = self.without_secrets(vertex, processes);
        report.is_contested = status == Status::WouldChange && machine.contest(vertex).is_some();
        report.changed_by = changed_by;
        report.drift = drift.filter(|_| status == Status::Changed);
        // A repeated check with the same result is not reported again.
        let is_known = before.is_some_and(|before| before.status == status && before.failure == report.failure);
        if !is_known {
            observer.event(Event::Settled(&report));
            let is_warned_of = resource.meta().is_some_and(|meta| meta.policy == Policy::Warn);
            if is_warned_of && status == Status::WouldChange && self.options.mode == Mode::Apply {
                let (type_name, name) = (resource.reference.type_name.as_str(), resource.name.as_str());
                let message = "it is not in its state, and not repaired: its policy is `warn`";
                observer.event(Event::Log { level: Level::Warning, type_name, name, message });
            }
        }
        self.reports.add(vertex, report);
        self.progress(observer);
    }

    /// Reports a change of a resource that received an event meanwhile. The next check is reported separately.
    pub(in super::super) fn report_done(&mut self, vertex: ResourceId, machine: &Machine, observer: &mut dyn Observer) {
        let is_done = |draft: &&mut Box<PendingReport>| draft.changed || draft.refreshed;
        let (Some(_), Some(draft)) = (&self.reports.held_status, self.drafts.get_mut(&vertex).filter(is_done)) else {
            return;
        };
        // A refresh after a change is reported with it.
        if machine.settlement(vertex).is_some() || machine.stage(vertex) == Stage::Owed {
            return;
        }
        let (failure, repaired) = (draft.failure.clone(), draft.differences.clone());
        let next = PendingReport { failure, repaired, is_continued: true, ..PendingReport::default() };
        let done = std::mem::replace(&mut **draft, next);
        let settlement = if done.changed { Disposition::Changed } else { Disposition::Refreshed };
        let (status, refreshed) = (status(settlement), done.refreshed);
        let by = refreshed.then(|| self.refreshing(vertex, machine.graph()));
        self.reports.count(status, refreshed, false);
        self.causes.note(vertex, settlement, refreshed, machine);
        let is_drift = self.has_settled(vertex);
        let changed_by = self.origin(vertex, status, done.changed_by.as_deref(), is_drift);
        let mut report = self.report_of(vertex, status, settlement, by, done);
        report.changed_by = changed_by;
        report.drift = self.next_drift(vertex).filter(|_| status == Status::Changed);
        let processes = self.processes.remove(&vertex).unwrap_or_default();
        report.processes = self.without_secrets(vertex, processes);
        observer.event(Event::Settled(&report));
    }

    fn report_of(
        &self,
        vertex: ResourceId,
        status: Status,
        settlement: Disposition,
        refreshed_by: Option<Vec<ResourceRef>>,
        draft: PendingReport,
    ) -> ResourceReport {
        let resource = self.prepared.resource(vertex);
        let notes = draft.plan_note.into_iter().chain(draft.notes).collect();
        ResourceReport {
            reference: resource.reference.clone(),
            is_contested: false,
            changed_by: None,
            drift: None,
            span: resource.span,
            status,
            unplanned_changes: unplanned_changes(
                self.prepared.provider(vertex).schema(),
                &draft.told,
                &draft.differences,
            ),
            differences: draft.differences,
            told: draft.told,
            is_unsettled: draft.is_unsettled && status == Status::Failed,
            unknown: draft.unknown,
            failure: if status == Status::Failed { draft.failure } else { None },
            because_of: match settlement {
                Disposition::Blocked(by) => Some(self.prepared.resource(by).reference.clone()),
                Disposition::Unknown => draft.unknown_by,
                _ => None,
            },
            refreshed: refreshed_by.is_some(),
            refresh_not_needed: Vec::new(),
            refreshed_by: refreshed_by.unwrap_or_default(),
            notes,
            document: draft.document,
            basis: draft.basis,
            found: draft.found,
            is_left: self.is_left(vertex) || self.causes.is_left(vertex),
            deviation: draft.deviation,
            tries: draft.tries,
            processes: ProcessList::default(),
            duration: draft.duration,
        }
    }

    /// Redacts secrets in processes.
    fn without_secrets(&self, vertex: ResourceId, processes: ProcessList) -> ProcessList {
        if processes.is_empty() { processes } else { processes.redacted(&self.seal(vertex)) }
    }

    /// Counts a change, and the refresh that it included.
    pub(super) fn count_change(&mut self, vertex: ResourceId, refreshed: Option<Vec<ResourceRef>>) {
        let differences = self.drafts.get(&vertex).map(|draft| draft.differences.as_slice());
        if let Some(held_status) = &mut self.reports.held_status {
            held_status.counters.changed(vertex, differences.unwrap_or_default());
        }
        if let Some(owed_by) = refreshed {
            self.count_refresh(vertex, owed_by);
        }
    }

    /// Counts a refresh.
    pub(super) fn count_refresh(&mut self, vertex: ResourceId, owed_by: Vec<ResourceRef>) {
        if let Some(held_status) = &mut self.reports.held_status {
            held_status.counters.refreshed(vertex, owed_by);
        }
    }

    fn progress(&self, observer: &mut dyn Observer) {
        observer
            .event(Event::Progress { settled: self.reports.settled().total, total: self.prepared.resources().len() });
    }

    fn refreshable(&self, vertex: ResourceId) -> bool {
        self.prepared.is_refreshable(vertex)
    }

    /// Returns true if a vertex is only checked, and a notifier would change.
    pub(in super::super) fn would_be_refreshed(&self, vertex: ResourceId) -> bool {
        self.is_noop(vertex) && self.is_to_be_refreshed(vertex)
    }

    /// Returns true if a vertex has a notifier that changed or would change.
    pub(super) fn is_to_be_refreshed(&self, vertex: ResourceId) -> bool {
        self.refreshable(vertex) && self.causes.of(vertex, &self.prepared.graph).next().is_some()
    }

    /// Returns the resources whose changes refresh a vertex.
    fn refreshing(&self, vertex: ResourceId, graph: &Graph) -> Vec<ResourceRef> {
        let causes = self.causes.of(vertex, graph);
        causes.map(|cause| self.prepared.resource(cause).reference.clone()).collect()
    }
}

/// Returns the notifier of a vertex that is unknown.
fn unknown_notifier(vertex: ResourceId, machine: &Machine) -> Option<ResourceId> {
    let graph = machine.graph();
    let edges = graph.incoming(vertex).iter().map(|id| graph.edge(*id)).filter(|edge| edge.notify);
    edges.map(|edge| edge.from).find(|first| machine.settlement(*first) == Some(Disposition::Unknown))
}

impl PendingReport {
    fn says_nothing(&self) -> bool {
        self.notes.is_empty() && self.plan_note.is_none()
    }

    /// Returns the status without the parts that have been reported already.
    fn what_is_new(&self, status: Status) -> Status {
        match status {
            Status::Changed if self.is_continued && !self.changed && self.refreshed => Status::Refreshed,
            Status::Changed | Status::Refreshed if self.is_continued && !self.changed && !self.refreshed => {
                Status::InSync
            }
            status => status,
        }
    }
}
