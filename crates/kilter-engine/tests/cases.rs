//! Known cases of mgmt's engine, and the behaviour of this one: short schedules, command by command.

use std::collections::{BTreeMap, BTreeSet};

use kilter_engine::{
    ApplyResult, Backoff, Batch, ChangedVertex, CheckResult, Command, Disposition, Edge, Graph, GraphDiff, Group,
    HoldConfig, Input, Machine, Origin, RateLimit, Reason, RefreshToken, RepairBudget, ResourceId, Semaphores,
    Timestamp, Vertex,
};

const A: ResourceId = ResourceId::first(0);
const B: ResourceId = ResourceId::first(1);
const C: ResourceId = ResourceId::first(2);
const D: ResourceId = ResourceId::first(3);

const DONE: ApplyResult = ApplyResult::Done { refreshed: false };

fn before(first: ResourceId, second: ResourceId) -> Edge {
    Edge { from: first, to: second, notify: false, origin: Origin::Automatic(Reason::Name) }
}

fn notify(first: ResourceId, second: ResourceId) -> Edge {
    Edge { notify: true, ..before(first, second) }
}

fn graph(count: u32, edges: &[Edge]) -> Graph {
    Graph::new(count, edges.to_vec()).expect("nothing is in a cycle")
}

/// Vertices that are handed over one by one.
fn vertices(count: usize) -> Vec<Vertex> {
    vec![Vertex { single: true, refreshable: true, ..Vertex::default() }; count]
}

/// A machine, and the time that its driver has told it.
struct MachineRun {
    machine: Machine,
    now: Timestamp,
}

impl MachineRun {
    fn holding_as(edges: &[Edge], vertices: Vec<Vertex>, holding: HoldConfig) -> MachineRun {
        let graph = graph(vertices.len() as u32, edges);
        MachineRun { machine: Machine::holding(graph, vertices, &[], Timestamp(0), holding), now: Timestamp(0) }
    }

    fn holding(edges: &[Edge], vertices: Vec<Vertex>) -> MachineRun {
        MachineRun::holding_as(edges, vertices, HoldConfig::default())
    }

    fn passing(edges: &[Edge], vertices: Vec<Vertex>, owed: &[RefreshToken]) -> MachineRun {
        let graph = graph(vertices.len() as u32, edges);
        MachineRun { machine: Machine::new(graph, vertices, owed), now: Timestamp(0) }
    }

    /// Returns the commands that follow from an input.
    fn give(&mut self, input: Input) -> Vec<Command> {
        self.machine.input(self.now, input);
        self.machine.commands()
    }

    /// Answers every check with a verdict until nothing is checked any more, and returns in which order that was.
    fn check_all(&mut self, verdict: CheckResult) -> Vec<ResourceId> {
        let mut checked = Vec::new();
        let mut commands = self.machine.commands();
        while !commands.is_empty() {
            let batches = commands.drain(..).filter_map(|command| match command {
                Command::Check(batch) => Some(batch.vertices),
                _ => None,
            });
            let vertices: Vec<ResourceId> = batches.flatten().collect();
            for vertex in vertices {
                checked.push(vertex);
                commands.extend(self.give(Input::Checked(vertex, verdict)));
            }
        }
        checked
    }
}

fn check(vertex: ResourceId) -> Command {
    Command::Check(Batch { group: Group::default(), vertices: vec![vertex] })
}

fn apply(vertex: ResourceId) -> Command {
    Command::Apply(Batch { group: Group::default(), vertices: vec![vertex] })
}

fn refresh(vertex: ResourceId) -> Command {
    Command::Refresh(Batch { group: Group::default(), vertices: vec![vertex] })
}

fn settled(vertex: ResourceId, settlement: Disposition) -> Command {
    Command::Settled(vertex, settlement)
}

/// Returns the commands after a failure: a timer for the retry at `at`, and the report.
fn fails(vertex: ResourceId, at: u64) -> [Command; 2] {
    [Command::SetTimer(vertex, Timestamp(at)), settled(vertex, Disposition::Failed)]
}

#[test]
fn child_is_not_checked_before_its_late_watch_starts() {
    let holding = HoldConfig { awaiting_watch: BTreeSet::from([B]), ..HoldConfig::default() };
    let mut run = MachineRun::holding_as(&[before(A, B)], vertices(2), holding);
    assert_eq!(run.machine.commands(), [check(A)]);
    assert_eq!(run.give(Input::Checked(A, CheckResult::InSync)), [settled(A, Disposition::InSync)]);
    run.now = Timestamp(1000);
    assert_eq!(run.give(Input::Stale(B)), [], "an event before the watch has started begins nothing");
    assert_eq!(run.give(Input::WatchEstablished(B)), [check(B)]);
}

#[test]
fn watch_that_fails_during_a_check_restarts_after_it_and_causes_another_check() {
    let mut run = MachineRun::holding(&[], vertices(1));
    assert_eq!(run.machine.commands(), [check(A)]);
    assert_eq!(run.give(Input::WatchLost(A)), [], "nothing starts beside a check");
    assert_eq!(
        run.give(Input::Checked(A, CheckResult::Differs)),
        [Command::Watch(A)],
        "what was found holds no longer"
    );
    assert_eq!(run.give(Input::Stale(A)), [], "nothing is looked at before it watches again");
    assert_eq!(run.give(Input::WatchEstablished(A)), [check(A)]);
}

