//! Starts applies, refreshes and checks in batches.

use std::cmp::Reverse;

use super::{Batch, Command, Machine};
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Phase, Vertex};

impl Machine {
    /// Returns the queued vertices that are still in `phase`, in manifest order, and empties the queue.
    pub(super) fn take_in_phase(&mut self, phase: Phase) -> Vec<ResourceId> {
        let list = if phase == Phase::Differs { &mut self.differs } else { &mut self.due_refresh };
        let mut vertices = std::mem::take(list);
        vertices.retain(|vertex| self.progress[vertex.slot()].phase == phase);
        self.sort(&mut vertices);
        vertices
    }

    /// Sorts vertices in manifest order.
    fn sort(&self, vertices: &mut [ResourceId]) {
        vertices.sort_unstable_by_key(|vertex| self.graph.place(*vertex));
    }

    pub(super) fn start_applies(&mut self) {
        let vertices = self.take_in_phase(Phase::Differs);
        self.journal_refreshes(&vertices);
        vertices.iter().for_each(|vertex| self.mark_in_progress(*vertex));
        self.start(vertices, Phase::Applying, Command::Apply);
    }

    pub(super) fn start_refreshes(&mut self) {
        let vertices = self.take_in_phase(Phase::Owed);
        self.journal_refreshes(&vertices);
        vertices.iter().for_each(|vertex| self.mark_in_progress(*vertex));
        self.start(vertices, Phase::Refreshing, Command::Refresh);
    }

    /// Settles ready vertices that must not start, and returns the ones to check. This runs before any other
    /// start: a settlement here may restart other vertices, and their dependents must not start then.
    pub(super) fn drain_ready(&mut self) -> Vec<ResourceId> {
        let mut vertices = Vec::new();
        while let Some(Reverse(place)) = self.ready.pop() {
            let vertex = self.graph.order()[place as usize];
            if self.progress[vertex.slot()].phase != Phase::Ready {
                continue;
            }
            match self.blocker(vertex) {
                Some(by) => self.settle(vertex, Disposition::Blocked(by)),
                None if self.interrupted => self.settle(vertex, Disposition::Interrupted),
                None => vertices.push(vertex),
            }
        }
        // A vertex may be queued more than once, and a settlement above may have restarted a parent.
        self.sort(&mut vertices);
        vertices.dedup();
        vertices.retain(|vertex| self.progress[vertex.slot()].phase == Phase::Ready);
        vertices
    }

    pub(super) fn start_checks(&mut self, mut vertices: Vec<ResourceId>) {
        vertices.retain(|vertex| self.try_acquire(*vertex));
        self.start(vertices, Phase::Checking, Command::Check);
    }

    /// Starts calls for vertices. The vertices of a group share a batch.
    fn start(&mut self, vertices: Vec<ResourceId>, phase: Phase, command: fn(Batch) -> Command) {
        if vertices.is_empty() {
            return;
        }
        self.in_flight += vertices.len();
        if let [only] = *vertices {
            // Fast path for chains: each step has a single vertex.
            self.progress[only.slot()].phase = phase;
            let group = self.vertices[only.slot()].group;
            return self.commands.push(command(Batch { group, vertices }));
        }
        let mut singles: Vec<Batch> = Vec::new();
        let mut batches: Vec<Batch> = Vec::new();
        for vertex in vertices {
            self.progress[vertex.slot()].phase = phase;
            let Vertex { group, single, .. } = self.vertices[vertex.slot()];
            if single {
                singles.push(Batch { group, vertices: vec![vertex] });
                continue;
            }
            // There are few groups, and neighbours are usually in the same group.
            match batches.iter_mut().rev().find(|batch| batch.group == group) {
                Some(batch) => batch.vertices.push(vertex),
                None => batches.push(Batch { group, vertices: vec![vertex] }),
            }
        }
        // Single vertices run on worker threads, so they start before the batches that occupy the driver.
        self.commands.extend(singles.into_iter().chain(batches).map(command));
    }
}
