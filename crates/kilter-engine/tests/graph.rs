//! The graph against petgraph, and against trying everything.

use std::collections::{BTreeMap, BTreeSet};

use kilter_engine::{Cycle, Edge, Graph, Origin, Reason, ResourceId};
#[cfg(debug_assertions)]
use kilter_engine::{HoldConfig, Machine, Timestamp, Vertex};
use kilter_model::{RelationKind, SourceId, Span};
use petgraph::algo::{is_cyclic_directed, tarjan_scc};
use petgraph::graph::DiGraph;
use proptest::prelude::*;

/// Origin of an edge, for short.
#[derive(Clone, Copy, Debug)]
enum EdgeKind {
    Before,
    Notify,
    Output,
    Directory,
    Name,
}

type Pair = (u32, u32, EdgeKind);

fn edge((first, second, from): Pair) -> Edge {
    let span = Span::new(SourceId(0), first, second);
    let origin = match from {
        EdgeKind::Before => Origin::Written { kind: RelationKind::Before, span },
        EdgeKind::Notify => Origin::Written { kind: RelationKind::Notify, span },
        EdgeKind::Output => Origin::Output { span },
        EdgeKind::Directory => Origin::Automatic(Reason::Directory),
        EdgeKind::Name => Origin::Automatic(Reason::Name),
    };
    Edge {
        from: ResourceId::first(first),
        to: ResourceId::first(second),
        notify: matches!(from, EdgeKind::Notify),
        origin,
    }
}

fn edges(pairs: &[Pair]) -> Vec<Edge> {
    pairs.iter().copied().map(edge).collect()
}

/// A graph of up to `most` vertices, mostly sparse.
fn graphs(most: u32, density: usize) -> impl Strategy<Value = (u32, Vec<Pair>)> {
    use EdgeKind::{Before, Directory, Name, Notify, Output};
    let from = prop_oneof![Just(Before), Just(Notify), Just(Output), Just(Directory), Just(Name)];
    (1..=most).prop_flat_map(move |count| {
        let pairs = prop::collection::vec((0..count, 0..count, from.clone()), 0..=count as usize * density);
        (Just(count), pairs)
    })
}

/// Returns the expected edges: one for each pair, which notifies if any of its edges does. An automatic edge against a
/// written one is dropped.
fn by_the_rules(pairs: &[Pair]) -> BTreeMap<(u32, u32), bool> {
    let automatic = |from: EdgeKind| matches!(from, EdgeKind::Directory | EdgeKind::Name);
    let between = |first: u32, second: u32| pairs.iter().filter(move |pair| (pair.0, pair.1) == (first, second));
    let meant = |first, second| between(first, second).any(|pair| !automatic(pair.2));
    let kept = pairs.iter().filter(|(a, b, _)| meant(*a, *b) || !meant(*b, *a));
    kept.map(|(a, b, _)| ((*a, *b), between(*a, *b).any(|pair| matches!(pair.2, EdgeKind::Notify)))).collect()
}

fn oracle(count: u32, pairs: impl IntoIterator<Item = (u32, u32)>) -> DiGraph<(), ()> {
    let mut graph = DiGraph::new();
    let nodes: Vec<_> = (0..count).map(|_| graph.add_node(())).collect();
    for (first, second) in pairs {
        graph.add_edge(nodes[first as usize], nodes[second as usize], ());
    }
    graph
}

/// The length of the shortest cycle through each vertex, by trying every path.
fn shortest_around(start: u32, pairs: &BTreeSet<(u32, u32)>) -> Option<usize> {
    fn walk(at: u32, start: u32, pairs: &BTreeSet<(u32, u32)>, path: &mut Vec<u32>) -> Option<usize> {
        let mut best: Option<usize> = None;
        for &(_, second) in pairs.iter().filter(|(first, _)| *first == at) {
            let length = if second == start {
                Some(path.len())
            } else if path.contains(&second) {
                None
            } else {
                path.push(second);
                let length = walk(second, start, pairs, path);
                path.pop();
                length
            };
            best = best.into_iter().chain(length).min();
        }
        best
    }
    walk(start, start, pairs, &mut vec![start])
}

