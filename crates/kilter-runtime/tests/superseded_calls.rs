//! Answers to calls of resources that an edit has changed or removed meanwhile.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use kilter_model::{
    Behaviour, Catalog, Change, Meta, Outcome, Resource, ResourceRef, Semaphore, SourceId, Span, State, TypeSchema,
    Value,
};
use kilter_provider::{
    Batch, Capabilities, Context, Durability, Mode as Setting, Provider, ProviderError, Query, Registry, Scheduling,
    Strictness,
};
use kilter_runtime::{
    Event, Hold, ManifestSource, Mode, Observer, Options, Prepared, Reload, ReloadNotifier, Report, ShutdownHandle,
    plan_of,
};

/// A provider whose changes wait for their outcomes.
struct WaitingSlots {
    schema: TypeSchema,
    /// Started changes.
    begun: Mutex<Vec<String>>,
    outcomes: Mutex<Receiver<Outcome>>,
    /// Values of the slots.
    values: Mutex<BTreeMap<String, String>>,
    /// For each change, true if the catalog declared the slot `b` when its outcome came.
    declares_b: Mutex<Vec<bool>>,
}

impl Provider for WaitingSlots {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { scheduling: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let of = |(name, value): (&String, &String)| {
            State::present(name.as_str(), [("value", Value::from(value.as_str()))].into_iter().collect())
        };
        Ok(self.values.lock().unwrap().iter().map(of).collect())
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        let set = |change: &Change<'_>| {
            let value = change.should.and_then(|should| should.text("value")).unwrap_or_default();
            self.begun.lock().unwrap().push(format!("{} {value}", change.name));
            // There is an outcome for each change that the test is about.
            let outcome = self.outcomes.lock().unwrap().recv().unwrap_or_else(|_| Outcome::failed("no outcome"));
            self.declares_b.lock().unwrap().push(cx.manages("b"));
            if outcome.failure.is_none() {
                self.values.lock().unwrap().insert(change.name.to_string(), value.to_owned());
            }
            outcome
        };
        changes.iter().map(set).collect()
    }
}

impl Scheduling for WaitingSlots {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

/// A manifest that changes while a call is in flight.
struct Edited<'a> {
    after: VecDeque<Prepared>,
    slots: &'a WaitingSlots,
    /// True after the last edit.
    is_edited: &'a AtomicBool,
    /// Catalog before the last edit.
    former: &'a Mutex<Weak<Prepared>>,
}

impl ManifestSource for Edited<'_> {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn may_have_changed(&mut self) -> bool {
        false
    }

    fn begin_reading(&mut self, ring: ReloadNotifier) {
        drop(ring);
    }

    fn read(&mut self) -> Reload {
        // A worker has to have begun the change: the driver takes back a call that is only queued.
        let is_begun = !self.slots.begun.lock().unwrap().is_empty();
        match is_begun.then(|| self.after.pop_front()).flatten() {
            Some(after) => Reload::Other(after.into()),
            None => Reload::Unsettled,
        }
    }

    fn reread_interval(&self) -> Option<Duration> {
        // It is read at once, and as often as that takes.
        Some(Duration::from_millis(20))
    }

    fn discard(&mut self, former: Arc<Prepared>) {
        *self.former.lock().unwrap() = Arc::downgrade(&former);
        self.is_edited.store(self.after.is_empty(), Ordering::Release);
    }
}

/// Records the started calls and the log lines. Gives the calls their outcomes when the driver waits after the last
/// edit.
struct CallLog<'a> {
    lines: Vec<String>,
    is_edited: &'a AtomicBool,
    former: &'a Mutex<Weak<Prepared>>,
    /// True if the former catalog was still there before the calls ended.
    keeps_former: bool,
    outcomes: Vec<Outcome>,
    sender: Option<Sender<Outcome>>,
}

impl Observer for CallLog<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begun { reference, doing } => self.lines.push(format!("{doing} {}", reference.title)),
            Event::Log { message, .. } => self.lines.push(message.to_owned()),
            Event::Idle if self.is_edited.load(Ordering::Acquire) => {
                let sender = self.sender.take();
                self.keeps_former |= sender.is_some() && self.former.lock().unwrap().strong_count() > 0;
                sender.iter().for_each(|to| self.outcomes.drain(..).for_each(|outcome| to.send(outcome).unwrap()));
            }
            _ => {}
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

fn options() -> Options {
    let (durability, strictness) = (Durability::Unflushed, Strictness::Warning);
    Options { mode: Mode::Apply, jobs: 2, durability, strictness, state_dir: None }
}

