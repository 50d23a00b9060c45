//! Cycle detection: groups of vertices that wait for each other, and a shortest cycle in each.

use std::collections::VecDeque;

use crate::graph::{Edge, Graph};
use crate::resource_id::ResourceId;

/// A shortest cycle through a strongly connected component. Each edge ends at the vertex where the next edge
/// starts. The last edge ends at the start of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The edges in order. The first edge starts at the vertex that was declared first.
    pub edges: Vec<Edge>,
}

/// Maximum number of edges visited while searching a component for a *shortest* cycle. After that, the search
/// returns the shortest cycle found so far.
const MAX_STEPS: usize = 20_000_000;

/// Returns a shortest cycle for each strongly connected component that has a cycle.
pub(crate) fn cycles(graph: &Graph) -> Vec<Cycle> {
    nontrivial_components(graph).iter().map(|knot| shortest(graph, knot)).collect()
}

/// Returns the strongly connected components that have a cycle, each in manifest order.
pub(crate) fn nontrivial_components(graph: &Graph) -> Vec<Vec<ResourceId>> {
    let left = unordered(graph);
    if left.is_empty() { Vec::new() } else { components(graph, &left) }
}

/// Returns the vertices that a topological sort cannot reach: the vertices on a cycle, and their descendants.
fn unordered(graph: &Graph) -> Vec<ResourceId> {
    let mut waiting: Vec<u32> = graph.vertices().map(|v| graph.parent_count(v)).collect();
    let mut ready: Vec<ResourceId> = graph.vertices().filter(|v| waiting[v.slot()] == 0).collect();
    while let Some(vertex) = ready.pop() {
        for child in graph.children(vertex) {
            waiting[child.slot()] -= 1;
            if waiting[child.slot()] == 0 {
                ready.push(child);
            }
        }
    }
    graph.vertices().filter(|v| waiting[v.slot()] > 0).collect()
}

