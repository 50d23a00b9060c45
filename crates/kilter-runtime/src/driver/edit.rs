//! Edits (graph swap): another catalog takes the place of the current one. Unchanged resources keep their ids, and so
//! everything that is known about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use kilter_engine::{ChangedVertex, Disposition, GraphDiff, HoldConfig, Input, ResourceId};
use kilter_model::Meta;

use super::Driver;
use super::matches::Matches;
use super::pending_refreshes::{owed, owed_for};
use super::run_state::Routes;
use crate::observer::Event;
use crate::prepare::Prepared;
use crate::preview_context::RunPreview;

impl Driver<'_, '_, '_, '_> {
    /// Replaces the catalog by the next one. All commands of the machine have been carried out.
    pub(super) fn edit(&mut self, mut next: Prepared) {
        self.observer.event(Event::Idle);
        // Some watches end after this. They and the calls in flight may still send messages.
        let listened = self.holder.iter().flat_map(|holder| holder.provider_watches.vertices());
        let ids: Vec<ResourceId> = self.calls.ids().chain(listened).collect();
        self.state.remember_secrets(ids.into_iter());
        let mut matches = Matches::of(&self.prepared, &next);
        let routes = Routes::of(&next);
        self.state.restart_receivers(&next, &routes, &self.calls, &mut matches);
        let (mut diff, gone) = self.number(&mut next, &matches);
        let next = Arc::new(next);
        let former = std::mem::replace(&mut self.prepared, Arc::clone(&next));
        let fresh: Vec<ResourceId> = next
            .graph
            .vertices()
            .enumerate()
            .filter(|(place, _)| !matches.is_unchanged[*place])
            .map(|(_, vertex)| vertex)
            .collect();
        self.state.edit(&next, routes.with_ids(next.graph.order()), &gone);
        self.forget(&gone);
        self.watch_anew(&fresh);
        diff.holding = HoldConfig { awaiting_watch: self.awaiting_watch(&fresh), ..next.holding(&fresh) };
        self.numbers.edit(&next, self.calls.semaphores());
        diff.semaphores = next.semaphores(&mut self.numbers, &fresh);
        diff.owed = owed(&next.lookup(), self.journal.as_ref(), &next.graph);
        self.machine.input(self.now, Input::Edit(diff.into()));
        self.preview_context = Arc::new(RunPreview::new(&next, self.options.mode));
        let superseded = self.calls.superseded(&next.graph).map(|(call, _)| &*call.preview_context);
        self.environment.edit(&next, &self.preview_context, superseded);
        self.reconsider(&next, &matches);
        self.begin_holding();
        if let Some(holder) = &mut self.holder {
            holder.hold.declared.discard(former);
        }
    }

    /// Gives the resources of the next catalog their ids. Returns the edit for the machine, and the ids that are no
    /// longer used.
    fn number(&mut self, next: &mut Prepared, matches: &Matches) -> (GraphDiff, Vec<ResourceId>) {
        let mut is_declared = vec![false; self.prepared.graph.slots()];
        matches.before.iter().flatten().for_each(|old| is_declared[old.slot()] = true);
        let removed: Vec<ResourceId> =
            self.prepared.graph.vertices().filter(|vertex| !is_declared[vertex.slot()]).collect();
        removed.iter().for_each(|id| self.ids.remove(*id));
        let (mut added, mut changed, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (place, before) in matches.before.iter().enumerate() {
            let vertex = || next.vertex(place, self.options.mode);
            ids.push(match before {
                Some(before) if matches.is_unchanged[place] => *before,
                Some(before) => {
                    let tries = |meta: &Meta| meta.retry != 0 && !meta.reset;
                    let inherits_retries = !matches.is_same[place] && next.resources()[place].meta().is_some_and(tries);
                    changed.push(ChangedVertex { before: *before, vertex: vertex(), inherits_retries });
                    self.ids.change(*before)
                }
                None => {
                    let id = self.ids.add();
                    added.push((id, vertex()));
                    id
                }
            });
        }
        next.set_ids(ids);
        let gone = removed.iter().copied().chain(changed.iter().map(|changed| changed.before)).collect();
        (GraphDiff { added, changed, removed, ..GraphDiff::of_edges(Arc::clone(&next.graph)) }, gone)
    }

    /// Forgets resources that have changed or been removed.
    fn forget(&mut self, gone: &[ResourceId]) {
        let graph = &self.prepared.graph;
        self.refused.retain(|vertex| graph.contains(*vertex));
        self.wakes.retain(|(_, vertex)| graph.contains(*vertex));
        self.unrecorded.clear();
        self.read_caches.stop_waiting();
        if let Some(holder) = &mut self.holder {
            holder.forget(gone);
        }
    }

    /// Returns the resources that must not be checked yet.
    fn awaiting_watch(&self, fresh: &[ResourceId]) -> BTreeSet<ResourceId> {
        let lookup = self.prepared.lookup();
        let silent = self.holder.as_ref().map(|holder| holder.provider_watches.silent()).unwrap_or_default();
        // Unchanged resources that wait for their watch continue to wait.
        let mut unwatched: BTreeSet<ResourceId> = fresh.iter().copied().filter(|id| silent.contains(id)).collect();
        for (call, target) in self.calls.superseded(&self.prepared.graph) {
            // A resource that replaces the target of a running call waits for that call.
            unwatched.extend(lookup.named(target.of.0, &target.of.1));
            // A resource that such a change refreshes also waits for it.
            if call.is_change() {
                unwatched.extend(owed_for(&lookup, self.journal.as_ref(), &target.reference));
            }
        }
        unwatched
    }

    /// Checks unchanged resources for which the edit may make a difference.
    fn reconsider(&mut self, next: &Prepared, matches: &Matches) {
        for vertex in (0..matches.before.len()).filter_map(|place| matches.unchanged(place)) {
            let settlement = self.machine.settlement(vertex);
            if let Some(settlement) = settlement {
                self.preview_context.settled(vertex, settlement);
            }
            let depends =
                next.provider(vertex).capabilities().watch().depends_on_catalog(&next.resource(vertex).attributes);
            // The failure may be due to a declaration that has changed.
            if depends || settlement == Some(Disposition::Failed) {
                self.machine.input(self.now, Input::Stale(vertex));
            }
            // The opponent may have been another declared resource, which is gone.
            if self.machine.is_watched_only(vertex) || self.machine.contest(vertex).is_some() {
                self.machine.input(self.now, Input::ResetBudget(vertex));
            }
        }
    }
}
