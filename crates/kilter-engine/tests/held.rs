//! Vertices that a run holds return to their state.

use kilter_engine::{
    ApplyResult, CheckResult, Command, Disposition, Graph, GraphDiff, HoldConfig, Input, Machine, RateLimit,
    ResourceId, Timestamp, Vertex,
};

const ONLY: ResourceId = ResourceId::first(0);

/// A machine that holds one vertex.
fn holding(vertex: Vertex, holding: HoldConfig) -> Machine {
    let graph = Graph::new(1, Vec::new()).expect("nothing is in a cycle");
    Machine::holding(graph, vec![vertex], &[], Timestamp(0), holding)
}

/// One whose vertex is being changed.
fn changing() -> Machine {
    let mut machine = holding(Vertex::default(), HoldConfig::default());
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
    machine.input(Timestamp(0), Input::Checked(ONLY, CheckResult::Differs));
    assert!(matches!(machine.commands()[..], [Command::Apply(_)]));
    machine
}

fn failed_until(at: u64) -> [Command; 2] {
    [Command::SetTimer(ONLY, Timestamp(at)), Command::Settled(ONLY, Disposition::Failed)]
}

#[test]
fn failure_without_events_is_retried_with_growing_delay() {
    let mut machine = changing();
    let mut now = 10;
    for pause in [1000, 2000, 4000, 8000] {
        machine.input(Timestamp(now), Input::Applied(ONLY, ApplyResult::Failed));
        assert_eq!(machine.commands(), failed_until(now + pause));
        machine.input(Timestamp(now + pause - 1), Input::TimerFired(ONLY));
        assert_eq!(machine.commands(), [], "its time has not come");
        now += pause;
        machine.input(Timestamp(now), Input::TimerFired(ONLY));
        assert!(matches!(machine.commands()[..], [Command::Check(_)]));
        machine.input(Timestamp(now), Input::Checked(ONLY, CheckResult::Differs));
        assert!(matches!(machine.commands()[..], [Command::Apply(_)]));
    }
}

/// Fails the vertex again, at a time that is its own.
fn fail_again(machine: &mut Machine, now: u64, input: Input) {
    machine.input(Timestamp(now), input.clone());
    assert!(matches!(machine.commands()[..], [Command::Check(_)]), "{input:?} at {now}");
    machine.input(Timestamp(now), Input::Checked(ONLY, CheckResult::Failed));
}

#[test]
fn event_retries_old_failure_at_once() {
    let mut machine = changing();
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    assert_eq!(machine.commands(), failed_until(1010));
    fail_again(&mut machine, 1010, Input::TimerFired(ONLY));
    assert_eq!(machine.commands(), failed_until(3010));
    fail_again(&mut machine, 3010, Input::TimerFired(ONLY));
    assert_eq!(machine.commands(), failed_until(7010));
    machine.input(Timestamp(4010), Input::Stale(ONLY));
    assert!(matches!(machine.commands()[..], [Command::Check(_)]), "it was left alone for long enough");
    machine.input(Timestamp(4020), Input::Checked(ONLY, CheckResult::InSync));
    machine.commands();
    machine.input(Timestamp(7010), Input::TimerFired(ONLY));
    assert_eq!(machine.commands(), [], "its time was that of its failure");
    assert_eq!(machine.wakes_at(ONLY), None);
}

#[test]
fn events_on_repeated_failure_are_handled_with_growing_delay() {
    let mut machine = changing();
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    let mut now = 10;
    for (least, pause) in [(50, 1000), (100, 2000), (200, 4000), (400, 8000)] {
        assert_eq!(machine.commands(), failed_until(now + pause));
        machine.input(Timestamp(now + 1), Input::Stale(ONLY));
        assert_eq!(machine.commands(), [Command::SetTimer(ONLY, Timestamp(now + least))]);
        now += least;
        fail_again(&mut machine, now, Input::TimerFired(ONLY));
    }
}

#[test]
fn event_during_failing_call_causes_retry() {
    let mut machine = changing();
    machine.input(Timestamp(5), Input::Stale(ONLY));
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    assert_eq!(machine.commands().last(), Some(&Command::SetTimer(ONLY, Timestamp(60))));
    assert_eq!(machine.wakes_at(ONLY), Some(Timestamp(60)));
}

#[test]
fn event_retries_failure_before_its_delay() {
    let mut machine = changing();
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    machine.commands();
    fail_again(&mut machine, 1010, Input::TimerFired(ONLY));
    assert_eq!(machine.commands(), failed_until(3010));
    machine.input(Timestamp(1020), Input::Stale(ONLY));
    assert_eq!(machine.commands(), [Command::SetTimer(ONLY, Timestamp(1060))]);
    machine.input(Timestamp(1060), Input::TimerFired(ONLY));
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
}

#[test]
fn vertex_with_pending_event_at_the_end_is_not_reached() {
    let graph = Graph::new(1, Vec::new()).expect("nothing is in a cycle");
    let limits = [(ONLY, RateLimit { interval: 1000, burst: 1 })].into();
    let holding = HoldConfig { limits, ..HoldConfig::default() };
    let mut machine = Machine::holding(graph, vec![Vertex::default()], &[], Timestamp(0), holding);
    machine.commands();
    machine.input(Timestamp(1), Input::Checked(ONLY, CheckResult::InSync));
    machine.input(Timestamp(2), Input::Stale(ONLY));
    machine.commands();
    machine.input(Timestamp(3), Input::Checked(ONLY, CheckResult::InSync));
    machine.input(Timestamp(4), Input::Stale(ONLY));
    assert!(matches!(machine.commands()[..], [Command::Settled(..), Command::SetTimer(..)]));
    machine.input(Timestamp(5), Input::Interrupt);
    assert_eq!(machine.commands(), [Command::Settled(ONLY, Disposition::Interrupted)]);
    assert!(machine.is_finished());
}

