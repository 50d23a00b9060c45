//! Replaces the running graph of a machine that holds a state.

use super::semaphore::Shared;
use super::{HoldConfig, Machine, RefreshToken, Semaphores, Timestamp};
use crate::graph::{EdgeId, Graph, VertexId};
use crate::vertex::{Disposition, Phase, Progress, RefreshState, Vertex};

/// The graph that replaces the running graph.
pub struct Replacement<'a> {
    /// The new graph.
    pub graph: Graph,
    /// Its vertices, in the order of the graph.
    pub vertices: Vec<Vertex>,
    /// Settings for holding its state. A vertex that replaces one in flight is *unwatched* until that call has
    /// ended.
    pub holding: HoldConfig,
    /// Semaphores of its vertices.
    pub semaphores: Semaphores,
    /// Old number of each unchanged vertex. Such a vertex keeps its state and its timers.
    pub unchanged: &'a [Option<VertexId>],
    /// Old number of the vertex that each changed vertex replaces, so that it inherits the used retries. None
    /// for a vertex that has all its retries. Empty if all vertices have theirs.
    pub modified: &'a [Option<VertexId>],
    /// Pending refreshes according to the journal, in the new numbers.
    pub owed: &'a [RefreshToken],
}

impl Machine {
    /// Replaces the running graph, vertex by vertex, without waiting for any call. Unchanged vertices keep
    /// their state, retries, rate limits and calls in flight. New vertices start.
    ///
    /// The driver answers calls in flight with the numbers of the new graph. It does not answer calls for
    /// vertices that are not kept. It only reports each semaphore that such a call releases
    /// ([`Input::SemaphoreReleased`](super::Input::SemaphoreReleased)).
    ///
    /// # Panics
    /// If this machine holds no state, the parts of the replacement do not match, or the commands have not been
    /// taken.
    pub fn replace(&mut self, now: Timestamp, replacement: Replacement<'_>) {
        let Replacement { graph, vertices, holding, semaphores, unchanged: kept, modified: heirs, owed } = replacement;
        assert!(self.hold.is_some(), "a machine for one pass has one graph");
        assert_eq!(graph.len(), kept.len(), "each vertex is kept or not");
        assert!(self.commands.is_empty(), "commands are carried out in the numbers in which they are given");
        let mut new = Machine::unstarted(graph, vertices, owed);
        new.now = now;
        new.interrupted = self.interrupted;
        let mut new_of = vec![None; self.graph.len()];
        for (vertex, old) in kept.iter().enumerate().filter_map(|(at, old)| Some((VertexId(at as u32), (*old)?))) {
            new_of[old.index()] = Some(vertex);
        }
        for (vertex, old) in kept.iter().enumerate().filter_map(|(at, old)| Some((VertexId(at as u32), (*old)?))) {
            let Progress { phase, retries, changed, refreshed, refresh_failed, stale, .. } = self.progress[old.index()];
            // The vertex may now have another blocker, or none, so it is checked again.
            let phase = if matches!(phase, Phase::Settled(Disposition::Blocked(_))) { Phase::Waiting } else { phase };
            let progress = &mut new.progress[vertex.index()];
            *progress = Progress { phase, retries, changed, refreshed, refresh_failed, stale, ..*progress };
        }
        for (at, old) in heirs.iter().enumerate().filter_map(|(at, old)| Some((at, (*old)?))) {
            let used = self.vertices[old.index()].retry.saturating_sub(self.progress[old.index()].retries).max(0);
            let retries = &mut new.progress[at].retries;
            // A negative number means unlimited retries.
            if *retries > 0 {
                *retries = retries.saturating_sub(used).max(0);
            }
        }
        new.carry_over_refreshes(self, &new_of);
        new.shared = match self.shared.take() {
            Some(shared) => Some(Box::new(shared.renumbered(semaphores, &new_of, &self.under_way()))),
            None => Shared::of(semaphores),
        };
        new.hold = self.hold.take().map(|hold| Box::new(hold.remap(holding, &new_of, now)));
        new.rebuild_schedule();
        // A change in flight journalled its refreshes for the old edges only.
        let changing: Vec<VertexId> = new
            .graph
            .vertices()
            .filter(|v| matches!(new.progress[v.index()].phase, Phase::Applying | Phase::Refreshing))
            .collect();
        new.journal_refreshes(&changing);
        *self = new;
    }

