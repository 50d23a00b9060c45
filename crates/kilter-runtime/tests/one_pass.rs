//! One pass over a catalog with a provider whose system is a map in memory.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use ecow::{EcoString, eco_format};
use kilter_model::expr::Template;
use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Deferred, Feature, Meta, Outcome, Relation, RelationKind, Resource,
    ResourceRef, SourceId, Span, State, TypeSchema, Value,
};
use kilter_provider::{
    Batch, Capabilities, Context, Durability, Mode as Setting, OutputDefaults, Placement, Provider, ProviderError,
    Query, Refresh, Registry, Scheduling, Strictness, Wanted,
};
use kilter_runtime::{
    Event, Mode, NullObserver, Observer, Options, Prepared, Report, ShutdownHandle, StateDir, Status, plan_of,
};

/// A provider with resources in a map. Attributes of a resource select its misbehaviour.
struct Things {
    schema: TypeSchema,
    placement: Placement,
    batch: Batch,
    world: Mutex<ThingsState>,
    bell: Condvar,
}

#[derive(Default)]
struct ThingsState {
    values: BTreeMap<String, Value>,
    failures_left: BTreeMap<String, u32>,
    log: Vec<String>,
    batches: Vec<usize>,
    running: usize,
    most_running: usize,
    held: bool,
    /// The next check requests the end of the run, and waits for its interrupt.
    stops: Option<Arc<ShutdownHandle>>,
    /// Number of changes that must run at the same time before any of them continues.
    meeting: usize,
}

impl Things {
    fn new(placement: Placement, batch: Batch) -> Arc<Things> {
        let schema = TypeSchema::new("thing", "A thing in memory.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("value", "Any", Behaviour::Property, "What it holds.")
            .attribute("fail", "Integer", Behaviour::Parameter, "How often its change fails.")
            .attribute("lie", "Boolean", Behaviour::Parameter, "Whether its change says done and does nothing.")
            .attribute("panic", "Boolean", Behaviour::Parameter, "Whether its change panics.")
            .attribute("fallback", "String", Behaviour::Parameter, "What it sends while nothing else is known.")
            .attribute("bad_refresh", "Boolean", Behaviour::Parameter, "Whether its refresh fails.")
            .features(&[Feature::Refresh, Feature::SimpleGetFilter])
            .output("sent", "String", "Its value in capitals.");
        Arc::new(Things { schema, placement, batch, world: Mutex::default(), bell: Condvar::new() })
    }

    fn world(&self) -> std::sync::MutexGuard<'_, ThingsState> {
        self.world.lock().unwrap()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.world().log)
    }

    fn set_one(&self, change: &Change<'_>) -> Outcome {
        let should = change.should.unwrap();
        let mut world = self.world();
        while world.held {
            world = self.bell.wait(world).unwrap();
        }
        world.log.push(format!("set {}", change.name));
        assert!(!should.get_bool("panic").unwrap_or(false), "as asked");
        let left = world
            .failures_left
            .entry(change.name.to_string())
            .or_insert_with(|| should.get("fail").and_then(Value::as_integer).unwrap_or(0) as u32);
        if *left > 0 {
            *left -= 1;
            return Outcome::failed("as asked");
        }
        let value = should.get("value").cloned().unwrap_or_default();
        let mut outcome = Outcome::done();
        outcome.outputs.push("sent", value.to_string().to_uppercase());
        if !should.get_bool("lie").unwrap_or(false) {
            world.values.insert(change.name.to_string(), value);
        }
        outcome.by = "said by hand".into();
        outcome
    }
}

impl Provider for Things {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { scheduling: Some(self), refresh: Some(self), outputs: Some(self), ..Capabilities::default() }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return Err(ProviderError::new("name them")) };
        let stops = self.world().stops.take();
        if let Some(stop) = stops {
            stop.request();
            let why = if cx.interrupt().is_raised() { "interrupted" } else { "the run waits for this check" };
            return Err(ProviderError::new(why));
        }
        let world = self.world();
        let found = wanted.iter().filter_map(|wanted| {
            let value = world.values.get(wanted.name.as_str())?;
            Some(State::present(wanted.name.clone(), [("value", value.clone())].into_iter().collect()))
        });
        Ok(found.collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], mode: Setting) -> Vec<Outcome> {
        assert_eq!(mode, Setting::Apply);
        {
            let mut world = self.world();
            world.batches.push(changes.len());
            world.running += 1;
            world.most_running = world.most_running.max(world.running);
            self.bell.notify_all();
            let alone = |world: &mut ThingsState| world.most_running < world.meeting;
            let longest = std::time::Duration::from_secs(120);
            drop(self.bell.wait_timeout_while(world, longest, alone).unwrap());
        }
        let outcomes = changes.iter().map(|change| self.set_one(change)).collect();
        self.world().running -= 1;
        outcomes
    }
}