/// Returns the strongly connected components with a cycle among `vertices`, in manifest order. Uses Tarjan's
/// algorithm with an explicit stack, because chains may be long.
fn components(graph: &Graph, vertices: &[ResourceId]) -> Vec<Vec<ResourceId>> {
    const NEW: u32 = u32::MAX;
    let mut index = vec![NEW; graph.len()];
    let mut low = vec![0u32; graph.len()];
    let mut open = vec![false; graph.len()];
    let mut stack = Vec::new();
    let mut next = 0;
    let mut found = Vec::new();
    for &root in vertices {
        if index[root.slot()] != NEW {
            continue;
        }
        let mut path = vec![(root, graph.outgoing(root))];
        while let Some((vertex, edges)) = path.last_mut() {
            let vertex = *vertex;
            if index[vertex.slot()] == NEW {
                index[vertex.slot()] = next;
                low[vertex.slot()] = next;
                next += 1;
                open[vertex.slot()] = true;
                stack.push(vertex);
            }
            if let Some(edge) = edges.next() {
                let child = graph.edge(edge).to;
                if index[child.slot()] == NEW {
                    path.push((child, graph.outgoing(child)));
                } else if open[child.slot()] {
                    low[vertex.slot()] = low[vertex.slot()].min(index[child.slot()]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[parent.slot()] = low[parent.slot()].min(low[vertex.slot()]);
            }
            if low[vertex.slot()] == index[vertex.slot()] {
                let start = stack.iter().rposition(|v| *v == vertex).expect("a vertex is on the stack until here");
                let mut knot = stack.split_off(start);
                knot.iter().for_each(|v| open[v.slot()] = false);
                if knot.len() > 1 || graph.find(vertex, vertex).is_some() {
                    knot.sort_unstable();
                    found.push(knot);
                }
            }
        }
    }
    found.sort_unstable_by_key(|knot| knot[0]);
    found
}

/// Returns a shortest cycle within a component.
fn shortest(graph: &Graph, knot: &[ResourceId]) -> Cycle {
    if let Some(own) = knot.iter().find_map(|v| graph.find(*v, *v)) {
        return Cycle { edges: vec![*graph.edge(own)] };
    }
    let mut best: Option<Vec<Edge>> = None;
    let mut steps_left = MAX_STEPS;
    let mut came_by = vec![None; graph.len()];
    for &start in knot {
        let limit = best.as_ref().map_or(usize::MAX, Vec::len);
        if let Some(edges) = around(graph, knot, start, limit, &mut came_by, &mut steps_left) {
            best = Some(edges);
        }
        if best.as_ref().is_some_and(|edges| edges.len() <= 2 || steps_left == 0) {
            break;
        }
    }
    let mut edges = best.expect("a strongly connected component has a cycle");
    let first = edges.iter().enumerate().min_by_key(|(_, edge)| edge.from).map_or(0, |(at, _)| at);
    edges.rotate_left(first);
    Cycle { edges }
}

/// Returns a shortest path from `start` back to `start` if it has fewer than `limit` edges.
fn around(
    graph: &Graph,
    knot: &[ResourceId],
    start: ResourceId,
    limit: usize,
    came_by: &mut [Option<Edge>],
    steps_left: &mut usize,
) -> Option<Vec<Edge>> {
    knot.iter().for_each(|v| came_by[v.slot()] = None);
    *steps_left = steps_left.saturating_sub(knot.len());
    let mut queue = VecDeque::from([(start, 0usize)]);
    while let Some((vertex, length)) = queue.pop_front() {
        if length + 1 >= limit {
            return None;
        }
        for id in graph.outgoing(vertex) {
            *steps_left = steps_left.saturating_sub(1);
            let edge = *graph.edge(id);
            if edge.to == start {
                return Some(path(edge, start, came_by));
            }
            if came_by[edge.to.slot()].is_none() && knot.binary_search(&edge.to).is_ok() {
                came_by[edge.to.slot()] = Some(edge);
                queue.push_back((edge.to, length + 1));
            }
        }
    }
    None
}

fn path(last: Edge, start: ResourceId, came_by: &[Option<Edge>]) -> Vec<Edge> {
    let mut edges = vec![last];
    let mut at = last.from;
    while at != start {
        let edge = came_by[at.slot()].expect("every vertex on the way was reached by an edge");
        edges.push(edge);
        at = edge.from;
    }
    edges.reverse();
    edges
}

#[cfg(test)]
mod tests {
    use kilter_model::RelationKind::Before;

    use super::*;
    use crate::graph::tests::written;

    fn refused(count: u32, pairs: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let edges = pairs.iter().map(|&(a, b)| written(a, b, Before)).collect();
        let cycles = Graph::new(count, edges).unwrap_err();
        cycles.iter().map(|cycle| cycle.edges.iter().map(|edge| edge.from.slot() as u32).collect()).collect()
    }

    #[test]
    fn the_shortest_cycle_is_shown() {
        assert_eq!(refused(5, &[(0, 1), (1, 2), (2, 3), (3, 0), (2, 1), (3, 4)]), [[1, 2]]);
    }

    #[test]
    fn every_knot_is_shown_once() {
        assert_eq!(refused(6, &[(0, 1), (1, 0), (1, 2), (3, 4), (4, 5), (5, 3)]), [vec![0, 1], vec![3, 4, 5]]);
    }

    #[test]
    fn a_vertex_before_itself_is_a_cycle() {
        assert_eq!(refused(1, &[(0, 0)]), [[0]]);
    }

    #[test]
    fn a_vertex_before_itself_is_shorter_than_any_other_cycle() {
        assert_eq!(refused(2, &[(0, 1), (1, 0), (1, 1)]), [[1]]);
    }

    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let mut pairs: Vec<(u32, u32)> = (0..200_000).map(|v| (v, v + 1)).collect();
        pairs.push((200_000, 0));
        assert_eq!(refused(200_001, &pairs)[0].len(), 200_001);
    }
}
