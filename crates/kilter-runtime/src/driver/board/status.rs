//! State of resources while a state is held.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::Difference;
use rustc_hash::FxHashMap;

use super::reverse::RevertTracker;
use super::{Routes, RunState};
use crate::driver::Mode;
use crate::driver::calls::Calls;
use crate::driver::edit::Matches;
use crate::driver::window::ChangeCounters;
use crate::opponent::{Opponent, OpponentWatch};
use crate::prepare::Prepared;
use crate::report::{Counts, ResourceReport, Status};
use crate::step::CallResult;

/// Maximum number of contested resources whose opponents are recorded: each takes a descriptor group of the kernel, of
/// which a user has 128.
const MAX_OPPONENT_WATCHES: usize = 16;

/// Number of entries for which a map always keeps room.
const ROOM: usize = 1024;

impl RunState<'_> {
    /// Starts to hold a state: from now on only resources out of sync have a report.
    pub(in super::super) fn holds(&mut self) {
        self.settled_once = vec![false; self.prepared.graph.slots()];
        self.checked_at = vec![0; self.prepared.graph.slots()];
        self.standing = Some(BTreeMap::new());
        self.outputs.holds();
    }

    /// Restarts senders with new receivers, because their outputs must be read, and the receivers of all restarted
    /// senders. `next` and its routes do not have the ids of the run yet: their ids are places.
    pub(in super::super) fn restart_receivers(
        &self,
        next: &Prepared,
        routes: &Routes,
        calls: &Calls,
        matches: &mut Matches,
    ) {
        if self.options.mode == Mode::Noop {
            // A predicted change depends on the predictions of other resources.
            matches.is_unchanged.fill(false);
            return;
        }
        for (sender, is_secret) in routes.senders() {
            let sends = |old: ResourceId| {
                let known = self.outputs.is_known(old, is_secret);
                // A running call sends the outputs when it ends.
                known || calls.is_to_send(old)
            };
            matches.is_unchanged[sender.slot()] &= matches.unchanged(sender.slot()).is_some_and(sends);
        }
        let lookup = next.lookup();
        let all = next.resources().iter().enumerate();
        let mut receivers: Vec<_> = all.filter(|(_, resource)| !resource.deferred().is_empty()).collect();
        loop {
            let before = receivers.len();
            receivers.retain(|(place, resource)| {
                let references = resource.deferred().iter().flat_map(|deferred| deferred.template.references());
                let mut senders = references.filter_map(|reference| lookup.referred(&reference));
                matches.is_unchanged[*place] &= senders.all(|sender| matches.is_unchanged[sender.slot()]);
                matches.is_unchanged[*place]
            });
            if receivers.len() == before {
                return;
            }
        }
    }

    /// Takes another catalog, and forgets the resources that have changed or been removed.
    pub(in super::super) fn edit(&mut self, next: &Arc<Prepared>, routes: Routes, gone: &[ResourceId]) {
        self.outputs.edit(routes, gone);
        self.before = RevertTracker::of(next, self.options);
        self.prepared = Arc::clone(next);
        self.settled_once.resize(self.settled_once.len().max(next.graph.slots()), false);
        self.checked_at.resize(self.settled_once.len(), 0);
        for vertex in gone {
            self.changed.remove(vertex);
            self.found.remove(vertex);
            self.drafts.remove(vertex);
            self.contested.remove(vertex);
            self.opponents.remove(vertex);
            self.tallies.forget(*vertex);
            self.standing.as_mut().map(|standing| standing.remove(vertex));
            self.settled_once[vertex.slot()] = false;
            self.checked_at[vertex.slot()] = 0;
        }
        self.secrets.forget_types();
        self.served.clear();
        self.polled.clear();
    }

    /// Returns the differences of the last change of a resource, until the change has settled.
    pub(in super::super) fn repaired(&self, vertex: ResourceId) -> &[Difference] {
        let Some(draft) = self.drafts.get(&vertex) else { return &[] };
        if draft.differences.is_empty() { &draft.repaired } else { &draft.differences }
    }

    /// Records the differences that the last repair of a contested resource removed, and from now on the processes that
    /// change its path. Returns the last process that undid a repair before.
    pub(in super::super) fn record_contest(&mut self, vertex: ResourceId, path: Option<&Path>) -> Option<Opponent> {
        let differences = self.repaired(vertex).into();
        self.contested.insert(vertex, differences);
        let former = self.opponents.remove(&vertex);
        let last = former.as_ref().and_then(OpponentWatch::last);
        if self.opponents.len() < MAX_OPPONENT_WATCHES {
            let watch = path.and_then(|path| OpponentWatch::start(path, former));
            self.opponents.extend(watch.map(|watch| (vertex, watch)));
        }
        last
    }

    /// Returns the last process that undid a repair of a contested resource.
    pub(in super::super) fn opponent(&self, vertex: ResourceId) -> Option<Opponent> {
        self.opponents.get(&vertex)?.last()
    }

    /// Returns the last process that undid the last repair of a contested resource.
    pub(in super::super) fn newest_opponent(&self, vertex: ResourceId) -> Option<Opponent> {
        self.opponents.get(&vertex)?.newest()
    }

    /// Ends the contest over a resource. Returns true if it was known as contested.
    pub(in super::super) fn end_contest(&mut self, vertex: ResourceId) -> bool {
        self.opponents.remove(&vertex);
        self.contested.remove(&vertex).is_some()
    }

    /// Differences that the last repair of a contested resource removed.
    pub(in super::super) fn contested(&self, vertex: ResourceId) -> &[Difference] {
        self.contested.get(&vertex).map_or(&[], |differences| differences)
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
        if let (Some(at), Ok(_)) = (self.checked_at.get_mut(done.vertex.slot()), &done.result) {
            *at = u32::try_from(now.0 / 1000 + 1).unwrap_or(u32::MAX);
        }
    }

    /// Returns the time since the last check of a resource, in whole seconds.
    pub(in super::super) fn last_check(&self, vertex: ResourceId, now: Timestamp) -> Option<Duration> {
        let at = self.checked_at.get(vertex.slot())?.checked_sub(1)?;
        Some(Duration::from_secs((now.0 / 1000).saturating_sub(at.into())))
    }

    /// Records that the next check of a settled resource is a poll.
    pub(in super::super) fn is_polled(&mut self, vertex: ResourceId) {
        self.polled.insert(vertex);
    }

    /// Records an event on a resource: its next check is no poll.
    pub(in super::super) fn is_stale(&mut self, vertex: ResourceId) {
        self.polled.remove(&vertex);
    }

    /// Returns true if a resource has settled once, while a state is held.
    pub(in super::super) fn has_settled(&self, vertex: ResourceId) -> bool {
        self.settled_once.get(vertex.slot()).is_some_and(|has_settled| *has_settled)
    }

    /// Returns the numbers of settlements, by status.
    pub(in super::super) fn settled(&self) -> Counts {
        self.counts
    }

    /// Returns the report of a resource that is out of sync, while a state is held.
    pub(in super::super) fn standing_of(&self, vertex: ResourceId) -> Option<&ResourceReport> {
        self.standing.as_ref()?.get(&vertex)
    }

    /// Returns the failure of a resource with a pending retry.
    pub(in super::super) fn failure_under_way(&self, vertex: ResourceId) -> Option<EcoString> {
        self.drafts.get(&vertex)?.failure.clone()
    }

    /// Returns the numbers of changes and refreshes of a resource.
    pub(in super::super) fn tally(&self, vertex: ResourceId) -> ChangeCounters {
        self.tallies.of(vertex)
    }
}

/// Shrinks a map that is nearly empty, unless it is small.
fn give_back<T>(map: &mut FxHashMap<ResourceId, T>) {
    if map.capacity() > ROOM && map.len() < map.capacity() / 4 {
        map.shrink_to(ROOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_empty_table_frees_memory() {
        let mut map: FxHashMap<ResourceId, [u64; 8]> = (0..50_000).map(|at| (ResourceId::first(at), [0; 8])).collect();
        give_back(&mut map);
        assert_eq!(map.len(), 50_000);
        map.retain(|vertex, _| vertex.slot() < 3);
        give_back(&mut map);
        assert!(map.len() == 3 && map.capacity() < 4 * ROOM, "{}", map.capacity());
    }
}
