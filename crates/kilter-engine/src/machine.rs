//! The reconcile state machine: takes an input and returns the commands that follow from it.

mod contest;
mod edit;
mod hold;
mod limits;
mod messages;
mod refresh_tokens;
mod semaphore;
mod stage;
mod start;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::graph::Graph;
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Phase, RefreshState, Vertex, VertexState};

pub use contest::Contest;
pub use edit::{ChangedVertex, GraphDiff};
pub use hold::HoldConfig;
use hold::HoldState;
pub use limits::{Backoff, RateLimit, RepairBudget};
pub use messages::{ApplyResult, Batch, CheckResult, Command, Input, RefreshToken, Timestamp};
pub use semaphore::Semaphores;
pub use stage::Stage;

/// Maximum number of commands that the buffer keeps allocated between two calls.
const ROOM: usize = 1024;

/// The reconcile state machine: decides the order of checks, applies and refreshes (architecture, rules 1 to 6,
/// 8 and 9).
///
/// A machine for one pass ([`Machine::new`]) is finished when all vertices have settled. A machine that holds a
/// state ([`Machine::holding`]) continues. An event restarts a settled vertex, the vertices that it blocks and
/// the vertices that it notifies. A dependent that is about to start waits for the restarted vertex.
///
/// A refresh is pending from before the change that causes it until a refresh has succeeded. The machine
/// journals the token *before* the apply, because a crash between the two would otherwise lose the refresh. An
/// apply that fails without a change leaves one refresh too many, never one too few.
#[derive(Clone, Debug)]
pub struct Machine {
    graph: Arc<Graph>,
    /// Per slot, as the next two.
    vertices: Vec<Vertex>,
    progress: Vec<VertexState>,
    /// Pending refreshes per edge.
    owed: Vec<RefreshState>,
    /// Pending refreshes per vertex whose notifier is no longer its parent.
    orphaned: Vec<RefreshState>,
    /// Per edge, true if a noop change of the first vertex would refresh the second.
    would_notify: Vec<bool>,
    /// Queue of ready vertices by their place in the manifest.
    ready: BinaryHeap<Reverse<u32>>,
    differs: Vec<ResourceId>,
    due_refresh: Vec<ResourceId>,
    commands: Vec<Command>,
    in_flight: usize,
    delayed: usize,
    interrupted: bool,
    now: Timestamp,
    /// State of a machine that holds a state. None in a machine for one pass.
    hold: Option<Box<HoldState>>,
    /// Semaphores and their holders. None if no vertex uses a semaphore.
    shared: Option<Box<semaphore::Shared>>,
}

impl Machine {
    /// Creates a machine for one pass over `graph`, with the pending refreshes of earlier runs.
    ///
    /// # Panics
    /// If the number of `vertices` differs from the number of vertices of the graph.
    pub fn new(graph: impl Into<Arc<Graph>>, vertices: Vec<Vertex>, owed: &[RefreshToken]) -> Machine {
        let mut machine = Machine::unstarted(graph.into(), vertices, owed);
        machine.remember_failures(owed);
        machine.make_roots_ready();
        machine
    }

    fn unstarted(graph: Arc<Graph>, vertices: Vec<Vertex>, owed: &[RefreshToken]) -> Machine {
        assert_eq!(graph.len(), vertices.len(), "each vertex of the graph is described");
        let progress = graph
            .vertices()
            .map(|v| VertexState { waiting: graph.parent_count(v), ..VertexState::new(vertices[v.slot()].retry) })
            .collect();
        let mut machine = Machine {
            owed: vec![RefreshState::Idle; graph.edges().len()],
            orphaned: vec![RefreshState::Idle; graph.len()],
            would_notify: vec![false; graph.edges().len()],
            vertices,
            progress,
            ready: BinaryHeap::new(),
            differs: Vec::new(),
            due_refresh: Vec::new(),
            commands: Vec::new(),
            in_flight: 0,
            delayed: 0,
            interrupted: false,
            now: Timestamp::default(),
            hold: None,
            shared: None,
            graph,
        };
        machine.mark_pending(owed);
        machine
    }

