//! Edits (graph swap): the difference of two graphs as one input. Unchanged vertices keep their state in place.

use std::sync::Arc;

use super::semaphore::Shared;
use super::{HoldConfig, Input, Machine, RefreshToken, Semaphores};
use crate::graph::{EdgeId, Graph};
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Phase, RefreshState, Vertex, VertexState};

/// Difference of the graph that a machine holds and the next one.
///
/// A vertex that the diff does not name is unchanged. It keeps its state, its timers and its call in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphDiff {
    /// New vertices.
    pub added: Vec<(ResourceId, Vertex)>,
    /// Vertices with another declaration. They start again.
    pub changed: Vec<ChangedVertex>,
    /// Vertices that are no longer declared.
    pub removed: Vec<ResourceId>,
    /// The next graph: all vertices in manifest order, and the edges.
    pub edges: Arc<Graph>,
    /// Settings of the added and changed vertices. The budget and the back-off stay as they are. Any vertex may be in
    /// `awaiting_watch`: it is not checked before its watch has started.
    pub holding: HoldConfig,
    /// Sizes of all semaphores, and the semaphores of the added and changed vertices.
    pub semaphores: Semaphores,
    /// Pending refreshes according to the journal.
    pub owed: Vec<RefreshToken>,
}

impl GraphDiff {
    /// Returns an edit that changes no vertex: it only replaces the edges.
    pub fn of_edges(edges: impl Into<Arc<Graph>>) -> GraphDiff {
        GraphDiff {
            added: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            edges: edges.into(),
            holding: HoldConfig::default(),
            semaphores: Semaphores::default(),
            owed: Vec::new(),
        }
    }
}

/// A vertex with another declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedVertex {
    /// Id before the edit. The vertex has the [next](ResourceId::next) id now.
    pub before: ResourceId,
    /// Properties of the vertex.
    pub vertex: Vertex,
    /// True if retries that it has used count against its new number of retries.
    pub inherits_retries: bool,
}

impl Machine {
    /// Takes an edit, without waiting for any call. Added and changed vertices start.
    ///
    /// The driver answers all calls in flight with the id with which they were requested.
    ///
    /// # Panics
    /// If this machine holds no state, the parts of the diff do not match, or the commands have not been taken.
    pub(super) fn edit(&mut self, diff: GraphDiff) {
        assert!(self.hold.is_some(), "a machine for one pass has one graph");
        assert!(self.commands.is_empty(), "commands are carried out for the graph that they were made for");
        let GraphDiff { added, changed, removed, edges, holding, semaphores, owed } = diff;
        for vertex in changed.iter().map(|changed| changed.before).chain(removed) {
            self.supersede(vertex);
        }
        self.vertices.resize(self.vertices.len().max(edges.slots()), Vertex::default());
        self.progress.resize(self.vertices.len(), VertexState::new(0));
        for ChangedVertex { before, vertex, inherits_retries } in changed {
            let used = self.vertices[before.slot()].retry.saturating_sub(self.progress[before.slot()].retries).max(0);
            // A negative number means unlimited retries.
            let is_less = inherits_retries && vertex.retry > 0;
            let retries = if is_less { vertex.retry.saturating_sub(used).max(0) } else { vertex.retry };
            self.vertices[before.slot()] = vertex;
            self.progress[before.slot()] = VertexState::new(retries);
        }
        for (id, vertex) in added {
            self.vertices[id.slot()] = vertex;
            self.progress[id.slot()] = VertexState::new(vertex.retry);
        }
        self.replace_edges(edges, &owed);
        match &mut self.shared {
            Some(shared) => shared.extend(semaphores),
            None => self.shared = Shared::of(semaphores),
        }
        let now = self.now;
        if let Some(hold) = &mut self.hold {
            hold.extend(holding, now);
        }
        self.rebuild_schedule();
        // A change in flight journalled its refreshes for the old edges only.
        let is_changing = |v: &ResourceId| matches!(self.progress[v.slot()].phase, Phase::Applying | Phase::Refreshing);
        let changing: Vec<ResourceId> = self.graph.vertices().filter(is_changing).collect();
        self.journal_refreshes(&changing);
    }

