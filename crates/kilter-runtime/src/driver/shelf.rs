//! What providers have read during a pass, for as long as it holds.
//!
//! A provider that reads many resources at once is asked as rarely as can be: once for all that it is
//! going to be asked about, or for everything where it cannot filter. What comes back waits here until
//! its resource is checked. It holds until something else was changed: what one resource does to the
//! system may show in another (Puppet Resource API, "simple_get_filter").

use std::collections::VecDeque;

use ecow::EcoString;
use kilter_engine::VertexId;
use kilter_model::State;
use rustc_hash::{FxHashMap, FxHashSet};

/// What one provider has read.
#[derive(Default)]
pub(super) struct Shelf {
    /// States by name, those of resources that are not there among them.
    states: FxHashMap<EcoString, State>,
    /// Whether everything was read: what has no state is not there, but for what was changed since.
    all: bool,
    changed: FxHashSet<EcoString>,
    /// Foreign changes until then.
    at: u64,
    /// Whether a call that reads goes on.
    pub(super) reading: bool,
    /// What is to be checked when that call has ended.
    pub(super) parked: Vec<VertexId>,
    /// Their group: where one of them is checked on a worker, all are.
    pub(super) parked_group: u16,
    /// Changes by the provider itself.
    own: u64,
    /// Why it cannot read, in this pass.
    pub(super) unavailable: Option<EcoString>,
    /// The resources of the provider in manifest order, but for the first ones that had their turn;
    /// none before they are asked for.
    queue: Option<VecDeque<VertexId>>,
    /// Whether something that was read ahead had to be thrown away.
    wasted: bool,
}

/// So many resources are read ahead, at most, where that has been in vain before.
const CAREFUL: usize = 64;

/// The shelves of all providers.
pub(super) struct Shelves {
    of: Vec<Shelf>,
    /// Changes by all providers.
    changes: u64,
    /// Vertices that have had their turn: nothing is read for them in advance.
    turned: Vec<bool>,
}

impl Shelves {
    pub(super) fn new(providers: usize, vertices: usize) -> Shelves {
        Shelves { of: (0..providers).map(|_| Shelf::default()).collect(), changes: 0, turned: vec![false; vertices] }
    }

    pub(super) fn at(&mut self, provider: u16) -> &mut Shelf {
        &mut self.of[usize::from(provider)]
    }

    /// A provider has changed, or tried to change, so many resources.
    pub(super) fn changed(&mut self, provider: u16, count: usize) {
        self.changes += count as u64;
        self.of[usize::from(provider)].own += count as u64;
    }

    /// Changes by other providers so far.
    pub(super) fn foreign(&self, provider: u16) -> u64 {
        self.changes - self.of[usize::from(provider)].own
    }

    /// The turn of a vertex has come.
    pub(super) fn turn(&mut self, vertex: VertexId) {
        self.turned[vertex.0 as usize] = true;
    }

    /// The state of a resource, if it was read and still holds.
    pub(super) fn take(&mut self, provider: u16, name: &EcoString) -> Option<State> {
        let foreign = self.foreign(provider);
        let shelf = &mut self.of[usize::from(provider)];
        if shelf.at != foreign {
            shelf.wasted |= !shelf.states.is_empty();
            shelf.states.clear();
            shelf.all = false;
            return None;
        }
        let found = shelf.states.remove(name);
        let is_absent = shelf.all && !shelf.changed.contains(name);
        found.or_else(|| is_absent.then(|| State::absent(name.clone())))
    }

    /// Keeps what was read beyond what was asked, as of when `foreign` changes had been made.
    pub(super) fn keep(&mut self, provider: u16, read: Read, foreign: u64) {
        let shelf = &mut self.of[usize::from(provider)];
        if shelf.at != foreign {
            shelf.states.clear();
            shelf.all = false;
        }
        shelf.at = foreign;
        if read.all {
            shelf.changed.clear();
        }
        shelf.all |= read.all;
        let absent = read.missing.into_iter().map(State::absent);
        shelf.states.extend(read.states.into_iter().chain(absent).map(|state| (state.name.clone(), state)));
    }

    /// The resources of a provider that are worth reading ahead: those whose turn is still to come.
    pub(super) fn ahead(&mut self, provider: u16, providers: &[u16]) -> Vec<VertexId> {
        let turned = &self.turned;
        let shelf = &mut self.of[usize::from(provider)];
        let queue = shelf.queue.get_or_insert_with(|| {
            let all = providers.iter().zip((0..).map(VertexId)).filter(|(at, _)| **at == provider);
            all.map(|(_, vertex)| vertex).collect()
        });
        while queue.front().is_some_and(|vertex| turned[vertex.0 as usize]) {
            queue.pop_front();
        }
        let limit = if shelf.wasted { CAREFUL } else { usize::MAX };
        let is_known = |vertex: &&VertexId| !turned[vertex.0 as usize];
        queue.iter().filter(is_known).take(limit).copied().collect()
    }

    /// A resource whose state is about to change: what was read of it holds no longer.
    pub(super) fn forget(&mut self, provider: u16, name: &EcoString) {
        let shelf = &mut self.of[usize::from(provider)];
        shelf.states.remove(name);
        if shelf.all {
            shelf.changed.insert(name.clone());
        }
    }
}

/// What was read beyond what was asked.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// States of other resources.
    pub(crate) states: Vec<State>,
    /// Names that were asked for in advance and are not there.
    pub(crate) missing: Vec<EcoString>,
    /// Whether everything was read.
    pub(crate) all: bool,
}