#[test]
fn watch_may_start_during_a_pause_but_checks_wait_for_its_end() {
    let mut run = MachineRun::holding(&[], vertices(1));
    run.check_all(CheckResult::InSync);
    assert_eq!(run.give(Input::Pause), []);
    assert_eq!(run.machine.quiet_since(), None, "what is held back is not at rest");
    assert_eq!(run.give(Input::WatchLost(A)), [Command::Watch(A)]);
    assert_eq!(run.give(Input::WatchEstablished(A)), []);
    assert_eq!(run.give(Input::Stale(A)), []);
    assert_eq!(run.give(Input::Resume), [check(A)]);
}

#[test]
fn event_during_a_check_causes_another_check_for_any_result() {
    for found in [CheckResult::InSync, CheckResult::Differs, CheckResult::Failed, CheckResult::Unknown] {
        let mut run = MachineRun::holding(&[], vertices(1));
        assert_eq!(run.machine.commands(), [check(A)]);
        assert_eq!(run.give(Input::Stale(A)), []);
        assert_eq!(run.give(Input::Checked(A, found)), [check(A)], "{found:?}");
        assert_eq!(run.give(Input::Checked(A, CheckResult::InSync)), [settled(A, Disposition::InSync)]);
    }
}

#[test]
fn endless_retry_without_delay_can_be_paused_and_stopped() {
    let endless = Vertex { retry: -1, ..Vertex::default() };
    let mut run = MachineRun::holding(&[], vec![endless]);
    run.machine.commands();
    for _ in 0..100 {
        assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), [Command::SetTimer(A, run.now)]);
        assert_eq!(run.give(Input::TimerFired(A)), [check(A)]);
    }
    assert_eq!(run.give(Input::Pause), []);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), [Command::SetTimer(A, run.now)]);
    assert_eq!(run.give(Input::TimerFired(A)), [], "nothing begins while it is paused");
    assert_eq!(run.give(Input::Resume), [check(A)]);
    assert_eq!(run.give(Input::Interrupt), []);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), [settled(A, Disposition::Failed)]);
    assert!(run.machine.is_finished());
}

#[test]
fn input_after_the_end_starts_no_call() {
    let mut run = MachineRun::holding(&[before(A, B)], vertices(2));
    run.check_all(CheckResult::InSync);
    run.give(Input::Interrupt);
    assert!(run.machine.is_finished());
    for input in [
        Input::Pause,
        Input::Resume,
        Input::Stale(A),
        Input::WatchLost(A),
        Input::WatchEstablished(A),
        Input::TimerFired(B),
        Input::ResetBudget(B),
        Input::Interrupt,
    ] {
        assert_eq!(run.give(input.clone()), [], "{input:?}");
        assert!(run.machine.is_finished());
    }
}

#[test]
fn event_on_a_leaf_checks_only_the_leaf() {
    let mut run = MachineRun::holding(&[before(A, B), before(B, C)], vertices(3));
    assert_eq!(run.check_all(CheckResult::InSync), [A, B, C]);
    assert_eq!(run.give(Input::Stale(C)), [check(C)]);
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [settled(C, Disposition::InSync)]);
    assert_eq!(run.give(Input::Stale(A)), [check(A)]);
    let again = run.give(Input::Checked(A, CheckResult::InSync));
    assert_eq!(again, [settled(A, Disposition::InSync)], "what depends on it is told nothing new");
}

#[test]
fn diamond_end_is_checked_once_after_its_slower_parent() {
    let mut run = MachineRun::holding(&[before(A, B), before(A, C), before(B, D), before(C, D)], vertices(4));
    run.machine.commands();
    assert_eq!(run.give(Input::Checked(A, CheckResult::InSync)), [settled(A, Disposition::InSync), check(B), check(C)]);
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [settled(C, Disposition::InSync)]);
    assert_eq!(run.give(Input::Checked(B, CheckResult::Differs)), [apply(B)]);
    assert_eq!(run.give(Input::Applied(B, DONE)), [settled(B, Disposition::Changed), check(D)]);
    assert_eq!(run.give(Input::Checked(D, CheckResult::InSync)), [settled(D, Disposition::InSync)]);
}

#[test]
fn dependents_of_failure_wait_for_its_recovery_while_others_continue() {
    let holding =
        HoldConfig { backoff: Backoff { first: 50, min_after_event: 50, longest: 50 }, ..HoldConfig::default() };
    let mut run = MachineRun::holding_as(&[before(A, B)], vertices(3), holding);
    assert_eq!(run.machine.commands(), [check(A), check(C)]);
    let [wake, failed] = fails(A, 50);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), [wake, failed, settled(B, Disposition::Blocked(A))]);
    assert_eq!(run.give(Input::Checked(C, CheckResult::Differs)), [apply(C)]);
    assert_eq!(run.give(Input::Applied(C, DONE)), [settled(C, Disposition::Changed)]);
    assert_eq!(run.give(Input::Stale(B)), [], "what is blocked waits for what blocks it");
    run.now = Timestamp(50);
    assert_eq!(run.give(Input::TimerFired(A)), [check(A)]);
    let mended = run.give(Input::Checked(A, CheckResult::InSync));
    assert_eq!(
        mended,
        [settled(A, Disposition::InSync), check(B)],
        "what has drifted behind it is not left so for ever"
    );
}

