//! Calls on workers: calls of declared resources, and running calls of resources that an edit has changed or removed.

use std::sync::Arc;
use std::time::Instant;

use ecow::EcoString;
use kilter_engine::{Graph, ResourceId};
use kilter_model::{Attributes, ResourceRef};
use rustc_hash::FxHashSet;

use super::status_snapshot::InFlightCall;
use crate::observer::Event;
use crate::preview_context::CallPreviewContext;
use crate::worker::CallId;

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Check,
    Apply,
    Refresh,
}

impl CallKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            CallKind::Check => "checking",
            CallKind::Apply => "changing",
            CallKind::Refresh => "refreshing",
        }
    }
}

/// Resource for which a call was started.
#[derive(Debug)]
pub(super) struct CallTarget {
    pub(super) id: ResourceId,
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
pub(super) struct Call {
    id: CallId,
    since: Instant,
    doing: CallKind,
    pub(super) targets: Vec<CallTarget>,
    /// Source of its answers about other resources.
    pub(super) preview_context: Arc<CallPreviewContext>,
}

impl Call {
    pub(super) fn is_change(&self) -> bool {
        self.doing != CallKind::Check
    }

    /// Returns the event at the end of the call.
    pub(super) fn ended(&self) -> Option<Event<'_>> {
        let reference = &self.targets.first()?.reference;
        let (resources, duration) = (self.targets.len(), self.since.elapsed());
        Some(Event::Called { reference, resources, doing: self.doing.word(), duration })
    }

    /// Describes the call and one of its targets for the status.
    pub(super) fn begun(&self, target: &CallTarget) -> InFlightCall {
        InFlightCall { reference: target.reference.clone(), doing: self.doing.word(), since: self.since.elapsed() }
    }

    /// Returns the targets that have changed or been removed since.
    pub(super) fn superseded(&self, graph: &Graph) -> impl Iterator<Item = &CallTarget> {
        self.targets.iter().filter(|target| !graph.contains(target.id))
    }
}

/// All calls without an answer.
#[derive(Default)]
pub(super) struct Calls {
    next: u64,
    open: Vec<Call>,
}

impl Calls {
    /// Records a call that is given to a worker.
    pub(super) fn begin(
        &mut self,
        doing: CallKind,
        targets: Vec<CallTarget>,
        preview_context: &Arc<CallPreviewContext>,
    ) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        let preview_context = Arc::clone(preview_context);
        self.open.push(Call { id, since: Instant::now(), doing, targets, preview_context });
        id
    }

    /// Removes a call that was answered or cancelled.
    pub(super) fn end(&mut self, id: CallId) -> Option<Call> {
        let at = self.open.iter().position(|call| call.id == id)?;
        Some(self.open.remove(at))
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

    /// Returns the number of calls for a single resource, and the oldest of them with its start.
    pub(super) fn single(&self) -> (usize, Option<(&CallTarget, Instant)>) {
        let mut single = self.open.iter().filter_map(|call| match &*call.targets {
            [target] => Some((target, call.since)),
            _ => None,
        });
        let first = single.next();
        (single.count() + usize::from(first.is_some()), first)
    }

    /// Returns the calls for resources that have changed or been removed since.
    pub(super) fn superseded(&self, graph: &Graph) -> impl Iterator<Item = (&Call, &CallTarget)> {
        self.open.iter().flat_map(move |call| call.superseded(graph).map(move |target| (call, target)))
    }

    /// Returns all held semaphores. Their numbers stay valid while they are held.
    pub(super) fn semaphores(&self) -> impl Iterator<Item = &(EcoString, u16)> {
        self.open.iter().flat_map(|call| &call.targets).flat_map(|target| &target.semaphores)
    }

    /// Returns true if a resource is being changed, which will send outputs.
    pub(super) fn is_to_send(&self, id: ResourceId) -> bool {
        let changing = self.open.iter().filter(|call| call.is_change());
        changing.flat_map(|call| &call.targets).any(|target| target.id == id)
    }

    /// Returns the calls that change resources.
    pub(super) fn that_change(&self) -> Vec<CallId> {
        self.open.iter().filter(|call| call.is_change()).map(|call| call.id).collect()
    }

    /// Returns the resources of some calls.
    pub(super) fn ids_of(&self, calls: &[CallId]) -> FxHashSet<ResourceId> {
        let some = self.open.iter().filter(|call| calls.contains(&call.id));
        some.flat_map(|call| &call.targets).map(|target| target.id).collect()
    }

    /// Returns all resources with a running call.
    pub(super) fn ids(&self) -> impl Iterator<Item = ResourceId> {
        self.open.iter().flat_map(|call| &call.targets).map(|target| target.id)
    }
}
