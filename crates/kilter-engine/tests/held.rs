//! What is held comes back.

use kilter_engine::{Command, Graph, Holding, Input, Machine, Ran, Settlement, Timestamp, Verdict, Vertex, VertexId};

const ONLY: VertexId = VertexId(0);

/// A machine that holds one vertex, which is being changed.
fn changing() -> Machine {
    let graph = Graph::new(1, Vec::new()).expect("nothing is in a cycle");
    let mut machine = Machine::holding(graph, vec![Vertex::default()], &[], Timestamp(0), Holding::default());
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
    machine.input(Timestamp(0), Input::Checked(ONLY, Verdict::Differs));
    assert!(matches!(machine.commands()[..], [Command::Apply(_)]));
    machine
}

#[test]
fn what_happens_while_something_fails_brings_it_back_behind_its_failure() {
    let mut machine = changing();
    machine.input(Timestamp(5), Input::Stale(ONLY));
    machine.input(Timestamp(10), Input::Applied(ONLY, Ran::Failed));
    let failed = Command::Settled(ONLY, Settlement::Failed);
    assert_eq!(machine.commands(), [failed, Command::Wake(ONLY, Timestamp(1010))]);
    machine.input(Timestamp(1010), Input::Due(ONLY));
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
}

#[test]
fn what_fails_and_to_which_nothing_happens_is_left_alone() {
    let mut machine = changing();
    machine.input(Timestamp(10), Input::Applied(ONLY, Ran::Failed));
    assert_eq!(machine.commands(), [Command::Settled(ONLY, Settlement::Failed)]);
}