/// Two parents of something that failed are mended one after the other.
#[test]
fn failed_vertex_is_checked_again_after_a_change_of_any_parent() {
    for last in [A, B] {
        let mut run = MachineRun::holding(&[before(A, C), before(B, C)], vertices(3));
        run.machine.commands();
        run.give(Input::Checked(A, CheckResult::InSync));
        run.give(Input::Checked(B, CheckResult::InSync));
        assert_eq!(run.give(Input::Checked(C, CheckResult::Failed)), fails(C, 1000));
        run.now = Timestamp(1000);
        assert_eq!(run.give(Input::TimerFired(C)), [check(C)]);
        assert_eq!(run.give(Input::Checked(C, CheckResult::Failed)), fails(C, 3000));
        run.now = Timestamp(2000);
        assert_eq!(run.give(Input::Stale(A)), [check(A)]);
        assert_eq!(run.give(Input::Stale(B)), [check(B)]);
        run.give(Input::Checked(A, CheckResult::Differs));
        let answers = [Input::Applied(A, DONE), Input::Checked(B, CheckResult::InSync)];
        let [a, b] = answers;
        let [first, second] = if last == A { [b, a] } else { [a, b] };
        assert_eq!(run.give(first).len(), 1, "one of them has settled");
        let came = run.give(second);
        assert_eq!(came.last(), Some(&check(C)), "{last:?} settled last: {came:?}");
    }
}

/// Several vertices settle in one step. A vertex that looked ready turns out to follow a blocked one.
#[test]
fn dependent_of_late_failure_is_not_started_with_ready_vertices() {
    let (behind, fails, sends, owed) = (A, B, C, D);
    for is_to_be_changed in [false, true] {
        let mut run =
            MachineRun::holding(&[before(fails, sends), notify(sends, owed), before(owed, behind)], vertices(4));
        run.machine.commands();
        run.give(Input::Checked(fails, CheckResult::InSync));
        run.give(Input::Checked(sends, CheckResult::Differs));
        run.give(Input::Applied(sends, DONE));
        let unknown = [settled(owed, Disposition::Unknown), check(behind)];
        assert_eq!(run.give(Input::Checked(owed, CheckResult::Unknown)), unknown);
        run.give(Input::Checked(behind, CheckResult::InSync));
        run.give(Input::Stale(fails));
        assert_eq!(run.give(Input::Checked(fails, CheckResult::Failed)), self::fails(fails, 1000));
        if is_to_be_changed {
            assert_eq!(run.give(Input::Stale(behind)), [check(behind)]);
            run.machine.input(run.now, Input::Checked(behind, CheckResult::Differs));
        } else {
            run.machine.input(run.now, Input::Stale(behind));
        }
        let blocked = [sends, owed, behind].map(|vertex| settled(vertex, Disposition::Blocked(fails)));
        assert_eq!(run.give(Input::Stale(sends)), blocked);
    }
}

#[test]
fn refresh_needs_a_change_and_stays_pending_until_success() {
    let token = RefreshToken { first: A, second: B };
    let mut run = MachineRun::holding(&[notify(A, B)], vec![Vertex { retry: 3, ..vertices(1)[0] }; 2]);
    assert_eq!(run.check_all(CheckResult::InSync), [A, B]);
    assert_eq!(run.machine.owed(), [], "nothing has changed");
    run.give(Input::Stale(A));
    assert_eq!(run.give(Input::Checked(A, CheckResult::Differs)), [Command::JournalRefresh(vec![token]), apply(A)]);
    assert_eq!(run.give(Input::Applied(A, DONE)), [settled(A, Disposition::Changed), check(B)]);
    // The receiver fails when it is looked at, when it is changed and when it is refreshed.
    run.give(Input::Checked(B, CheckResult::Failed));
    run.give(Input::TimerFired(B));
    run.give(Input::Checked(B, CheckResult::Differs));
    run.give(Input::Applied(B, ApplyResult::Failed));
    run.give(Input::TimerFired(B));
    assert_eq!(run.give(Input::Checked(B, CheckResult::InSync)), [refresh(B)]);
    run.give(Input::Refreshed(B, false));
    assert_eq!(run.machine.owed(), [token]);
    run.give(Input::TimerFired(B));
    assert_eq!(run.give(Input::Checked(B, CheckResult::InSync)), [refresh(B)]);
    let paid = [Command::ClearRefresh(vec![token]), settled(B, Disposition::Refreshed)];
    assert_eq!(run.give(Input::Refreshed(B, true)), paid);
    run.give(Input::Stale(B));
    assert_eq!(
        run.give(Input::Checked(B, CheckResult::InSync)),
        [settled(B, Disposition::InSync)],
        "it is refreshed once"
    );
}