impl Scheduling for Things {
    fn placement(&self, _: &Attributes) -> Placement {
        self.placement
    }

    fn batch_size(&self) -> Batch {
        self.batch
    }
}

impl Refresh for Things {
    fn refresh(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.world().log.push(format!("refresh {}", wanted.name));
        match wanted.should.unwrap().get_bool("bad_refresh") {
            Some(true) => Outcome::failed("no"),
            _ => Outcome::done(),
        }
    }
}

impl OutputDefaults for Things {
    fn default_outputs(&self, should: &Attributes) -> Attributes {
        should.get("fallback").into_iter().map(|fallback| ("sent", fallback.clone())).collect()
    }
}

fn span() -> Span {
    Span::new(SourceId(0), 0, 0)
}

fn thing(name: &str, attributes: &[(&str, Value)]) -> Resource {
    Resource {
        reference: ResourceRef::new("thing", name),
        name: name.into(),
        attributes: attributes.iter().map(|(name, value)| (*name, value.clone())).collect(),
        particulars: None,
        span: span(),
    }
}

fn valued(name: &str) -> Resource {
    thing(name, &[("value", "x".into())])
}

fn relation(first: u32, second: u32, kind: RelationKind) -> Relation {
    Relation { first, second, kind, span: span() }
}

struct Fixture {
    things: Arc<Things>,
    registry: Registry,
    state: tempfile::TempDir,
}

impl Fixture {
    fn new(placement: Placement, batch: Batch) -> Fixture {
        let things = Things::new(placement, batch);
        let registry = Registry::new([Arc::clone(&things) as Arc<dyn Provider>]).unwrap();
        let state = tempfile::Builder::new().permissions(permissions()).tempdir().unwrap();
        Fixture { things, registry, state }
    }

    fn inline() -> Fixture {
        Fixture::new(Placement::Inline, Batch::Whole)
    }

    fn prepared(&self, resources: Vec<Resource>, relations: &[Relation]) -> Prepared {
        let catalog = Catalog { relations: relations.to_vec(), ..Catalog::of(resources) };
        plan_of(catalog, &self.registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{rejected:?}"))
    }

    fn options(&self, mode: Mode) -> Options {
        let state_dir = Some(StateDir::new(self.state.path()));
        Options { mode, jobs: 4, durability: Durability::Flushed, strictness: Strictness::Warning, state_dir }
    }

    fn run(&self, mode: Mode, resources: Vec<Resource>, relations: &[Relation]) -> Report {
        self.prepared(resources, relations)
            .execute(&self.options(mode), &ShutdownHandle::new().unwrap(), &mut NullObserver)
            .unwrap()
    }
}

fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o700)
}

fn statuses(report: &Report) -> Vec<(String, Status)> {
    report.resources.iter().map(|r| (r.reference.title.to_string(), r.status)).collect()
}

#[test]
fn first_pass_changes_drift_and_second_changes_nothing() {
    let fixture = Fixture::inline();
    let resources = || vec![valued("a"), valued("b")];
    let report = fixture.run(Mode::Apply, resources(), &[]);
    assert_eq!(report.counts.changed, 2);
    assert_eq!(fixture.things.world().batches, [2], "one provider, one batch");
    let report = fixture.run(Mode::Apply, resources(), &[]);
    assert_eq!((report.counts.in_sync, report.resources.len()), (2, 0));
}

#[test]
fn a_plan_changes_nothing_and_takes_no_lock() {
    let fixture = Fixture::inline();
    let report = fixture.run(Mode::Noop, vec![valued("a")], &[]);
    assert_eq!(statuses(&report), [("a".to_owned(), Status::WouldChange)]);
    assert!(fixture.things.log().is_empty());
    assert_eq!(std::fs::read_dir(fixture.state.path()).unwrap().count(), 0);
}

#[test]
fn relations_give_the_order() {
    let fixture = Fixture::inline();
    let relations = [relation(2, 1, RelationKind::Require), relation(1, 0, RelationKind::Before)];
    fixture.run(Mode::Apply, vec![valued("a"), valued("b"), valued("c")], &relations);
    assert_eq!(fixture.things.log(), ["set c", "set b", "set a"]);
}

