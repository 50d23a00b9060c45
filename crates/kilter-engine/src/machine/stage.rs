//! Stages of vertices, for status reports.

use super::{Machine, Timestamp};
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Phase};

/// Current stage of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The vertex is not checked before its watch has started.
    Unwatched,
    /// The vertex waits for this parent, and perhaps for others.
    Waiting(ResourceId),
    /// The vertex is ready and starts as soon as the run is not paused.
    Ready,
    /// The vertex is ready and waits for a semaphore.
    Parked {
        /// Index into the semaphores of the vertex.
        semaphore: usize,
        /// One of the holders. It may be a vertex that an edit has removed or changed.
        holder: Option<ResourceId>,
    },
    /// The vertex is in sync and is about to be refreshed.
    Owed,
    /// A check is in flight.
    Checking,
    /// An apply is in flight.
    Changing,
    /// A refresh is in flight.
    Refreshing,
    /// The vertex waits for a timer: for a retry, or for the rate limiter.
    Delayed,
    /// The vertex has settled, for now.
    Settled(Disposition),
}

impl Machine {
    /// Returns the current stage of a vertex.
    pub fn stage(&self, vertex: ResourceId) -> Stage {
        debug_assert!(self.graph.contains(vertex), "{vertex:?} is not of this graph");
        match self.progress[vertex.slot()].phase {
            Phase::Waiting => self.waits(vertex),
            Phase::Ready => self.parked(vertex).unwrap_or(Stage::Ready),
            Phase::Differs => Stage::Ready,
            Phase::Owed => Stage::Owed,
            Phase::Checking => Stage::Checking,
            Phase::Applying => Stage::Changing,
            Phase::Refreshing => Stage::Refreshing,
            Phase::Delayed => Stage::Delayed,
            Phase::Settled(_) if self.is_limited(vertex) => Stage::Delayed,
            Phase::Settled(settlement) => Stage::Settled(settlement),
        }
    }

    fn waits(&self, vertex: ResourceId) -> Stage {
        let parents = self.graph.incoming(vertex).iter().map(|edge| self.graph.edge(*edge).from);
        let is_under_way = |parent: &ResourceId| !matches!(self.progress[parent.slot()].phase, Phase::Settled(_));
        let mut under_way = parents.filter(is_under_way);
        let is_unwatched = self.hold.as_ref().is_some_and(|hold| hold.settings.awaiting_watch.contains(&vertex));
        match under_way.next() {
            _ if is_unwatched => Stage::Unwatched,
            Some(parent) => Stage::Waiting(parent),
            None => Stage::Ready,
        }
    }

    /// Returns the time of the next timer of a vertex. None if there is no timer or the machine is for one
    /// pass.
    pub fn wakes_at(&self, vertex: ResourceId) -> Option<Timestamp> {
        self.hold.as_ref()?.due.get(&vertex).copied()
    }
}