#[test]
fn refresh_of_an_idle_vertex_is_served_without_a_call() {
    let token = RefreshToken { first: A, second: B };
    let idle = [Command::ClearRefresh(vec![token]), settled(B, Disposition::InSync)];
    let mut run = MachineRun::holding(&[notify(A, B)], vec![Vertex { retry: 3, ..vertices(1)[0] }; 2]);
    run.check_all(CheckResult::InSync);
    run.give(Input::Stale(A));
    run.give(Input::Checked(A, CheckResult::Differs));
    assert_eq!(run.give(Input::Applied(A, DONE)), [settled(A, Disposition::Changed), check(B)]);
    assert_eq!(run.give(Input::Checked(B, CheckResult::Idle)), idle, "a stopped service is not started");
    assert_eq!(run.machine.owed(), []);

    // A refresh that failed may have stopped it: that one is owed until it succeeds.
    run.give(Input::Stale(A));
    run.give(Input::Checked(A, CheckResult::Differs));
    run.give(Input::Applied(A, DONE));
    assert_eq!(run.give(Input::Checked(B, CheckResult::InSync)), [refresh(B)]);
    run.give(Input::Refreshed(B, false));
    assert_eq!(run.machine.owed(), [token]);
    run.give(Input::TimerFired(B));
    assert_eq!(run.give(Input::Checked(B, CheckResult::Idle)), [refresh(B)]);
    run.give(Input::Refreshed(B, true));
    assert_eq!(run.machine.owed(), []);

    // With noop nothing is served, and nothing would be refreshed.
    let noop = vec![Vertex { noop: true, ..vertices(1)[0] }; 2];
    let mut run = MachineRun::holding(&[notify(A, B)], noop);
    run.machine.commands();
    run.give(Input::Checked(A, CheckResult::Differs));
    assert_eq!(run.give(Input::Checked(B, CheckResult::Idle)), [settled(B, Disposition::InSync)]);
}

#[test]
fn change_during_a_refresh_causes_another_refresh() {
    let token = RefreshToken { first: A, second: C };
    let mut run = MachineRun::holding(&[notify(A, C), notify(B, C)], vertices(3));
    run.check_all(CheckResult::InSync);
    run.give(Input::Stale(B));
    run.give(Input::Checked(B, CheckResult::Differs));
    run.give(Input::Applied(B, DONE));
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [refresh(C)]);
    run.give(Input::Stale(A));
    assert_eq!(run.give(Input::Checked(A, CheckResult::Differs)), [Command::JournalRefresh(vec![token]), apply(A)]);
    assert_eq!(run.give(Input::Applied(A, DONE)), [settled(A, Disposition::Changed)]);
    let served = Command::ClearRefresh(vec![RefreshToken { first: B, second: C }]);
    assert_eq!(run.give(Input::Refreshed(C, true)), [served, check(C)], "only what it was begun for is served");
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [refresh(C)]);
    assert_eq!(run.give(Input::Refreshed(C, true))[0], Command::ClearRefresh(vec![token]));
}

/// The same vertices with these edges come in the place of a graph: a refresh that is owed to C is inherited.
fn rewire(run: &mut MachineRun, edges: &[Edge]) {
    let diff = GraphDiff { owed: vec![RefreshToken::orphaned(C)], ..GraphDiff::of_edges(graph(3, edges)) };
    run.machine.input(run.now, Input::Edit(diff.into()));
}

#[test]
fn refresh_completes_tokens_that_are_inherited_during_the_call() {
    let mut run = MachineRun::holding(&[notify(A, C), notify(B, C)], vertices(3));
    run.check_all(CheckResult::InSync);
    run.give(Input::Stale(B));
    run.give(Input::Checked(B, CheckResult::Differs));
    run.give(Input::Applied(B, DONE));
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [refresh(C)]);
    rewire(&mut run, &[]);
    let paid = Command::ClearRefresh(vec![RefreshToken::orphaned(C)]);
    assert_eq!(run.give(Input::Refreshed(C, true)), [paid, settled(C, Disposition::Refreshed)]);
}

#[test]
fn refresh_does_not_complete_inherited_tokens_of_later_changes() {
    let mut run = MachineRun::holding(&[], vertices(3));
    run.check_all(CheckResult::InSync);
    rewire(&mut run, &[]);
    assert_eq!(run.machine.commands(), [check(C)]);
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [refresh(C)]);
    rewire(&mut run, &[notify(A, C)]);
    run.give(Input::Stale(A));
    let token = RefreshToken { first: A, second: C };
    assert_eq!(run.give(Input::Checked(A, CheckResult::Differs)), [Command::JournalRefresh(vec![token]), apply(A)]);
    assert_eq!(run.give(Input::Applied(A, DONE)), [settled(A, Disposition::Changed)]);
    rewire(&mut run, &[]);
    assert_eq!(run.give(Input::Refreshed(C, true)), [check(C)], "it began before that");
    assert_eq!(run.give(Input::Checked(C, CheckResult::InSync)), [refresh(C)]);
    assert_eq!(run.give(Input::Refreshed(C, true))[0], Command::ClearRefresh(vec![RefreshToken::orphaned(C)]));
}

#[test]
fn noop_vertex_notified_by_unknown_one_is_unknown() {
    let mut looked_at = vertices(3);
    looked_at.iter_mut().for_each(|vertex| vertex.noop = true);
    let mut run = MachineRun::passing(&[notify(A, B), before(A, C)], looked_at, &[]);
    run.machine.commands();
    run.give(Input::Checked(A, CheckResult::Unknown));
    assert_eq!(run.give(Input::Checked(B, CheckResult::InSync)), [settled(B, Disposition::Unknown)]);
    assert_eq!(
        run.give(Input::Checked(C, CheckResult::InSync)),
        [settled(C, Disposition::InSync)],
        "only its order depends"
    );
}

