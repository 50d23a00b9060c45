//! What is held comes back.

use kilter_engine::{
    ApplyResult, CheckResult, Command, Disposition, Graph, HoldConfig, Input, Machine, RateLimit, ResourceId,
    Timestamp, Vertex,
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
fn what_fails_and_to_which_nothing_happens_is_tried_again_after_longer_each_time() {
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
fn what_failed_long_ago_comes_back_at_once_when_something_happens_to_it() {
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
fn what_happens_to_what_fails_each_time_is_heeded_later_each_time() {
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
fn what_happened_while_it_failed_brings_it_back_as_well() {
    let mut machine = changing();
    machine.input(Timestamp(5), Input::Stale(ONLY));
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    assert_eq!(machine.commands().last(), Some(&Command::SetTimer(ONLY, Timestamp(60))));
    assert_eq!(machine.wakes_at(ONLY), Some(Timestamp(60)));
}

#[test]
fn what_happens_brings_what_failed_back_before_its_own_time() {
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
fn what_happened_and_is_not_heeded_yet_at_the_end_was_not_reached() {
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
fn what_was_changed_and_is_to_be_looked_at_again_later_has_not_failed_at_the_end() {
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
fn behind_an_interrupt_nothing_that_failed_is_tried_again() {
    let mut machine = changing();
    machine.input(Timestamp(5), Input::Interrupt);
    machine.input(Timestamp(10), Input::Applied(ONLY, ApplyResult::Failed));
    assert_eq!(machine.commands(), [Command::Settled(ONLY, Disposition::Failed)]);
    assert!(machine.is_finished());
}

/// What comes of a check that fails, once the one vertex was in its state behind a failure of which it was tried again.
fn behind_a_success(is_forgiving: bool) -> Vec<Command> {
    let forgiving = is_forgiving.then_some(ONLY).into_iter().collect();
    let mut machine = holding(
        Vertex { retry: 1, delay: 50, ..Vertex::default() },
        HoldConfig { retry_reset: forgiving, ..HoldConfig::default() },
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
fn what_is_in_its_state_has_all_its_tries_again_where_that_was_asked_for() {
    assert_eq!(behind_a_success(true), [Command::SetTimer(ONLY, Timestamp(140))]);
    let given_up = [Command::SetTimer(ONLY, Timestamp(1090)), Command::Settled(ONLY, Disposition::Failed)];
    assert_eq!(behind_a_success(false), given_up);
}
