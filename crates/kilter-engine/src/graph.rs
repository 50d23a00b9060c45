//! The graph: vertices in manifest order, and edges with their origins.

use kilter_model::{RelationKind, Span};

use crate::cycle::{self, Cycle};
use crate::weak_edges;

/// A vertex: the index of its resource in manifest order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VertexId(pub u32);

/// An edge: its index in [`Graph::edges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeId(pub u32);

impl VertexId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    pub(crate) fn at(self) -> usize {
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
    /// The first owns the path of the second, or a path that the second uses. Example: a package. Ownership
    /// comes from the machine and not from the manifest. So this edge is weak: the graph drops it if it would
    /// close a cycle.
    Owner,
    /// The provider of the second is not suitable yet, and the first is a package that may install what it
    /// requires. This edge is weak: the graph drops it if it would close a cycle.
    Suitability,
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
            Origin::Automatic(Reason::Number | Reason::Owner | Reason::Suitability) => 3,
        }
    }
}

/// An ordering constraint: `first` must be in its state before `second` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The vertex that comes first.
    pub from: VertexId,
    /// The vertex that comes second.
    pub to: VertexId,
    /// True if a change of the first refreshes the second.
    pub notify: bool,
    /// Origin of the edge.
    pub origin: Origin,
}

/// An acyclic graph.
#[derive(Clone, Debug)]
pub struct Graph {
    count: u32,
    /// Sorted by `(from, to)`, unique per pair.
    edges: Vec<Edge>,
    /// `edges[out[v]..out[v + 1]]` leave `v`.
    out: Vec<u32>,
    /// `incoming[into[v]..into[v + 1]]` are the indexes of the edges that enter `v`.
    into: Vec<u32>,
    incoming: Vec<EdgeId>,
}

impl Graph {
    /// Returns a graph of `count` vertices.
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
        let graph = Graph::indexed(count, merged(sorted(count, &edges)));
        let graph = match weak_edges::yielded(&graph) {
            Some(edges) => Graph::indexed(count, edges),
            None => graph,
        };
        match cycle::cycles(&graph) {
            cycles if cycles.is_empty() => Ok(graph),
            cycles => Err(cycles),
        }
    }

    fn indexed(count: u32, edges: Vec<Edge>) -> Graph {
        let slots = count as usize + 1;
        let mut out = vec![0u32; slots];
        let mut into = vec![0u32; slots];
        for edge in &edges {
            out[edge.from.index() + 1] += 1;
            into[edge.to.index() + 1] += 1;
        }
        for v in 1..slots {
            out[v] += out[v - 1];
            into[v] += into[v - 1];
        }
        let mut incoming = vec![EdgeId(0); edges.len()];
        let mut next = into.clone();
        for (id, edge) in edges.iter().enumerate() {
            let slot = &mut next[edge.to.index()];
            incoming[*slot as usize] = EdgeId(id as u32);
            *slot += 1;
        }
        Graph { count, edges, out, into, incoming }
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if the graph has no vertices.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all vertices in manifest order.
    pub fn vertices(&self) -> impl Iterator<Item = VertexId> + use<> {
        (0..self.count).map(VertexId)
    }

    /// Returns all edges, sorted by `first` and `second`.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns an edge by its id.
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.at()]
    }

    /// Returns the edge from `first` to `second`.
    pub fn find(&self, first: VertexId, second: VertexId) -> Option<EdgeId> {
        let start = self.out[first.index()];
        let edges = &self.edges[start as usize..self.out[first.index() + 1] as usize];
        let at = edges.binary_search_by_key(&second, |edge| edge.to).ok()?;
        Some(EdgeId(start + at as u32))
    }

    /// Returns the edges that leave a vertex.
    pub fn outgoing(&self, vertex: VertexId) -> impl Iterator<Item = EdgeId> + use<> {
        (self.out[vertex.index()]..self.out[vertex.index() + 1]).map(EdgeId)
    }

    /// Returns the edges that enter a vertex.
    pub fn incoming(&self, vertex: VertexId) -> &[EdgeId] {
        &self.incoming[self.into[vertex.index()] as usize..self.into[vertex.index() + 1] as usize]
    }

    /// Returns the direct successors of a vertex.
    pub fn children(&self, vertex: VertexId) -> impl Iterator<Item = VertexId> + '_ {
        self.outgoing(vertex).map(|id| self.edge(id).to)
    }

    /// Number of direct predecessors of a vertex.
    pub fn parent_count(&self, vertex: VertexId) -> u32 {
        self.into[vertex.index() + 1] - self.into[vertex.index()]
    }
}

/// Returns the edges sorted by their two vertices, with the lowest origin rank first. A counting sort puts the
/// edges into one bucket per vertex, then each bucket is sorted. The time grows linearly with the number of
/// edges.
fn sorted(count: u32, edges: &[Edge]) -> Vec<Edge> {
    let mut next = vec![0u32; count as usize + 1];
    edges.iter().for_each(|edge| next[edge.from.index() + 1] += 1);
    for v in 1..next.len() {
        next[v] += next[v - 1];
    }
    let mut sorted = edges.to_vec();
    for edge in edges {
        let slot = &mut next[edge.from.index()];
        sorted[*slot as usize] = *edge;
        *slot += 1;
    }
    for drawer in sorted.chunk_by_mut(|a, b| a.from == b.from) {
        drawer.sort_by_key(|edge| (edge.to, edge.origin.rank(), !edge.notify));
    }
    sorted
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
        Edge { from: VertexId(first), to: VertexId(second), notify: kind.refreshes(), origin }
    }

    fn automatic(first: u32, second: u32) -> Edge {
        let origin = Origin::Automatic(Reason::Directory);
        Edge { from: VertexId(first), to: VertexId(second), notify: false, origin }
    }

    #[test]
    fn an_automatic_edge_does_not_take_the_notification_away() {
        let graph = Graph::new(2, vec![automatic(0, 1), written(0, 1, RelationKind::Notify)]).unwrap();
        assert_eq!(graph.edges().len(), 1);
        assert!(graph.edges()[0].notify);
        assert!(matches!(graph.edges()[0].origin, Origin::Written { .. }));
    }

    #[test]
    fn of_several_words_the_one_that_notifies_counts() {
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
    fn what_was_written_wins_over_an_automatic_edge_against_it() {
        let graph = Graph::new(2, vec![automatic(0, 1), written(1, 0, RelationKind::Before)]).unwrap();
        assert_eq!(graph.edges().len(), 1);
        assert_eq!(graph.edges()[0].from, VertexId(1));
    }

    #[test]
    fn edges_are_found_from_both_ends() {
        let edges = vec![written(0, 2, RelationKind::Before), written(1, 2, RelationKind::Before)];
        let graph = Graph::new(3, edges).unwrap();
        assert_eq!(graph.parent_count(VertexId(2)), 2);
        assert_eq!(graph.children(VertexId(1)).collect::<Vec<_>>(), [VertexId(2)]);
        assert!(graph.find(VertexId(0), VertexId(2)).is_some());
        assert!(graph.find(VertexId(2), VertexId(0)).is_none());
    }
}