#[test]
fn noop_vertex_reports_pending_refresh_and_keeps_it() {
    let token = RefreshToken { first: A, second: B };
    let mut looked_at = vertices(2);
    looked_at[1].noop = true;
    let mut run = MachineRun::passing(&[notify(A, B)], looked_at, &[token]);
    run.machine.commands();
    run.give(Input::Checked(A, CheckResult::InSync));
    assert_eq!(run.give(Input::Checked(B, CheckResult::InSync)), [settled(B, Disposition::WouldRefresh)]);
    assert_eq!(run.machine.owed(), [token]);
    assert!(run.machine.is_finished());
}

#[test]
fn edit_drops_removed_keeps_unchanged_and_checks_new_vertices() {
    let [file1, file2] = [A, B];
    let mut run = MachineRun::holding(&[before(file1, file2)], vertices(2));
    run.check_all(CheckResult::InSync);
    // Now the second one is the first, and another one is behind it.
    let new = file1.next();
    let edges = graph(2, &[before(A, B)]).with_ids(vec![file2, new]);
    let (added, removed) = (vec![(new, vertices(1)[0])], vec![file1]);
    let diff = GraphDiff { added, removed, ..GraphDiff::of_edges(edges) };
    run.machine.input(Timestamp(5), Input::Edit(diff.into()));
    assert_eq!(run.machine.commands(), [check(new)]);
    assert_eq!(run.machine.settlement(file2), Some(Disposition::InSync));
    assert_eq!(run.give(Input::Stale(file1)), [], "an event for the removed resource in the same slot");
}

#[test]
fn slow_unrelated_change_does_not_delay_an_edit() {
    let mut run = MachineRun::holding(&[], vertices(2));
    run.machine.commands();
    run.give(Input::Checked(A, CheckResult::Differs));
    run.give(Input::Checked(B, CheckResult::InSync));
    let (changed, edges) = (vec![changed(B, vertices(1)[0], true)], graph(2, &[]).with_ids(vec![A, B.next()]));
    let diff = GraphDiff { changed, ..GraphDiff::of_edges(edges) };
    run.machine.input(Timestamp(5), Input::Edit(diff.into()));
    let other = B.next();
    assert_eq!(run.machine.commands(), [check(other)], "the first one is still being changed");
    assert_eq!(run.give(Input::Checked(other, CheckResult::InSync)), [settled(other, Disposition::InSync)]);
    assert_eq!(run.give(Input::Applied(A, DONE)), [settled(A, Disposition::Changed)]);
}

fn changed(before: ResourceId, vertex: Vertex, inherits_retries: bool) -> ChangedVertex {
    ChangedVertex { before, vertex, inherits_retries }
}

#[test]
fn answer_of_superseded_call_changes_nothing() {
    for (begun, answer) in [
        (vec![], Input::Checked(A, CheckResult::Failed)),
        (vec![Input::Checked(A, CheckResult::Differs)], Input::Applied(A, DONE)),
    ] {
        let mut run = MachineRun::holding(&[], vertices(1));
        run.machine.commands();
        begun.into_iter().for_each(|input| drop(run.give(input)));
        let edges = graph(1, &[]).with_ids(vec![A.next()]);
        let diff = GraphDiff { changed: vec![changed(A, vertices(1)[0], true)], ..GraphDiff::of_edges(edges) };
        run.machine.input(Timestamp(5), Input::Edit(diff.into()));
        assert_eq!(run.machine.commands(), [check(A.next())]);
        assert_eq!(run.give(answer), []);
        let settled_now = [settled(A.next(), Disposition::InSync)];
        assert_eq!(run.give(Input::Checked(A.next(), CheckResult::InSync)), settled_now);
    }
}

/// An edit of the only vertex: none, or another declaration, which may inherit the retries that are used up.
fn edit_of_one(vertex: Vertex, inherits_retries: Option<bool>) -> (ResourceId, Input) {
    let Some(inherits_retries) = inherits_retries else {
        return (A, Input::Edit(GraphDiff::of_edges(graph(1, &[])).into()));
    };
    let edges = graph(1, &[]).with_ids(vec![A.next()]);
    let diff = GraphDiff { changed: vec![changed(A, vertex, inherits_retries)], ..GraphDiff::of_edges(edges) };
    (A.next(), Input::Edit(diff.into()))
}

/// Returns the number of attempts of a failing vertex after an edit, if one of three attempts was used before it.
fn tries_behind_an_edit(inherits_retries: Option<bool>, retry: i32) -> u32 {
    let trying = Vertex { retry: 2, delay: 10, ..vertices(1)[0] };
    let mut run = MachineRun::holding(&[], vec![trying]);
    run.machine.commands();
    assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), [Command::SetTimer(A, Timestamp(10))]);
    let (vertex, edit) = edit_of_one(Vertex { retry, ..trying }, inherits_retries);
    run.machine.input(Timestamp(5), edit);
    run.now = Timestamp(20);
    let mut commands = if vertex == A { run.give(Input::TimerFired(A)) } else { run.machine.commands() };
    let mut tries = 0;
    while commands == [check(vertex)] {
        tries += 1;
        run.give(Input::Checked(vertex, CheckResult::Failed));
        run.now.0 += 20;
        commands = run.give(Input::TimerFired(vertex));
    }
    assert_eq!(run.machine.settlement(vertex), Some(Disposition::Failed));
    tries
}

