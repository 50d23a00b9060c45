//! Semaphores: limit the number of vertices that are handled at the same time.

use std::collections::BTreeMap;

use super::{Machine, Stage};
use crate::resource_id::ResourceId;

/// Semaphores and the vertices that acquire them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Semaphores {
    /// Maximum number of holders per semaphore. An edit keeps the number of a semaphore.
    pub counts: Vec<u32>,
    /// Semaphores of each vertex, as unique indexes into `counts`.
    pub of: BTreeMap<ResourceId, Vec<u16>>,
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
    /// Vertices that hold their semaphores.
    holders: Vec<ResourceId>,
    /// Ready vertices that wait for a semaphore.
    parked: Vec<ResourceId>,
}

impl SemaphoreState {
    /// Acquires all semaphores of a vertex, or none.
    fn take(&mut self, semaphores: &Semaphores, vertex: ResourceId) -> bool {
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

    fn give_back(&mut self, semaphores: &Semaphores, vertex: ResourceId) -> Vec<ResourceId> {
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

    /// Forgets a vertex that an edit removed or changed. With a call in flight, it still holds its semaphores.
    pub(super) fn forget(&mut self, vertex: ResourceId, is_in_flight: bool) {
        if !is_in_flight {
            self.taken.give_back(&self.rules, vertex);
            self.rules.of.remove(&vertex);
        }
    }

    /// Adds the semaphores of the vertices that an edit added or changed. If a semaphore now has more holders than
    /// allowed, no vertex acquires it until enough have released it.
    pub(super) fn extend(&mut self, added: Semaphores) {
        self.rules.counts = added.counts;
        self.rules.of.extend(added.of);
        let held = self.taken.held.len();
        self.rules.counts.resize(self.rules.counts.len().max(held), 0);
        // The parked vertices are ready and try again.
        self.taken.parked.clear();
    }
}

impl Machine {
    /// Adds semaphores to a machine that has not started.
    #[must_use]
    pub fn with_semaphores(self, semaphores: Semaphores) -> Machine {
        Machine { shared: Shared::of(semaphores), ..self }
    }

    /// Acquires the semaphores of a vertex and returns true, or parks the vertex.
    pub(super) fn try_acquire(&mut self, vertex: ResourceId) -> bool {
        let Some(shared) = &mut self.shared else { return true };
        if shared.taken.take(&shared.rules, vertex) {
            return true;
        }
        shared.taken.parked.push(vertex);
        false
    }

    /// Releases the semaphores of a vertex. The parked vertices try again, in manifest order.
    pub(super) fn release(&mut self, vertex: ResourceId) {
        let Some(shared) = &mut self.shared else { return };
        let parked = shared.taken.give_back(&shared.rules, vertex);
        let places = parked.into_iter().map(|parked| std::cmp::Reverse(self.graph.place(parked) as u32));
        self.ready.extend(places);
    }

    /// Releases the semaphores of a vertex that an edit removed or changed during its call.
    pub(super) fn release_superseded(&mut self, vertex: ResourceId) {
        self.release(vertex);
        if let Some(shared) = &mut self.shared {
            shared.rules.of.remove(&vertex);
        }
    }

    /// Returns the semaphore that a parked vertex waits for, and its holder.
    pub(super) fn parked(&self, vertex: ResourceId) -> Option<Stage> {
        let Shared { rules, taken } = self.shared.as_deref()?;
        let wanted = rules.of.get(&vertex).filter(|_| taken.parked.contains(&vertex))?;
        let holder = |at: &u16| {
            let has = |holder: &ResourceId| rules.of.get(holder).is_some_and(|all| all.contains(at));
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
