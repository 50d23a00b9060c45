//! Edits: another catalog takes the place of the current one.

use std::sync::Arc;

use kilter_engine::ResourceId;
use rustc_hash::FxHashMap;

use super::revert_tracker::RevertTracker;
use super::{Routes, RunState};
use crate::driver::calls::Calls;
use crate::driver::matches::Matches;
use crate::options::Mode;
use crate::prepare::Prepared;

/// Number of entries for which a map always keeps room.
const ROOM: usize = 1024;

impl RunState<'_> {
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
        for vertex in gone {
            self.origins.tracker.release(*vertex, self.prepared.resource(*vertex));
        }
        self.before = RevertTracker::of(next, self.options);
        self.prepared = Arc::clone(next);
        for vertex in gone {
            self.found.remove(vertex);
            self.drafts.remove(vertex);
            self.processes.remove(vertex);
            self.contests.end(*vertex);
            self.origins.events.remove(vertex);
        }
        self.causes.edit(gone);
        if let Some(held_status) = &mut self.reports.held_status {
            held_status.edit(next.graph.slots(), gone);
        }
        self.secrets.forget_types();
    }

    /// Frees memory that was used while many resources were active. After a first run it is as large as the rest
    /// together.
    pub(in super::super) fn give_room_back(&mut self) {
        give_back(&mut self.found);
        give_back(&mut self.drafts);
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