fn hold(declared: &mut dyn ManifestSource) -> Hold<'_> {
    Hold {
        converged: Some(Duration::ZERO),
        until_converged: true,
        // Only a run that waits for ever reaches this.
        longest: Some(Duration::from_secs(60)),
        declared,
        watchdog_interval: None,
        paused: None,
        status_handle: None,
        status_socket: None,
    }
}

/// Report of a run, its started changes, and its started calls and log lines.
type Ran = (Report, Vec<String>, Vec<String>);

/// As [`Ran`], with true if the former catalog was still there before the calls ended, and true for each change whose
/// catalog declared the slot `b` at its end.
type RanKeeping = (Ran, bool, Vec<bool>);

/// Holds `a` with the value `x`. An edit declares other resources during the change.
fn edited(after: &[(&str, &str)], outcome: Outcome) -> Ran {
    let resources = after.iter().map(|(name, value)| slot(name, value, None)).collect();
    edited_often(slot("a", "x", None), vec![resources], vec![outcome])
}

/// Holds a resource. Edits declare other resources during its change. After them, the changes have these outcomes.
fn edited_often(before: Resource, after: Vec<Vec<Resource>>, outcomes: Vec<Outcome>) -> Ran {
    edited_keeping(before, after, outcomes).0
}

fn edited_keeping(before: Resource, after: Vec<Vec<Resource>>, outcomes: Vec<Outcome>) -> RanKeeping {
    let schema = TypeSchema::new("slot", "A slot in memory.")
        .attribute("name", "String", Behaviour::Namevar, "Its name.")
        .attribute("value", "String", Behaviour::Property, "What it holds.");
    let (sender, receiver) = channel();
    let (begun, values, declares_b) = (Mutex::default(), Mutex::default(), Mutex::default());
    let slots = Arc::new(WaitingSlots { schema, begun, outcomes: Mutex::new(receiver), values, declares_b });
    let registry = Registry::new([Arc::clone(&slots) as Arc<dyn Provider>]).unwrap();
    let plan = |resources: Vec<Resource>| {
        plan_of(Catalog::of(resources), &registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{rejected:?}"))
    };
    let (stop, is_edited) = (ShutdownHandle::new().unwrap(), AtomicBool::new(false));
    let (former, after) = (Mutex::default(), after.into_iter().map(plan).collect());
    let mut declared = Edited { after, slots: &slots, is_edited: &is_edited, former: &former };
    let mut recorder = CallLog {
        lines: Vec::new(),
        is_edited: &is_edited,
        former: &former,
        keeps_former: false,
        outcomes,
        sender: Some(sender),
    };
    let report = plan(vec![before]).hold(&options(), hold(&mut declared), &stop, &mut recorder).unwrap();
    let begun = slots.begun.lock().unwrap().clone();
    let declares_b = slots.declares_b.lock().unwrap().clone();
    ((report, begun, recorder.lines), recorder.keeps_former, declares_b)
}

fn slot(name: &str, value: &str, semaphore: Option<&str>) -> Resource {
    let attributes = [("value", Value::from(value))].into_iter().collect();
    let (reference, span) = (ResourceRef::new("slot", name), Span::new(SourceId(0), 0, 0));
    let mut resource = Resource { reference, name: name.into(), attributes, particulars: None, span };
    if let Some(id) = semaphore {
        let semaphores = vec![Semaphore { id: id.into(), count: 1 }];
        resource.particulars_mut().meta = Some(Meta { semaphores, ..Meta::default() });
    }
    resource
}

const ENDED: &str = "a call from before the edit of the manifest has ended";

fn fatal() -> Outcome {
    Outcome { fatal: true, ..Outcome::failed("no power") }
}

#[test]
fn fatal_failure_of_edited_resource_ends_the_run() {
    let (report, begun, told) = edited(&[("a", "other")], fatal());
    assert_eq!(begun, ["a x"], "what takes its place is not begun");
    let ended_by = report.ended_by.as_ref().map(ToString::to_string);
    assert_eq!((ended_by.as_deref(), report.has_failures(), report.interrupted), (Some("slot[a]"), true, false));
    assert_eq!(report.resources[0].status.word(), "interrupted");
    let said = "a call from before the edit of the manifest has failed, which ends the run: no power";
    assert!(told.iter().any(|line| line == said), "{told:?}");
}

#[test]
fn edited_run_reports_in_manifest_order() {
    // The added resource comes first, and its id comes last.
    let (report, _, _) = edited(&[("b", "x"), ("a", "other")], fatal());
    let names: Vec<&str> = report.resources.iter().map(|one| one.reference.title.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn fatal_failure_of_removed_resource_ends_the_run() {
    let (report, _, _) = edited(&[], fatal());
    assert_eq!(report.ended_by.as_ref().map(ToString::to_string).as_deref(), Some("slot[a]"));
    assert!(report.has_failures() && report.counts.failed == 0, "{report:?}");
}

#[test]
fn fatal_failure_of_unchanged_resource_ends_the_run() {
    let (report, begun, _) = edited(&[("a", "x")], fatal());
    assert_eq!(report.ended_by.as_ref().map(ToString::to_string).as_deref(), Some("slot[a]"));
    assert!(report.counts.failed == 1 && begun[0] == "a x", "{report:?} {begun:?}");
}

#[test]
fn answer_for_a_removed_resource_does_not_count_for_the_resource_that_is_declared_again() {
    // The resource is gone for one edit, then declared as before or in another way.
    let calls = ["checking a", "changing a"];
    for (value, begun, further) in [("x", &["a x"][..], &calls[..1]), ("y", &["a x", "a y"][..], &calls[..])] {
        let after = vec![vec![], vec![slot("a", value, None)]];
        let (report, was_begun, told) = edited_often(slot("a", "x", None), after, vec![Outcome::done(); 2]);
        assert_eq!(was_begun, begun);
        let settled = report.settled.unwrap();
        assert_eq!((settled.changed, settled.failed), (begun.len() - 1, 0), "{told:?}");
        // The new resource waits for the call of the removed one.
        assert_eq!(told, [&calls[..], &[ENDED], further].concat());
    }
}

#[test]
fn failure_of_a_removed_resource_does_not_count_for_the_resource_that_is_declared_again() {
    let after = vec![vec![], vec![slot("a", "x", None)]];
    let outcomes = vec![Outcome::failed("no power"), Outcome::done()];
    let (report, begun, told) = edited_often(slot("a", "x", None), after, outcomes);
    assert_eq!(begun, ["a x", "a x"]);
    let settled = report.settled.unwrap();
    assert_eq!((settled.changed, settled.failed), (1, 0), "{told:?}");
    let failed = "a call from before the edit of the manifest has failed: no power";
    assert_eq!(told, ["checking a", "changing a", failed, "checking a", "changing a"]);
}

#[test]
fn replacement_of_a_resource_starts_when_the_call_of_the_former_declaration_ends() {
    let after = vec![vec![slot("a", "y", None)]];
    let (report, begun, told) = edited_often(slot("a", "x", None), after, vec![Outcome::done(); 2]);
    assert_eq!((begun, report.settled.unwrap().changed), (vec!["a x".to_owned(), "a y".to_owned()], 1));
    assert_eq!(told, ["checking a", "changing a", ENDED, "checking a", "changing a"]);
}

#[test]
fn call_of_an_unchanged_resource_asks_the_next_catalog() {
    let after = vec![vec![slot("a", "x", None), slot("b", "x", None)]];
    let (ran, keeps_former, declares_b) = edited_keeping(slot("a", "x", None), after, vec![Outcome::done(); 2]);
    let (report, begun, _) = ran;
    assert_eq!((begun, report.settled.unwrap().changed), (vec!["a x".to_owned(), "b x".to_owned()], 2));
    assert_eq!((keeps_former, declares_b), (false, vec![true, true]));
}

#[test]
fn call_of_a_changed_resource_asks_the_former_catalog() {
    let after = vec![vec![slot("a", "y", None), slot("b", "x", None)]];
    let (ran, keeps_former, declares_b) = edited_keeping(slot("a", "x", None), after, vec![Outcome::done(); 3]);
    assert_eq!(ran.1.first().map(String::as_str), Some("a x"));
    assert_eq!((keeps_former, declares_b), (true, vec![false, true, true]));
}

#[test]
fn semaphore_of_a_removed_resource_is_free_when_its_call_ends() {
    let after = vec![vec![slot("b", "x", Some("one"))]];
    let (report, begun, told) = edited_often(slot("a", "x", Some("one")), after, vec![Outcome::done(); 2]);
    assert_eq!((begun, report.settled.unwrap().changed), (vec!["a x".to_owned(), "b x".to_owned()], 1));
    assert_eq!(told, ["checking a", "changing a", ENDED, "checking b", "changing b"]);
}

#[test]
fn semaphore_that_only_a_call_in_flight_holds_keeps_its_number_over_edits() {
    let b = || slot("b", "x", Some("two"));
    let after = vec![vec![b()], vec![b(), slot("c", "x", Some("one"))]];
    let (report, _, told) = edited_often(slot("a", "x", Some("one")), after, vec![Outcome::done(); 4]);
    assert_eq!(report.settled.unwrap().changed, 2);
    let at = |line: &str| told.iter().position(|told| told == line).unwrap();
    assert!(at(ENDED) < at("checking c"), "{told:?}");
}
