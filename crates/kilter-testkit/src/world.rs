//! A random graph with random vertices: the input of a simulation.

use fastrand::Rng;
use kilter_engine::{Edge, Graph, Group, Origin, Reason, ResourceId, Vertex};
use kilter_model::{RelationKind, SourceId, Span};

use crate::graph_gen;

/// A graph and its vertices.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedGraph {
    pub(crate) graph: Graph,
    pub(crate) vertices: Vec<Vertex>,
}

/// Returns a random probability for a world, in percent: zero, low or high.
pub(crate) fn temper(rng: &mut Rng) -> u32 {
    [0, 0, 5, 20, 50][rng.usize(..5)]
}

/// Returns true with this probability in percent.
pub(crate) fn chance(rng: &mut Rng, percent: u32) -> bool {
    percent > 0 && rng.u32(..100) < percent
}

impl GeneratedGraph {
    /// Creates a random world: mostly small, sometimes with 500 vertices.
    pub(crate) fn random(rng: &mut Rng) -> GeneratedGraph {
        let count = match rng.u32(..400) {
            0 => 500,
            1..20 => rng.u32(..61),
            20..220 => rng.u32(..21),
            _ => rng.u32(2..9),
        };
        let notifying = [10, 30, 60, 100][rng.usize(..4)];
        let edges = graph_gen::edges(rng, count).into_iter().map(|pair| edge(rng, pair, notifying)).collect();
        let graph = Graph::new(count, edges).expect("the shapes have no cycles");
        GeneratedGraph { graph, vertices: vertices(rng, count) }
    }

    /// Returns the same world with noop vertices only.
    pub(crate) fn noop(&self) -> GeneratedGraph {
        let vertices = self.vertices.iter().map(|vertex| Vertex { noop: true, ..*vertex }).collect();
        GeneratedGraph { graph: self.graph.clone(), vertices }
    }

    /// Returns the same world without batches.
    pub(crate) fn singly(&self) -> GeneratedGraph {
        let vertices = self.vertices.iter().map(|vertex| Vertex { single: true, ..*vertex }).collect();
        GeneratedGraph { graph: self.graph.clone(), vertices }
    }

    /// Returns the configuration of a vertex.
    pub(crate) fn vertex(&self, vertex: ResourceId) -> &Vertex {
        &self.vertices[vertex.slot()]
    }

    /// Returns the direct parents of a vertex.
    pub(crate) fn parents(&self, vertex: ResourceId) -> impl Iterator<Item = ResourceId> + '_ {
        self.graph.incoming(vertex).iter().map(|edge| self.graph.edge(*edge).from)
    }

    /// Returns the edges that carry refreshes to a vertex.
    pub(crate) fn notifying(&self, vertex: ResourceId) -> impl Iterator<Item = &Edge> + '_ {
        let edges = self.graph.incoming(vertex).iter().map(|edge| self.graph.edge(*edge));
        edges.filter(|edge| edge.notify)
    }

    /// Returns the edges that carry refreshes from a vertex to vertices that handle them.
    pub(crate) fn refreshing(&self, vertex: ResourceId) -> impl Iterator<Item = &Edge> + '_ {
        let edges = self.graph.outgoing(vertex).map(|edge| self.graph.edge(edge));
        edges.filter(|edge| edge.notify && self.vertex(edge.to).refreshable)
    }
}

fn edge(rng: &mut Rng, (first, second): (u32, u32), notifying: u32) -> Edge {
    let kind = if chance(rng, notifying) { RelationKind::Notify } else { RelationKind::Before };
    let origin = match kind {
        RelationKind::Before if rng.bool() => Origin::Automatic(Reason::Name),
        _ => Origin::Written { kind, span: Span::new(SourceId(0), first, second) },
    };
    Edge { from: ResourceId::first(first), to: ResourceId::first(second), notify: kind.refreshes(), origin }
}

fn vertices(rng: &mut Rng, count: u32) -> Vec<Vertex> {
    let groups = rng.u16(1..6);
    let single = rng.u16(..);
    let (noop, retrying) = (temper(rng), temper(rng));
    let refreshable = [30, 70, 100][rng.usize(..3)];
    let mut vertex = || {
        let group = rng.u16(..groups);
        let retry = if chance(rng, retrying) { rng.i32(-1..4) } else { 0 };
        Vertex {
            group: Group { provider: group, ..Group::default() },
            single: single & (1 << group) != 0,
            noop: chance(rng, noop),
            refreshable: chance(rng, refreshable),
            retry,
            delay: rng.u64(..5) * 100,
            independent: false,
        }
    };
    (0..count).map(|_| vertex()).collect()
}
