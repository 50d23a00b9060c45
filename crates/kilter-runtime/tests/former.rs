//! What was begun for what is declared in another way when it ends.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use kilter_model::{
    Behaviour, Catalog, Change, Outcome, Resource, ResourceRef, SourceId, Span, State, TypeSchema, Value,
};
use kilter_provider::{
    Batch, Capabilities, Context, Durability, Mode as Setting, Provider, ProviderError, Query, Registry, Scheduling,
    Strictness,
};
use kilter_runtime::{
    Event, Hold, ManifestSource, Mode, Observer, Options, Prepared, Reload, ReloadNotifier, Report, ShutdownHandle,
    plan_of,
};

/// A provider whose changes wait until they are told what comes of them.
struct Slots {
    schema: TypeSchema,
    /// What was begun.
    begun: Mutex<Vec<String>>,
    outcomes: Mutex<Receiver<Outcome>>,
}

impl Provider for Slots {
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
        Ok(Vec::new())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        let set = |change: &Change<'_>| {
            let value = change.should.and_then(|should| should.text("value")).unwrap_or_default();
            self.begun.lock().unwrap().push(format!("{} {value}", change.name));
            self.outcomes.lock().unwrap().recv().unwrap()
        };
        changes.iter().map(set).collect()
    }
}

impl Scheduling for Slots {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

/// What is declared in another way as soon as it is read.
struct Edited<'a> {
    after: Option<Prepared>,
    slots: &'a Slots,
    /// What comes of what was begun before.
    outcome: Option<(Sender<Outcome>, Outcome)>,
}

impl ManifestSource for Edited<'_> {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_touched(&mut self) -> bool {
        false
    }

    fn begin_reading(&mut self, ring: ReloadNotifier) {
        drop(ring);
    }

    fn read(&mut self) -> Reload {
        // A worker has to have begun the change: the driver takes back a call that is only queued.
        let is_begun = !self.slots.begun.lock().unwrap().is_empty();
        match self.after.take_if(|_| is_begun) {
            Some(after) => Reload::Other(after.into()),
            None => Reload::Unsettled,
        }
    }

    fn reread_interval(&self) -> Option<std::time::Duration> {
        // It is read at once, and as often as that takes.
        Some(std::time::Duration::from_millis(20))
    }

    fn discard(&mut self, _: Arc<Prepared>) {
        // The edit is made: the call that it supersedes ends.
        if let Some((sender, outcome)) = self.outcome.take() {
            sender.send(outcome).unwrap();
        }
    }
}

/// What is done, and what is logged.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Observer for Told {
    fn event(&mut self, event: Event<'_>) {
        let line = match event {
            Event::Begun { doing, .. } => doing,
            Event::Log { message, .. } => message,
            _ => return,
        };
        self.0.lock().unwrap().push(line.to_owned());
    }
}

fn options() -> Options {
    let (durability, strictness) = (Durability::Unflushed, Strictness::Warning);
    Options { mode: Mode::Apply, jobs: 2, durability, strictness, state_dir: None }
}

fn hold(declared: &mut dyn ManifestSource) -> Hold<'_> {
    Hold {
        converged: None,
        until_converged: false,
        longest: None,
        declared,
        watchdog_interval: None,
        paused: None,
        window: None,
        status_socket: None,
    }
}

/// Holds a resource of this value while that is edited into the others, and its change comes to this; what was begun, and told.
fn edited(after: &[(&str, &str)], outcome: Outcome) -> (Report, Vec<String>, Vec<String>) {
    let schema = TypeSchema::new("slot", "A slot in memory.")
        .attribute("name", "String", Behaviour::Namevar, "Its name.")
        .attribute("value", "String", Behaviour::Property, "What it holds.");
    let (sender, outcomes) = channel();
    let slots = Arc::new(Slots { schema, begun: Mutex::default(), outcomes: Mutex::new(outcomes) });
    let registry = Registry::new([Arc::clone(&slots) as Arc<dyn Provider>]);
    let plan = |all: &[(&str, &str)]| {
        let resources = all.iter().map(|(name, value)| slot(name, value)).collect();
        plan_of(Catalog { resources, ..Catalog::default() }, &registry, &Context::empty())
            .unwrap_or_else(|rejected| panic!("{rejected:?}"))
    };
    let (before, stop, told) = (plan(&[("a", "x")]), ShutdownHandle::new().unwrap(), Told::default());
    let mut declared = Edited { after: Some(plan(after)), slots: &slots, outcome: Some((sender, outcome)) };
    let report = before.hold(&options(), hold(&mut declared), &stop, &mut told.clone()).unwrap();
    let (begun, told) = (slots.begun.lock().unwrap().clone(), told.0.lock().unwrap().clone());
    (report, begun, told)
}

fn slot(name: &str, value: &str) -> Resource {
    let attributes = [("value", Value::from(value))].into_iter().collect();
    let (reference, span) = (ResourceRef::new("slot", name), Span::new(SourceId(0), 0, 0));
    Resource { reference, name: name.into(), attributes, particulars: None, span }
}

fn fatal() -> Outcome {
    Outcome { fatal: true, ..Outcome::failed("no power") }
}

#[test]
fn a_fatal_failure_of_what_is_declared_otherwise_by_now_ends_the_run() {
    let (report, begun, told) = edited(&[("a", "other")], fatal());
    assert_eq!(begun, ["a x"], "what takes its place is not begun");
    let ended_by = report.ended_by.as_ref().map(ToString::to_string);
    assert_eq!((ended_by.as_deref(), report.has_failures(), report.interrupted), (Some("slot[a]"), true, false));
    assert_eq!(report.resources[0].status.word(), "interrupted");
    let said = "what was begun before the manifest was edited has failed, which ends the run: no power";
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
fn a_fatal_failure_of_what_is_declared_no_longer_ends_the_run() {
    let (report, _, _) = edited(&[], fatal());
    assert_eq!(report.ended_by.as_ref().map(ToString::to_string).as_deref(), Some("slot[a]"));
    assert!(report.has_failures() && report.counts.failed == 0, "{report:?}");
}

#[test]
fn a_fatal_failure_of_what_is_declared_as_before_ends_the_run() {
    let (report, begun, _) = edited(&[("a", "x")], fatal());
    assert_eq!(report.ended_by.as_ref().map(ToString::to_string).as_deref(), Some("slot[a]"));
    assert!(report.counts.failed == 1 && begun[0] == "a x", "{report:?} {begun:?}");
}
