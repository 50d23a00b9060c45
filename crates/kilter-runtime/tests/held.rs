//! A state that is held, with a provider that keeps what it was told to do in memory until it is flushed.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod unedited;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Meta, Outcome, Resource, ResourceRef, SourceId, Span, State, TypeSchema,
    Value,
};
use kilter_provider::{
    Context, Durability, Mode as Setting, Provider, ProviderError, Query, Registry, Strictness, Tell, Wanted, Watch,
};
use kilter_runtime::{Event, Held, Hold, Mode, Observer, Options, Report, Stop, plan_of};
use unedited::Fixed;

/// A provider that cannot set what is called `bad`.
struct Slots {
    schema: TypeSchema,
    set: Mutex<BTreeSet<String>>,
    tries: Mutex<u32>,
    /// How often it cannot be flushed.
    stuck: Mutex<u32>,
    /// How often `bad` had been tried at each flush.
    flushes: Mutex<Vec<u32>>,
}

impl Slots {
    fn new(stuck: u32) -> Arc<Slots> {
        let schema = TypeSchema::new("slot", "A slot in memory.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("value", "String", Behaviour::Property, "What it holds.");
        let (set, tries, flushes) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Slots { schema, set, tries, stuck: Mutex::new(stuck), flushes })
    }
}

impl Provider for Slots {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let of = |name: &String| State::present(name.as_str(), [("value", Value::from("x"))].into_iter().collect());
        Ok(self.set.lock().unwrap().iter().map(of).collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        let set = |change: &Change<'_>| {
            if change.name == "bad" {
                *self.tries.lock().unwrap() += 1;
                return Outcome::failed("never");
            }
            self.set.lock().unwrap().insert(change.name.to_string());
            Outcome::done()
        };
        changes.iter().map(set).collect()
    }

    fn flush(&self, _: &Context<'_>) -> Result<(), ProviderError> {
        self.flushes.lock().unwrap().push(*self.tries.lock().unwrap());
        let mut stuck = self.stuck.lock().unwrap();
        if *stuck > 0 {
            *stuck -= 1;
            return Err(ProviderError::new("stuck"));
        }
        Ok(())
    }
}

/// What is logged. It may be slow.
#[derive(Default)]
struct Logged(Vec<String>, Duration);

impl Observer for Logged {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Log { message, .. } => self.0.push(message.to_owned()),
            Event::Retrying { .. } => std::thread::sleep(self.1),
            _ => {}
        }
    }
}

fn slot(name: &str, retry: i32) -> Resource {
    let attributes: Attributes = [("value", Value::from("x"))].into_iter().collect();
    let (reference, span) = (ResourceRef::new("slot", name), Span::new(SourceId(0), 0, 0));
    let mut resource = Resource { reference, name: name.into(), attributes, particulars: None, span };
    resource.particulars_mut().meta = Some(Meta { retry, delay: 50, ..Meta::default() });
    resource
}

/// Holds what can be set, and what is tried for ever.
fn held(slots: &Arc<Slots>, millis: u64) -> (Report, Vec<String>) {
    held_before(slots, millis, Logged::default())
}

/// The same before such an observer.
fn held_before(slots: &Arc<Slots>, millis: u64, logged: Logged) -> (Report, Vec<String>) {
    let registry = Registry::new([Arc::clone(slots) as Arc<dyn Provider>]);
    held_of(&registry, vec![slot("good", 0), slot("bad", -1)], millis, logged)
}

/// Holds some resources.
fn held_of(registry: &Registry, resources: Vec<Resource>, millis: u64, mut logged: Logged) -> (Report, Vec<String>) {
    let catalog = Catalog { resources, ..Catalog::default() };
    let prepared = plan_of(catalog, registry).unwrap_or_else(|rejected| panic!("{rejected:?}"));
    let (durability, strictness) = (Durability::Flushed, Strictness::Warning);
    let options = Options { mode: Mode::Apply, jobs: 2, durability, strictness, state_dir: None };
    let longest = Some(Duration::from_millis(millis));
    let hold = Hold {
        converged: None,
        until_converged: false,
        longest,
        declared: &mut Fixed,
        reread: None,
        alive: None,
        window: None,
        door: None,
    };
    let held = prepared.hold(&options, hold, &Stop::new().unwrap(), &mut logged).unwrap();
    let Held::Ended(report) = held else { panic!("nothing else is declared") };
    (*report, logged.0)
}