    /// Handles an input about a vertex that an edit has removed or changed.
    ///
    /// # Panics
    /// If the input answers a call that the vertex does not have, such as a second answer to its last call.
    pub(super) fn heard_late(&mut self, vertex: ResourceId, input: &Input) {
        if input.is_answer() {
            let is_awaited = self.hold.as_mut().is_some_and(|hold| hold.superseded.remove(&vertex));
            assert!(is_awaited, "the driver answers each call of a removed or changed vertex once");
            self.release_superseded(vertex);
        }
    }

    /// Forgets a vertex that is removed or changed, but not its call in flight.
    fn supersede(&mut self, vertex: ResourceId) {
        assert!(self.graph.contains(vertex), "only a vertex of the graph is removed or changed");
        let is_in_flight = self.progress[vertex.slot()].is_in_flight();
        if let Some(hold) = &mut self.hold {
            hold.forget(vertex);
            if is_in_flight {
                hold.superseded.insert(vertex);
            }
        }
        if let Some(shared) = &mut self.shared {
            shared.forget(vertex, is_in_flight);
        }
    }

    /// Replaces the edges. Pending refreshes come from the journal; those in progress stay in progress.
    fn replace_edges(&mut self, graph: Arc<Graph>, owed: &[RefreshToken]) {
        let old = std::mem::replace(&mut self.graph, graph);
        let (count, slots) = (self.graph.edges().len(), self.vertices.len());
        let old_owed = std::mem::replace(&mut self.owed, vec![RefreshState::Idle; count]);
        let old_inherited = std::mem::replace(&mut self.orphaned, vec![RefreshState::Idle; slots]);
        self.would_notify.clear();
        self.would_notify.resize(count, false);
        self.mark_pending(owed);
        let is_served = |(_, owed_refresh): &(_, &RefreshState)| **owed_refresh == RefreshState::InProgress;
        for (edge, _) in old.edges().iter().zip(&old_owed).filter(is_served) {
            if let Some(edge) = self.graph.find(edge.from, edge.to)
                && self.owed[edge.index()] == RefreshState::Pending
            {
                self.owed[edge.index()] = RefreshState::InProgress;
            }
        }
        for vertex in old.vertices().filter(|vertex| self.graph.contains(*vertex)) {
            // The call in flight covers all refreshes of a vertex if it covers the earlier ones and those of
            // former parents. A notifier may have changed again during the call.
            let is_left = |edge: &&EdgeId| self.graph.find(old.edge(**edge).from, vertex).is_none();
            let along = old.incoming(vertex).iter().filter(is_left).map(|edge| old_owed[edge.index()]);
            let owed_refreshes =
                along.chain([old_inherited[vertex.slot()]]).filter(|owed_refresh| *owed_refresh != RefreshState::Idle);
            let mut owed_refreshes = owed_refreshes.peekable();
            if self.orphaned[vertex.slot()] == RefreshState::Pending
                && owed_refreshes.peek().is_some()
                && owed_refreshes.all(|owed_refresh| owed_refresh == RefreshState::InProgress)
            {
                self.orphaned[vertex.slot()] = RefreshState::InProgress;
            }
        }
    }

    /// Recomputes for each vertex the number of parents and watches that it waits for, and makes the others ready.
    fn rebuild_schedule(&mut self) {
        let graph = Arc::clone(&self.graph);
        self.ready.clear();
        self.differs.clear();
        self.due_refresh.clear();
        (self.in_flight, self.delayed) = (0, 0);
        for vertex in graph.vertices() {
            let progress = &mut self.progress[vertex.slot()];
            progress.blocker = None;
            // The vertex may now have another blocker, or none, so it is checked again.
            if matches!(progress.phase, Phase::Settled(Disposition::Blocked(_))) {
                progress.phase = Phase::Waiting;
            }
        }
        let mut owed = Vec::new();
        let is_settled = |progress: &VertexState| matches!(progress.phase, Phase::Settled(_));
        for vertex in graph.vertices() {
            let parents = graph.incoming(vertex).iter().map(|edge| graph.edge(*edge).from);
            let waiting = parents.filter(|parent| !is_settled(&self.progress[parent.slot()])).count() as u32;
            let is_unwatched = self.hold.as_ref().is_some_and(|hold| hold.settings.awaiting_watch.contains(&vertex));
            let waiting = waiting + u32::from(is_unwatched);
            let is_served = waiting == 0 && self.is_served(vertex);
            let is_held_back = waiting > 0 || self.blocker(vertex).is_some();
            let progress = &mut self.progress[vertex.slot()];
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