    /// Returns the vertices with a call in flight.
    fn under_way(&self) -> Vec<VertexId> {
        let is_in_flight = |vertex: &VertexId| {
            matches!(self.progress[vertex.index()].phase, Phase::Checking | Phase::Applying | Phase::Refreshing)
        };
        self.graph.vertices().filter(is_in_flight).collect()
    }

    /// Keeps refreshes in progress as in progress.
    fn carry_over_refreshes(&mut self, old: &Machine, new_of: &[Option<VertexId>]) {
        for (edge, debt) in old.graph.edges().iter().zip(&old.owed).filter(|(_, debt)| **debt == RefreshState::Served) {
            if let (Some(first), Some(second)) = (new_of[edge.from.index()], new_of[edge.to.index()])
                && let Some(edge) = self.graph.find(first, second)
                && self.owed[edge.at()] == RefreshState::Owed
            {
                self.owed[edge.at()] = *debt;
            }
        }
        for vertex in old.graph.vertices() {
            if let Some(new) = new_of[vertex.index()]
                && self.inherited[new.index()] == RefreshState::Owed
                && self.is_all_served(new, old, vertex, new_of)
            {
                self.inherited[new.index()] = RefreshState::Served;
            }
        }
    }

    /// Returns true if the call in flight covers all orphaned refreshes of a vertex: the earlier refreshes, and
    /// the refreshes from former parents. A notifier may have changed again during the call.
    fn is_all_served(&self, new: VertexId, old: &Machine, vertex: VertexId, new_of: &[Option<VertexId>]) -> bool {
        let is_left = |edge: &&EdgeId| {
            let first = new_of[old.graph.edge(**edge).from.index()];
            first.is_none_or(|first| self.graph.find(first, new).is_none())
        };
        let along = old.graph.incoming(vertex).iter().filter(is_left).map(|edge| old.owed[edge.at()]);
        let mut debts =
            along.chain([old.inherited[vertex.index()]]).filter(|debt| *debt != RefreshState::Nothing).peekable();
        debts.peek().is_some() && debts.all(|debt| debt == RefreshState::Served)
    }

    /// Recomputes for each vertex the number of parents and watches that it waits for, and makes the others
    /// ready.
    fn rebuild_schedule(&mut self) {
        let mut owed = Vec::new();
        let is_settled = |progress: &Progress| matches!(progress.phase, Phase::Settled(_));
        for vertex in self.graph.vertices() {
            let parents = self.graph.incoming(vertex).iter().map(|edge| self.graph.edge(*edge).from);
            let waiting = parents.filter(|parent| !is_settled(&self.progress[parent.index()])).count() as u32;
            let is_unwatched = self.hold.as_ref().is_some_and(|hold| hold.settings.awaiting_watch.contains(&vertex));
            let waiting = waiting + u32::from(is_unwatched);
            let is_served = waiting == 0 && self.is_served(vertex);
            let is_held_back = waiting > 0 || self.blocker(vertex).is_some();
            let progress = &mut self.progress[vertex.index()];
            progress.waiting = waiting;
            match progress.phase {
                Phase::Waiting | Phase::Ready if waiting == 0 => self.make_ready(vertex),
                Phase::Ready => progress.phase = Phase::Waiting,
                Phase::Differs | Phase::Owed if is_held_back => self.requeue_or_wait(vertex),
                Phase::Differs => self.differs.push(vertex),
                Phase::Owed => self.due_refresh.push(vertex),
                Phase::Checking | Phase::Applying | Phase::Refreshing => {
                    progress.stale |= is_held_back;
                    self.in_flight += 1;
                }
                Phase::Delayed => self.delayed += 1,
                Phase::Settled(found) if is_served => owed.push((vertex, found)),
                Phase::Waiting | Phase::Settled(_) => {}
            }
        }
        // The notifier is no longer a parent and does not restart this vertex.
        for (vertex, found) in owed {
            match found {
                found if found.unblocks_dependents() => self.requeue(vertex),
                Disposition::Failed => self.on_event(vertex, found),
                _ => {}
            }
        }
    }
}
