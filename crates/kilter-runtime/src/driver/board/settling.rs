//! What becomes of a resource when it has settled: what is told, and what is kept.

use kilter_engine::{Graph, Machine, Settlement, VertexId};
use kilter_model::Policy;
use kilter_provider::Level;

use super::{Board, status};
use crate::driver::Mode;
use crate::observer::{Event, Observer};
use crate::report::{ResourceReport, Status};

impl Board<'_> {
    pub(in super::super) fn settle(
        &mut self,
        vertex: VertexId,
        settlement: Settlement,
        machine: &Machine,
        observer: &mut dyn Observer,
    ) {
        let status = status(settlement);
        if self.prepared.resource(vertex).meta().is_some_and(|meta| meta.realize) {
            self.realized.insert(vertex);
        }
        self.forget_before(vertex, status);
        if self.prepared.resource(vertex).is_reversal() && status != Status::InSync {
            let note = self.reversal_note(vertex, status);
            self.draft(vertex).notes.push(note);
        }
        let mut draft = self.drafts.remove(&vertex);
        if let Some(found) = self.found.remove(&vertex) {
            // It was to be changed, and was not.
            draft.get_or_insert_default().differences = self.told(vertex, found.differences);
        }
        let would = self.refreshing(vertex, machine.graph());
        let draft_refreshed = draft.as_ref().is_some_and(|draft| draft.refreshed);
        let refreshed = draft_refreshed
            || settlement == Settlement::WouldRefresh
            || (settlement == Settlement::WouldChange && !would.is_empty() && self.refreshable(vertex));
        self.counts.count(status, refreshed);
        self.note_causes(vertex, settlement, draft_refreshed, machine);
        let before = self.standing.as_mut().and_then(|standing| standing.remove(&vertex));
        if status == Status::InSync && draft.as_ref().is_none_or(|draft| draft.notes.is_empty()) {
            return self.progress(observer);
        }
        let resource = self.prepared.resource(vertex);
        let draft = draft.unwrap_or_default();
        if self.standing.is_some() {
            self.tallies.count(vertex, status, refreshed, &draft.differences);
        }
        let report = ResourceReport {
            reference: resource.reference.clone(),
            span: resource.span,
            status,
            differences: draft.differences,
            told: draft.told,
            is_unsettled: draft.is_unsettled && status == Status::Failed,
            unknown: draft.unknown,
            failure: if status == Status::Failed { draft.failure } else { None },
            because_of: match settlement {
                Settlement::Blocked(by) => Some(self.prepared.resource(by).reference.clone()),
                _ => None,
            },
            refreshed,
            refreshed_by: if refreshed { would } else { Vec::new() },
            notes: draft.notes,
            tries: draft.tries,
            duration: draft.duration,
        };
        // What is so still is not told again, however often somebody looks.
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
        match &mut self.standing {
            Some(_) if matches!(status, Status::Changed | Status::Refreshed | Status::InSync) => {}
            Some(standing) => drop(standing.insert(vertex, report)),
            None => self.reports.push((vertex, report)),
        }
        self.progress(observer);
    }

    /// Keeps what refreshes others, and forgets what refreshed this one: the next change that does is another one.
    fn note_causes(&mut self, vertex: VertexId, settlement: Settlement, refreshed: bool, machine: &Machine) {
        let graph = machine.graph();
        if refreshed && !self.changed.is_empty() {
            // What changed once more meanwhile refreshes it once more.
            let served =
                graph.entering(vertex).iter().filter(|edge| graph.edge(**edge).notify && !machine.is_owed(**edge));
            self.served.extend(served);
        }
        match settlement {
            Settlement::Changed | Settlement::Refreshed | Settlement::WouldChange | Settlement::WouldRefresh => {
                for edge in graph.leaving(vertex) {
                    self.served.remove(&edge);
                }
                self.changed.insert(vertex, settlement);
            }
            Settlement::InSync => {
                // What would have changed would not any more. What did is owed until it is served.
                let is_looked_at = |was: &Settlement| matches!(was, Settlement::WouldChange | Settlement::WouldRefresh);
                if self.changed.get(&vertex).is_some_and(is_looked_at) {
                    self.changed.remove(&vertex);
                }
            }
            _ => {}
        }
    }

    fn progress(&self, observer: &mut dyn Observer) {
        observer.event(Event::Progress { settled: self.counts.total, total: self.prepared.resources().len() });
    }

    fn refreshable(&self, vertex: VertexId) -> bool {
        self.prepared.provider(vertex).schema().has(kilter_model::Feature::Refresh)
    }

    /// The resources whose changes refresh a vertex.
    /// Whether something has changed, or would, that refreshes it.
    pub(super) fn is_to_be_refreshed(&self, vertex: VertexId) -> bool {
        self.refreshable(vertex) && !self.refreshing(vertex, &self.prepared.graph).is_empty()
    }

    fn refreshing(&self, vertex: VertexId, graph: &Graph) -> Vec<kilter_model::ResourceRef> {
        if self.changed.is_empty() {
            return Vec::new();
        }
        let edges = graph.entering(vertex).iter().filter(|id| !self.served.contains(id));
        let edges = edges.map(|id| graph.edge(*id)).filter(|edge| edge.notify);
        let changed = edges.filter(|edge| self.changed.contains_key(&edge.first));
        changed.map(|edge| self.prepared.resource(edge.first).reference.clone()).collect()
    }
}
