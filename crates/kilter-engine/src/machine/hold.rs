//! State of a machine that holds a state: watches, rate limits, back-off, repair budgets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::contest::Contest;
use super::limits::{Backoff, BackoffState, RateLimit, RepairBudget, RepairWindow};
use super::{Command, Machine, Timestamp};
use crate::graph::Graph;
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Phase, Vertex};

/// Settings for holding the state of the vertices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldConfig {
    /// Repair budget of each vertex.
    pub budget: RepairBudget,
    /// Back-off of failed vertices.
    pub backoff: Backoff,
    /// Vertices that must not be checked before [`Input::WatchEstablished`](super::Input::WatchEstablished) reports
    /// that their watch has started.
    pub awaiting_watch: BTreeSet<ResourceId>,
    /// Rate limits for the events of a vertex.
    pub limits: BTreeMap<ResourceId, RateLimit>,
    /// Vertices that get all their retries back when they are in sync (`retryreset`).
    pub retry_reset: BTreeSet<ResourceId>,
    /// Vertices without a repair budget: each change is an action to repeat, not the repair of a state.
    pub exempt_from_budget: BTreeSet<ResourceId>,
    /// Vertices that are only watched after their budget is used up, instead of repaired at growing intervals.
    pub yielding: BTreeSet<ResourceId>,
}

/// Mutable state of a machine that holds a state.
#[derive(Clone, Debug, Default)]
pub(super) struct HoldState {
    pub(super) settings: HoldConfig,
    /// True while the run is paused: the machine starts no calls.
    pub(super) paused: bool,
    /// Vertices with a call in flight that an edit has removed or changed. The answer has no other effect than to
    /// release their semaphores.
    pub(super) superseded: BTreeSet<ResourceId>,
    /// Vertices in flight whose watch must restart after the call.
    rewatch: BTreeSet<ResourceId>,
    /// Settled vertices that received an event and wait for a timer.
    pending: BTreeSet<ResourceId>,
    /// Vertices that received an event while being changed and are waiting for the rate limiter. They do not
    /// wait for a retry.
    rate_limited: BTreeSet<ResourceId>,
    /// Time of the next timer per vertex.
    pub(super) due: BTreeMap<ResourceId, Timestamp>,
    /// Rate limit per vertex: the time at which the bucket is full again.
    buckets: BTreeMap<ResourceId, Timestamp>,
    /// Back-off per failed vertex.
    failed: BTreeMap<ResourceId, BackoffState>,
    /// Last settlement of vertices that remain out of sync. If a vertex reaches the same settlement again, the
    /// run stays quiet.
    last_reported: BTreeMap<ResourceId, Disposition>,
    /// Times of the repairs per vertex.
    pub(super) repairs: BTreeMap<ResourceId, RepairWindow>,
    /// Contests: vertices whose repairs another program undoes.
    pub(super) contests: BTreeMap<ResourceId, Contest>,
    /// Vertices that are only watched because they used up their budget.
    pub(super) watched_only: BTreeSet<ResourceId>,
    /// Time of the last activity other than a check that found a vertex in sync.
    quiet_since: Timestamp,
}

impl Machine {
    /// Creates a machine that holds the state of `graph`. It is not finished until it is interrupted.
    ///
    /// # Panics
    /// If the number of `vertices` differs from the number of vertices of the graph.
    pub fn holding(
        graph: impl Into<Arc<Graph>>,
        vertices: Vec<Vertex>,
        owed: &[super::RefreshToken],
        now: Timestamp,
        holding: HoldConfig,
    ) -> Machine {
        let mut machine = Machine::unstarted(graph.into(), vertices, owed);
        machine.remember_failures(owed);
        for vertex in &holding.awaiting_watch {
            machine.progress[vertex.slot()].waiting += 1;
        }
        machine.now = now;
        machine.hold = Some(Box::new(HoldState { settings: holding, quiet_since: now, ..HoldState::default() }));
        machine.make_roots_ready();
        machine
    }

