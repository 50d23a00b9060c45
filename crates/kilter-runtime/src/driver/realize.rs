//! What another graph waits for.

use kilter_engine::{Stage, VertexId};
use rustc_hash::FxHashSet;

use super::Driver;

impl Driver<'_, '_, '_> {
    /// Whether a resource has yet to come to its state once before another one may take its place (`realize`). What has failed, or
    /// waits for what has, may never.
    pub(super) fn is_realizing(&self) -> bool {
        let realizing = self.prepared.resources().iter().zip((0..).map(VertexId));
        let mut realizing = realizing.filter(|(resource, _)| resource.meta().is_some_and(|meta| meta.realize));
        realizing.any(|(_, vertex)| {
            self.machine.settlement(vertex).is_none() && !self.board.has_settled(vertex) && !self.is_held_up(vertex)
        })
    }

    /// Whether a vertex, or one that it waits for, is tried again.
    fn is_held_up(&self, vertex: VertexId) -> bool {
        let graph = self.machine.graph();
        let (mut open, mut seen) = (vec![vertex], FxHashSet::default());
        while let Some(vertex) = open.pop() {
            if !seen.insert(vertex) || self.machine.settlement(vertex).is_some() {
                continue;
            }
            if self.board.is_tried_again(vertex) || self.machine.stage(vertex) == Stage::Delayed {
                return true;
            }
            open.extend(graph.entering(vertex).iter().map(|edge| graph.edge(*edge).first));
        }
        false
    }
}
