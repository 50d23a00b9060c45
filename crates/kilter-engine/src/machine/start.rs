//! What begins now: applies, refreshes, checks, in batches.

use std::cmp::Reverse;

use super::{Batch, Command, Machine};
use crate::graph::VertexId;
use crate::vertex::{Phase, Settlement, Vertex};

impl Machine {
    /// Those that were about to be changed or refreshed and still are.
    pub(super) fn still(&mut self, phase: Phase) -> Vec<VertexId> {
        let list = if phase == Phase::Differs { &mut self.differs } else { &mut self.due_refresh };
        let mut vertices = std::mem::take(list);
        vertices.retain(|vertex| self.progress[vertex.at()].phase == phase);
        vertices.sort_unstable();
        vertices
    }

    pub(super) fn start_applies(&mut self) {
        let vertices = self.still(Phase::Differs);
        self.owe(&vertices);
        vertices.iter().for_each(|vertex| self.serve(*vertex));
        self.start(vertices, Phase::Applying, Command::Apply);
    }

    pub(super) fn start_refreshes(&mut self) {
        let vertices = self.still(Phase::Owed);
        self.owe(&vertices);
        vertices.iter().for_each(|vertex| self.serve(*vertex));
        self.start(vertices, Phase::Refreshing, Command::Refresh);
    }

    /// Settles what is ready and may not begin; returns what may be checked. It comes before all else that starts: what
    /// settles here may take others up, and what is behind those is not begun then.
    pub(super) fn sift_ready(&mut self) -> Vec<VertexId> {
        let mut vertices = Vec::new();
        while let Some(Reverse(vertex)) = self.ready.pop() {
            if self.progress[vertex.at()].phase != Phase::Ready {
                continue;
            }
            match self.blocker(vertex) {
                Some(by) => self.settle(vertex, Settlement::Blocked(by)),
                None if self.interrupted => self.settle(vertex, Settlement::Interrupted),
                None => vertices.push(vertex),
            }
        }
        // It may have been the turn of one more than once, and what has settled here may have taken others up before it.
        vertices.sort_unstable();
        vertices.dedup();
        vertices.retain(|vertex| self.progress[vertex.at()].phase == Phase::Ready);
        vertices
    }

    pub(super) fn start_checks(&mut self, mut vertices: Vec<VertexId>) {
        vertices.retain(|vertex| self.takes_semaphores(*vertex));
        self.start(vertices, Phase::Checking, Command::Check);
    }

    /// Hands vertices over, those of one group together.
    fn start(&mut self, vertices: Vec<VertexId>, phase: Phase, command: fn(Batch) -> Command) {
        if vertices.is_empty() {
            return;
        }
        self.in_flight += vertices.len();
        if let [only] = *vertices {
            // Every step of a chain.
            self.progress[only.at()].phase = phase;
            let group = self.vertices[only.at()].group;
            return self.commands.push(command(Batch { group, vertices }));
        }
        let mut singles: Vec<Batch> = Vec::new();
        let mut batches: Vec<Batch> = Vec::new();
        for vertex in vertices {
            self.progress[vertex.at()].phase = phase;
            let Vertex { group, single, .. } = self.vertices[vertex.at()];
            if single {
                singles.push(Batch { group, vertices: vec![vertex] });
                continue;
            }
            // There are few groups, and neighbours mostly share one.
            match batches.iter_mut().rev().find(|batch| batch.group == group) {
                Some(batch) => batch.vertices.push(vertex),
                None => batches.push(Batch { group, vertices: vec![vertex] }),
            }
        }
        // What runs on threads of its own is started before what keeps the driver busy.
        self.commands.extend(singles.into_iter().chain(batches).map(command));
    }
}
