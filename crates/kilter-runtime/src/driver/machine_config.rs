//! Translates resources and metaparameters into engine configuration.

use std::collections::BTreeSet;

use ecow::EcoString;
use kilter_engine::{
    Disposition, HoldConfig, Input, Machine, RateLimit, RefreshToken, Replacement, Semaphores, Timestamp, Vertex,
    VertexId,
};
use kilter_model::{Contested, EventLimit, Meta, Resource};
use kilter_provider::{Batch as Batching, Placement, Purpose};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Mode;
use super::graph_swap::Kept;
use crate::prepare::Prepared;

/// Default event rate limit of resources that handle events, in milliseconds between events and as burst.
///
/// They have no repair budget, so that the limit bounds the processor time of a resource that triggers itself.
const EVENT_HANDLER_RATE: RateLimit = RateLimit { interval: 100, burst: 100 };

impl Prepared<'_> {
    /// Returns the vertices of the resources.
    pub(super) fn vertices(&self, mode: Mode) -> Vec<Vertex> {
        let all = self.catalog.resources.iter().zip(&self.providers);
        all.zip((0..).map(VertexId))
            .map(|((resource, at), vertex)| {
                let provider = self.registry.at(usize::from(*at));
                let meta = resource.meta();
                let scheduling = provider.capabilities().scheduling();
                let places =
                    [scheduling.placement(&resource.attributes), scheduling.set_placement(&resource.attributes)];
                // A timeout needs another thread, and a call for one resource only.
                let is_timed = meta.is_some_and(|meta| meta.timeout > 0);
                let on_worker = |place: &Placement| u16::from(*place == Placement::Worker || is_timed);
                Vertex {
                    group: at * 4 + places.iter().fold(0, |bits, place| bits * 2 + on_worker(place)),
                    single: is_timed
                        || scheduling.batch_size() == Batching::One
                        || meta.is_some_and(|meta| meta.no_autogroup),
                    noop: mode == Mode::Noop || meta.is_some_and(Meta::is_observe_only),
                    refreshable: self.is_refreshable(vertex),
                    retry: if mode == Mode::Noop { 0 } else { meta.map_or(0, |meta| meta.retry) },
                    delay: meta.map_or(0, |meta| meta.delay),
                }
            })
            .collect()
    }

    /// Creates the machine that holds the state, or replaces the graph of the previous machine.
    pub(super) fn holding_machine(
        &self,
        mode: Mode,
        succession: Swap<'_>,
        owed: &[RefreshToken],
        now: Timestamp,
    ) -> Machine {
        let Swap { before, kept, unwatched, semaphores } = succession;
        let (graph, vertices) = (self.graph.clone(), self.vertices(mode));
        let holding = HoldConfig { awaiting_watch: unwatched, ..self.holding() };
        let Some(mut machine) = before else {
            return Machine::holding(graph, vertices, owed, now, holding).with_semaphores(semaphores);
        };
        machine.replace(
            now,
            Replacement { graph, vertices, holding, semaphores, unchanged: &kept.old_of, modified: &kept.heirs, owed },
        );
        for vertex in self.graph.vertices().filter(|vertex| kept.is_kept(*vertex)) {
            let heeds =
                self.provider(vertex).capabilities().watch().depends_on_catalog(&self.resource(vertex).attributes);
            // The failure may be due to a declaration that has changed.
            if heeds || machine.settlement(vertex) == Some(Disposition::Failed) {
                machine.input(now, Input::Stale(vertex));
            }
            // The opponent may have been another declared resource, which is gone.
            if machine.is_watched_only(vertex) || machine.contest(vertex).is_some() {
                machine.input(now, Input::ResetBudget(vertex));
            }
        }
        machine
    }

    /// Returns how the machine holds each resource, according to its metaparameters.
    pub(super) fn holding(&self) -> HoldConfig {
        let mut holding = HoldConfig::default();
        for (vertex, meta) in self.metas() {
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
        for vertex in self.graph.vertices() {
            if self.purpose(vertex) != Purpose::State {
                holding.exempt_from_budget.insert(vertex);
                holding.limits.entry(vertex).or_insert(EVENT_HANDLER_RATE);
            }
        }
        holding
    }

    /// Returns the semaphores. A semaphore that a call of a former graph holds keeps its number.
    pub(super) fn semaphores(&self, numbers: &mut SemaphoreIds) -> Semaphores {
        let mut semaphores = Semaphores::default();
        for (vertex, meta) in self.metas() {
            for semaphore in &meta.semaphores {
                let at = numbers.of(&semaphore.id);
                let counts = &mut semaphores.counts;
                counts.resize(counts.len().max(usize::from(at) + 1), 0);
                counts[usize::from(at)] = counts[usize::from(at)].max(semaphore.count);
                semaphores.of.entry(vertex).or_default().push(at);
            }
        }
        semaphores
    }

    fn metas(&self) -> impl Iterator<Item = (VertexId, &Meta)> {
        self.resources()
            .iter()
            .zip((0..).map(VertexId))
            .filter_map(|(resource, vertex)| Some((vertex, resource.meta()?)))
    }
}

/// Arguments for replacing the machine of the previous graph.
pub(super) struct Swap<'a> {
    pub(super) before: Option<Machine>,
    pub(super) kept: &'a Kept,
    /// Vertices that must not be checked yet.
    pub(super) unwatched: BTreeSet<VertexId>,
    pub(super) semaphores: Semaphores,
}

/// Numbers of semaphores by name.
#[derive(Debug, Default)]
pub(super) struct SemaphoreIds {
    of: FxHashMap<EcoString, u16>,
    taken: FxHashSet<u16>,
    next: u16,
}

impl SemaphoreIds {
    /// Starts with the semaphores that calls of former graphs hold.
    pub(super) fn held<'a>(held: impl Iterator<Item = &'a (EcoString, u16)>) -> SemaphoreIds {
        let of: FxHashMap<EcoString, u16> = held.cloned().collect();
        SemaphoreIds { taken: of.values().copied().collect(), of, next: 0 }
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
        let semaphores = resource.meta().into_iter().flat_map(|meta| &meta.semaphores);
        semaphores.filter_map(|semaphore| Some((semaphore.id.clone(), *self.of.get(&semaphore.id)?))).collect()
    }
}
