//! The graph: vertices in manifest order, and edges with their origins.

use kilter_model::{RelationKind, Span};

use crate::cycle::{self, Cycle};
use crate::resource_id::ResourceId;
use crate::weak_edges;

/// An edge: its index in [`Graph::edges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeId(pub u32);

impl EdgeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why an automatic edge exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The first is the nearest managed parent directory of the second.
    Directory,
    /// The second refers to the first by name. Example: a file and its owner.
    Name,
    /// The second refers to the first by a number that is also valid without it. Example: a file and the uid of
    /// its owner. This edge is weak: the graph drops it if it would close a cycle.
    Number,
    /// The second lists the first, which usually exists without the manifest. Example: a group and its members. This
    /// edge is weak: the graph drops it if it would close a cycle.
    Member,
    /// The first owns the path of the second, or a path that the second uses. Example: a package. Ownership
    /// comes from the machine and not from the manifest. So this edge is weak: the graph drops it if it would
    /// close a cycle.
    Owner,
    /// The provider of the second is not suitable yet, and the first is a package that may install what it
    /// requires. This edge is weak: the graph drops it if it would close a cycle.
    Suitability,
    /// The second needs all resources of the type of the first. Example: a package and the repositories. This edge is
    /// weak: the graph drops it if it would close a cycle.
    Type,
}

/// Origin of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A manifest contains the relation.
    Written {
        /// Keyword of the relation.
        kind: RelationKind,
        /// Location in the manifest.
        span: Span,
    },
    /// The edge carries a value: an attribute of the second is an output of the first.
    Output {
        /// Location of the expression that uses the value.
        span: Span,
    },
    /// The edge follows from the two resources.
    Automatic(Reason),
}

impl Origin {
    /// Returns the sort rank of an origin. Of two origins of an edge, the graph keeps the one with the lower
    /// rank.
    fn rank(self) -> u8 {
        match self {
            Origin::Written { .. } => 0,
            Origin::Output { .. } => 1,
            Origin::Automatic(Reason::Directory | Reason::Name) => 2,
            Origin::Automatic(Reason::Number | Reason::Member | Reason::Owner | Reason::Suitability | Reason::Type) => {
                3
            }
        }
    }
}

/// An ordering constraint: `first` must be in its state before `second` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The vertex that comes first.
    pub from: ResourceId,
    /// The vertex that comes second.
    pub to: ResourceId,
    /// True if a change of the first refreshes the second.
    pub notify: bool,
    /// Origin of the edge.
    pub origin: Origin,
}

/// An acyclic graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Vertices in manifest order.
    order: Vec<ResourceId>,
    /// Index in `order` of the vertex in each slot; [`VACANT`] for a slot without a vertex.
    places: Vec<u32>,
    /// Sorted by `(from, to)`, unique per pair.
    edges: Vec<Edge>,
    /// `edges[out[v]..out[v + 1]]` leave the vertex in slot `v`.
    out: Vec<u32>,
    /// `incoming[into[v]..into[v + 1]]` are the indexes of the edges that enter the vertex in slot `v`, in manifest
    /// order of the vertices that they leave.
    into: Vec<u32>,
    incoming: Vec<EdgeId>,
}

/// Place of a slot without a vertex.
const VACANT: u32 = u32::MAX;

impl Graph {
    /// Returns a graph of `count` vertices, which have the first id of each slot.
    ///
    /// The graph merges several edges between the same two vertices. The merged edge notifies if any of them
    /// notifies. A written origin wins over the others. Among written origins, a notifying relation wins. An
    /// automatic edge is dropped if a written edge connects the same pair in the other direction. A weak edge,
    /// such as by a [number](Reason::Number) or of an [owner](Reason::Owner), is dropped if it would close a
    /// cycle.
    ///
    /// # Errors
    /// One shortest cycle for each strongly connected component that has a cycle.
    pub fn new(count: u32, edges: Vec<Edge>) -> Result<Graph, Vec<Cycle>> {
        let order = || (0..count).map(ResourceId::first).collect();
        let graph = Graph::indexed(order(), merged(sorted(count as usize, &edges)));
        let graph = match weak_edges::yielded(&graph) {
            Some(edges) => Graph::indexed(order(), edges),
            None => graph,
        };
        match cycle::cycles(&graph) {
            cycles if cycles.is_empty() => Ok(graph),
            cycles => Err(cycles),
        }
    }

