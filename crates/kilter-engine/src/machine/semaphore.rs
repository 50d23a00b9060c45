//! Vertices that are not worked on at the same time.

use std::collections::BTreeMap;

use super::{Machine, Stage};
use crate::graph::VertexId;

/// Which vertices take which semaphores while they are worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Semaphores {
    /// How many may hold each semaphore at a time. Where something is under way while the graph is replaced, a semaphore that it
    /// holds has its number in the new graph as well.
    pub counts: Vec<u32>,
    /// The semaphores of a vertex, as indexes into `counts`, each once.
    pub of: BTreeMap<VertexId, Vec<u16>>,
}

impl Semaphores {
    /// Whether one more may hold a semaphore of which so many are held.
    fn is_free(&self, at: u16, held: &[u32]) -> bool {
        held[usize::from(at)] < self.counts[usize::from(at)].max(1)
    }
}

/// Who holds what, and who waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// How many hold each semaphore.
    held: Vec<u32>,
    /// How many of these are of a graph before, and still under way.
    outside: Vec<u32>,
    /// Those that hold theirs.
    holders: Vec<VertexId>,
    /// Those whose turn it is, and that wait for somebody to give theirs back.
    parked: Vec<VertexId>,
}

impl Taken {
    /// Takes all semaphores of a vertex, or none.
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

    /// What vertices hold that are not kept goes on being held: [`Input::Freed`](super::Input::Freed) ends it.
    fn let_go(&mut self, semaphores: &Semaphores, vertices: &[VertexId]) {
        for vertex in vertices.iter().filter(|vertex| self.holders.contains(vertex)) {
            for at in semaphores.of.get(vertex).into_iter().flatten() {
                let at = usize::from(*at);
                self.outside.resize(self.outside.len().max(at + 1), 0);
                self.outside[at] += 1;
            }
        }
    }

    fn freed(&mut self, semaphore: u16) -> Vec<VertexId> {
        let at = usize::from(semaphore);
        let Some(outside) = self.outside.get_mut(at).filter(|outside| **outside > 0) else { return Vec::new() };
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

/// The semaphores of a machine, and who has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    rules: Semaphores,
    taken: Taken,
}

impl Shared {
    /// Of a machine that has just begun; none where nobody takes any.
    pub(super) fn of(rules: Semaphores) -> Option<Box<Shared>> {
        (!rules.of.is_empty()).then(|| Box::new(Shared { rules, taken: Taken::default() }))
    }

    /// The same for other semaphores and vertices with other numbers. Those that are `under_way` and not kept hold theirs still.
    pub(super) fn renumbered(
        mut self,
        rules: Semaphores,
        new_of: &[Option<VertexId>],
        under_way: &[VertexId],
    ) -> Shared {
        let gone: Vec<VertexId> = under_way.iter().copied().filter(|vertex| new_of[vertex.at()].is_none()).collect();
        self.taken.let_go(&self.rules, &gone);
        let taken = self.taken.renumbered(&rules, new_of);
        Shared { rules, taken }
    }
}

impl Machine {
    /// The machine with semaphores, before it has begun.
    #[must_use]
    pub fn sharing(self, semaphores: Semaphores) -> Machine {
        Machine { shared: Shared::of(semaphores), ..self }
    }

    /// Whether a vertex may begin: it has all its semaphores now. One that has not is parked.
    pub(super) fn takes_semaphores(&mut self, vertex: VertexId) -> bool {
        let Some(shared) = &mut self.shared else { return true };
        if shared.taken.take(&shared.rules, vertex) {
            return true;
        }
        shared.taken.parked.push(vertex);
        false
    }

    /// A vertex is worked on no longer, for now: those that wait try again, the first ones first.
    pub(super) fn gives_semaphores_back(&mut self, vertex: VertexId) {
        let Some(shared) = &mut self.shared else { return };
        for parked in shared.taken.give_back(&shared.rules, vertex) {
            self.ready.push(std::cmp::Reverse(parked));
        }
    }

    /// What no vertex is any more is worked on no longer.
    pub(super) fn freed(&mut self, semaphore: u16) {
        let Some(shared) = &mut self.shared else { return };
        self.ready.extend(shared.taken.freed(semaphore).into_iter().map(std::cmp::Reverse));
    }

    /// Which semaphore a vertex waits for, if it does, and who has that.
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

    /// Whether somebody waits for a semaphore.
    pub(super) fn has_parked(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.taken.parked.is_empty())
    }
}

impl Taken {
    /// The same for other semaphores and vertices with other numbers. A semaphore that is held by more than are allowed
    /// now is given to nobody until enough have given it back.
    pub(super) fn renumbered(self, new: &Semaphores, new_of: &[Option<VertexId>]) -> Taken {
        let holders: Vec<VertexId> = self.holders.iter().filter_map(|holder| new_of[holder.at()]).collect();
        let mut held = self.outside.clone();
        held.resize(new.counts.len().max(held.len()), 0);
        for at in holders.iter().filter_map(|holder| new.of.get(holder)).flatten() {
            held[usize::from(*at)] += 1;
        }
        // Those that wait are ready, and are asked again.
        Taken { held, outside: self.outside, holders, parked: Vec::new() }
    }
}
