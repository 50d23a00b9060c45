//! What is added where a state is held: watches, limits, back-off, budgets.

use std::collections::{BTreeMap, BTreeSet};

use super::contest::Contest;
use super::pace::{Backoff, Budget, LeftAlone, Limit, Repairs};
use super::{Command, Machine, Timestamp};
use crate::graph::{Graph, VertexId};
use crate::vertex::{Phase, Settlement, Vertex};

/// How a machine holds the state of its vertices.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    /// How often something may be repaired.
    pub budget: Budget,
    /// How long what has failed is left alone.
    pub backoff: Backoff,
    /// Vertices that are not to be looked at before [`Input::Watching`](super::Input::Watching) says that their watch
    /// has started.
    pub unwatched: BTreeSet<VertexId>,
    /// How many events of a vertex are heeded.
    pub limits: BTreeMap<VertexId, Limit>,
    /// Vertices that get all their tries back when they are in their state (`retryreset`).
    pub forgiving: BTreeSet<VertexId>,
    /// Vertices that have no budget: nobody undoes what is done to them, it is to be done anew.
    pub tireless: BTreeSet<VertexId>,
    /// Vertices that are only watched when their budget is used up, instead of repaired at growing intervals.
    pub yielding: BTreeSet<VertexId>,
}

/// The changing part of holding.
#[derive(Clone, Debug, Default)]
pub(super) struct Hold {
    pub(super) settings: Holding,
    /// Nothing is begun meanwhile.
    pub(super) paused: bool,
    /// Vertices in flight whose watch is to start anew behind that.
    rewatch: BTreeSet<VertexId>,
    /// Settled vertices that something happened to, and that have to wait for their time.
    pending: BTreeSet<VertexId>,
    /// Vertices that have not settled behind what was done to them, since something happened to them, and that have to wait for their
    /// time: they wait for no other try.
    held_back: BTreeSet<VertexId>,
    /// When a vertex is to be woken.
    pub(super) due: BTreeMap<VertexId, Timestamp>,
    /// When the bucket of a vertex was, or will be, full but for what was taken: the time of its next token.
    buckets: BTreeMap<VertexId, Timestamp>,
    /// How long vertices that failed are left alone.
    failed: BTreeMap<VertexId, LeftAlone>,
    /// Vertices that are not in their state and left so for now, and how: to come to that again is nothing new.
    left: BTreeMap<VertexId, Settlement>,
    /// When a vertex was repaired.
    pub(super) repairs: BTreeMap<VertexId, Repairs>,
    /// Vertices whose repairs another program undoes.
    pub(super) contests: BTreeMap<VertexId, Contest>,
    /// Vertices whose budget is used up, and that yield then.
    pub(super) watched_only: BTreeSet<VertexId>,
    /// When something last happened that was more than finding a vertex in its state.
    quiet_since: Timestamp,
}

impl Machine {
    /// A machine that holds the state of `graph`: it is never finished until it is interrupted.
    ///
    /// # Panics
    /// When `vertices` are not as many as the graph has.
    pub fn holding(
        graph: Graph,
        vertices: Vec<Vertex>,
        owed: &[super::Token],
        now: Timestamp,
        holding: Holding,
    ) -> Machine {
        let mut machine = Machine::unstarted(graph, vertices, owed);
        machine.remember_failures(owed);
        for vertex in &holding.unwatched {
            machine.progress[vertex.at()].waiting += 1;
        }
        machine.now = now;
        machine.hold = Some(Box::new(Hold { settings: holding, quiet_since: now, ..Hold::default() }));
        machine.make_roots_ready();
        machine
    }

    /// Since when nothing happened but that vertices were found in their state; none while something is under way or
    /// waits for its time, or a watch has yet to start. What has failed or is blocked counts as settled.
    pub fn quiet_since(&self) -> Option<Timestamp> {
        let hold = self.hold.as_ref()?;
        let is_limited = hold.pending.iter().any(|vertex| hold.is_limited(*vertex));
        let is_quiet = self.is_idle() && !is_limited && !hold.paused && hold.settings.unwatched.is_empty();
        is_quiet.then_some(hold.quiet_since)
    }

