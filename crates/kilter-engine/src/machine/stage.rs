//! Where vertices stand, for those who look on.

use super::{Machine, Timestamp};
use crate::graph::VertexId;
use crate::vertex::{Phase, Settlement};

/// Where a vertex stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is not looked at before its watch has started.
    Unwatched,
    /// It waits for this one, perhaps among others.
    Waiting(VertexId),
    /// It is its turn, as soon as nothing is paused.
    Ready,
    /// It is its turn, as soon as a semaphore is free.
    Parked {
        /// Which of its own, in their order.
        semaphore: usize,
        /// Who has that, perhaps among others; none if it is of a graph before.
        holder: Option<VertexId>,
    },
    /// It is in its state, and about to be refreshed.
    Owed,
    /// It is checked.
    Checking,
    /// It is changed.
    Changing,
    /// It is refreshed.
    Refreshing,
    /// It waits for its time: a try that failed is followed by another, or too much happens to it.
    Delayed,
    /// It has settled, for now.
    Settled(Settlement),
}

impl Machine {
    /// Where a vertex stands.
    pub fn stage(&self, vertex: VertexId) -> Stage {
        match self.progress[vertex.at()].phase {
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

    fn waits(&self, vertex: VertexId) -> Stage {
        let parents = self.graph.entering(vertex).iter().map(|edge| self.graph.edge(*edge).first);
        let is_under_way = |parent: &VertexId| !matches!(self.progress[parent.at()].phase, Phase::Settled(_));
        let mut under_way = parents.filter(is_under_way);
        let is_unwatched = self.hold.as_ref().is_some_and(|hold| hold.settings.unwatched.contains(&vertex));
        match under_way.next() {
            _ if is_unwatched => Stage::Unwatched,
            Some(parent) => Stage::Waiting(parent),
            None => Stage::Ready,
        }
    }

    /// When a vertex is looked at without anything happening to it, if that is known; only while a state is held.
    pub fn wakes_at(&self, vertex: VertexId) -> Option<Timestamp> {
        self.hold.as_ref()?.due.get(&vertex).copied()
    }
}