    /// Returns the time since which all checks have found their vertices in sync. Returns none if a call is in
    /// flight, a timer is set or a watch has yet to start. Failed and blocked vertices count as settled.
    pub fn quiet_since(&self) -> Option<Timestamp> {
        let hold = self.hold.as_ref()?;
        let is_limited = hold.pending.iter().any(|vertex| hold.is_limited(*vertex));
        let is_quiet = self.is_idle() && !is_limited && !hold.paused && hold.settings.awaiting_watch.is_empty();
        is_quiet.then_some(hold.quiet_since)
    }

    /// Returns true if a settled vertex waits for the rate limiter. A failed vertex is not limited: it waits
    /// for its back-off.
    pub(super) fn is_limited(&self, vertex: ResourceId) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_limited(vertex))
    }

    /// Returns true if a vertex is only watched because its repair budget is used up and it yields.
    pub fn is_watched_only(&self, vertex: ResourceId) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.watched_only.contains(&vertex))
    }

    /// Returns the vertices whose watch has yet to start.
    pub fn awaiting_watch(&self) -> Vec<ResourceId> {
        self.hold.iter().flat_map(|hold| &hold.settings.awaiting_watch).copied().collect()
    }

    /// Returns true if the run is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.paused)
    }

    pub(super) fn pause(&mut self, paused: bool) {
        if let Some(hold) = &mut self.hold {
            hold.paused = paused;
        }
    }

    /// Records activity: the run is not quiet.
    pub(super) fn mark_active(&mut self) {
        let now = self.now;
        if let Some(hold) = &mut self.hold {
            hold.quiet_since = now;
        }
    }

    /// Handles the start of a watch. From now on, the driver reports the events of the vertex.
    pub(super) fn watching(&mut self, vertex: ResourceId) {
        let Some(hold) = &mut self.hold else { return };
        if !hold.settings.awaiting_watch.remove(&vertex) {
            return;
        }
        let progress = &mut self.progress[vertex.slot()];
        progress.waiting -= 1;
        match progress.phase {
            Phase::Waiting if progress.waiting == 0 => self.make_ready(vertex),
            // The vertex is checked when its blocker is in sync.
            Phase::Settled(Disposition::Blocked(_)) => {}
            // Changes before the start of the watch were not reported.
            Phase::Settled(_) if !self.interrupted => self.requeue(vertex),
            _ => {}
        }
    }

    /// Handles the end of a watch. The watch restarts when no call for the vertex is in flight. The machine
    /// starts no call for it before that.
    pub(super) fn on_watch_lost(&mut self, vertex: ResourceId) {
        let Some(hold) = &mut self.hold else { return };
        if self.interrupted || !hold.settings.awaiting_watch.insert(vertex) {
            return;
        }
        let progress = &mut self.progress[vertex.slot()];
        progress.waiting += 1;
        match progress.phase {
            Phase::Checking | Phase::Applying | Phase::Refreshing => {
                progress.stale = true;
                hold.rewatch.insert(vertex);
                return;
            }
            Phase::Ready | Phase::Differs | Phase::Owed => self.requeue_or_wait(vertex),
            Phase::Waiting | Phase::Delayed | Phase::Settled(_) => {}
        }
        self.commands.push(Command::Watch(vertex));
    }

    /// Restarts the watch of a vertex that is no longer in flight, if required.
    pub(super) fn on_call_finished(&mut self, vertex: ResourceId) {
        if self.hold.as_mut().is_some_and(|hold| hold.rewatch.remove(&vertex)) {
            self.commands.push(Command::Watch(vertex));
        }
    }

    /// Handles an event on a settled vertex. The vertex restarts when its rate limit and its back-off allow it.
    pub(super) fn on_event(&mut self, vertex: ResourceId, settlement: Disposition) {
        let now = self.now;
        if self.interrupted || matches!(settlement, Disposition::Blocked(_)) {
            // A blocked vertex is checked when its blocker is in sync.
            return;
        }
        let Some(hold) = &mut self.hold else { return };
        let mut left_alone = now;
        if let Some(failed) = hold.failed.get_mut(&vertex) {
            let Some(until) = failed.note_event() else { return };
            left_alone = until;
        } else if hold.pending.contains(&vertex) {
            return;
        }
        let at = left_alone.max(hold.token(vertex, now));
        if at <= now {
            self.requeue(vertex);
        } else if hold.pending.insert(vertex) || hold.due.get(&vertex).is_some_and(|due| at < *due) {
            self.wake(vertex, at);
        }
    }

    /// Handles an event that arrived during a call. Returns true if the vertex may be checked now. Otherwise a
    /// timer schedules the check.
    pub(super) fn may_begin_again(&mut self, vertex: ResourceId) -> bool {
        let now = self.now;
        let Some(hold) = &mut self.hold else { return true };
        let at = hold.token(vertex, now);
        if at <= now || self.interrupted {
            return true;
        }
        hold.rate_limited.insert(vertex);
        self.delay_until(vertex, at);
        false
    }

    /// Returns true if a vertex was delayed by its rate limit and not by a failure, and clears the mark.
    pub(super) fn was_held_back(&mut self, vertex: ResourceId) -> bool {
        self.hold.as_mut().is_some_and(|hold| hold.rate_limited.remove(&vertex))
    }

    /// Sets the timer of a vertex, and replaces an earlier timer.
    pub(super) fn wake(&mut self, vertex: ResourceId, at: Timestamp) {
        if let Some(hold) = &mut self.hold {
            hold.due.insert(vertex, at);
        }
        self.commands.push(Command::SetTimer(vertex, at));
    }

    /// Returns true if the timer of a vertex has expired. Ignores timers that were replaced.
    pub(super) fn is_due(&mut self, vertex: ResourceId) -> bool {
        let now = self.now;
        let Some(hold) = &mut self.hold else { return true };
        match hold.due.get(&vertex) {
            Some(at) if *at <= now => hold.due.remove(&vertex).is_some(),
            _ => false,
        }
    }

    /// Handles the timer of a settled vertex: restarts it if an event is pending, otherwise handles its
    /// contest.
    pub(super) fn take_up_pending(&mut self, vertex: ResourceId) {
        if self.interrupted {
            return;
        }
        match self.hold.as_mut().is_some_and(|hold| hold.pending.remove(&vertex)) {
            true => self.requeue(vertex),
            false => self.contest_due(vertex),
        }
    }

    /// Clears all timers because the run is about to end. Vertices with a pending event have not been checked,
    /// so they restart.
    pub(super) fn forget_times(&mut self) {
        let Some(hold) = &mut self.hold else { return };
        hold.due.clear();
        for vertex in std::mem::take(&mut hold.pending) {
            if let Phase::Settled(settlement) = self.progress[vertex.slot()].phase
                && settlement.unblocks_dependents()
            {
                self.requeue(vertex);
            }
        }
    }

    /// Resets the state of a settled vertex before it restarts.
    pub(super) fn begin_anew(&mut self, vertex: ResourceId) {
        if let Some(hold) = &mut self.hold {
            hold.pending.remove(&vertex);
            hold.due.remove(&vertex);
            let progress = &mut self.progress[vertex.slot()];
            progress.changed = false;
            progress.refreshed = false;
        }
    }

    /// Handles the settlement of a vertex. The back-off grows with each failure.
    pub(super) fn settled(&mut self, vertex: ResourceId, settlement: Disposition) {
        let (now, retry) = (self.now, self.vertices[vertex.slot()].retry);
        let Some(hold) = &mut self.hold else { return };
        let is_left = matches!(
            settlement,
            Disposition::WouldChange
                | Disposition::WouldRefresh
                | Disposition::Unknown
                | Disposition::Failed
                | Disposition::Blocked(_)
        );
        let before =
            if is_left { hold.last_reported.insert(vertex, settlement) } else { hold.last_reported.remove(&vertex) };
        let is_news = before != Some(settlement) || !is_left;
        match settlement {
            Disposition::Failed => {
                let left_alone = hold.failed.entry(vertex).or_default();
                let at = left_alone.next_delay(now, hold.settings.backoff);
                self.schedule_backoff(vertex, at);
            }
            Disposition::Blocked(_) | Disposition::Interrupted => {}
            _ => {
                hold.failed.remove(&vertex);
                if hold.settings.retry_reset.contains(&vertex) {
                    self.progress[vertex.slot()].retries = retry;
                }
            }
        }
        if settlement != Disposition::InSync && is_news {
            self.mark_active();
        }
        self.wake_contested(vertex, settlement);
    }

    /// Sets the retry timer of a failed vertex, because no event may report that the cause of the failure is
    /// gone.
    fn schedule_backoff(&mut self, vertex: ResourceId, at: Timestamp) {
        if !self.interrupted && self.hold.as_mut().is_some_and(|hold| hold.pending.insert(vertex)) {
            self.wake(vertex, at);
        }
    }

    /// Handles a settled vertex after its last unsettled parent has settled. A refresh of the vertex may be
    /// pending, or the change of the parent may have removed the cause of its failure.
    pub(super) fn parent_settled(&mut self, child: ResourceId, found: Disposition, of_parent: Disposition) {
        if self.hold.is_none() || self.interrupted {
            return;
        }
        let is_served = self.is_served(child);
        if found == Disposition::Failed
            && (of_parent == Disposition::Changed || of_parent.unblocks_dependents() && is_served)
        {
            self.on_event(child, found);
        } else if found.unblocks_dependents() && is_served {
            // The vertex settled before the latest change of its parent.
            self.requeue(child);
        }
    }

    /// Returns true if a refresh is pending for a vertex that acts on it.
    pub(super) fn is_served(&self, vertex: ResourceId) -> bool {
        self.vertices[vertex.slot()].refreshable && !self.is_noop(vertex) && self.is_owed_to(vertex)
    }

    /// Returns the failed vertex that blocks a vertex, according to the settlements of its parents.
    pub(super) fn blocker(&self, vertex: ResourceId) -> Option<ResourceId> {
        if self.hold.is_none() {
            return self.progress[vertex.slot()].blocker;
        }
        if self.vertices[vertex.slot()].independent {
            return None;
        }
        self.graph.incoming(vertex).iter().find_map(|edge| {
            let parent = self.graph.edge(*edge).from;
            match self.progress[parent.slot()].phase {
                Phase::Settled(Disposition::Failed) => Some(parent),
                Phase::Settled(Disposition::Blocked(by)) => Some(by),
                _ => None,
            }
        })
    }

    /// Returns true if a vertex is checked but never changed.
    pub(super) fn is_noop(&self, vertex: ResourceId) -> bool {
        self.vertices[vertex.slot()].noop || self.is_watched_only(vertex)
    }
}

