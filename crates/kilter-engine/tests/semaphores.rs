//! Semaphores in one pass, and over two graphs.

use std::collections::{BTreeMap, BTreeSet};

use kilter_engine::{
    ApplyResult, Batch, ChangedVertex, CheckResult, Command, Graph, GraphDiff, Group, HoldConfig, Input, Machine,
    ResourceId, Semaphores, Timestamp, Vertex,
};
use proptest::prelude::*;

/// Runs a pass over unconnected vertices, one answer at a time. Returns the maximum number of concurrent holders of
/// each semaphore.
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
fn vertices_without_shared_semaphore_do_not_wait() {
    assert_eq!(most_at_once(&[2], &BTreeMap::new(), 5, &mut |_| 0), [0]);
    let of = (0..5).map(|at| (ResourceId::first(at), vec![0])).collect();
    assert_eq!(most_at_once(&[2], &of, 5, &mut |_| 0), [2]);
}

proptest! {
    /// Whatever ends first, no semaphore is held by more than may hold it, and all come to their end.
    #[test]
    fn semaphore_is_never_exceeded_and_always_released(
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
fn removed_vertex_holds_its_semaphore_until_its_call_ends() {
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
    machine.input(now, Input::Checked(only.next(), CheckResult::Differs));
    assert!(matches!(machine.commands()[..], [Command::Apply(_)]), "the answer is for the declaration of today");
}

/// A machine that holds three vertices of their own calls, each with the one semaphore.
fn sharing() -> Machine {
    let graph = Graph::new(3, Vec::new()).expect("nothing is in a cycle");
    let of = (0..3).map(|slot| (ResourceId::first(slot), vec![0])).collect();
    Machine::holding(graph, vec![SINGLE; 3], &[], Timestamp(0), HoldConfig::default())
        .with_semaphores(Semaphores { counts: vec![1], of })
}

const SINGLE: Vertex = Vertex { single: true, ..PLAIN };
const PLAIN: Vertex = Vertex {
    group: Group { provider: 0, checks_on_worker: false, changes_on_worker: false },
    single: false,
    noop: false,
    refreshable: false,
    retry: 0,
    delay: 0,
    independent: false,
};

/// Returns an edit after which these vertices are left, in this order.
fn left(removed: ResourceId, order: Vec<ResourceId>) -> GraphDiff {
    let edges = Graph::new(order.len() as u32, Vec::new()).expect("nothing is in a cycle").with_ids(order);
    let semaphores = Semaphores { counts: vec![1], of: BTreeMap::new() };
    GraphDiff { removed: vec![removed], semaphores, ..GraphDiff::of_edges(edges) }
}

/// Returns the vertices whose checks start.
fn checks(machine: &mut Machine) -> Vec<ResourceId> {
    let checked = |command| match command {
        Command::Check(batch) => batch.vertices,
        _ => Vec::new(),
    };
    machine.commands().into_iter().flat_map(checked).collect()
}

#[test]
fn semaphore_of_a_removed_vertex_is_free_after_its_call_and_over_two_edits() {
    let [a, b, c] = [0, 1, 2].map(ResourceId::first);
    let mut machine = sharing();
    assert_eq!(checks(&mut machine), [a]);
    machine.input(Timestamp(0), Input::Edit(left(a, vec![c, b]).into()));
    assert_eq!(checks(&mut machine), [], "the call of the removed vertex holds the semaphore");
    // An added vertex gets the slot, and neither the semaphore nor the answer.
    let mut next = left(b, vec![c, a.next()]);
    next.added = vec![(a.next(), SINGLE)];
    next.semaphores.of = BTreeMap::from([(a.next(), vec![0])]);
    machine.input(Timestamp(0), Input::Edit(next.into()));
    assert_eq!(checks(&mut machine), [], "it still does");
    machine.input(Timestamp(0), Input::Checked(a, CheckResult::InSync));
    assert_eq!(checks(&mut machine), [c], "they start in manifest order");
    machine.input(Timestamp(0), Input::Checked(c, CheckResult::InSync));
    assert_eq!(checks(&mut machine), [a.next()]);
}

#[test]
fn semaphore_of_a_removed_vertex_between_check_and_change_is_free_at_once() {
    let [a, b, c] = [0, 1, 2].map(ResourceId::first);
    let mut machine = sharing();
    assert_eq!(checks(&mut machine), [a]);
    machine.input(Timestamp(0), Input::Pause);
    machine.input(Timestamp(0), Input::Checked(a, CheckResult::Differs));
    assert_eq!(machine.commands(), [], "the run is paused");
    machine.input(Timestamp(0), Input::Edit(left(a, vec![b, c]).into()));
    machine.input(Timestamp(0), Input::Resume);
    assert_eq!(checks(&mut machine), [b]);
}

#[test]
#[should_panic(expected = "the driver answers each call of a removed or changed vertex once")]
fn second_answer_to_a_call_of_a_removed_vertex_panics() {
    let [a, b, c] = [0, 1, 2].map(ResourceId::first);
    let mut machine = sharing();
    machine.commands();
    machine.input(Timestamp(0), Input::Edit(left(a, vec![b, c]).into()));
    machine.input(Timestamp(0), Input::Cancelled(a));
    machine.input(Timestamp(0), Input::Checked(a, CheckResult::InSync));
}
