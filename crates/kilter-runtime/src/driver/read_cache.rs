//! Cache of the states that providers have read during a pass.
//!
//! A provider that reads many resources with one call is called as rarely as possible: once for all resources it
//! will be asked about, or for everything if it cannot filter. The cache keeps a state until its resource is
//! checked. The cache becomes invalid if another resource changes the system, because the change may affect any
//! state (Puppet Resource API, "simple_get_filter").

use std::collections::VecDeque;

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::State;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::prepare::Prepared;
use crate::step::Read;
use crate::worker::CallId;

/// Cache of one provider.
#[derive(Default)]
pub(super) struct ReadCache {
    /// States by name, absent resources included.
    states: FxHashMap<EcoString, State>,
    /// True if everything was read: a resource without a state is absent, unless it has changed since.
    all: bool,
    changed: FxHashSet<EcoString>,
    /// Number of foreign changes at the time of the read.
    at: u64,
    /// The call that reads, while one does; none within for a call on the driver's thread.
    pub(super) reading: Option<Option<CallId>>,
    /// Resources to check when that call has ended.
    pub(super) parked: Vec<ResourceId>,
    /// True if one of these is checked on a worker: then all are.
    pub(super) parked_on_worker: bool,
    /// Number of changes by the provider itself.
    own: u64,
    /// Reason why the provider cannot read in this pass.
    pub(super) unavailable: Option<EcoString>,
    /// Resources of the provider in manifest order, without the first ones that have been checked; none before the
    /// first use.
    queue: Option<VecDeque<ResourceId>>,
    /// True if states that were read ahead have been discarded.
    prefetch_wasted: bool,
}

/// Maximum number of resources to read ahead after states have been discarded.
const CAREFUL: usize = 64;

/// Caches of all providers.
pub(super) struct ReadCaches {
    of: Vec<ReadCache>,
    /// Number of changes by all providers.
    changes: u64,
    /// Vertices whose check has started: nothing is read ahead for them.
    turned: Vec<bool>,
}

impl ReadCaches {
    pub(super) fn new(providers: usize, vertices: usize) -> ReadCaches {
        ReadCaches {
            of: (0..providers).map(|_| ReadCache::default()).collect(),
            changes: 0,
            turned: vec![false; vertices],
        }
    }

    pub(super) fn at(&mut self, provider: u16) -> &mut ReadCache {
        &mut self.of[usize::from(provider)]
    }

    /// Counts changes, or attempted changes, of a provider.
    pub(super) fn changed(&mut self, provider: u16, count: usize) {
        self.changes += count as u64;
        self.of[usize::from(provider)].own += count as u64;
    }

    /// Returns the number of changes by other providers.
    pub(super) fn foreign_changes(&self, provider: u16) -> u64 {
        self.changes - self.of[usize::from(provider)].own
    }

    /// Records the start of the check of a vertex.
    pub(super) fn mark_visited(&mut self, vertex: ResourceId) {
        self.turned[vertex.slot()] = true;
    }

    /// Takes the resources that wait for a call which reads.
    pub(super) fn take_parked(&mut self) -> Vec<ResourceId> {
        let take = |cache: &mut ReadCache| {
            cache.parked_on_worker = false;
            std::mem::take(&mut cache.parked)
        };
        self.of.iter_mut().flat_map(take).collect()
    }

    /// Lets the resources of an edit read at once, while calls that read for others are running.
    pub(super) fn stop_waiting(&mut self) {
        self.of.iter_mut().for_each(|cache| cache.reading = None);
    }

    /// Takes the state of a resource, if it was read and is still valid.
    pub(super) fn take(&mut self, provider: u16, name: &EcoString) -> Option<State> {
        let foreign = self.foreign_changes(provider);
        let cache = &mut self.of[usize::from(provider)];
        if cache.at != foreign {
            cache.prefetch_wasted |= !cache.states.is_empty();
            cache.states.clear();
            cache.all = false;
            return None;
        }
        let found = cache.states.remove(name);
        let is_absent = cache.all && !cache.changed.contains(name);
        found.or_else(|| is_absent.then(|| State::absent(name.clone())))
    }

    /// Stores additional states of a read that started after `foreign_changes` changes.
    pub(super) fn keep(&mut self, provider: u16, read: Read, foreign: u64) {
        let cache = &mut self.of[usize::from(provider)];
        if cache.at != foreign {
            cache.states.clear();
            cache.all = false;
        }
        cache.at = foreign;
        if read.all {
            cache.changed.clear();
        }
        cache.all |= read.all;
        let absent = read.missing.into_iter().map(State::absent);
        cache.states.extend(read.states.into_iter().chain(absent).map(|state| (state.name.clone(), state)));
    }

    /// Returns the resources of a provider to read ahead: their checks have not started.
    pub(super) fn prefetchable(&mut self, provider: u16, prepared: &Prepared) -> Vec<ResourceId> {
        let turned = &self.turned;
        let cache = &mut self.of[usize::from(provider)];
        let queue = cache.queue.get_or_insert_with(|| {
            let all = prepared.providers.iter().zip(prepared.graph.vertices()).filter(|(at, _)| **at == provider);
            all.map(|(_, vertex)| vertex).collect()
        });
        while queue.front().is_some_and(|vertex| turned[vertex.slot()]) {
            queue.pop_front();
        }
        let limit = if cache.prefetch_wasted { CAREFUL } else { usize::MAX };
        let is_known = |vertex: &&ResourceId| !turned[vertex.slot()];
        queue.iter().filter(is_known).take(limit).copied().collect()
    }

    /// Discards the state of a resource before its change.
    pub(super) fn forget(&mut self, provider: u16, name: &EcoString) {
        let cache = &mut self.of[usize::from(provider)];
        cache.states.remove(name);
        if cache.all {
            cache.changed.insert(name.clone());
        }
    }
}
