//! Translates resources and metaparameters into engine configuration.

use ecow::EcoString;
use kilter_engine::{Group, HoldConfig, RateLimit, ResourceId, Semaphores, Vertex};
use kilter_model::{Contested, EventLimit, Meta, Resource, Semaphore};
use kilter_provider::{Batch as Batching, Placement, Purpose};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::options::Mode;
use crate::prepare::Prepared;

/// Default event rate limit of resources that handle events, in milliseconds between events and as burst.
///
/// They have no repair budget, so that the limit bounds the processor time of a resource that triggers itself.
const EVENT_HANDLER_RATE: RateLimit = RateLimit { interval: 100, burst: 100 };

impl Prepared {
    /// Returns the vertices of the resources.
    pub(super) fn vertices(&self, mode: Mode) -> Vec<Vertex> {
        (0..self.resources().len()).map(|place| self.vertex(place, mode)).collect()
    }

    /// Returns the vertex of the resource at a place in the manifest.
    pub(super) fn vertex(&self, place: usize, mode: Mode) -> Vertex {
        let (resource, provider_index) = (&self.resources()[place], self.providers[place]);
        let provider = self.registry.at(usize::from(provider_index));
        let scheduling = provider.capabilities().scheduling();
        let meta = resource.meta();
        // A timeout needs another thread, and a call for one resource only.
        let is_timed = meta.is_some_and(|meta| meta.timeout > 0);
        let on_worker = |place: Placement| place == Placement::Worker || is_timed;
        Vertex {
            group: Group {
                provider: provider_index,
                checks_on_worker: on_worker(scheduling.placement(&resource.attributes)),
                changes_on_worker: on_worker(scheduling.set_placement(&resource.attributes)),
            },
            single: is_timed || scheduling.batch_size() == Batching::One || meta.is_some_and(|meta| meta.no_autogroup),
            noop: mode == Mode::Noop || meta.is_some_and(Meta::is_observe_only),
            refreshable: self.is_refreshable(self.graph.order()[place]),
            retry: if mode == Mode::Noop { 0 } else { meta.map_or(0, |meta| meta.retry) },
            delay: meta.map_or(0, |meta| meta.delay),
            independent: self.catalog.is_undo,
        }
    }

    /// Returns how the machine holds some resources, according to their metaparameters.
    pub(super) fn holding(&self, some: &[ResourceId]) -> HoldConfig {
        let mut holding = HoldConfig::default();
        for &vertex in some {
            let resource = self.resource(vertex);
            if let Some(meta) = resource.meta() {
                if let Some(EventLimit { per_second, burst }) = meta.limit {
                    // Longer intervals make no difference: the cap avoids an overflow.
                    let interval = (1000.0 / per_second).ceil().min(1e15) as u64;
                    holding.limits.insert(vertex, RateLimit { interval, burst });
                }
                if meta.retry_reset {
                    holding.retry_reset.insert(vertex);
                }
                if meta.contested == Contested::Observe {
                    holding.yielding.insert(vertex);
                }
            }
            if self.purpose(vertex) != Purpose::State {
                holding.exempt_from_budget.insert(vertex);
                holding.limits.entry(vertex).or_insert(EVENT_HANDLER_RATE);
            }
        }
        holding
    }

    /// Returns the sizes of all semaphores, and the semaphores of some resources.
    pub(super) fn semaphores(&self, numbers: &mut SemaphoreIds, some: &[ResourceId]) -> Semaphores {
        let mut semaphores = Semaphores::default();
        for semaphore in self.resources().iter().flat_map(|one| semaphores_of(one)) {
            let at = usize::from(numbers.of(&semaphore.id));
            let counts = &mut semaphores.counts;
            counts.resize(counts.len().max(at + 1), 0);
            counts[at] = counts[at].max(semaphore.count);
        }
        for &vertex in some {
            let of: Vec<u16> =
                semaphores_of(self.resource(vertex)).map(|semaphore| numbers.of(&semaphore.id)).collect();
            if !of.is_empty() {
                semaphores.of.insert(vertex, of);
            }
        }
        semaphores
    }
}

fn semaphores_of(resource: &Resource) -> impl Iterator<Item = &Semaphore> {
    resource.meta().into_iter().flat_map(|meta| &meta.semaphores)
}

/// Numbers of semaphores by name. A semaphore keeps its number while a resource declares it or a call holds it.
#[derive(Debug, Default)]
pub(super) struct SemaphoreIds {
    of: FxHashMap<EcoString, u16>,
    /// The numbers in `of`.
    taken: FxHashSet<u16>,
    /// All smaller numbers are taken.
    next: u16,
}

impl SemaphoreIds {
    /// Frees the numbers of semaphores that no resource declares and no call holds.
    pub(super) fn edit<'a>(&mut self, next: &Prepared, held: impl Iterator<Item = &'a (EcoString, u16)>) {
        if self.of.is_empty() {
            return;
        }
        let declared = next.resources().iter().flat_map(|one| semaphores_of(one)).map(|semaphore| &semaphore.id);
        let used: FxHashSet<&EcoString> = declared.chain(held.map(|(name, _)| name)).collect();
        self.of.retain(|name, _| used.contains(name));
        self.taken = self.of.values().copied().collect();
        self.next = 0;
    }

    fn of(&mut self, name: &EcoString) -> u16 {
        if let Some(number) = self.of.get(name) {
            return *number;
        }
        // If the numbers run out, the remaining semaphores share the last one.
        while self.next < u16::MAX && self.taken.contains(&self.next) {
            self.next += 1;
        }
        self.of.insert(name.clone(), self.next);
        self.taken.insert(self.next);
        self.next
    }

    /// Returns the semaphores of a resource.
    pub(super) fn of_resource(&self, resource: &Resource) -> Vec<(EcoString, u16)> {
        semaphores_of(resource)
            .filter_map(|semaphore| Some((semaphore.id.clone(), *self.of.get(&semaphore.id)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphores_get_distinct_numbers_until_none_is_left() {
        let mut ids = SemaphoreIds::default();
        let name = |at: u32| EcoString::from(at.to_string());
        assert!((0..70_000).all(|at| u32::from(ids.of(&name(at))) == at.min(u16::MAX.into())));
        assert_eq!(ids.of(&name(5)), 5);
    }
}