#[test]
fn edit_keeps_remaining_retries_unless_they_are_reset() {
    assert_eq!(tries_behind_an_edit(None, 2), 2);
    assert_eq!([1, 2, 5].map(|retry| tries_behind_an_edit(Some(true), retry)), [1, 2, 5]);
    assert_eq!(tries_behind_an_edit(Some(false), 2), 3);
}

#[test]
fn failed_vertex_is_not_retried_after_unrelated_edit() {
    for inherits_retries in [None, Some(true)] {
        let mut run = MachineRun::holding(&[], vertices(1));
        run.machine.commands();
        assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), fails(A, 1000));
        let (_, edit) = edit_of_one(vertices(1)[0], inherits_retries);
        run.machine.input(Timestamp(5), edit);
        let again = run.machine.commands();
        assert_eq!(again.is_empty(), inherits_retries.is_none(), "{again:?}");
    }
}

#[test]
fn returned_call_costs_nothing_of_the_rate_limit() {
    let limits = BTreeMap::from([(A, RateLimit { interval: 100_000, burst: 1 })]);
    let mut run = MachineRun::holding_as(&[], vertices(1), HoldConfig { limits, ..HoldConfig::default() });
    assert_eq!(run.machine.commands(), [check(A)]);
    for _ in 0..3 {
        assert_eq!(run.give(Input::Pause), []);
        assert_eq!(run.give(Input::Requeued(A)), []);
        assert_eq!(run.give(Input::Edit(GraphDiff::of_edges(graph(1, &[])).into())), []);
        assert_eq!(run.give(Input::Resume), [check(A)]);
    }
}

#[test]
fn vertex_is_blocked_by_its_first_failed_parent_in_manifest_order_after_an_edit() {
    let edges = [before(A, C), before(B, C)];
    let mut run = MachineRun::holding(&edges, vertices(3));
    assert_eq!(run.check_all(CheckResult::Failed), [A, B]);
    assert_eq!(run.machine.settlement(C), Some(Disposition::Blocked(A)));
    // The graph of a fresh run has its ids in manifest order. Here A and B have changed places.
    let swapped = graph(3, &edges).with_ids(vec![B, A, C]);
    let commands = run.give(Input::Edit(GraphDiff::of_edges(swapped).into()));
    assert_eq!(commands, [settled(C, Disposition::Blocked(B))]);
}

/// The batches in which five vertices of two groups are checked; the last one comes behind the first.
fn batches(singles: [bool; 5]) -> Vec<Vec<u32>> {
    let groups = [0, 1, 0, 1, 0];
    let vertex = |at: usize| Vertex {
        group: Group { provider: groups[at], ..Group::default() },
        single: singles[at],
        ..Vertex::default()
    };
    let graph = graph(5, &[before(A, ResourceId::first(4))]);
    let mut machine = Machine::new(graph, (0..5).map(vertex).collect(), &[]);
    let batch = |command: &Command| match command {
        Command::Check(batch) => Some(batch.vertices.iter().map(|vertex| vertex.slot() as u32).collect()),
        _ => None,
    };
    machine.commands().iter().filter_map(batch).collect()
}

#[test]
fn independent_vertices_of_a_group_form_the_same_batch_each_time() {
    for _ in 0..10 {
        assert_eq!(batches([false; 5]), [vec![0, 2], vec![1, 3]], "the last one has to wait");
        assert_eq!(batches([false, true, false, true, false]), [vec![1], vec![3], vec![0, 2]]);
        assert_eq!(batches([true, false, false, false, false]), [vec![0], vec![1, 3], vec![2]]);
    }
}

#[test]
fn of_seven_that_share_a_semaphore_of_two_two_are_at_work_until_the_last() {
    let semaphores = Semaphores {
        counts: vec![2],
        of: (0..7).map(|at| (ResourceId::first(at), vec![0])).collect::<BTreeMap<_, _>>(),
    };
    let mut machine = Machine::new(graph(7, &[]), vertices(7), &[]).with_semaphores(semaphores);
    let mut at_work: Vec<ResourceId> = Vec::new();
    let mut rounds = Vec::new();
    loop {
        for command in machine.commands() {
            if let Command::Check(batch) = command {
                at_work.extend(batch.vertices);
            }
        }
        if at_work.is_empty() {
            break;
        }
        // They take the same time.
        rounds.push(at_work.len());
        for vertex in at_work.drain(..) {
            machine.input(Timestamp(rounds.len() as u64 * 10_000), Input::Checked(vertex, CheckResult::InSync));
        }
    }
    assert_eq!(rounds, [2, 2, 2, 1]);
    assert!(machine.is_finished());
}

#[test]
fn failed_blocked_and_noop_vertices_are_at_rest() {
    let mut all = vertices(3);
    all[2].noop = true;
    let mut run = MachineRun::holding(&[before(A, B)], all);
    run.machine.commands();
    run.now = Timestamp(7);
    run.give(Input::Checked(A, CheckResult::Failed));
    assert_eq!(run.machine.quiet_since(), None, "one is still looked at");
    run.now = Timestamp(9);
    assert_eq!(run.give(Input::Checked(C, CheckResult::Differs)), [settled(C, Disposition::WouldChange)]);
    assert_eq!(run.machine.quiet_since(), Some(Timestamp(9)));
}