    /// Returns the same graph with other ids, in the order of the vertices.
    #[must_use]
    pub fn with_ids(&self, ids: Vec<ResourceId>) -> Graph {
        let id = |vertex: ResourceId| ids[self.place(vertex)];
        let edges: Vec<Edge> =
            self.edges.iter().map(|edge| Edge { from: id(edge.from), to: id(edge.to), ..*edge }).collect();
        let edges = sorted(slots(&ids), &edges);
        Graph::indexed(ids, edges)
    }

    fn indexed(order: Vec<ResourceId>, edges: Vec<Edge>) -> Graph {
        let mut places = vec![VACANT; slots(&order)];
        for (place, vertex) in (0..).zip(&order) {
            places[vertex.slot()] = place;
        }
        let slots = places.len() + 1;
        let mut out = vec![0u32; slots];
        let mut into = vec![0u32; slots];
        for edge in &edges {
            out[edge.from.slot() + 1] += 1;
            into[edge.to.slot() + 1] += 1;
        }
        for v in 1..slots {
            out[v] += out[v - 1];
            into[v] += into[v - 1];
        }
        let mut incoming = vec![EdgeId(0); edges.len()];
        let mut next = into.clone();
        for from in &order {
            for id in out[from.slot()]..out[from.slot() + 1] {
                let slot = &mut next[edges[id as usize].to.slot()];
                incoming[*slot as usize] = EdgeId(id);
                *slot += 1;
            }
        }
        Graph { order, places, edges, out, into, incoming }
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if the graph has no vertices.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Length of a table with an entry for each slot.
    pub fn slots(&self) -> usize {
        self.places.len()
    }

    /// Returns all vertices in manifest order.
    pub fn vertices(&self) -> impl Iterator<Item = ResourceId> + '_ {
        self.order.iter().copied()
    }

    /// Returns all vertices in manifest order.
    pub fn order(&self) -> &[ResourceId] {
        &self.order
    }

    /// Returns the index of a vertex in manifest order.
    pub fn place(&self, vertex: ResourceId) -> usize {
        self.check_is_current(vertex);
        self.places[vertex.slot()] as usize
    }

    /// Asserts in debug builds that an id is not of another graph. Its slot may have another vertex.
    fn check_is_current(&self, vertex: ResourceId) {
        debug_assert!(self.contains(vertex), "{vertex:?} is the id of a vertex that an edit has removed or changed");
    }

    /// Returns true if a vertex is part of the graph.
    pub fn contains(&self, vertex: ResourceId) -> bool {
        self.places.get(vertex.slot()).is_some_and(|place| self.order.get(*place as usize) == Some(&vertex))
    }

    /// Returns all edges, sorted by `first` and `second`.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns an edge by its id.
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.index()]
    }

    /// Returns the edge from `first` to `second`.
    pub fn find(&self, first: ResourceId, second: ResourceId) -> Option<EdgeId> {
        if !self.contains(first) {
            return None;
        }
        let start = self.out[first.slot()];
        let edges = &self.edges[start as usize..self.out[first.slot() + 1] as usize];
        let at = edges.binary_search_by_key(&second, |edge| edge.to).ok()?;
        Some(EdgeId(start + at as u32))
    }

    /// Returns the edges that leave a vertex.
    pub fn outgoing(&self, vertex: ResourceId) -> impl Iterator<Item = EdgeId> + use<> {
        self.check_is_current(vertex);
        (self.out[vertex.slot()]..self.out[vertex.slot() + 1]).map(EdgeId)
    }

    /// Returns the edges that enter a vertex, in manifest order of the vertices that they leave.
    pub fn incoming(&self, vertex: ResourceId) -> &[EdgeId] {
        self.check_is_current(vertex);
        &self.incoming[self.into[vertex.slot()] as usize..self.into[vertex.slot() + 1] as usize]
    }

    /// Returns the direct successors of a vertex.
    pub fn children(&self, vertex: ResourceId) -> impl Iterator<Item = ResourceId> + '_ {
        self.outgoing(vertex).map(|id| self.edge(id).to)
    }

    /// Number of direct predecessors of a vertex.
    pub fn parent_count(&self, vertex: ResourceId) -> u32 {
        self.check_is_current(vertex);
        self.into[vertex.slot() + 1] - self.into[vertex.slot()]
    }
}