    /// Whether a settled vertex waits for its time since too much happens to it. What has failed is as it is until then.
    pub(super) fn is_limited(&self, vertex: VertexId) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_limited(vertex))
    }

    /// Returns true if a vertex is only watched because its repair budget is used up and it yields.
    pub fn is_watched_only(&self, vertex: VertexId) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.watched_only.contains(&vertex))
    }

    /// Whether nothing is begun at present.
    pub(super) fn is_paused(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.paused)
    }

    pub(super) fn pause(&mut self, paused: bool) {
        if let Some(hold) = &mut self.hold {
            hold.paused = paused;
        }
    }

    /// Something happened: the machine is not quiet.
    pub(super) fn stir(&mut self) {
        let now = self.now;
        if let Some(hold) = &mut self.hold {
            hold.quiet_since = now;
        }
    }

    /// The watch of a vertex has started: what happens from now on is told.
    pub(super) fn watching(&mut self, vertex: VertexId) {
        let Some(hold) = &mut self.hold else { return };
        if !hold.settings.unwatched.remove(&vertex) {
            return;
        }
        let progress = &mut self.progress[vertex.at()];
        progress.waiting -= 1;
        match progress.phase {
            Phase::Waiting if progress.waiting == 0 => self.make_ready(vertex),
            // It is looked at when what blocks it is.
            Phase::Settled(Settlement::Blocked(_)) => {}
            // Nobody knows what happened to it meanwhile.
            Phase::Settled(_) if !self.interrupted => self.take_up(vertex),
            _ => {}
        }
    }

    /// The watch of a vertex has ended: it is started anew when nothing is done to the vertex, and nothing is done
    /// to it before that.
    pub(super) fn unwatched(&mut self, vertex: VertexId) {
        let Some(hold) = &mut self.hold else { return };
        if self.interrupted || !hold.settings.unwatched.insert(vertex) {
            return;
        }
        let progress = &mut self.progress[vertex.at()];
        progress.waiting += 1;
        match progress.phase {
            Phase::Checking | Phase::Applying | Phase::Refreshing => {
                progress.stale = true;
                hold.rewatch.insert(vertex);
                return;
            }
            Phase::Ready | Phase::Differs | Phase::Owed => self.take_turn(vertex),
            Phase::Waiting | Phase::Delayed | Phase::Settled(_) => {}
        }
        self.commands.push(Command::Watch(vertex));
    }

    /// A vertex is in flight no longer.
    pub(super) fn landed(&mut self, vertex: VertexId) {
        if self.hold.as_mut().is_some_and(|hold| hold.rewatch.remove(&vertex)) {
            self.commands.push(Command::Watch(vertex));
        }
    }

    /// Something happened to a settled vertex: it is taken up when its limit, and its failures, allow it.
    pub(super) fn happened(&mut self, vertex: VertexId, settlement: Settlement) {
        let now = self.now;
        if self.interrupted || matches!(settlement, Settlement::Blocked(_)) {
            // A blocked one is looked at when what blocks it is in its state.
            return;
        }
        let Some(hold) = &mut self.hold else { return };
        let mut left_alone = now;
        if let Some(failed) = hold.failed.get_mut(&vertex) {
            let Some(until) = failed.is_roused() else { return };
            left_alone = until;
        } else if hold.pending.contains(&vertex) {
            return;
        }
        let at = left_alone.max(hold.token(vertex, now));
        if at <= now {
            self.take_up(vertex);
        } else if hold.pending.insert(vertex) || hold.due.get(&vertex).is_some_and(|due| at < *due) {
            self.wake(vertex, at);
        }
    }

    /// Something happened to a vertex while something was done to it. Returns whether it may be looked at again now;
    /// otherwise it will be when its time has come.
    pub(super) fn may_begin_again(&mut self, vertex: VertexId) -> bool {
        let now = self.now;
        let Some(hold) = &mut self.hold else { return true };
        let at = hold.token(vertex, now);
        if at <= now || self.interrupted {
            return true;
        }
        hold.held_back.insert(vertex);
        self.delay_until(vertex, at);
        false
    }

    /// A vertex is delayed no longer: whether that was by its limit, and for no failure.
    pub(super) fn was_held_back(&mut self, vertex: VertexId) -> bool {
        self.hold.as_mut().is_some_and(|hold| hold.held_back.remove(&vertex))
    }

    /// Has a vertex woken at this time, and at no other that was meant for it.
    pub(super) fn wake(&mut self, vertex: VertexId, at: Timestamp) {
        if let Some(hold) = &mut self.hold {
            hold.due.insert(vertex, at);
        }
        self.commands.push(Command::Wake(vertex, at));
    }

    /// Whether the time that a vertex waits for has come. Other wakes are those of something else.
    pub(super) fn is_due(&mut self, vertex: VertexId) -> bool {
        let now = self.now;
        let Some(hold) = &mut self.hold else { return true };
        match hold.due.get(&vertex) {
            Some(at) if *at <= now => hold.due.remove(&vertex).is_some(),
            _ => false,
        }
    }

    /// The time of a settled vertex has come that something happened to.
    pub(super) fn take_up_pending(&mut self, vertex: VertexId) {
        if self.interrupted {
            return;
        }
        match self.hold.as_mut().is_some_and(|hold| hold.pending.remove(&vertex)) {
            true => self.take_up(vertex),
            false => self.contest_due(vertex),
        }
    }

    /// Nobody waits for its time any more: the run is to end. What something happened to has not been looked at.
    pub(super) fn forget_times(&mut self) {
        let Some(hold) = &mut self.hold else { return };
        hold.due.clear();
        for vertex in std::mem::take(&mut hold.pending) {
            if matches!(self.progress[vertex.at()].phase, Phase::Settled(settlement) if settlement.lets_pass()) {
                self.take_up(vertex);
            }
        }
    }

    /// A settled vertex begins anew.
    pub(super) fn begin_anew(&mut self, vertex: VertexId) {
        if let Some(hold) = &mut self.hold {
            hold.pending.remove(&vertex);
            hold.due.remove(&vertex);
            let progress = &mut self.progress[vertex.at()];
            progress.changed = false;
            progress.refreshed = false;
        }
    }

    /// A vertex settles: what has failed is left alone for longer each time.
    pub(super) fn settled(&mut self, vertex: VertexId, settlement: Settlement) {
        let (now, retry) = (self.now, self.vertices[vertex.at()].retry);
        let Some(hold) = &mut self.hold else { return };
        let is_left = matches!(
            settlement,
            Settlement::WouldChange
                | Settlement::WouldRefresh
                | Settlement::Unknown
                | Settlement::Failed
                | Settlement::Blocked(_)
        );
        let before = if is_left { hold.left.insert(vertex, settlement) } else { hold.left.remove(&vertex) };
        let is_news = before != Some(settlement) || !is_left;
        match settlement {
            Settlement::Failed => {
                let left_alone = hold.failed.entry(vertex).or_default();
                let at = left_alone.fails(now, hold.settings.backoff);
                self.come_back(vertex, at);
            }
            Settlement::Blocked(_) | Settlement::Interrupted => {}
            _ => {
                hold.failed.remove(&vertex);
                if hold.settings.forgiving.contains(&vertex) {
                    self.progress[vertex.at()].retries = retry;
                }
            }
        }
        if settlement != Settlement::InSync && is_news {
            self.stir();
        }
        self.wake_contested(vertex, settlement);
    }

    /// A vertex that failed wakes by itself: what it failed for may be over, and nobody would tell.
    fn come_back(&mut self, vertex: VertexId, at: Timestamp) {
        if !self.interrupted && self.hold.as_mut().is_some_and(|hold| hold.pending.insert(vertex)) {
            self.wake(vertex, at);
        }
    }

    /// A parent of a settled vertex has settled, the last one that it waited for: it may be owed a refresh, or have
    /// failed for want of what was changed.
    pub(super) fn parent_settled(&mut self, child: VertexId, found: Settlement, of_parent: Settlement) {
        if self.hold.is_none() || self.interrupted {
            return;
        }
        let is_served = self.is_served(child);
        if found == Settlement::Failed && (of_parent == Settlement::Changed || of_parent.lets_pass() && is_served) {
            self.happened(child, found);
        } else if found.lets_pass() && is_served {
            // It settled before its parent was changed once more.
            self.take_up(child);
        }
    }

    /// Whether a refresh is owed to a vertex that acts on it.
    pub(super) fn is_served(&self, vertex: VertexId) -> bool {
        self.vertices[vertex.at()].refreshable && !self.is_looked_at(vertex) && self.is_owed_to(vertex)
    }

    /// The failed vertex behind which a vertex is, by what its parents have come to.
    pub(super) fn blocker(&self, vertex: VertexId) -> Option<VertexId> {
        if self.hold.is_none() {
            return self.progress[vertex.at()].blocker;
        }
        self.graph.entering(vertex).iter().find_map(|edge| {
            let parent = self.graph.edge(*edge).first;
            match self.progress[parent.at()].phase {
                Phase::Settled(Settlement::Failed) => Some(parent),
                Phase::Settled(Settlement::Blocked(by)) => Some(by),
                _ => None,
            }
        })
    }

    /// Whether a vertex is only looked at.
    pub(super) fn is_looked_at(&self, vertex: VertexId) -> bool {
        self.vertices[vertex.at()].noop || self.is_watched_only(vertex)
    }
}

