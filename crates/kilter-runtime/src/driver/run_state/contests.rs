//! Contested resources, whose repairs other programs undo.

use kilter_engine::ResourceId;
use kilter_model::Difference;
use rustc_hash::FxHashMap;

use crate::process_tracker::ChangingProcess;

/// Contested resource.
struct ContestRecord {
    /// Differences that its last repair removed.
    repaired: Box<[Difference]>,
    /// Last process that undid a repair.
    opponent: Option<ChangingProcess>,
}

/// Contested resources.
#[derive(Default)]
pub(in crate::driver) struct Contests(FxHashMap<ResourceId, ContestRecord>);

impl Contests {
    /// Records the differences that the last repair of a resource removed, and the process that caused them. Without
    /// one, the former process stays.
    pub(in crate::driver) fn record(
        &mut self,
        vertex: ResourceId,
        repaired: Box<[Difference]>,
        opponent: Option<ChangingProcess>,
    ) {
        let opponent = opponent.or_else(|| self.0.remove(&vertex)?.opponent);
        self.0.insert(vertex, ContestRecord { repaired, opponent });
    }

    /// Records the process that undid a repair, if the resource is contested.
    pub(super) fn record_opponent(&mut self, vertex: ResourceId, opponent: &ChangingProcess) {
        if let Some(contest) = self.0.get_mut(&vertex).filter(|_| opponent.is_foreign()) {
            contest.opponent = Some(opponent.clone());
        }
    }

    /// Ends the contest over a resource. Returns true if it was contested.
    pub(in crate::driver) fn end(&mut self, vertex: ResourceId) -> bool {
        self.0.remove(&vertex).is_some()
    }

    /// Returns the last process that undid a repair of a resource.
    pub(in crate::driver) fn opponent(&self, vertex: ResourceId) -> Option<&ChangingProcess> {
        self.0.get(&vertex)?.opponent.as_ref()
    }

    /// Returns the differences that the last repair of a resource removed.
    pub(in crate::driver) fn repaired(&self, vertex: ResourceId) -> &[Difference] {
        self.0.get(&vertex).map_or(&[], |contest| &contest.repaired)
    }
}