    /// Marks refreshes as pending.
    fn mark_pending(&mut self, owed: &[RefreshToken]) {
        for token in owed {
            match self.graph.find(token.first, token.second) {
                Some(edge) => self.owed[edge.index()] = RefreshState::Pending,
                None => self.orphaned[token.second.slot()] = RefreshState::Pending,
            }
        }
    }

    fn make_roots_ready(&mut self) {
        for vertex in Arc::clone(&self.graph).vertices() {
            if self.progress[vertex.slot()].waiting == 0 {
                self.make_ready(vertex);
            }
        }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the settlement of a vertex, or none if it has not settled.
    pub fn settlement(&self, vertex: ResourceId) -> Option<Disposition> {
        debug_assert!(self.graph.contains(vertex), "{vertex:?} is not of this graph");
        match self.progress[vertex.slot()].phase {
            Phase::Settled(settlement) => Some(settlement),
            _ => None,
        }
    }

    /// Returns true if the machine has no calls in flight, no timers, no work to start and expects no further
    /// work.
    pub fn is_finished(&self) -> bool {
        self.is_idle() && (self.hold.is_none() || self.interrupted)
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0
            && self.delayed == 0
            && self.ready.is_empty()
            && self.commands.is_empty()
            && self.differs.is_empty()
            && self.due_refresh.is_empty()
            && !self.has_parked()
    }

    /// Returns true if the run has been interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Processes an input. [`Machine::commands`] returns the resulting commands. A driver can pass several
    /// inputs first, so that the machine answers them together.
    pub fn input(&mut self, now: Timestamp, input: Input) {
        self.now = now;
        if let Some(vertex) = input.vertex().filter(|vertex| !self.graph.contains(*vertex)) {
            return self.heard_late(vertex, &input);
        }
        match input {
            Input::Checked(vertex, verdict) => self.checked(vertex, verdict),
            Input::Applied(vertex, ran) => self.applied(vertex, ran),
            Input::Refreshed(vertex, done) => self.refreshed(vertex, done),
            Input::Cancelled(vertex) => self.dropped(vertex),
            Input::Requeued(vertex) => self.returned(vertex),
            Input::TimerFired(vertex) => self.due(vertex),
            Input::Stale(vertex) => self.stale(vertex),
            Input::Interrupt => self.interrupt(),
            Input::WatchEstablished(vertex) => self.watching(vertex),
            Input::WatchLost(vertex) => self.on_watch_lost(vertex),
            Input::Pause => self.pause(true),
            Input::Resume => self.pause(false),
            Input::ResetBudget(vertex) => self.reinstate(vertex),
            Input::Unrecorded(token) => self.unrecorded(token),
            Input::Edit(diff) => self.edit(*diff),
        }
    }

    /// Returns the next commands for the driver, in order.
    pub fn commands(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        self.commands_into(&mut commands);
        commands
    }

    /// Appends the next commands for the driver to `commands`, in order. A driver that reuses a vector saves an
    /// allocation for each vertex of a chain.
    pub fn commands_into(&mut self, commands: &mut Vec<Command>) {
        if !self.is_paused() || self.interrupted {
            let ready = self.drain_ready();
            self.start_applies();
            self.start_refreshes();
            self.start_checks(ready);
        }
        commands.append(&mut self.commands);
        // All vertices may have settled at once, and this may never happen again.
        self.commands.shrink_to(ROOM);
    }

    fn checked(&mut self, vertex: ResourceId, verdict: CheckResult) {
        self.leave(vertex, Phase::Checking);
        if self.take_stale(vertex) {
            return self.look_again(vertex);
        }
        match verdict {
            CheckResult::Failed => self.fail(vertex),
            CheckResult::Refused => self.settle(vertex, Disposition::Failed),
            CheckResult::Cancelled => self.settle(vertex, Disposition::Interrupted),
            CheckResult::InSync => self.in_sync(vertex),
            CheckResult::Idle => self.idle(vertex),
            CheckResult::Unknown => self.settle_looked_at(vertex, Disposition::Unknown),
            CheckResult::Differs if self.is_noop(vertex) || self.is_held_off(vertex) => {
                self.settle_looked_at(vertex, Disposition::WouldChange);
            }
            CheckResult::Differs if self.interrupted => self.settle(vertex, Disposition::Interrupted),
            CheckResult::Differs => {
                self.progress[vertex.slot()].phase = Phase::Differs;
                self.differs.push(vertex);
            }
        }
    }

    fn applied(&mut self, vertex: ResourceId, ran: ApplyResult) {
        self.leave(vertex, Phase::Applying);
        match ran {
            ApplyResult::Failed => self.fail(vertex),
            ApplyResult::Done { refreshed } => {
                self.progress[vertex.slot()].changed = true;
                self.repaired(vertex);
                if refreshed {
                    self.clear_refreshes(vertex);
                }
                self.served(vertex);
            }
        }
    }

    fn refreshed(&mut self, vertex: ResourceId, done: bool) {
        self.leave(vertex, Phase::Refreshing);
        if !done {
            self.progress[vertex.slot()].refresh_failed = true;
            return self.fail(vertex);
        }
        self.progress[vertex.slot()].refreshed = true;
        self.clear_refreshes(vertex);
        self.served(vertex);
    }

    /// Handles a successful change or refresh. The vertex is in sync unless an event arrived during the call.
    fn served(&mut self, vertex: ResourceId) {
        if self.take_stale(vertex) { self.look_again(vertex) } else { self.in_sync(vertex) }
    }

    /// Returns true if an event invalidated the result of a call in flight, and clears the mark.
    fn take_stale(&mut self, vertex: ResourceId) -> bool {
        std::mem::take(&mut self.progress[vertex.slot()].stale) && !self.interrupted
    }

    /// Checks a vertex again after an event, when its rate limit allows it.
    fn look_again(&mut self, vertex: ResourceId) {
        if self.may_begin_again(vertex) {
            self.requeue_or_wait(vertex);
        }
    }

    /// Handles a call that was cancelled before it started. Refreshes already journalled for the change stay
    /// pending: at worst one refresh too many.
    fn dropped(&mut self, vertex: ResourceId) {
        self.cancel_pending(vertex);
        self.settle(vertex, Disposition::Interrupted);
    }

    /// Handles a call that the driver returned before it started. It costs nothing of the rate limit. Journalled
    /// refreshes stay pending, as in [`Machine::dropped`].
    fn returned(&mut self, vertex: ResourceId) {
        self.cancel_pending(vertex);
        self.requeue_or_wait(vertex);
    }

    fn cancel_pending(&mut self, vertex: ResourceId) {
        let phase = self.progress[vertex.slot()].phase;
        assert!(
            matches!(phase, Phase::Checking | Phase::Applying | Phase::Refreshing),
            "the driver leaves only what it was asked for"
        );
        self.leave(vertex, phase);
        self.progress[vertex.slot()].stale = false;
    }

    fn due(&mut self, vertex: ResourceId) {
        if !self.is_due(vertex) {
            return;
        }
        match self.progress[vertex.slot()].phase {
            Phase::Delayed => {
                self.was_held_back(vertex);
                self.delayed -= 1;
                self.requeue_or_wait(vertex);
            }
            Phase::Settled(_) => self.take_up_pending(vertex),
            _ => {}
        }
    }

    /// Handles an event on a vertex. A vertex in flight is checked again afterwards. A vertex that waits for an
    /// apply or a refresh is checked again first. A settled vertex restarts.
    fn stale(&mut self, vertex: ResourceId) {
        match self.progress[vertex.slot()].phase {
            Phase::Checking | Phase::Applying | Phase::Refreshing => self.progress[vertex.slot()].stale = true,
            Phase::Differs | Phase::Owed => self.requeue_or_wait(vertex),
            Phase::Settled(settlement) if self.hold.is_some() => self.on_event(vertex, settlement),
            Phase::Settled(settlement) if settlement.unblocks_dependents() && !self.interrupted => self.requeue(vertex),
            _ => {}
        }
    }

    /// Restarts a settled vertex. Its dependents wait for it, and dependents in flight are checked again.
    /// Settled dependents stay settled, except the blocked ones.
    fn requeue(&mut self, vertex: ResourceId) {
        let mut taken = vec![vertex];
        while let Some(vertex) = taken.pop() {
            self.begin_anew(vertex);
            for edge in self.graph.outgoing(vertex) {
                let child = self.graph.edge(edge).to;
                let progress = &mut self.progress[child.slot()];
                progress.waiting += 1;
                match progress.phase {
                    Phase::Checking | Phase::Applying | Phase::Refreshing => progress.stale = true,
                    Phase::Ready | Phase::Differs | Phase::Owed => {
                        progress.phase = Phase::Waiting;
                        // The restarted vertex may need a semaphore that the child holds.
                        self.release(child);
                    }
                    Phase::Settled(Disposition::Blocked(_)) if self.hold.is_some() => {
                        progress.phase = Phase::Waiting;
                        taken.push(child);
                    }
                    Phase::Waiting | Phase::Delayed | Phase::Settled(_) => {}
                }
            }
            self.requeue_or_wait(vertex);
        }
    }

    /// Handles a vertex that is in sync: starts its pending refresh, or settles it.
    fn in_sync(&mut self, vertex: ResourceId) {
        let described = self.vertices[vertex.slot()];
        let owed = self.is_owed_to(vertex);
        let done = self.done(vertex);
        if owed && !self.is_noop(vertex) {
            if !described.refreshable {
                self.mark_in_progress(vertex);
                self.clear_refreshes(vertex);
            } else if self.interrupted {
                // The tokens stay in the journal, and the next run refreshes the vertex.
                return self.settle(vertex, done.unwrap_or(Disposition::Interrupted));
            } else {
                self.progress[vertex.slot()].phase = Phase::Owed;
                return self.due_refresh.push(vertex);
            }
        }
        match done {
            Some(done) => self.settle(vertex, done),
            None => self.settle_looked_at(vertex, Disposition::InSync),
        }
    }

    /// Handles a vertex that is in sync in a state in which a refresh has no effect. The state may be the result
    /// of a failed refresh, which is then retried.
    fn idle(&mut self, vertex: ResourceId) {
        if self.progress[vertex.slot()].refresh_failed {
            return self.in_sync(vertex);
        }
        if !self.is_noop(vertex) {
            self.mark_in_progress(vertex);
            self.clear_refreshes(vertex);
        }
        match self.done(vertex) {
            Some(done) => self.settle(vertex, done),
            None => self.settle_found(vertex, Disposition::InSync),
        }
    }

    /// Returns the settlement for the work done in this pass, or none if the vertex was neither changed nor
    /// refreshed.
    fn done(&self, vertex: ResourceId) -> Option<Disposition> {
        match self.progress[vertex.slot()] {
            VertexState { changed: true, .. } => Some(Disposition::Changed),
            VertexState { refreshed: true, .. } => Some(Disposition::Refreshed),
            _ => None,
        }
    }

    /// Settles a vertex that is only checked, and marks the vertices that it would notify.
    fn settle_looked_at(&mut self, vertex: ResourceId, found: Disposition) {
        let refreshable = self.vertices[vertex.slot()].refreshable;
        let settlement = match found {
            Disposition::InSync if refreshable && (self.is_owed_to(vertex) || self.has_would(vertex)) => {
                Disposition::WouldRefresh
            }
            Disposition::InSync if refreshable && self.is_noop(vertex) && self.may_be_notified(vertex) => {
                Disposition::Unknown
            }
            found => found,
        };
        self.settle_found(vertex, settlement);
    }

    /// Settles an unchanged vertex, and marks the edges along which it would notify.
    fn settle_found(&mut self, vertex: ResourceId, settlement: Disposition) {
        let would = match settlement {
            // The vertex will be changed later, and notifies then.
            Disposition::WouldChange => !self.is_held_off(vertex),
            settlement => settlement == Disposition::WouldRefresh,
        };
        for edge in self.graph.outgoing(vertex) {
            self.would_notify[edge.index()] = would && self.graph.edge(edge).notify;
        }
        self.settle(vertex, settlement);
    }

    /// Returns true if a vertex that notifies this one is unknown. If that vertex changes, this one is
    /// refreshed.
    fn may_be_notified(&self, vertex: ResourceId) -> bool {
        let edges = self.graph.incoming(vertex).iter().map(|id| self.graph.edge(*id)).filter(|edge| edge.notify);
        edges.into_iter().any(|edge| self.settlement(edge.from) == Some(Disposition::Unknown))
    }

    fn fail(&mut self, vertex: ResourceId) {
        let progress = &mut self.progress[vertex.slot()];
        let happened = std::mem::take(&mut progress.stale);
        if progress.retries == 0 || self.interrupted {
            self.settle(vertex, Disposition::Failed);
            if happened {
                // The event may have removed the cause of the failure, and it will not be reported again.
                self.on_event(vertex, Disposition::Failed);
            }
            return;
        }
        if progress.retries > 0 {
            progress.retries -= 1;
        }
        self.mark_active();
        let at = Timestamp(self.now.0.saturating_add(self.vertices[vertex.slot()].delay));
        self.delay_until(vertex, at);
    }

    fn delay_until(&mut self, vertex: ResourceId, at: Timestamp) {
        self.release(vertex);
        self.progress[vertex.slot()].phase = Phase::Delayed;
        self.delayed += 1;
        self.wake(vertex, at);
    }

    fn settle(&mut self, vertex: ResourceId, settlement: Disposition) {
        self.settled(vertex, settlement);
        self.release(vertex);
        self.progress[vertex.slot()].phase = Phase::Settled(settlement);
        self.commands.push(Command::Settled(vertex, settlement));
        let blocker = match settlement {
            Disposition::Failed => Some(vertex),
            Disposition::Blocked(by) => Some(by),
            _ => None,
        };
        for edge in self.graph.outgoing(vertex) {
            let child = self.graph.edge(edge).to;
            let progress = &mut self.progress[child.slot()];
            progress.waiting -= 1;
            progress.blocker = progress.blocker.or(blocker.filter(|_| !self.vertices[child.slot()].independent));
            let is_last = progress.waiting == 0;
            match progress.phase {
                Phase::Waiting if is_last => self.make_ready(child),
                // This does not wait for the other parents, because the change of this one may have removed the
                // cause of the failure.
                Phase::Settled(found) if is_last || settlement == Disposition::Changed => {
                    self.parent_settled(child, found, settlement);
                }
                _ => {}
            }
        }
    }

    /// Schedules a vertex for another check, now or after its parents have settled.
    fn requeue_or_wait(&mut self, vertex: ResourceId) {
        self.release(vertex);
        if self.progress[vertex.slot()].waiting == 0 {
            self.make_ready(vertex);
        } else {
            self.progress[vertex.slot()].phase = Phase::Waiting;
        }
    }

    /// Marks a vertex as ready. It is then checked, or settled if a parent blocks it.
    fn make_ready(&mut self, vertex: ResourceId) {
        self.progress[vertex.slot()].phase = Phase::Ready;
        self.ready.push(Reverse(self.graph.place(vertex) as u32));
    }

    fn interrupt(&mut self) {
        self.interrupted = true;
        self.forget_times();
        for vertex in Arc::clone(&self.graph).vertices() {
            if self.progress[vertex.slot()].phase == Phase::Delayed {
                self.delayed -= 1;
                // A vertex that waited for a retry has failed.
                let is_untold = self.was_held_back(vertex);
                self.settle(vertex, if is_untold { Disposition::Interrupted } else { Disposition::Failed });
            }
        }
        for vertex in self.take_in_phase(Phase::Differs) {
            self.settle(vertex, Disposition::Interrupted);
        }
        for vertex in self.take_in_phase(Phase::Owed) {
            self.in_sync(vertex);
        }
    }

    fn leave(&mut self, vertex: ResourceId, phase: Phase) {
        assert_eq!(self.progress[vertex.slot()].phase, phase, "the driver answers what it was asked");
        self.in_flight -= 1;
        self.on_call_finished(vertex);
    }
}
