//! The order of resources in every run, in tables that are made once for each resource that is asked about.

use std::sync::{Arc, Mutex, PoisonError};

use kilter_engine::{Graph, ResourceId};
use rustc_hash::FxHashMap;

/// Maximum size of the tables of one direction, in words of 64 bits: 32 MiB.
const MAX_TABLE_WORDS: usize = 4 * 1024 * 1024;
/// Maximum number of parents of a resource that are compared before a table is made.
const MAX_DIRECT_PARENTS: usize = 16;

/// Answers if one resource comes before another one in every run.
pub(super) struct Order {
    graph: Arc<Graph>,
    descendants: Tables,
    ancestors: Tables,
    /// Maximum size of the tables of one direction, in words.
    max_words: usize,
}

/// Sets of vertices, by the vertex that they were made for.
type Tables = Mutex<FxHashMap<ResourceId, Arc<[u64]>>>;

impl Order {
    pub(super) fn new(graph: Arc<Graph>) -> Order {
        Order { graph, descendants: Tables::default(), ancestors: Tables::default(), max_words: MAX_TABLE_WORDS }
    }

    /// Returns true if `first` comes before `second`. Fast if it is asked of the same `first` again.
    pub(super) fn leads_to(&self, first: ResourceId, second: ResourceId) -> bool {
        if self.is_parent(first, second) {
            return true;
        }
        let next = |at: ResourceId, add: &mut dyn FnMut(ResourceId)| self.graph.children(at).for_each(add);
        self.is_reached(&self.descendants, first, second, &next)
    }

    /// Returns true if `second` comes after `first`. Fast if it is asked of the same `second` again.
    pub(super) fn follows(&self, second: ResourceId, first: ResourceId) -> bool {
        if self.is_parent(first, second) {
            return true;
        }
        let next = |at: ResourceId, add: &mut dyn FnMut(ResourceId)| self.parents(at).for_each(add);
        self.is_reached(&self.ancestors, second, first, &next)
    }

    fn parents(&self, vertex: ResourceId) -> impl Iterator<Item = ResourceId> {
        self.graph.incoming(vertex).iter().map(|id| self.graph.edge(*id).from)
    }

    fn is_parent(&self, first: ResourceId, second: ResourceId) -> bool {
        self.parents(second).take(MAX_DIRECT_PARENTS).any(|parent| parent == first)
    }

    fn is_reached(&self, tables: &Tables, from: ResourceId, to: ResourceId, next: &Neighbours<'_>) -> bool {
        let known = tables.lock().unwrap_or_else(PoisonError::into_inner).get(&from).cloned();
        let table = known.unwrap_or_else(|| {
            let table: Arc<[u64]> = reached(from, self.graph.slots(), next).into();
            let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
            // The other tables are kept. Questions about more resources than fit would make all tables again.
            while (tables.len() + 1) * table.len() > self.max_words
                && let Some(evicted) = tables.keys().next().copied()
            {
                tables.remove(&evicted);
            }
            tables.insert(from, Arc::clone(&table));
            table
        });
        let (word, bit) = place(to);
        table.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

/// Passes each neighbour of a vertex in one direction to the second argument.
type Neighbours<'a> = dyn Fn(ResourceId, &mut dyn FnMut(ResourceId)) + 'a;

/// Word and bit of a vertex in a table.
fn place(vertex: ResourceId) -> (usize, u64) {
    let at = vertex.slot();
    (at / 64, 1 << (at % 64))
}

/// The vertices that can be reached from a vertex.
fn reached(from: ResourceId, count: usize, next: &Neighbours<'_>) -> Vec<u64> {
    let mut seen = vec![0_u64; count.div_ceil(64)];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        next(at, &mut |vertex| {
            let (word, bit) = place(vertex);
            if seen[word] & bit == 0 {
                seen[word] |= bit;
                open.push(vertex);
            }
        });
    }
    seen
}

#[cfg(test)]
mod tests {
    use kilter_engine::{Edge, Origin, Reason};

    use super::*;

    #[test]
    fn order_of_more_resources_than_fit_keeps_other_tables() {
        let edge = |from| Edge {
            from: ResourceId::first(from),
            to: ResourceId::first(from + 1),
            notify: false,
            origin: Origin::Automatic(Reason::Owner),
        };
        let graph = Graph::new(6, (0..5).map(edge).collect()).unwrap();
        let order = Order { max_words: 3, ..Order::new(Arc::new(graph)) };
        for first in 0..4 {
            assert!(order.leads_to(ResourceId::first(first), ResourceId::first(5)));
            assert!(!order.leads_to(ResourceId::first(5), ResourceId::first(first)));
        }
        assert_eq!(order.descendants.lock().unwrap().len(), 3);
    }
}