#[test]
fn rest_starts_after_the_last_activity_and_clean_checks_do_not_count() {
    let mut run = MachineRun::holding(&[], vertices(1));
    run.check_all(CheckResult::InSync);
    assert_eq!(run.machine.quiet_since(), Some(Timestamp(0)));
    run.now = Timestamp(100);
    run.give(Input::Stale(A));
    assert_eq!(run.machine.quiet_since(), None);
    run.give(Input::Checked(A, CheckResult::InSync));
    assert_eq!(run.machine.quiet_since(), Some(Timestamp(0)));
    run.give(Input::Stale(A));
    run.give(Input::Checked(A, CheckResult::Differs));
    run.now = Timestamp(200);
    run.give(Input::Applied(A, DONE));
    assert_eq!(run.machine.quiet_since(), Some(Timestamp(200)));
}

#[test]
fn unrepaired_vertex_with_same_difference_is_at_rest() {
    let looked_at = Vertex { noop: true, ..vertices(1)[0] };
    let mut run = MachineRun::holding(&[], vec![looked_at]);
    run.machine.commands();
    run.now = Timestamp(10);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Differs)), [settled(A, Disposition::WouldChange)]);
    assert_eq!(run.machine.quiet_since(), Some(Timestamp(10)));
    for (now, verdict, since) in
        [(100, CheckResult::Differs, 10), (200, CheckResult::InSync, 10), (300, CheckResult::Differs, 300)]
    {
        run.now = Timestamp(now);
        run.give(Input::Stale(A));
        assert_eq!(run.machine.quiet_since(), None);
        run.give(Input::Checked(A, verdict));
        assert_eq!(run.machine.quiet_since(), Some(Timestamp(since)), "{verdict:?} at {now}");
    }
}

#[test]
fn repeated_failure_is_at_rest_between_retries_with_its_dependents() {
    let mut run = MachineRun::holding(&[before(A, B)], vertices(2));
    run.machine.commands();
    let failed = |at| {
        [Command::SetTimer(A, Timestamp(at)), settled(A, Disposition::Failed), settled(B, Disposition::Blocked(A))]
    };
    assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), failed(1000));
    for (now, next) in [(1000, 3000), (3000, 7000)] {
        run.now = Timestamp(now);
        assert_eq!(run.give(Input::TimerFired(A)), [check(A)]);
        assert_eq!(run.give(Input::Checked(A, CheckResult::Failed)), failed(next));
        assert_eq!(run.machine.quiet_since(), Some(Timestamp(0)), "to fail again is nothing new");
    }
    run.now = Timestamp(7000);
    run.give(Input::TimerFired(A));
    run.give(Input::Checked(A, CheckResult::Differs));
    assert_eq!(run.give(Input::Applied(A, DONE)), [settled(A, Disposition::Changed), check(B)]);
    run.give(Input::Checked(B, CheckResult::InSync));
    assert_eq!(run.machine.quiet_since(), Some(Timestamp(7000)));
}

#[test]
fn empty_graph_is_at_rest_from_the_start() {
    let mut machine = Machine::holding(graph(0, &[]), Vec::new(), &[], Timestamp(42), HoldConfig::default());
    assert_eq!(machine.commands(), []);
    assert_eq!(machine.quiet_since(), Some(Timestamp(42)));
    assert!(!machine.is_finished(), "it is held until somebody ends it");
}

#[test]
fn check_ended_by_an_interrupt_is_not_a_failure() {
    let mut run = MachineRun::holding(&[before(A, B)], vertices(2));
    run.machine.commands();
    assert_eq!(run.give(Input::Interrupt), []);
    let interrupted = |vertex| settled(vertex, Disposition::Interrupted);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Cancelled)), [interrupted(A), interrupted(B)]);
    assert!(run.machine.is_finished());
}

#[test]
fn interrupt_lets_running_calls_end_and_starts_no_dependents() {
    let mut run = MachineRun::holding(&[before(A, B), before(B, C)], vertices(3));
    run.machine.commands();
    run.give(Input::Checked(A, CheckResult::Differs));
    assert_eq!(run.give(Input::Interrupt), []);
    assert!(!run.machine.is_finished());
    let interrupted = |vertex| settled(vertex, Disposition::Interrupted);
    let first = settled(A, Disposition::Changed);
    let rest = run.give(Input::Applied(A, DONE));
    assert_eq!(rest[0], first);
    assert!(rest[1..].iter().all(|command| [interrupted(B), interrupted(C)].contains(command)), "{rest:?}");
    assert!(run.machine.is_finished());
}

