//! Contested resources, whose repairs other programs undo.

use std::path::Path;

use kilter_engine::ResourceId;
use kilter_model::Difference;
use rustc_hash::FxHashMap;

use crate::opponent::{Opponent, OpponentWatch};

/// Maximum number of contested resources whose opponents are recorded: each takes a descriptor group of the kernel, of
/// which a user has 128.
const MAX_OPPONENT_WATCHES: usize = 16;

/// Contested resources.
#[derive(Default)]
pub(in crate::driver) struct Contests {
    /// Differences that the last repair of each removed.
    repaired: FxHashMap<ResourceId, Box<[Difference]>>,
    /// Records of the processes that change them.
    opponents: FxHashMap<ResourceId, OpponentWatch>,
}

impl Contests {
    /// Records the differences that the last repair of a resource removed, and from now on the processes that change
    /// its path. Returns the last process that undid a repair before.
    pub(in crate::driver) fn record(
        &mut self,
        vertex: ResourceId,
        repaired: Box<[Difference]>,
        path: Option<&Path>,
    ) -> Option<Opponent> {
        self.repaired.insert(vertex, repaired);
        let former = self.opponents.remove(&vertex);
        let is_at = |former: &&OpponentWatch| path.is_some_and(|path| former.is_at(path));
        let last = former.as_ref().filter(is_at).and_then(OpponentWatch::last);
        if self.opponents.len() < MAX_OPPONENT_WATCHES {
            let watch = path.and_then(|path| OpponentWatch::start(path, former));
            self.opponents.extend(watch.map(|watch| (vertex, watch)));
        }
        last
    }

    /// Ends the contest over a resource. Returns true if it was contested.
    pub(in crate::driver) fn end(&mut self, vertex: ResourceId) -> bool {
        self.opponents.remove(&vertex);
        self.repaired.remove(&vertex).is_some()
    }

    /// Returns the last process that undid a repair of a resource.
    pub(in crate::driver) fn opponent(&self, vertex: ResourceId) -> Option<Opponent> {
        self.opponents.get(&vertex)?.last()
    }

    /// Returns the last process that undid the last repair of a resource.
    pub(in crate::driver) fn newest_opponent(&self, vertex: ResourceId) -> Option<Opponent> {
        self.opponents.get(&vertex)?.newest()
    }

    /// Returns the differences that the last repair of a resource removed.
    pub(in crate::driver) fn repaired(&self, vertex: ResourceId) -> &[Difference] {
        self.repaired.get(&vertex).map_or(&[], |differences| differences)
    }
}