#[test]
fn dependents_of_failure_are_skipped_with_the_reason_and_others_run() {
    let fixture = Fixture::inline();
    let resources =
        vec![thing("a", &[("value", "x".into()), ("fail", Value::from(9))]), valued("b"), valued("c"), valued("d")];
    let relations = [relation(0, 1, RelationKind::Before), relation(1, 2, RelationKind::Before)];
    let report = fixture.run(Mode::Apply, resources, &relations);
    let expected = [("a", Status::Failed), ("b", Status::Skipped), ("c", Status::Skipped), ("d", Status::Changed)];
    assert_eq!(statuses(&report), expected.map(|(name, status)| (name.to_owned(), status)));
    assert_eq!(report.resources[2].because_of.as_ref().unwrap().title, "a");
    assert_eq!(report.resources[0].failure.as_deref(), Some("as asked"));
}

#[test]
fn change_that_leaves_a_difference_is_a_failure() {
    let fixture = Fixture::inline();
    let report = fixture.run(Mode::Apply, vec![thing("a", &[("value", "x".into()), ("lie", true.into())])], &[]);
    assert_eq!(report.counts.failed, 1);
    let failure = report.resources[0].failure.as_deref().unwrap();
    let expected = "still not in its state after the change: value is undef, should be x (said by hand)";
    assert_eq!(failure, expected);
}

#[test]
fn remaining_differences_are_shortened_in_messages() {
    let fixture = Fixture::inline();
    let value = format!("{}b", "a".repeat(130_000));
    let thing = thing("a", &[("value", value.as_str().into()), ("lie", true.into())]);
    let report = fixture.run(Mode::Apply, vec![thing], &[]);
    let failure = report.resources[0].failure.as_deref().unwrap();
    assert!(failure.len() < 400 && failure.contains("aaab (130001 characters)"), "{failure}");
}

#[test]
fn a_provider_that_panics_fails_its_resource_only() {
    let fixture = Fixture::new(Placement::Worker, Batch::One);
    let report = fixture.run(Mode::Apply, vec![thing("a", &[("value", "x".into()), ("panic", true.into())])], &[]);
    assert_eq!(report.counts.failed, 1);
    assert!(report.resources[0].failure.as_deref().unwrap().contains("panicked"));
}

#[test]
fn failure_is_retried_as_often_as_declared() {
    let fixture = Fixture::inline();
    let mut resource = thing("a", &[("value", "x".into()), ("fail", Value::from(2))]);
    resource.particulars_mut().meta = Some(Meta { retry: 2, delay: 1, ..Meta::default() });
    let report = fixture.run(Mode::Apply, vec![resource], &[]);
    assert_eq!(statuses(&report), [("a".to_owned(), Status::Changed)]);
    assert_eq!(report.resources[0].tries, 3);
}

#[test]
fn a_change_refreshes_along_notify_edges_and_only_then() {
    let fixture = Fixture::inline();
    let resources = || vec![valued("a"), valued("b"), valued("c")];
    let relations = [relation(0, 1, RelationKind::Notify), relation(1, 2, RelationKind::Before)];
    fixture.things.world().values.extend([("b".to_owned(), "x".into()), ("c".to_owned(), "x".into())]);
    let report = fixture.run(Mode::Apply, resources(), &relations);
    assert_eq!(fixture.things.log(), ["set a", "refresh b"]);
    assert_eq!(report.resources[1].refreshed_by[0].title, "a");
    fixture.run(Mode::Apply, resources(), &relations);
    assert!(fixture.things.log().is_empty());
}

#[test]
fn failed_refresh_is_pending_in_the_next_run() {
    let fixture = Fixture::inline();
    let bad = |bad: bool| vec![valued("a"), thing("b", &[("value", "x".into()), ("bad_refresh", bad.into())])];
    fixture.things.world().values.insert("b".to_owned(), "x".into());
    let relations = [relation(0, 1, RelationKind::Subscribe)];
    let report = fixture.run(Mode::Apply, bad(true), &relations);
    assert_eq!((report.counts.failed, report.owed.len()), (1, 1));
    let plan = fixture.run(Mode::Noop, bad(false), &relations);
    assert_eq!(plan.counts.would_refresh, 1);
    fixture.things.log();
    let report = fixture.run(Mode::Apply, bad(false), &relations);
    assert_eq!(fixture.things.log(), ["refresh b"]);
    assert_eq!((report.counts.refreshed, report.owed.len()), (1, 0));
    fixture.run(Mode::Apply, bad(false), &relations);
    assert!(fixture.things.log().is_empty());
}