impl HoldState {
    fn is_limited(&self, vertex: ResourceId) -> bool {
        self.pending.contains(&vertex) && !self.failed.contains_key(&vertex)
    }

    /// Takes a token from the bucket of a vertex. Returns the time at which the work may start.
    fn token(&mut self, vertex: ResourceId, now: Timestamp) -> Timestamp {
        let Some(limit) = self.settings.limits.get(&vertex) else { return now };
        limit.take(self.buckets.entry(vertex).or_insert(now), now)
    }

    /// Forgets vertices that an edit removed or changed.
    pub(super) fn forget(&mut self, vertex: ResourceId) {
        let HoldState { settings, .. } = self;
        settings.awaiting_watch.remove(&vertex);
        settings.limits.remove(&vertex);
        settings.retry_reset.remove(&vertex);
        settings.exempt_from_budget.remove(&vertex);
        settings.yielding.remove(&vertex);
        self.rewatch.remove(&vertex);
        self.pending.remove(&vertex);
        self.rate_limited.remove(&vertex);
        self.due.remove(&vertex);
        self.buckets.remove(&vertex);
        self.failed.remove(&vertex);
        self.last_reported.remove(&vertex);
        self.repairs.remove(&vertex);
        self.contests.remove(&vertex);
        self.watched_only.remove(&vertex);
    }

    /// Adds the settings of the vertices that an edit added or changed.
    pub(super) fn extend(&mut self, added: HoldConfig, now: Timestamp) {
        let HoldState { settings, .. } = self;
        settings.awaiting_watch.extend(added.awaiting_watch);
        settings.limits.extend(added.limits);
        settings.retry_reset.extend(added.retry_reset);
        settings.exempt_from_budget.extend(added.exempt_from_budget);
        settings.yielding.extend(added.yielding);
        // A vertex may have another blocker now.
        self.last_reported.retain(|_, left| !matches!(left, Disposition::Blocked(_)));
        self.quiet_since = now;
    }
}
