//! Changes that refresh other resources, for reports.

use kilter_engine::{Disposition, EdgeId, Graph, Machine, ResourceId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Changed resources, and the refreshes that they have caused already.
#[derive(Default)]
pub(super) struct RefreshCauses {
    /// Resources that changed or would change.
    changed: FxHashMap<ResourceId, Disposition>,
    /// Edges along which a change has sent a refresh, since the last change.
    served: FxHashSet<EdgeId>,
    /// Resources that only notifiers without a permitted change would refresh.
    left: FxHashSet<ResourceId>,
}

impl RefreshCauses {
    /// Records the settlement of a resource, and its refresh.
    pub(super) fn note(&mut self, vertex: ResourceId, settlement: Disposition, refreshed: bool, machine: &Machine) {
        let graph = machine.graph();
        if refreshed && !self.changed.is_empty() {
            // A notifier that changed again meanwhile causes another refresh.
            let served =
                graph.incoming(vertex).iter().filter(|edge| graph.edge(**edge).notify && !machine.is_owed(**edge));
            self.served.extend(served);
        }
        match settlement {
            Disposition::Changed | Disposition::Refreshed | Disposition::WouldChange | Disposition::WouldRefresh => {
                for edge in graph.outgoing(vertex) {
                    self.served.remove(&edge);
                }
                self.changed.insert(vertex, settlement);
            }
            Disposition::InSync => {
                // A predicted change is gone. A completed change counts until its refreshes have been delivered.
                let is_predicted =
                    |was: &Disposition| matches!(was, Disposition::WouldChange | Disposition::WouldRefresh);
                if self.changed.get(&vertex).is_some_and(is_predicted) {
                    self.changed.remove(&vertex);
                }
            }
            _ => {}
        }
    }

    /// Returns true if a resource has changed or would change.
    pub(super) fn has_changed(&self, vertex: ResourceId) -> bool {
        self.changed.contains_key(&vertex)
    }

    /// Returns the resources whose changes refresh a vertex.
    pub(super) fn of(&self, vertex: ResourceId, graph: &Graph) -> impl Iterator<Item = ResourceId> {
        let edges = graph.incoming(vertex).iter().filter(|id| !self.changed.is_empty() && !self.served.contains(id));
        let edges = edges.map(|id| graph.edge(*id)).filter(|edge| edge.notify);
        edges.map(|edge| edge.from).filter(|from| self.changed.contains_key(from))
    }

    /// Returns true if no run makes the changes that would refresh a vertex. `is_left` returns true for a resource
    /// whose declaration forbids changes.
    pub(super) fn are_all_left(&self, vertex: ResourceId, graph: &Graph, is_left: impl Fn(ResourceId) -> bool) -> bool {
        let mut causes = self.of(vertex, graph).peekable();
        causes.peek().is_some() && causes.all(|by| is_left(by) || self.left.contains(&by))
    }

    /// Records a resource that no run refreshes.
    pub(super) fn note_left(&mut self, vertex: ResourceId) {
        self.left.insert(vertex);
    }

    /// Returns true for a resource that no run refreshes.
    pub(super) fn is_left(&self, vertex: ResourceId) -> bool {
        self.left.contains(&vertex)
    }

    /// Forgets resources that have changed or been removed, and all edges.
    pub(super) fn edit(&mut self, gone: &[ResourceId]) {
        gone.iter().for_each(|vertex| _ = self.changed.remove(vertex));
        gone.iter().for_each(|vertex| _ = self.left.remove(vertex));
        self.served.clear();
    }
}