#[test]
fn refresh_stays_pending_without_its_sender() {
    let fixture = Fixture::inline();
    let bad = |bad: bool| thing("b", &[("value", "x".into()), ("bad_refresh", bad.into())]);
    fixture.things.world().values.insert("b".to_owned(), "x".into());
    fixture.run(Mode::Apply, vec![valued("a"), bad(true)], &[relation(0, 1, RelationKind::Notify)]);
    fixture.things.log();
    let plan = fixture.run(Mode::Noop, vec![bad(false)], &[]);
    assert_eq!(plan.counts.would_refresh, 1);
    let report = fixture.run(Mode::Apply, vec![valued("c")], &[]);
    assert_eq!(report.owed.len(), 0, "another manifest knows nothing of it");
    let report = fixture.run(Mode::Apply, vec![bad(false)], &[]);
    assert_eq!(fixture.things.log(), ["set c", "refresh b"]);
    assert_eq!((report.counts.refreshed, report.owed.len()), (1, 0));
    fixture.run(Mode::Apply, vec![bad(false)], &[]);
    assert!(fixture.things.log().is_empty());
    let journal = kilter_runtime::Journal::open(fixture.state.path(), Durability::Flushed).expect("it is not damaged");
    assert_eq!(journal.owed().count(), 0, "nothing is owed any more");
}

#[test]
fn journal_that_cannot_be_written_refuses_only_changes_with_a_refresh() {
    let fixture = Fixture::inline();
    // A directory in the place of the new journal cannot be replaced by it.
    std::fs::create_dir(fixture.state.path().join("journal.new")).expect("the directory is ours");
    let relations = [relation(1, 2, RelationKind::Notify)];
    let report = fixture.run(Mode::Apply, vec![valued("a"), valued("b"), valued("c")], &relations);
    assert!(report.journal.is_some() && report.has_failures());
    assert_eq!(fixture.things.log(), ["set a"], "`b` would need a refresh of `c`");
    assert!(report.owed.is_empty(), "no change needs a refresh: {:?}", report.owed);
    let counts = &report.counts;
    assert_eq!((counts.total, counts.changed, counts.failed, counts.skipped), (3, 1, 1, 1));
}

fn receiver() -> Resource {
    let template = Template::parse("got ${thing[a].sent}").unwrap();
    let deferred = Deferred { attribute: "value".into(), template, sensitive: false, span: span() };
    let mut receiver = thing("b", &[]);
    receiver.particulars_mut().deferred.push(deferred);
    receiver
}

#[test]
fn a_value_is_sent_along_the_graph_and_kept_for_later_runs() {
    let fixture = Fixture::inline();
    let plan = fixture.run(Mode::Noop, vec![receiver(), valued("a")], &[]);
    assert_eq!(plan.resources[0].status, Status::Unknown);
    assert_eq!(plan.resources[0].unknown, [("value".into(), eco_format!("after thing[a] has run"))]);
    fixture.run(Mode::Apply, vec![receiver(), valued("a")], &[]);
    assert_eq!(fixture.things.log(), ["set a", "set b"]);
    assert_eq!(fixture.things.world().values["b"], Value::from("got X"));
    let report = fixture.run(Mode::Apply, vec![receiver(), valued("a")], &[]);
    assert_eq!(report.counts.in_sync, 2);
}

#[test]
fn in_sync_resource_without_outputs_sends_the_declared_defaults() {
    let fixture = Fixture::inline();
    let sender = || thing("a", &[("value", "x".into()), ("fallback", "nothing".into())]);
    let plan = fixture.run(Mode::Noop, vec![receiver(), sender()], &[]);
    assert_eq!(plan.resources[0].status, Status::Unknown);
    fixture.things.world().values.insert("a".into(), "x".into());
    for _ in 0..2 {
        fixture.run(Mode::Apply, vec![receiver(), sender()], &[]);
        assert_eq!(fixture.things.world().values["b"], Value::from("got nothing"));
    }
    fixture.things.world().values.remove("a");
    for _ in 0..2 {
        fixture.run(Mode::Apply, vec![receiver(), sender()], &[]);
        assert_eq!(fixture.things.world().values["b"], Value::from("got X"));
    }
}