#[test]
fn what_was_done_is_flushed_while_something_is_tried_for_ever() {
    let slots = Slots::new(0);
    let (report, logged) = held(&slots, 2600);
    assert_eq!((report.counts.failed, report.counts.in_sync, logged.len()), (1, 1, 0));
    let flushes = slots.flushes.lock().unwrap().clone();
    let tries = *slots.tries.lock().unwrap();
    assert!(tries > 5, "it was tried {tries} times");
    assert!(flushes[0] <= 2, "nothing waits for what never comes: {flushes:?}");
    // At the beginning, each second, and at the end.
    let most = usize::try_from(report.duration.as_secs()).unwrap() + 2;
    assert!((2..=most).contains(&flushes.len()), "once in a second at most: {flushes:?} of {tries}");
}

#[test]
fn what_is_about_to_be_tried_again_at_the_end_has_failed() {
    // Both times are over when it goes on.
    let logged = Logged(Vec::new(), Duration::from_millis(500));
    let (report, _) = held_before(&Slots::new(0), 400, logged);
    assert_eq!((report.counts.failed, report.counts.interrupted), (1, 0));
    assert_eq!(report.resources[0].failure.as_deref(), Some("never"));
}

#[test]
fn what_could_not_be_flushed_is_flushed_later() {
    let slots = Slots::new(1);
    let (report, logged) = held(&slots, 300);
    assert_eq!(logged, ["slot: stuck"]);
    assert_eq!(report.unflushed, Vec::<String>::new(), "it was tried once more at the end");
    assert_eq!(slots.flushes.lock().unwrap().len(), 2);
}

/// A provider whose calls note where they were made.
struct Guest {
    inner: Arc<Slots>,
    calls: Mutex<BTreeSet<String>>,
}

impl Guest {
    fn note(&self, call: &str, cx: &Context<'_>) {
        self.calls.lock().unwrap().insert(format!("{call} by {} on {}", cx.program(), cx.hostname()));
    }
}

impl Provider for Guest {
    fn schema(&self) -> &TypeSchema {
        self.inner.schema()
    }

    fn name(&self) -> &'static str {
        "guest"
    }

    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.note("open", cx);
        Ok(())
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        self.note("get", cx);
        self.inner.get(cx, query)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Setting) -> Vec<Outcome> {
        self.note("set", cx);
        self.inner.set(cx, changes, mode)
    }

    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.note("flush", cx);
        Ok(())
    }

    fn watches(&self, _: &str, _: &Attributes) -> Vec<Watch> {
        vec![Watch::Told]
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn Tell) -> Result<(), ProviderError> {
        self.note("watch", cx);
        tell.watching();
        Err(ProviderError::new("it has seen enough"))
    }
}

#[test]
fn a_provider_is_told_who_runs_it_and_what_its_machine_is_called() {
    for (is_named, hostname) in [(true, "web1"), (false, "localhost")] {
        let guest = Arc::new(Guest { inner: Slots::new(0), calls: Mutex::default() });
        let registry = Registry::new([Arc::clone(&guest) as Arc<dyn Provider>]);
        let registry = if is_named { registry.on_machine(hostname) } else { registry };
        let (report, _) = held_of(&registry, vec![slot("good", 0)], 300, Logged::default());
        assert_eq!(report.counts.failed, 0);
        let expected = ["flush", "get", "open", "set", "watch"].map(|call| format!("{call} by kilter on {hostname}"));
        assert!(guest.calls.lock().unwrap().iter().eq(&expected), "{:?}", guest.calls.lock().unwrap());
    }
}