impl Hold {
    fn is_limited(&self, vertex: VertexId) -> bool {
        self.pending.contains(&vertex) && !self.failed.contains_key(&vertex)
    }

    /// Takes a token out of the bucket of a vertex: when what it is for may begin.
    fn token(&mut self, vertex: VertexId, now: Timestamp) -> Timestamp {
        let Some(limit) = self.settings.limits.get(&vertex) else { return now };
        limit.take(self.buckets.entry(vertex).or_insert(now), now)
    }

    /// The same for a graph with other numbers. A vertex that is not kept leaves nothing behind.
    pub(super) fn renumbered(self, mut settings: Holding, new_of: &[Option<VertexId>], now: Timestamp) -> Hold {
        let of = |vertex: &VertexId| new_of[vertex.at()];
        let set = |old: BTreeSet<VertexId>| -> BTreeSet<VertexId> { old.iter().filter_map(of).collect() };
        settings.unwatched.extend(set(self.settings.unwatched));
        // What blocks a vertex may be another one now.
        let mut lasting = self.left;
        lasting.retain(|_, left| !matches!(left, Settlement::Blocked(_)));
        Hold {
            paused: self.paused,
            rewatch: set(self.rewatch),
            pending: set(self.pending),
            held_back: set(self.held_back),
            due: map(self.due, new_of),
            buckets: map(self.buckets, new_of),
            failed: map(self.failed, new_of),
            left: map(lasting, new_of),
            repairs: map(self.repairs, new_of),
            contests: map(self.contests, new_of),
            watched_only: set(self.watched_only),
            quiet_since: now,
            settings,
        }
    }
}

fn map<T>(old: BTreeMap<VertexId, T>, new_of: &[Option<VertexId>]) -> BTreeMap<VertexId, T> {
    old.into_iter().filter_map(|(vertex, value)| Some((new_of[vertex.at()]?, value))).collect()
}
