//! Calls on workers: those of the graph that is held, and those that were begun for a graph before it and have not ended yet.

use std::time::Instant;

use ecow::EcoString;
use kilter_engine::VertexId;
use kilter_model::{Attributes, ResourceRef};
use rustc_hash::FxHashSet;

use super::handover::Kept;
use super::stop::Doing;
use super::window::Begun;

/// Which call it is, over all graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId(u64);

/// Which graph it is, in the order in which they are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// A resource for which a call was begun.
#[derive(Debug)]
pub(super) struct Target {
    /// Its vertex in the graph for which it was begun.
    pub(super) then: VertexId,
    /// Its vertex in the graph that is held; none if it is declared in another way now, or no longer.
    pub(super) now: Option<VertexId>,
    /// Its provider and its name on the system: by them whoever takes its place is found.
    pub(super) of: (u16, EcoString),
    pub(super) reference: ResourceRef,
    /// The semaphores that it holds, by name and number.
    pub(super) semaphores: Vec<(EcoString, u16)>,
    /// What it is declared as, if it is changed and others refer to what it sends, and whether they do as to a secret.
    pub(super) sends: Option<(Attributes, bool)>,
}

/// A call that was given to a worker.
#[derive(Debug)]
pub(super) struct Call {
    id: CallId,
    generation: Generation,
    since: Instant,
    doing: Doing,
    pub(super) targets: Vec<Target>,
}

impl Call {
    /// What is known of a vertex of the graph for which it was begun.
    pub(super) fn target(&self, then: VertexId) -> Option<&Target> {
        self.targets.iter().find(|target| target.then == then)
    }

    /// The resources that are declared in another way now, or no longer.
    pub(super) fn former(&self) -> impl Iterator<Item = &(u16, EcoString)> {
        self.gone().map(|target| &target.of)
    }

    /// The semaphores that these hold.
    pub(super) fn freed(&self) -> impl Iterator<Item = &(EcoString, u16)> {
        self.gone().flat_map(|target| &target.semaphores)
    }

    pub(super) fn is_change(&self) -> bool {
        self.doing != Doing::Check
    }

    /// What is told of it, and of one of its targets.
    pub(super) fn begun(&self, target: &Target) -> Begun {
        Begun { reference: target.reference.clone(), doing: self.doing.word(), since: self.since.elapsed() }
    }

    pub(super) fn gone(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|target| target.now.is_none())
    }
}

/// All calls that have not been answered.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: u64,
    generation: Generation,
    open: Vec<Call>,
}

impl Calls {
    /// A call is given to a worker.
    pub(super) fn begin(&mut self, doing: Doing, targets: Vec<Target>) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        self.open.push(Call { id, generation: self.generation, since: Instant::now(), doing, targets });
        id
    }

    /// A call has been answered, or taken back.
    pub(super) fn end(&mut self, id: CallId) -> Option<Call> {
        let at = self.open.iter().position(|call| call.id == id)?;
        Some(self.open.remove(at))
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether a call was begun for the graph that is held.
    pub(super) fn is_own(&self, call: &Call) -> bool {
        call.generation == self.generation
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether calls that were begun for a graph have not been answered.
    pub(super) fn has_of(&self, generation: Generation) -> bool {
        self.open.iter().any(|call| call.generation == generation)
    }

    /// How many calls are for one resource alone, which the oldest of them is for, and since when.
    pub(super) fn single(&self) -> (usize, Option<(&Target, Instant)>) {
        let mut single = self.open.iter().filter_map(|call| match &*call.targets {
            [target] => Some((target, call.since)),
            _ => None,
        });
        let first = single.next();
        (single.count() + usize::from(first.is_some()), first)
    }

    /// The calls for resources that are declared in another way now, or no longer.
    pub(super) fn begun_before(&self) -> impl Iterator<Item = (&Call, &Target)> {
        self.open.iter().flat_map(|call| call.gone().map(move |target| (call, target)))
    }

    /// Resources of former graphs that something is still done to.
    pub(super) fn former(&self) -> impl Iterator<Item = &(u16, EcoString)> {
        self.open.iter().flat_map(Call::former)
    }

    /// All semaphores that are held. Their numbers stay as long as that: what holds one may be gone with the next graph.
    pub(super) fn semaphores(&self) -> impl Iterator<Item = &(EcoString, u16)> {
        self.open.iter().flat_map(|call| &call.targets).flat_map(|target| &target.semaphores)
    }

    /// Whether a resource is being changed, and sends something when it has been.
    pub(super) fn is_to_send(&self, vertex: VertexId) -> bool {
        let changing = self.open.iter().filter(|call| call.is_change());
        changing.flat_map(|call| &call.targets).any(|target| target.now == Some(vertex))
    }

    /// The resources that are being changed as they were declared in a former graph.
    pub(super) fn changing(&self) -> impl Iterator<Item = &ResourceRef> {
        let changing = self.begun_before().filter(|(call, _)| call.is_change());
        changing.map(|(_, target)| &target.reference)
    }

    /// The calls that change something.
    pub(super) fn that_change(&self) -> Vec<CallId> {
        self.open.iter().filter(|call| call.doing != Doing::Check).map(|call| call.id).collect()
    }

    /// The resources of some calls, as far as they are in the graph that is held.
    pub(super) fn vertices_of(&self, calls: &[CallId]) -> FxHashSet<VertexId> {
        let some = self.open.iter().filter(|call| calls.contains(&call.id));
        some.flat_map(|call| &call.targets).filter_map(|target| target.now).collect()
    }

    /// All resources to which something is done, as far as they are in the graph that is held.
    pub(super) fn vertices(&self) -> impl Iterator<Item = VertexId> {
        self.open.iter().flat_map(|call| &call.targets).filter_map(|target| target.now)
    }

    /// The same in the numbers of the next graph.
    pub(super) fn renumbered(mut self, kept: &Kept) -> Calls {
        self.generation.0 += 1;
        for target in self.open.iter_mut().flat_map(|call| &mut call.targets) {
            target.now = target.now.and_then(|old| kept.new_of(old));
        }
        self
    }
}
