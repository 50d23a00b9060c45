//! Calls on workers: calls of the current graph, and running calls of former graphs.

use std::time::Instant;

use ecow::EcoString;
use kilter_engine::VertexId;
use kilter_model::{Attributes, ResourceRef};
use rustc_hash::FxHashSet;

use super::graph_swap::Kept;
use super::stop::CallKind;
use super::window::InFlightCall;

/// Identifier of a call, unique over all graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId(u64);

/// Number of a graph, in the order of their replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// Resource for which a call was started.
#[derive(Debug)]
pub(super) struct Target {
    /// Its vertex in the graph for which the call was started.
    pub(super) old_vertex: VertexId,
    /// Its vertex in the current graph; none if it has changed or been removed.
    pub(super) now: Option<VertexId>,
    /// Its provider and its name on the system, which identify the resource that replaces it.
    pub(super) of: (u16, EcoString),
    pub(super) reference: ResourceRef,
    /// Semaphores that it holds, by name and number.
    pub(super) semaphores: Vec<(EcoString, u16)>,
    /// Its declared attributes if it is being changed and others use its outputs, with true if an output is used as
    /// a secret.
    pub(super) sends: Option<(Attributes, bool)>,
}

/// Call that was given to a worker.
#[derive(Debug)]
pub(super) struct Call {
    id: CallId,
    generation: Generation,
    since: Instant,
    doing: CallKind,
    pub(super) targets: Vec<Target>,
}

impl Call {
    /// Returns the target of a vertex of the graph for which the call was started.
    pub(super) fn target(&self, then: VertexId) -> Option<&Target> {
        self.targets.iter().find(|target| target.old_vertex == then)
    }

    /// Returns the targets that have changed or been removed since.
    pub(super) fn former(&self) -> impl Iterator<Item = &(u16, EcoString)> {
        self.gone().map(|target| &target.of)
    }

    /// Returns the semaphores that these hold.
    pub(super) fn freed(&self) -> impl Iterator<Item = &(EcoString, u16)> {
        self.gone().flat_map(|target| &target.semaphores)
    }

    pub(super) fn is_change(&self) -> bool {
        self.doing != CallKind::Check
    }

    /// Describes the call and one of its targets for the status.
    pub(super) fn begun(&self, target: &Target) -> InFlightCall {
        InFlightCall { reference: target.reference.clone(), doing: self.doing.word(), since: self.since.elapsed() }
    }

    pub(super) fn gone(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|target| target.now.is_none())
    }
}

/// All calls without an answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: u64,
    generation: Generation,
    open: Vec<Call>,
}

impl Calls {
    /// Records a call that is given to a worker.
    pub(super) fn begin(&mut self, doing: CallKind, targets: Vec<Target>) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        self.open.push(Call { id, generation: self.generation, since: Instant::now(), doing, targets });
        id
    }

    /// Removes a call that was answered or cancelled.
    pub(super) fn end(&mut self, id: CallId) -> Option<Call> {
        let at = self.open.iter().position(|call| call.id == id)?;
        Some(self.open.remove(at))
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns true if a call was started for the current graph.
    pub(super) fn is_own(&self, call: &Call) -> bool {
        call.generation == self.generation
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Number of calls that change resources.
    pub(super) fn changes(&self) -> usize {
        self.open.iter().filter(|call| call.is_change()).count()
    }

    /// Returns true if calls of a graph have no answer yet.
    pub(super) fn has_of(&self, generation: Generation) -> bool {
        self.open.iter().any(|call| call.generation == generation)
    }

    /// Returns the number of calls for a single resource, and the oldest of them with its start.
    pub(super) fn single(&self) -> (usize, Option<(&Target, Instant)>) {
        let mut single = self.open.iter().filter_map(|call| match &*call.targets {
            [target] => Some((target, call.since)),
            _ => None,
        });
        let first = single.next();
        (single.count() + usize::from(first.is_some()), first)
    }

    /// Returns the calls for resources that have changed or been removed since.
    pub(super) fn superseded_calls(&self) -> impl Iterator<Item = (&Call, &Target)> {
        self.open.iter().flat_map(|call| call.gone().map(move |target| (call, target)))
    }

    /// Returns resources of former graphs with a running call.
    pub(super) fn former(&self) -> impl Iterator<Item = &(u16, EcoString)> {
        self.open.iter().flat_map(Call::former)
    }

    /// Returns all held semaphores. Their numbers stay valid while they are held, because the next graph may not
    /// declare the holder.
    pub(super) fn semaphores(&self) -> impl Iterator<Item = &(EcoString, u16)> {
        self.open.iter().flat_map(|call| &call.targets).flat_map(|target| &target.semaphores)
    }

    /// Returns true if a resource is being changed, which will send outputs.
    pub(super) fn is_to_send(&self, vertex: VertexId) -> bool {
        let changing = self.open.iter().filter(|call| call.is_change());
        changing.flat_map(|call| &call.targets).any(|target| target.now == Some(vertex))
    }

    /// Returns the resources that are being changed as a former graph declared them.
    pub(super) fn changing(&self) -> impl Iterator<Item = &ResourceRef> {
        let changing = self.superseded_calls().filter(|(call, _)| call.is_change());
        changing.map(|(_, target)| &target.reference)
    }

    /// Returns the calls that change resources.
    pub(super) fn that_change(&self) -> Vec<CallId> {
        self.open.iter().filter(|call| call.doing != CallKind::Check).map(|call| call.id).collect()
    }

    /// Returns the resources of some calls that are in the current graph.
    pub(super) fn vertices_of(&self, calls: &[CallId]) -> FxHashSet<VertexId> {
        let some = self.open.iter().filter(|call| calls.contains(&call.id));
        some.flat_map(|call| &call.targets).filter_map(|target| target.now).collect()
    }

    /// Returns all resources with a running call that are in the current graph.
    pub(super) fn vertices(&self) -> impl Iterator<Item = VertexId> {
        self.open.iter().flat_map(|call| &call.targets).filter_map(|target| target.now)
    }

    /// Converts the calls to the vertices of the next graph.
    pub(super) fn renumbered(mut self, kept: &Kept) -> Calls {
        self.generation.0 += 1;
        for target in self.open.iter_mut().flat_map(|call| &mut call.targets) {
            target.now = target.now.and_then(|old| kept.new_of(old));
        }
        self
    }
}