#[test]
fn independent_branches_run_side_by_side() {
    let fixture = Fixture::new(Placement::Worker, Batch::One);
    fixture.things.world().meeting = 2;
    let names: Vec<EcoString> = (0..4).map(|n| eco_format!("t{n}")).collect();
    let report = fixture.run(Mode::Apply, names.iter().map(|name| valued(name)).collect(), &[]);
    assert_eq!(report.counts.changed, 4);
    assert!(fixture.things.world().most_running > 1);
}

/// Requests the end of the run when the first resource is being worked on.
struct Impatient<'a>(&'a ShutdownHandle, &'a Things);

impl Observer for Impatient<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begun { .. } if self.0.requests() == 0 => {
                self.1.world().held = true;
                self.0.request();
            }
            Event::Interrupted { .. } => {
                self.1.world().held = false;
                self.1.bell.notify_all();
            }
            _ => {}
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

#[test]
fn interrupt_finishes_running_calls_and_reports_the_others() {
    let fixture = Fixture::new(Placement::Worker, Batch::One);
    let relations = [relation(0, 1, RelationKind::Before)];
    let prepared = fixture.prepared(vec![valued("a"), valued("b")], &relations);
    let stop = ShutdownHandle::new().unwrap();
    let mut observer = Impatient(&stop, &fixture.things);
    let report = prepared.execute(&fixture.options(Mode::Apply), &stop, &mut observer).unwrap();
    assert!(report.interrupted);
    assert_eq!(report.counts.interrupted + report.counts.changed, 2);
    assert_eq!(report.resources[1].status, Status::Interrupted);
}

#[test]
fn first_interrupt_ends_checks() {
    for timeout in [0, 3_600_000] {
        let fixture = Fixture::new(Placement::Worker, Batch::One);
        let stop = Arc::new(ShutdownHandle::new().unwrap());
        fixture.things.world().stops = Some(Arc::clone(&stop));
        let mut checked = valued("a");
        checked.particulars_mut().meta = Some(Meta { timeout, ..Meta::default() });
        let prepared = fixture.prepared(vec![checked], &[]);
        let report = prepared.execute(&fixture.options(Mode::Apply), &stop, &mut NullObserver).unwrap();
        let reached = (report.resources[0].status, report.resources[0].failure.as_deref());
        assert_eq!(reached, (Status::Interrupted, None), "timeout {timeout}");
    }
}

#[test]
fn interrupt_cancels_queued_calls() {
    let fixture = Fixture::new(Placement::Worker, Batch::One);
    let names: Vec<EcoString> = (0..12).map(|n| eco_format!("t{n}")).collect();
    let prepared = fixture.prepared(names.iter().map(|name| valued(name)).collect(), &[]);
    let stop = ShutdownHandle::new().unwrap();
    let mut observer = Impatient(&stop, &fixture.things);
    let options = Options { jobs: 1, ..fixture.options(Mode::Apply) };
    let report = prepared.execute(&options, &stop, &mut observer).unwrap();
    assert!(report.counts.changed <= 1, "{:?}", report.counts);
    assert_eq!(report.counts.changed + report.counts.interrupted, 12);
}

#[test]
fn noop_resource_is_checked_and_does_not_block() {
    let fixture = Fixture::inline();
    let mut looked_at = valued("a");
    looked_at.particulars_mut().meta = Some(Meta { noop: true, ..Meta::default() });
    let report = fixture.run(Mode::Apply, vec![looked_at, valued("b")], &[relation(0, 1, RelationKind::Notify)]);
    assert_eq!(fixture.things.log(), ["set b"]);
    assert_eq!((report.counts.would_change, report.counts.changed), (1, 1));
}

/// Takes a POSIX lock on its argument, says so, and waits.
const HOLDS_LOCK: &str = r#"use Fcntl; open(F, "+>", $ARGV[0]) or die; my $lock = pack("s s x4 q q l x4", F_WRLCK, 0, 0, 0, 0);
    fcntl(F, F_SETLK, $lock) or die $!; $| = 1; print "held\n"; sleep 60"#;

#[test]
fn second_run_names_the_holder_of_the_lock() {
    let fixture = Fixture::inline();
    let path = fixture.state.path().join("lock");
    let lock = std::process::Command::new("perl")
        .args(["-e", HOLDS_LOCK])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = lock.expect("perl is part of every Debian system");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let prepared = fixture.prepared(vec![valued("a")], &[]);
    let error = prepared
        .execute(&fixture.options(Mode::Apply), &ShutdownHandle::new().unwrap(), &mut NullObserver)
        .unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    assert!(fixture.things.log().is_empty());
}