fn is_a_cycle_of(cycle: &Cycle, pairs: &BTreeSet<(u32, u32)>) -> Result<(), TestCaseError> {
    prop_assert!(!cycle.edges.is_empty());
    let mut seen = BTreeSet::new();
    for (at, edge) in cycle.edges.iter().enumerate() {
        let next = cycle.edges[(at + 1) % cycle.edges.len()];
        prop_assert_eq!(edge.to, next.from, "the edges follow each other");
        prop_assert!(pairs.contains(&(edge.from.slot() as u32, edge.to.slot() as u32)), "the edge exists");
        prop_assert!(seen.insert(edge.from), "no vertex comes twice");
    }
    let first = cycle.edges.iter().map(|edge| edge.from).min();
    prop_assert_eq!(first, Some(cycle.edges[0].from), "it starts at what was declared first");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_is_refused_exactly_when_petgraph_finds_a_cycle((count, pairs) in graphs(40, 2)) {
        let rules = by_the_rules(&pairs);
        let cyclic = is_cyclic_directed(&oracle(count, rules.keys().copied()));
        prop_assert_eq!(Graph::new(count, edges(&pairs)).is_err(), cyclic);
    }

    #[test]
    fn weak_edge_is_dropped_only_if_it_closes_a_cycle(
        (count, pairs) in graphs(20, 2),
        owned in prop::collection::vec((0u32..20, 0u32..20), 0..40),
    ) {
        let owned: Vec<_> = owned.into_iter().map(|(a, b)| (a % count, b % count)).collect();
        let owner = |&(first, second): &(u32, u32)| {
            let origin = Origin::Automatic(if first < second { Reason::Owner } else { Reason::Number });
            Edge { from: ResourceId::first(first), to: ResourceId::first(second), notify: false, origin }
        };
        let all: Vec<Edge> = owned.iter().map(owner).chain(edges(&pairs)).collect();
        let graph = match (Graph::new(count, all), Graph::new(count, edges(&pairs))) {
            (Err(with), Err(without)) => {
                prop_assert_eq!(with, without);
                return Ok(());
            }
            (Ok(with), Ok(without)) => {
                prop_assert!(without.edges().iter().all(|edge| with.edges().contains(edge)), "the others stay");
                with
            }
            (with, without) => panic!("{with:?} {without:?}"),
        };
        let kept: Vec<_> = graph.edges().iter().map(|edge| (edge.from.slot() as u32, edge.to.slot() as u32)).collect();
        for pair in owned.iter().filter(|pair| !kept.contains(pair)) {
            let closed = oracle(count, kept.iter().copied().chain([*pair]));
            prop_assert!(is_cyclic_directed(&closed), "{:?} would have closed nothing", pair);
        }
    }

    #[test]
    fn every_knot_has_one_cycle_and_it_is_real((count, pairs) in graphs(40, 2)) {
        let kept: BTreeSet<(u32, u32)> = by_the_rules(&pairs).into_keys().collect();
        let cycles = Graph::new(count, edges(&pairs)).err().unwrap_or_default();
        let components = tarjan_scc(&oracle(count, kept.iter().copied())).into_iter().filter(|component| {
            let first = component[0].index() as u32;
            component.len() > 1 || kept.contains(&(first, first))
        });
        let components: Vec<BTreeSet<u32>> = components.map(|component| component.iter().map(|v| v.index() as u32).collect()).collect();
        prop_assert_eq!(cycles.len(), components.len());
        for cycle in &cycles {
            is_a_cycle_of(cycle, &kept)?;
        }
        for component in &components {
            let within = |cycle: &&Cycle| cycle.edges.iter().all(|edge| component.contains(&(edge.from.slot() as u32)));
            prop_assert_eq!(cycles.iter().filter(within).count(), 1, "each component has its own cycle");
        }
    }

    #[test]
    fn no_cycle_of_a_knot_is_shorter_than_the_one_shown((count, pairs) in graphs(8, 2)) {
        let kept: BTreeSet<(u32, u32)> = by_the_rules(&pairs).into_keys().collect();
        for cycle in Graph::new(count, edges(&pairs)).err().unwrap_or_default() {
            let start = cycle.edges[0].from.slot() as u32;
            let components = tarjan_scc(&oracle(count, kept.iter().copied()));
            let component = components.iter().find(|component| component.iter().any(|v| v.index() as u32 == start)).unwrap();
            let shortest = component.iter().filter_map(|v| shortest_around(v.index() as u32, &kept)).min();
            prop_assert_eq!(Some(cycle.edges.len()), shortest);
        }
    }

    #[test]
    fn one_edge_per_pair_remains_and_declared_edges_win((count, pairs) in graphs(6, 3)) {
        let forward: Vec<Pair> = pairs.into_iter().filter(|(a, b, from)| {
            // Only automatic edges go back, so that nothing is refused but for two of those.
            a < b || (a > b && matches!(from, EdgeKind::Directory | EdgeKind::Name))
        }).collect();
        let rules = by_the_rules(&forward);
        if let Ok(graph) = Graph::new(count, edges(&forward)) {
            let kept: BTreeMap<(u32, u32), bool> =
                graph.edges().iter().map(|edge| ((edge.from.slot() as u32, edge.to.slot() as u32), edge.notify)).collect();
            prop_assert_eq!(kept.len(), graph.edges().len(), "one for each pair");
            prop_assert_eq!(&kept, &rules);
            for edge in graph.edges() {
                let same = |pair: &&Pair| (pair.0, pair.1) == (edge.from.slot() as u32, edge.to.slot() as u32);
                let written = forward.iter().filter(same).any(|pair| matches!(pair.2, EdgeKind::Before | EdgeKind::Notify));
                prop_assert_eq!(matches!(edge.origin, Origin::Written { .. }), written);
            }
        }
    }

    #[test]
    fn an_edge_is_found_from_either_end((count, pairs) in graphs(30, 2)) {
        let forward: Vec<Pair> = pairs.into_iter().filter(|(a, b, _)| a < b).collect();
        let graph = Graph::new(count, edges(&forward)).unwrap();
        let incoming: usize = graph.vertices().map(|v| graph.incoming(v).len()).sum();
        prop_assert_eq!(incoming, graph.edges().len());
        for vertex in graph.vertices() {
            prop_assert!(graph.outgoing(vertex).all(|id| graph.edge(id).from == vertex));
            prop_assert!(graph.incoming(vertex).iter().all(|id| graph.edge(*id).to == vertex));
            prop_assert_eq!(graph.parent_count(vertex) as usize, graph.incoming(vertex).len());
            for other in graph.vertices() {
                let exists = forward.iter().any(|(a, b, _)| (*a, *b) == (vertex.slot() as u32, other.slot() as u32));
                let found = graph.find(vertex, other);
                prop_assert_eq!(found.is_some(), exists);
                let right = |id| (graph.edge(id).from, graph.edge(id).to) == (vertex, other);
                prop_assert!(found.is_none_or(right));
            }
        }
    }
}

/// A vertex of a slot that an edit has given to another one.
#[cfg(debug_assertions)]
fn with_a_stale_id<T>(ask: impl Fn(&Graph, ResourceId) -> T) {
    let stale = ResourceId::first(0);
    let graph = Graph::new(1, Vec::new()).expect("nothing is in a cycle").with_ids(vec![stale.next()]);
    assert!(!graph.contains(stale) && graph.find(stale, stale).is_none());
    ask(&graph, stale.next());
    ask(&graph, stale);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is the id of a vertex that an edit has removed or changed")]
fn place_of_a_stale_id_panics() {
    with_a_stale_id(Graph::place);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is the id of a vertex that an edit has removed or changed")]
fn edges_of_a_stale_id_panic() {
    with_a_stale_id(|graph, vertex| graph.incoming(vertex).len());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is not of this graph")]
fn stage_of_a_stale_id_panics() {
    with_a_stale_id(|graph, vertex| {
        let now = Timestamp(0);
        let machine = Machine::holding(graph.clone(), vec![Vertex::default()], &[], now, HoldConfig::default());
        machine.stage(vertex)
    });
}