/// Returns the times of the repairs, in seconds and up to `until`, of a vertex that another program changes after each
/// repair.
fn repairs_of_contested(holding: HoldConfig, until: u64) -> (MachineRun, Vec<u64>) {
    let mut run = MachineRun::holding_as(&[], vertices(1), holding);
    let (mut repairs, mut wakes) = (Vec::new(), Vec::new());
    let mut commands = run.machine.commands();
    loop {
        while let Some(command) = commands.pop() {
            match command {
                Command::Check(_) => commands.extend(run.give(Input::Checked(A, CheckResult::Differs))),
                Command::Apply(_) => {
                    repairs.push(run.now.0 / 1000);
                    commands.extend(run.give(Input::Applied(A, DONE)));
                    commands.extend(run.give(Input::Stale(A)));
                }
                Command::SetTimer(_, at) => wakes.push(at),
                _ => {}
            }
        }
        let Some(next) = wakes.iter().min().copied().filter(|at| at.0 <= until * 1000) else { return (run, repairs) };
        wakes.retain(|at| *at != next);
        run.now = next;
        commands = run.give(Input::TimerFired(A));
    }
}

#[test]
fn contested_vertex_is_repaired_at_growing_intervals_up_to_the_cap() {
    let budget = RepairBudget { repairs: 3, within: 60_000, first: 5_000, longest: 60_000 };
    let (run, repairs) = repairs_of_contested(HoldConfig { budget, ..HoldConfig::default() }, 300);
    assert_eq!(repairs, [0, 0, 0, 0, 5, 15, 35, 75, 135, 195, 255]);
    assert_eq!(run.machine.settlement(A), Some(Disposition::WouldChange));
    let contest = run.machine.contest(A).expect("it is contested");
    assert_eq!((contest.repairs, contest.since, contest.next), (11, Timestamp(0), Timestamp(315_000)));
    assert!(run.machine.quiet_since().is_some(), "a contested vertex that waits is at rest");
}

#[test]
fn contested_vertex_that_yields_is_only_watched() {
    let budget = RepairBudget { repairs: 3, within: 60_000, first: 5_000, longest: 60_000 };
    let holding = HoldConfig { budget, yielding: [A].into(), ..HoldConfig::default() };
    let (run, repairs) = repairs_of_contested(holding, 300);
    assert_eq!(repairs, [0, 0, 0, 0]);
    assert!(run.machine.is_watched_only(A) && run.machine.contest(A).is_none());
}

#[test]
fn contest_ends_after_one_quiet_interval_and_on_reinstatement() {
    let budget = RepairBudget { repairs: 3, within: 60_000, first: 5_000, longest: 60_000 };
    let (mut run, _) = repairs_of_contested(HoldConfig { budget, ..HoldConfig::default() }, 0);
    run.now = Timestamp(5_000);
    assert_eq!(run.give(Input::TimerFired(A)), [check(A)]);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Differs)), [apply(A)]);
    // The next repair may come at 15 s, so the contest is over at 25 s.
    let wake = Command::SetTimer(A, Timestamp(25_000));
    assert_eq!(run.give(Input::Applied(A, DONE)), [Command::Contested(A), wake, settled(A, Disposition::Changed)]);
    run.now = Timestamp(6_000);
    assert_eq!(run.give(Input::Stale(A)), [check(A)]);
    assert_eq!(run.give(Input::Checked(A, CheckResult::InSync)), [settled(A, Disposition::InSync)], "it is woken once");
    let mut reinstated = MachineRun { machine: run.machine.clone(), now: run.now };
    assert_eq!(reinstated.give(Input::ResetBudget(A)), [Command::Uncontested(A)]);
    run.now = Timestamp(25_000);
    assert_eq!(run.give(Input::TimerFired(A)), [Command::Uncontested(A)]);
    assert_eq!((run.machine.contest(A), run.machine.contested()), (None, 0));
}

#[test]
fn contested_vertex_is_still_refreshed_and_notifies_when_it_is_repaired() {
    let budget = RepairBudget { repairs: 0, within: 60_000, first: 5_000, longest: 60_000 };
    let mut run = MachineRun::holding_as(
        &[notify(A, B)],
        vertices(2),
        HoldConfig { budget, yielding: [B].into(), ..HoldConfig::default() },
    );
    run.machine.commands();
    run.give(Input::Checked(A, CheckResult::Differs));
    run.give(Input::Applied(A, DONE));
    assert_eq!(run.give(Input::Checked(B, CheckResult::InSync)), [refresh(B)]);
    run.give(Input::Refreshed(B, true));
    run.give(Input::Stale(A));
    run.give(Input::Checked(A, CheckResult::Differs));
    assert_eq!(run.machine.settlement(A), Some(Disposition::WouldChange));
    run.give(Input::Stale(B));
    assert!(run.give(Input::Checked(B, CheckResult::InSync)).contains(&settled(B, Disposition::InSync)));
    run.now = Timestamp(5_000);
    run.give(Input::TimerFired(A));
    let owe = Command::JournalRefresh(vec![RefreshToken { first: A, second: B }]);
    assert_eq!(run.give(Input::Checked(A, CheckResult::Differs)), [owe, apply(A)]);
}

#[test]
fn failure_does_not_block_an_independent_vertex() {
    let described = || vec![Vertex { single: true, independent: true, ..Vertex::default() }; 2];
    let passing = MachineRun::passing(&[before(A, B)], described(), &[]);
    for mut run in [passing, MachineRun::holding(&[before(A, B)], described())] {
        assert_eq!(run.machine.commands(), [check(A)]);
        let commands = run.give(Input::Checked(A, CheckResult::Failed));
        assert!(commands.contains(&settled(A, Disposition::Failed)), "{commands:?}");
        assert_eq!(commands.last(), Some(&check(B)), "the order stays");
    }
}
