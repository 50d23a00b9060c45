//! Duration of graphs with slow vertices, in simulated time, so that the result is always the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kilter_engine::{
    ApplyResult, CheckResult, Command, Edge, Graph, Input, Machine, Origin, ResourceId, Semaphores, Timestamp, Vertex,
};
use kilter_model::{RelationKind, SourceId, Span};

/// Seconds that each vertex takes to be changed, who comes before whom, and who shares a semaphore of one.
struct TimingCase {
    name: &'static str,
    seconds: &'static [u64],
    edges: &'static [(u32, u32)],
    alone: &'static [u32],
    expected: u64,
}

/// The graphs of mgmt that are about time, by their shape.
const CASES: [TimingCase; 8] = [
    TimingCase { name: "a chain of two", seconds: &[10, 10], edges: &[(0, 1)], alone: &[], expected: 20 },
    TimingCase {
        name: "a chain of three, and one beside it",
        seconds: &[10, 10, 10, 10],
        edges: &[(0, 1), (1, 2)],
        alone: &[],
        expected: 30,
    },
    TimingCase {
        name: "a diamond, and a longer one beside it",
        seconds: &[10, 10, 10, 10, 15],
        edges: &[(0, 1), (0, 2), (1, 3), (2, 3)],
        alone: &[],
        expected: 30,
    },
    TimingCase {
        name: "a chain and one beside it",
        seconds: &[10, 10, 10, 15],
        edges: &[(0, 1), (1, 2)],
        alone: &[],
        expected: 30,
    },
    TimingCase {
        name: "the same, one at a time",
        seconds: &[10, 10, 10, 15],
        edges: &[(0, 1), (1, 2)],
        alone: &[0, 1, 2, 3],
        expected: 45,
    },
    TimingCase {
        name: "three that lead to one, and one beside them",
        seconds: &[10, 10, 10, 10, 10],
        edges: &[(0, 4), (1, 4), (2, 4)],
        alone: &[],
        expected: 20,
    },
    TimingCase {
        name: "three that lead to one, which leads to three, and a longer one beside them",
        seconds: &[10, 10, 10, 10, 10, 10, 10, 15],
        edges: &[(0, 3), (1, 3), (2, 3), (3, 4), (3, 5), (3, 6)],
        alone: &[],
        expected: 30,
    },
    TimingCase {
        name: "two that have nothing to do with each other",
        seconds: &[0, 10],
        edges: &[],
        alone: &[],
        expected: 10,
    },
];

fn edge((first, second): &(u32, u32)) -> Edge {
    let span = Span { source: SourceId(0), start: 0, end: 0 };
    let origin = Origin::Written { kind: RelationKind::Before, span };
    Edge { from: ResourceId::first(*first), to: ResourceId::first(*second), notify: false, origin }
}

/// Milliseconds until everything is done, each change on a thread of its own.
fn duration(case: &TimingCase) -> u64 {
    let count = case.seconds.len() as u32;
    let graph = Graph::new(count, case.edges.iter().map(edge).collect()).expect("it has no cycle");
    let vertex = Vertex {
        group: kilter_engine::Group::default(),
        single: true,
        noop: false,
        refreshable: false,
        retry: 0,
        delay: 0,
        independent: false,
    };
    let of = case.alone.iter().map(|at| (ResourceId::first(*at), vec![0])).collect();
    let semaphores = Semaphores { counts: vec![1], of };
    let mut machine = Machine::new(graph, vec![vertex; count as usize], &[]).with_semaphores(semaphores);
    let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut now = 0;
    loop {
        let commands = machine.commands();
        for command in &commands {
            match command {
                Command::Check(batch) => {
                    for vertex in &batch.vertices {
                        machine.input(Timestamp(now), Input::Checked(*vertex, CheckResult::Differs));
                    }
                }
                Command::Apply(batch) => {
                    let end =
                        |vertex: &ResourceId| Reverse((now + 1000 * case.seconds[vertex.slot()], vertex.slot() as u32));
                    ends.extend(batch.vertices.iter().map(end));
                }
                _ => {}
            }
        }
        if !commands.is_empty() {
            continue;
        }
        let Some(Reverse((end, vertex))) = ends.pop() else { break };
        now = end;
        machine
            .input(Timestamp(now), Input::Applied(ResourceId::first(vertex), ApplyResult::Done { refreshed: false }));
    }
    assert!(machine.is_finished(), "{}", case.name);
    now
}

#[test]
fn duration_equals_the_longest_path() {
    for case in &CASES {
        assert_eq!(duration(case), case.expected * 1000, "{}", case.name);
    }
}