/// Returns the edges sorted by their two vertices, with the lowest origin rank first. A counting sort puts the
/// edges into one bucket per vertex, then each bucket is sorted. The time grows linearly with the number of
/// edges.
fn sorted(slots: usize, edges: &[Edge]) -> Vec<Edge> {
    let mut next = vec![0u32; slots + 1];
    edges.iter().for_each(|edge| next[edge.from.slot() + 1] += 1);
    for v in 1..next.len() {
        next[v] += next[v - 1];
    }
    let mut sorted = edges.to_vec();
    for edge in edges {
        let slot = &mut next[edge.from.slot()];
        sorted[*slot as usize] = *edge;
        *slot += 1;
    }
    for drawer in sorted.chunk_by_mut(|a, b| a.from == b.from) {
        drawer.sort_by_key(|edge| (edge.to, edge.origin.rank(), !edge.notify));
    }
    sorted
}

/// Length of a table with an entry for the slot of each id.
fn slots(ids: &[ResourceId]) -> usize {
    ids.iter().map(|id| id.slot() + 1).max().unwrap_or_default()
}

/// Merges sorted edges, so that each pair of vertices has a single edge.
fn merged(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.dedup_by(|later, kept| {
        let same = (later.from, later.to) == (kept.from, kept.to);
        if same {
            kept.notify |= later.notify;
        }
        same
    });
    let against = |edge: &Edge, all: &[Edge]| {
        let reverse = all.binary_search_by_key(&(edge.to, edge.from), |e| (e.from, e.to));
        reverse.is_ok_and(|at| all[at].origin.rank() < edge.origin.rank())
    };
    if edges.iter().any(|edge| matches!(edge.origin, Origin::Automatic(_)) && against(edge, &edges)) {
        let all = edges.clone();
        edges.retain(|edge| !(matches!(edge.origin, Origin::Automatic(_)) && against(edge, &all)));
    }
    edges
}

#[cfg(test)]
pub(crate) mod tests {
    use kilter_model::SourceId;

    use super::*;

    pub(crate) fn written(first: u32, second: u32, kind: RelationKind) -> Edge {
        let origin = Origin::Written { kind, span: Span::new(SourceId(0), first, second) };
        Edge { from: ResourceId::first(first), to: ResourceId::first(second), notify: kind.refreshes(), origin }
    }

    fn automatic(first: u32, second: u32) -> Edge {
        let origin = Origin::Automatic(Reason::Directory);
        Edge { from: ResourceId::first(first), to: ResourceId::first(second), notify: false, origin }
    }

    #[test]
    fn an_automatic_edge_does_not_take_the_notification_away() {
        let graph = Graph::new(2, vec![automatic(0, 1), written(0, 1, RelationKind::Notify)]).unwrap();
        assert_eq!(graph.edges().len(), 1);
        assert!(graph.edges()[0].notify);
        assert!(matches!(graph.edges()[0].origin, Origin::Written { .. }));
    }

    #[test]
    fn notify_relation_wins_over_other_relations() {
        let (require, subscribe) = (written(0, 1, RelationKind::Require), written(0, 1, RelationKind::Subscribe));
        for edges in [vec![require, subscribe], vec![subscribe, require]] {
            let graph = Graph::new(2, edges).unwrap();
            let [edge] = graph.edges() else { panic!("{graph:?}") };
            assert!(
                edge.notify && matches!(edge.origin, Origin::Written { kind: RelationKind::Subscribe, .. }),
                "{edge:?}"
            );
        }
    }

    #[test]
    fn declared_edge_overrides_opposite_automatic_edge() {
        let graph = Graph::new(2, vec![automatic(0, 1), written(1, 0, RelationKind::Before)]).unwrap();
        assert_eq!(graph.edges().len(), 1);
        assert_eq!(graph.edges()[0].from, ResourceId::first(1));
    }

    #[test]
    fn edges_are_found_from_both_ends() {
        let edges = vec![written(0, 2, RelationKind::Before), written(1, 2, RelationKind::Before)];
        let graph = Graph::new(3, edges).unwrap();
        assert_eq!(graph.parent_count(ResourceId::first(2)), 2);
        assert_eq!(graph.children(ResourceId::first(1)).collect::<Vec<_>>(), [ResourceId::first(2)]);
        assert!(graph.find(ResourceId::first(0), ResourceId::first(2)).is_some());
        assert!(graph.find(ResourceId::first(2), ResourceId::first(0)).is_none());
    }
}