#[test]
fn changed_vertex_with_delayed_check_has_not_failed_at_the_end() {
    let limits = [(ONLY, RateLimit { interval: 1000, burst: 1 })].into();
    let mut machine = holding(Vertex::default(), HoldConfig { limits, ..HoldConfig::default() });
    machine.commands();
    let mut changed_meanwhile = |at: u64| {
        machine.input(Timestamp(at), Input::Checked(ONLY, CheckResult::Differs));
        machine.commands();
        machine.input(Timestamp(at + 1), Input::Stale(ONLY));
        machine.input(Timestamp(at + 2), Input::Applied(ONLY, ApplyResult::Done { refreshed: false }));
        machine.commands()
    };
    assert!(matches!(changed_meanwhile(0)[..], [Command::Check(_)]), "there is a token");
    assert!(matches!(changed_meanwhile(10)[..], [Command::SetTimer(..)]), "there is none");
    machine.input(Timestamp(20), Input::Interrupt);
    assert_eq!(machine.commands(), [Command::Settled(ONLY, Disposition::Interrupted)]);
    assert!(machine.is_finished());
}

#[test]
fn interrupt_prevents_retries_of_failures() {
    let mut machine = changing();
    machine.input(Timestamp(5), Input::Interrupt);
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    assert_eq!(machine.commands(), [Command::Settled(ONLY, Disposition::Failed)]);
    assert!(machine.is_finished());
}

/// Returns the commands after a failed check of a vertex that had failed before, was retried, and was in sync since.
fn behind_a_success(has_retry_reset: bool) -> Vec<Command> {
    let retry_reset = has_retry_reset.then_some(ONLY).into_iter().collect();
    let mut machine = holding(
        Vertex { retry: 1, delay: 50, ..Vertex::default() },
        HoldConfig { retry_reset, ..HoldConfig::default() },
    );
    let mut answered = |at: u64, input: Input| {
        machine.input(Timestamp(at), input);
        machine.commands()
    };
    assert!(matches!(answered(0, Input::Stale(ONLY))[..], [Command::Check(_)]));
    assert_eq!(answered(10, Input::Checked(ONLY, CheckResult::Failed)), [Command::SetTimer(ONLY, Timestamp(60))]);
    assert_eq!(answered(59, Input::TimerFired(ONLY)), [], "its time has not come");
    assert!(matches!(answered(60, Input::TimerFired(ONLY))[..], [Command::Check(_)]));
    assert_eq!(answered(70, Input::Checked(ONLY, CheckResult::InSync)), [Command::Settled(ONLY, Disposition::InSync)]);
    assert!(matches!(answered(80, Input::Stale(ONLY))[..], [Command::Check(_)]));
    answered(90, Input::Checked(ONLY, CheckResult::Failed))
}

#[test]
fn vertex_in_sync_regains_all_retries_if_retry_reset_is_set() {
    assert_eq!(behind_a_success(true), [Command::SetTimer(ONLY, Timestamp(140))]);
    let given_up = [Command::SetTimer(ONLY, Timestamp(1090)), Command::Settled(ONLY, Disposition::Failed)];
    assert_eq!(behind_a_success(false), given_up);
}

#[test]
fn edit_that_removes_a_vertex_without_its_watch_makes_the_run_quiet() {
    let other = ResourceId::first(1);
    let graph = Graph::new(2, Vec::new()).expect("nothing is in a cycle");
    let config = HoldConfig { awaiting_watch: [other].into(), ..HoldConfig::default() };
    let mut machine = Machine::holding(graph, vec![Vertex::default(); 2], &[], Timestamp(0), config);
    assert!(matches!(machine.commands()[..], [Command::Check(_)]));
    machine.input(Timestamp(5), Input::Checked(ONLY, CheckResult::InSync));
    machine.commands();
    assert_eq!((machine.quiet_since(), machine.awaiting_watch()), (None, vec![other]));
    let edges = Graph::new(1, Vec::new()).expect("nothing is in a cycle");
    machine.input(Timestamp(9), Input::Edit(GraphDiff { removed: vec![other], ..GraphDiff::of_edges(edges) }.into()));
    assert_eq!((machine.commands(), machine.awaiting_watch()), (vec![], vec![]));
    assert_eq!(machine.quiet_since(), Some(Timestamp(9)));
    // The watch may start although its vertex is gone.
    machine.input(Timestamp(10), Input::WatchEstablished(other));
    assert_eq!(machine.commands(), []);
}

#[test]
fn added_vertex_in_the_slot_of_a_removed_one_waits_for_its_own_watch() {
    let added = ONLY.next();
    let config = || HoldConfig { awaiting_watch: [ONLY].into(), ..HoldConfig::default() };
    let mut machine = holding(Vertex::default(), config());
    let edges = Graph::new(1, Vec::new()).expect("nothing is in a cycle").with_ids(vec![added]);
    let config = HoldConfig { awaiting_watch: [added].into(), ..HoldConfig::default() };
    let diff = GraphDiff { added: vec![(added, Vertex::default())], holding: config, ..GraphDiff::of_edges(edges) };
    machine.input(Timestamp(0), Input::Edit(GraphDiff { removed: vec![ONLY], ..diff }.into()));
    machine.input(Timestamp(1), Input::WatchEstablished(ONLY));
    assert_eq!(machine.commands(), [], "that was the watch of the removed one");
    machine.input(Timestamp(2), Input::WatchEstablished(added));
    assert!(matches!(&machine.commands()[..], [Command::Check(batch)] if batch.vertices == [added]));
}
