//! Semaphores in one pass, and over two graphs.

use std::collections::{BTreeMap, BTreeSet};

use kilter_engine::{
    ApplyResult, Batch, ChangedVertex, CheckResult, Command, Graph, GraphDiff, HoldConfig, Input, Machine, ResourceId,
    Semaphores, Timestamp, Vertex,
};
use proptest::prelude::*;

/// Carries a pass over unconnected vertices out, one answer at a time, and returns the most that were worked on at once of each
/// semaphore.
fn most_at_once(
    counts: &[u32],
    of: &BTreeMap<ResourceId, Vec<u16>>,
    vertices: u32,
    order: &mut dyn FnMut(usize) -> usize,
) -> Vec<usize> {
    let graph = Graph::new(vertices, Vec::new()).expect("nothing is in a cycle");
    let described = vec![Vertex { single: true, ..Vertex::default() }; vertices as usize];
    let semaphores = Semaphores { counts: counts.to_vec(), of: of.clone() };
    let mut machine = Machine::new(graph, described, &[]).with_semaphores(semaphores);
    let (mut most, mut settled) = (vec![0; counts.len()], 0);
    let (mut checking, mut applying): (BTreeSet<ResourceId>, BTreeSet<ResourceId>) = Default::default();
    while !machine.is_finished() {
        for command in machine.commands() {
            match command {
                Command::Check(Batch { vertices, .. }) => checking.extend(vertices),
                Command::Apply(Batch { vertices, .. }) => applying.extend(vertices),
                Command::Settled(..) => settled += 1,
                _ => {}
            }
        }
        for (at, most) in most.iter_mut().enumerate() {
            let has_it = |vertex: &&ResourceId| of.get(vertex).is_some_and(|ids| ids.contains(&(at as u16)));
            *most = (*most).max(checking.iter().chain(&applying).filter(has_it).count());
        }
        let all: Vec<ResourceId> = checking.iter().chain(&applying).copied().collect();
        if all.is_empty() {
            continue;
        }
        let vertex = all[order(all.len())];
        let input = match checking.remove(&vertex) {
            true => Input::Checked(vertex, CheckResult::Differs),
            false => {
                applying.remove(&vertex);
                Input::Applied(vertex, ApplyResult::Done { refreshed: false })
            }
        };
        machine.input(Timestamp(0), input);
    }
    assert_eq!(settled, vertices);
    most
}

#[test]
fn who_shares_nothing_waits_for_nobody() {
    assert_eq!(most_at_once(&[2], &BTreeMap::new(), 5, &mut |_| 0), [0]);
    let of = (0..5).map(|at| (ResourceId::first(at), vec![0])).collect();
    assert_eq!(most_at_once(&[2], &of, 5, &mut |_| 0), [2]);
}

proptest! {
    /// Whatever ends first, no semaphore is held by more than may hold it, and all come to their end.
    #[test]
    fn no_semaphore_is_held_by_too_many_and_none_for_ever(
        counts in prop::collection::vec(1_u32..4, 1..4),
        takes in prop::collection::vec(prop::collection::btree_set(0_u16..4, 0..4), 1..12),
        picks in prop::collection::vec(0_usize..1000, 1..60),
    ) {
        let known = |ids: &BTreeSet<u16>| ids.iter().copied().filter(|at| usize::from(*at) < counts.len()).collect();
        let of: BTreeMap<ResourceId, Vec<u16>> =
            takes.iter().enumerate().map(|(at, ids)| (ResourceId::first(at as u32), known(ids))).collect();
        let mut picks = picks.into_iter().cycle();
        let most = most_at_once(&counts, &of, takes.len() as u32, &mut |among| picks.next().unwrap_or(0) % among);
        for (most, count) in most.iter().zip(&counts) {
            prop_assert!(*most <= *count as usize);
        }
    }
}

#[test]
fn what_is_under_way_and_not_declared_any_more_holds_its_semaphore_until_it_has_ended() {
    let (now, only) = (Timestamp(0), ResourceId::first(0));
    let graph = || Graph::new(1, Vec::new()).expect("nothing is in a cycle");
    let semaphores = || Semaphores { counts: vec![1], of: BTreeMap::from([(only, vec![0])]) };
    let vertices = || vec![Vertex::default()];
    let machine = Machine::holding(graph(), vertices(), &[], now, HoldConfig::default());
    let mut machine = machine.with_semaphores(semaphores());
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
    let semaphores = Semaphores { counts: vec![1], of: BTreeMap::from([(only.next(), vec![0])]) };
    let changed = vec![ChangedVertex { before: only, vertex: Vertex::default(), inherits_retries: true }];
    let edges = GraphDiff::of_edges(graph().with_ids(vec![only.next()]));
    machine.input(now, Input::Edit(GraphDiff { changed, semaphores, ..edges }.into()));
    assert_eq!(machine.commands(), [], "the one of the graph before is at work");
    machine.input(now, Input::Checked(only, CheckResult::Differs));
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
    machine.input(now, Input::Checked(only, CheckResult::Differs));
    assert_eq!(machine.commands(), [], "it is not freed twice");
}
