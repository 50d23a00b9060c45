//! State of resources while a state is held.

use std::collections::BTreeMap;
use std::time::Duration;

use ecow::EcoString;
use kilter_engine::{Timestamp, VertexId};
use kilter_model::Difference;
use rustc_hash::FxHashMap;

use super::RunState;
use crate::driver::Mode;
use crate::driver::calls::Calls;
use crate::driver::graph_swap::{CarriedState, Kept};
use crate::driver::window::ChangeCounters;
use crate::opponent::{Opponent, OpponentWatch};
use crate::report::{Counts, ResourceReport, Status};
use crate::step::CallResult;
use crate::watch::PathWatch;

/// Maximum number of contested resources whose opponents are recorded: each takes a descriptor group of the kernel, of
/// which a user has 128.
const MAX_OPPONENT_WATCHES: usize = 16;

/// Contest over a resource.
#[derive(Default)]
pub(in super::super) struct BoardContest {
    /// Differences that the last repair removed.
    differences: Box<[Difference]>,
    /// Record of the processes that change its paths.
    opponents: Option<OpponentWatch>,
}

/// Number of entries for which a map always keeps room.
const ROOM: usize = 1024;

impl RunState<'_> {
    /// Starts to hold a state: from now on only resources out of sync have a report.
    ///
    /// Kept resources keep their known state. A sender with new receivers is not kept, because its outputs must be
    /// read.
    pub(in super::super) fn holds(&mut self, carried: Option<CarriedState>, calls: &Calls, kept: &mut Kept) {
        let carried = carried.unwrap_or_default();
        for (vertex, confidential) in &self.output_producers {
            let old = kept.old_of.get(vertex.0 as usize).copied().flatten();
            let sends =
                |old: &VertexId| carried.outputs.contains_key(old) && carried.senders.get(old) == Some(confidential);
            // A running call sends the outputs when it ends.
            let is_to_send = old.is_some_and(|old| calls.is_to_send(old));
            if !old.as_ref().is_some_and(sends) && !is_to_send && kept.is_kept(*vertex) {
                kept.forget(*vertex);
            }
        }
        if self.options.mode == Mode::Noop || carried.noop {
            // A predicted change depends on the predictions of other resources.
            self.prepared.graph.vertices().for_each(|vertex| kept.forget(vertex));
        }
        self.forget_receivers(kept);
        self.resolved = kept.map(carried.resolved);
        self.accepted = kept.map(carried.accepted);
        self.changed = kept.map(carried.changed);
        self.outputs = kept.map(carried.outputs);
        self.found = kept.map(carried.found);
        self.drafts = kept.map(carried.drafts);
        self.tallies = carried.tallies.renumbered(kept);
        self.contested = kept.map(carried.contested);
        let had_settled =
            |old: &Option<VertexId>| old.is_some_and(|old| carried.settled_once.get(old.0 as usize) == Some(&true));
        self.settled_once = kept.old_of.iter().map(had_settled).collect();
        self.settled_once.resize(self.prepared.resources().len(), false);
        let checked_at = |old: &Option<VertexId>| Some(*carried.checked_at.get((*old)?.0 as usize)?);
        self.checked_at = kept.old_of.iter().map(|old| checked_at(old).unwrap_or_default()).collect();
        self.checked_at.resize(self.prepared.resources().len(), 0);
        self.standing = Some(kept.map(carried.standing));
        (self.sent, self.used, self.counts) = (carried.sent, carried.used, carried.counts);
    }

    /// Restarts the receivers of restarted senders.
    fn forget_receivers(&self, kept: &mut Kept) {
        let all = self.prepared.resources().iter().zip((0..).map(VertexId));
        let mut receivers: Vec<_> = all.filter(|(resource, _)| !resource.deferred().is_empty()).collect();
        loop {
            let before = receivers.len();
            receivers.retain(|(resource, vertex)| {
                let references = resource.deferred().iter().flat_map(|deferred| deferred.template.references());
                let mut senders = references.filter_map(|reference| self.lookup.referred(&reference));
                let is_kept = kept.is_kept(*vertex) && senders.all(|sender| kept.is_kept(sender));
                if !is_kept && kept.is_kept(*vertex) {
                    kept.forget(*vertex);
                }
                is_kept
            });
            if receivers.len() == before {
                return;
            }
        }
    }

    /// Returns the state that the board of the next graph takes over.
    pub(in super::super) fn leave(self) -> CarriedState {
        let noop = self.options.mode == Mode::Noop;
        let RunState {
            output_producers: senders,
            outputs,
            resolved,
            accepted,
            changed,
            sent,
            found,
            drafts,
            standing,
            tallies,
            contested,
            settled_once,
            checked_at,
            ..
        } = self;
        let (used, counts, standing) = (self.used, self.counts, standing.unwrap_or_default());
        CarriedState {
            senders,
            outputs,
            resolved,
            accepted,
            changed,
            noop,
            sent,
            found,
            drafts,
            standing,
            tallies,
            contested,
            settled_once,
            checked_at,
            used,
            counts,
        }
    }

    /// Returns the differences of the last change of a resource, until the change has settled.
    pub(in super::super) fn repaired(&self, vertex: VertexId) -> &[Difference] {
        let Some(draft) = self.drafts.get(&vertex) else { return &[] };
        if draft.differences.is_empty() { &draft.repaired } else { &draft.differences }
    }

    /// Records the differences that the last repair of a contested resource removed, and from now on the processes that
    /// change its paths.
    pub(in super::super) fn is_contested(&mut self, vertex: VertexId, paths: impl FnOnce() -> Vec<PathWatch>) {
        let differences = self.repaired(vertex).into();
        let is_new = !self.contested.contains_key(&vertex);
        let has_room = self.contested.len() < MAX_OPPONENT_WATCHES;
        let contest = self.contested.entry(vertex).or_default();
        contest.differences = differences;
        if is_new && has_room {
            contest.opponents = OpponentWatch::start(&paths());
        }
    }

    /// Returns the last process that undid a repair of a contested resource.
    pub(in super::super) fn opponent(&self, vertex: VertexId) -> Option<Opponent> {
        self.contested.get(&vertex)?.opponents.as_ref()?.last()
    }

    /// Ends the contest over a resource. Returns true if it was known as contested.
    pub(in super::super) fn is_uncontested(&mut self, vertex: VertexId) -> bool {
        self.contested.remove(&vertex).is_some()
    }

    /// Differences that the last repair of a contested resource removed.
    pub(in super::super) fn contested(&self, vertex: VertexId) -> &[Difference] {
        self.contested.get(&vertex).map_or(&[], |contest| &contest.differences)
    }

    /// Frees memory that was used while many resources were active. After a first run it is as large as the rest
    /// together.
    pub(in super::super) fn give_room_back(&mut self) {
        give_back(&mut self.found);
        give_back(&mut self.drafts);
    }

    /// Counts the resources by state while a state is held.
    ///
    /// An active resource counts with its earlier state, and a resource that has never settled does not count.
    pub(in super::super) fn standing_counts(&self) -> Counts {
        let total = self.prepared.resources().len();
        let in_sync = self.settled_once.iter().filter(|has_settled| **has_settled).count();
        let left_out = self.prepared.catalog.left_out;
        let mut counts = Counts { total, in_sync, left_out, ..Counts::default() };
        for report in self.standing.iter().flat_map(BTreeMap::values) {
            let of_status = match report.status {
                Status::WouldChange => &mut counts.would_change,
                Status::WouldRefresh => &mut counts.would_refresh,
                Status::Unknown => &mut counts.unknown,
                Status::Failed => &mut counts.failed,
                Status::Skipped => &mut counts.skipped,
                Status::Interrupted => &mut counts.interrupted,
                Status::InSync | Status::Changed | Status::Refreshed => continue,
            };
            *of_status += 1;
            counts.in_sync -= 1;
        }
        counts
    }

    /// Records the time of a successful check.
    pub(in super::super) fn has_checked(&mut self, done: &CallResult, now: Timestamp) {
        if let (Some(at), Ok(_)) = (self.checked_at.get_mut(done.vertex.0 as usize), &done.result) {
            *at = u32::try_from(now.0 / 1000 + 1).unwrap_or(u32::MAX);
        }
    }

    /// Returns the time since the last check of a resource, in whole seconds.
    pub(in super::super) fn last_check(&self, vertex: VertexId, now: Timestamp) -> Option<Duration> {
        let at = self.checked_at.get(vertex.0 as usize)?.checked_sub(1)?;
        Some(Duration::from_secs((now.0 / 1000).saturating_sub(at.into())))
    }

    /// Records that the next check of a settled resource is a poll.
    pub(in super::super) fn is_polled(&mut self, vertex: VertexId) {
        self.polled.insert(vertex);
    }

    /// Records an event on a resource: its next check is no poll.
    pub(in super::super) fn is_stale(&mut self, vertex: VertexId) {
        self.polled.remove(&vertex);
    }

    /// Returns true if a resource has settled once, while a state is held.
    pub(in super::super) fn has_settled(&self, vertex: VertexId) -> bool {
        self.settled_once.get(vertex.0 as usize).is_some_and(|has_settled| *has_settled)
    }

    /// Returns the numbers of settlements, by status.
    pub(in super::super) fn settled(&self) -> Counts {
        self.counts
    }

    /// Returns the report of a resource that is out of sync, while a state is held.
    pub(in super::super) fn standing_of(&self, vertex: VertexId) -> Option<&ResourceReport> {
        self.standing.as_ref()?.get(&vertex)
    }

    /// Returns the failure of a resource with a pending retry.
    pub(in super::super) fn failure_under_way(&self, vertex: VertexId) -> Option<EcoString> {
        self.drafts.get(&vertex)?.failure.clone()
    }

    /// Returns the numbers of changes and refreshes of a resource.
    pub(in super::super) fn tally(&self, vertex: VertexId) -> ChangeCounters {
        self.tallies.of(vertex)
    }
}

/// Shrinks a map that is nearly empty, unless it is small.
fn give_back<T>(map: &mut FxHashMap<VertexId, T>) {
    if map.capacity() > ROOM && map.len() < map.capacity() / 4 {
        map.shrink_to(ROOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_by_what_is_nearly_empty() {
        let mut map: FxHashMap<VertexId, [u64; 8]> = (0..50_000).map(|at| (VertexId(at), [0; 8])).collect();
        give_back(&mut map);
        assert_eq!(map.len(), 50_000);
        map.retain(|vertex, _| vertex.0 < 3);
        give_back(&mut map);
        assert!(map.len() == 3 && map.capacity() < 4 * ROOM, "{}", map.capacity());
    }
}
