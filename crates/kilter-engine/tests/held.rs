//! What is held comes back.

use kilter_engine::{Command, Graph, Holding, Input, Machine, Ran, Settlement, Timestamp, Verdict, Vertex, VertexId};

const ONLY: VertexId = VertexId(0);

/// A machine that holds one vertex.
fn holding(vertex: Vertex, holding: Holding) -> Machine {
    let graph = Graph::new(1, Vec::new()).expect("nothing is in a cycle");
    Machine::holding(graph, vec![vertex], &[], Timestamp(0), holding)
}

/// One whose vertex is being changed.
fn changing() -> Machine {
    let mut machine = holding(Vertex::default(), Holding::default());
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

/// What comes of a check that fails, once the one vertex was in its state behind a failure of which it was tried again.
fn behind_a_success(is_forgiving: bool) -> Vec<Command> {
    let forgiving = is_forgiving.then_some(ONLY).into_iter().collect();
    let mut machine =
        holding(Vertex { retry: 1, delay: 50, ..Vertex::default() }, Holding { forgiving, ..Holding::default() });
    let mut answered = |at: u64, input: Input| {
        machine.input(Timestamp(at), input);
        machine.commands()
    };
    assert!(matches!(answered(0, Input::Stale(ONLY))[..], [Command::Check(_)]));
    assert_eq!(answered(10, Input::Checked(ONLY, Verdict::Failed)), [Command::Wake(ONLY, Timestamp(60))]);
    assert_eq!(answered(59, Input::Due(ONLY)), [], "its time has not come");
    assert!(matches!(answered(60, Input::Due(ONLY))[..], [Command::Check(_)]));
    assert_eq!(answered(70, Input::Checked(ONLY, Verdict::InSync)), [Command::Settled(ONLY, Settlement::InSync)]);
    assert!(matches!(answered(80, Input::Stale(ONLY))[..], [Command::Check(_)]));
    answered(90, Input::Checked(ONLY, Verdict::Failed))
}

#[test]
fn what_is_in_its_state_has_all_its_tries_again_where_that_was_asked_for() {
    assert_eq!(behind_a_success(true), [Command::Wake(ONLY, Timestamp(140))]);
    assert_eq!(behind_a_success(false), [Command::Settled(ONLY, Settlement::Failed)]);
}
