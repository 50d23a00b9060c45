//! Semaphores: limit the number of vertices that are handled at the same time.

use std::collections::BTreeMap;

use super::{Machine, Stage};
use crate::graph::VertexId;

/// Semaphores and the vertices that acquire them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Semaphores {
    /// Maximum number of holders per semaphore. If the graph is replaced while a semaphore is held, the
    /// semaphore has the same number in the new graph.
    pub counts: Vec<u32>,
    /// Semaphores of each vertex, as unique indexes into `counts`.
    pub of: BTreeMap<VertexId, Vec<u16>>,
}

impl Semaphores {
    /// Returns true if a semaphore has a free slot, given the current number of holders.
    fn is_free(&self, at: u16, held: &[u32]) -> bool {
        held[usize::from(at)] < self.counts[usize::from(at)].max(1)
    }
}

/// Holders and waiting vertices.
#[derive(Clone, Debug, Default)]
pub(super) struct SemaphoreState {
    /// Number of holders per semaphore.
    held: Vec<u32>,
    /// Number of these holders that belong to an earlier graph and are still in flight.
    detached: Vec<u32>,
    /// Vertices that hold their semaphores.
    holders: Vec<VertexId>,
    /// Ready vertices that wait for a semaphore.
    parked: Vec<VertexId>,
}

impl SemaphoreState {
    /// Acquires all semaphores of a vertex, or none.
    fn take(&mut self, semaphores: &Semaphores, vertex: VertexId) -> bool {
        let Some(wanted) = semaphores.of.get(&vertex) else { return true };
        if self.holders.contains(&vertex) {
            return true;
        }
        self.held.resize(self.held.len().max(semaphores.counts.len()), 0);
        if !wanted.iter().all(|at| semaphores.is_free(*at, &self.held)) {
            return false;
        }
        wanted.iter().for_each(|at| self.held[usize::from(*at)] += 1);
        self.holders.push(vertex);
        true
    }

    /// Keeps the semaphores of vertices that are not kept. [`Input::Freed`](super::Input::Freed) releases them.
    fn detach_holders(&mut self, semaphores: &Semaphores, vertices: &[VertexId]) {
        for vertex in vertices.iter().filter(|vertex| self.holders.contains(vertex)) {
            for at in semaphores.of.get(vertex).into_iter().flatten() {
                let at = usize::from(*at);
                self.detached.resize(self.detached.len().max(at + 1), 0);
                self.detached[at] += 1;
            }
        }
    }

    fn freed(&mut self, semaphore: u16) -> Vec<VertexId> {
        let at = usize::from(semaphore);
        let Some(outside) = self.detached.get_mut(at).filter(|outside| **outside > 0) else { return Vec::new() };
        *outside -= 1;
        self.held[at] -= 1;
        std::mem::take(&mut self.parked)
    }

    fn give_back(&mut self, semaphores: &Semaphores, vertex: VertexId) -> Vec<VertexId> {
        let Some(at) = self.holders.iter().position(|holder| *holder == vertex) else { return Vec::new() };
        self.holders.swap_remove(at);
        for at in semaphores.of.get(&vertex).into_iter().flatten() {
            self.held[usize::from(*at)] -= 1;
        }
        std::mem::take(&mut self.parked)
    }
}

/// The semaphores of a machine, and their holders.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    rules: Semaphores,
    taken: SemaphoreState,
}

impl Shared {
    /// Returns the initial state, or none if no vertex uses a semaphore.
    pub(super) fn of(rules: Semaphores) -> Option<Box<Shared>> {
        (!rules.of.is_empty()).then(|| Box::new(Shared { rules, taken: SemaphoreState::default() }))
    }

    /// Converts the state to other semaphores and vertex numbers. Vertices that are `under_way` and not kept
    /// still hold their semaphores.
    pub(super) fn renumbered(
        mut self,
        rules: Semaphores,
        new_of: &[Option<VertexId>],
        under_way: &[VertexId],
    ) -> Shared {
        let gone: Vec<VertexId> = under_way.iter().copied().filter(|vertex| new_of[vertex.index()].is_none()).collect();
        self.taken.detach_holders(&self.rules, &gone);
        let taken = self.taken.renumbered(&rules, new_of);
        Shared { rules, taken }
    }
}

impl Machine {
    /// Adds semaphores to a machine that has not started.
    #[must_use]
    pub fn with_semaphores(self, semaphores: Semaphores) -> Machine {
        Machine { shared: Shared::of(semaphores), ..self }
    }

    /// Acquires the semaphores of a vertex and returns true, or parks the vertex.
    pub(super) fn try_acquire(&mut self, vertex: VertexId) -> bool {
        let Some(shared) = &mut self.shared else { return true };
        if shared.taken.take(&shared.rules, vertex) {
            return true;
        }
        shared.taken.parked.push(vertex);
        false
    }

    /// Releases the semaphores of a vertex. The parked vertices try again, in manifest order.
    pub(super) fn release(&mut self, vertex: VertexId) {
        let Some(shared) = &mut self.shared else { return };
        for parked in shared.taken.give_back(&shared.rules, vertex) {
            self.ready.push(std::cmp::Reverse(parked));
        }
    }

    /// Releases a semaphore that a call of an earlier graph held.
    pub(super) fn freed(&mut self, semaphore: u16) {
        let Some(shared) = &mut self.shared else { return };
        self.ready.extend(shared.taken.freed(semaphore).into_iter().map(std::cmp::Reverse));
    }

    /// Returns the semaphore that a parked vertex waits for, and its holder.
    pub(super) fn parked(&self, vertex: VertexId) -> Option<Stage> {
        let Shared { rules, taken } = self.shared.as_deref()?;
        let wanted = rules.of.get(&vertex).filter(|_| taken.parked.contains(&vertex))?;
        let holder = |at: &u16| {
            let has = |holder: &VertexId| rules.of.get(holder).is_some_and(|all| all.contains(at));
            taken.holders.iter().copied().find(has)
        };
        let is_taken = |at: &u16| !rules.is_free(*at, &taken.held);
        let semaphore = wanted.iter().position(is_taken)?;
        Some(Stage::Parked { semaphore, holder: holder(&wanted[semaphore]) })
    }

    /// Returns true if a vertex waits for a semaphore.
    pub(super) fn has_parked(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.taken.parked.is_empty())
    }
}

impl SemaphoreState {
    /// Converts the holders to other semaphores and vertex numbers. If a semaphore now has more holders than
    /// allowed, no vertex acquires it until enough have released it.
    pub(super) fn renumbered(self, new: &Semaphores, new_of: &[Option<VertexId>]) -> SemaphoreState {
        let holders: Vec<VertexId> = self.holders.iter().filter_map(|holder| new_of[holder.index()]).collect();
        let mut held = self.detached.clone();
        held.resize(new.counts.len().max(held.len()), 0);
        for at in holders.iter().filter_map(|holder| new.of.get(holder)).flatten() {
            held[usize::from(*at)] += 1;
        }
        // The parked vertices are ready and try again.
        SemaphoreState { held, detached: self.detached, holders, parked: Vec::new() }
    }
}
