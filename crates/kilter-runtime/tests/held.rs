//! A state that is held, with a provider that keeps what it was told to do in memory until it is flushed.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod unedited;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Meta, Outcome, Resource, ResourceRef, SourceId, Span, State, TypeSchema,
    Value,
};
use kilter_provider::{
    Capabilities, Context, Durability, Mode as Setting, Provider, ProviderError, Query, Registry, Session, Strictness,
    Wanted, Watch, WatchSink, WatchSource,
};
use kilter_runtime::{Event, Hold, Mode, Observer, Options, Pause, Report, ShutdownHandle, StatusHandle, plan_of};
use unedited::Fixed;

/// A call that requests the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopRequest {
    /// A change of `good`.
    Change,
    /// The flush with this number; the first is 1.
    Flush(usize),
    /// The check of `bad` that follows its first failure.
    CheckAfterFailure,
    /// The driver's wait for the retry of `bad`, when that retry is due.
    WaitForRetry,
}

/// A provider that cannot set the slot `bad`.
struct Slots {
    schema: TypeSchema,
    set: Mutex<BTreeSet<String>>,
    tries: Mutex<u32>,
    /// Number of flushes that fail.
    stuck: Mutex<u32>,
    /// Number of tries of `bad` at each flush.
    flushes: Mutex<Vec<u32>>,
    /// Slots that were set since the last flush.
    unflushed: Mutex<BTreeSet<String>>,
    /// True after the run has announced the retry of `bad`.
    is_retrying: AtomicBool,
    ends: StopRequest,
    stop: ShutdownHandle,
}

impl Slots {
    fn new(stuck: u32, ends: StopRequest) -> Arc<Slots> {
        let schema = TypeSchema::new("slot", "A slot in memory.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("value", "String", Behaviour::Property, "What it holds.");
        let (set, tries, flushes, unflushed) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let (stuck, is_retrying, stop) = (Mutex::new(stuck), AtomicBool::new(false), ShutdownHandle::new().unwrap());
        Arc::new(Slots { schema, set, tries, stuck, flushes, unflushed, is_retrying, ends, stop })
    }

    /// Requests the end of the run, once, at this call.
    fn reaches(&self, call: StopRequest) {
        if self.ends == call && self.stop.requests() == 0 {
            self.stop.request();
        }
    }
}

impl Provider for Slots {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { session: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        if self.is_retrying.load(Ordering::Acquire) {
            self.reaches(StopRequest::CheckAfterFailure);
        }
        let of = |name: &String| State::present(name.as_str(), [("value", Value::from("x"))].into_iter().collect());
        Ok(self.set.lock().unwrap().iter().map(of).collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        let set = |change: &Change<'_>| {
            if change.name == "bad" {
                *self.tries.lock().unwrap() += 1;
                return Outcome::failed("never");
            }
            self.reaches(StopRequest::Change);
            self.set.lock().unwrap().insert(change.name.to_string());
            self.unflushed.lock().unwrap().insert(change.name.to_string());
            Outcome::done()
        };
        changes.iter().map(set).collect()
    }
}

impl Session for Slots {
    fn flush(&self, _: &Context<'_>) -> Result<(), ProviderError> {
        let count = {
            let mut flushes = self.flushes.lock().unwrap();
            flushes.push(*self.tries.lock().unwrap());
            flushes.len()
        };
        self.reaches(StopRequest::Flush(count));
        let mut stuck = self.stuck.lock().unwrap();
        if *stuck > 0 {
            *stuck -= 1;
            return Err(ProviderError::new("stuck"));
        }
        self.unflushed.lock().unwrap().clear();
        Ok(())
    }
}

/// The log lines of a run.
struct Logged<'a> {
    slots: &'a Slots,
    lines: Vec<String>,
    /// Receives each line.
    told: Option<Sender<()>>,
}

impl Observer for Logged<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Log { message, .. } => {
                self.lines.push(message.to_owned());
                self.told.iter().for_each(|told| told.send(()).unwrap());
            }
            Event::Retrying { .. } => self.slots.is_retrying.store(true, Ordering::Release),
            // The driver waits for its next message and for the retry.
            Event::Idle if self.slots.is_retrying.load(Ordering::Acquire) => {
                self.slots.reaches(StopRequest::WaitForRetry)
            }
            _ => {}
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

fn slot(name: &str, retry: i32, delay: u64) -> Resource {
    let attributes: Attributes = [("value", Value::from("x"))].into_iter().collect();
    let (reference, span) = (ResourceRef::new("slot", name), Span::new(SourceId(0), 0, 0));
    let mut resource = Resource { reference, name: name.into(), attributes, particulars: None, span };
    resource.particulars_mut().meta = Some(Meta { retry, delay, ..Meta::default() });
    resource
}

/// Holds one slot that can be set, and one that the run retries without end.
fn held(slots: &Arc<Slots>) -> (Report, Vec<String>) {
    let registry = Registry::new([Arc::clone(slots) as Arc<dyn Provider>]).unwrap();
    let delay = if slots.ends == StopRequest::WaitForRetry { 0 } else { 20 };
    held_of(&registry, slots, vec![slot("good", 0, 0), slot("bad", -1, delay)])
}

/// Holds resources until `slots` requests the end.
fn held_of(registry: &Registry, slots: &Slots, resources: Vec<Resource>) -> (Report, Vec<String>) {
    held_with(registry, slots, resources, None)
}

/// Holds resources. Others can pause the run, and learn of its log lines.
fn held_with(
    registry: &Registry,
    slots: &Slots,
    resources: Vec<Resource>,
    others: Option<(&StatusHandle, Sender<()>)>,
) -> (Report, Vec<String>) {
    let (status_handle, told) = others.unzip();
    let catalog = Catalog::of(resources);
    let prepared = plan_of(catalog, registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{rejected:?}"));
    let (durability, strictness) = (Durability::Flushed, Strictness::Warning);
    let options = Options { mode: Mode::Apply, jobs: 2, durability, strictness, state_dir: None };
    let mut logged = Logged { slots, lines: Vec::new(), told };
    let hold = Hold {
        converged: None,
        until_converged: false,
        longest: None,
        declared: &mut Fixed,
        watchdog_interval: None,
        paused: None,
        status_handle,
        status_socket: None,
    };
    let report = prepared.hold(&options, hold, &slots.stop, &mut logged).unwrap();
    (report, logged.lines)
}

#[test]
fn finished_changes_are_flushed_during_endless_retry() {
    // The run ends at its third flush, however long that takes; the fourth is the one at the end.
    let slots = Slots::new(0, StopRequest::Flush(3));
    let (report, logged) = held(&slots);
    assert_eq!((report.counts.failed, report.counts.in_sync, logged.len()), (1, 1, 0));
    let flushes = slots.flushes.lock().unwrap().clone();
    assert!(flushes.len() >= 3 && flushes[0] <= 2, "nothing waits for what never comes: {flushes:?}");
    assert!(flushes[..3].is_sorted_by(|before, after| before < after), "it is tried between two flushes: {flushes:?}");
    // At the beginning, each second, and at the end.
    let most = usize::try_from(report.duration.as_secs()).unwrap() + 2;
    assert!(flushes.len() <= most, "once in a second at most: {flushes:?} in {:?}", report.duration);
}

#[test]
fn a_change_that_waits_for_a_worker_is_flushed_after_it_was_made() {
    for _ in 0..20 {
        let slots = Slots::new(0, StopRequest::Change);
        let registry = Registry::new([Arc::clone(&slots) as Arc<dyn Provider>]).unwrap();
        let (report, _) = held_of(&registry, &slots, vec![slot("good", 0, 0)]);
        assert_eq!(report.counts.failed, 0);
        assert_eq!(*slots.unflushed.lock().unwrap(), BTreeSet::new(), "{:?}", slots.flushes.lock().unwrap());
    }
}

#[test]
fn a_run_that_ends_when_a_retry_is_due_reports_the_failure() {
    let (report, _) = held(&Slots::new(0, StopRequest::WaitForRetry));
    assert_eq!((report.counts.failed, report.counts.interrupted), (1, 0));
    assert_eq!(report.resources[0].failure.as_deref(), Some("never"));
}

#[test]
fn a_run_that_ends_while_a_retry_checks_reports_the_failure() {
    let (report, _) = held(&Slots::new(0, StopRequest::CheckAfterFailure));
    assert_eq!((report.counts.failed, report.counts.interrupted), (1, 0));
    assert_eq!(report.resources[0].failure.as_deref(), Some("never"));
}

#[test]
fn failed_flush_is_repeated_later() {
    let slots = Slots::new(1, StopRequest::Flush(1));
    let (report, logged) = held(&slots);
    assert_eq!(logged, ["slot: stuck"]);
    assert_eq!(report.unflushed, Vec::<String>::new(), "it was tried once more at the end");
    assert_eq!(slots.flushes.lock().unwrap().len(), 2);
}

#[test]
fn paused_run_retries_a_failed_flush_within_seconds_and_reports_it_once() {
    let slots = Slots::new(2, StopRequest::Flush(3));
    let registry = Registry::new([Arc::clone(&slots) as Arc<dyn Provider>]).unwrap();
    let (status_handle, (told, tells)) = (StatusHandle::default(), channel());
    std::thread::scope(|scope| {
        let status_handle = &status_handle;
        scope.spawn(move || {
            // The line about the failed flush.
            tells.recv().unwrap();
            status_handle.pause(Pause::default(), Duration::from_secs(60)).unwrap();
        });
        let (report, logged) = held_with(&registry, &slots, vec![slot("good", 0, 0)], Some((status_handle, told)));
        assert_eq!(logged, ["slot: stuck"]);
        assert!(report.duration < Duration::from_secs(30), "{:?}", report.duration);
    });
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

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { session: Some(self), watch: Some(self), ..Capabilities::default() }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        self.note("get", cx);
        self.inner.get(cx, query)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Setting) -> Vec<Outcome> {
        self.note("set", cx);
        self.inner.set(cx, changes, mode)
    }
}

impl Session for Guest {
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.note("open", cx);
        Ok(())
    }

    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.note("flush", cx);
        self.inner.reaches(StopRequest::Flush(1));
        Ok(())
    }
}

impl Watch for Guest {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Provider]
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.note("watch", cx);
        tell.watching();
        Err(ProviderError::new("it has seen enough"))
    }
}

#[test]
fn provider_receives_program_and_host_name() {
    for (is_named, hostname) in [(true, "web1"), (false, "localhost")] {
        let guest = Arc::new(Guest { inner: Slots::new(0, StopRequest::Flush(1)), calls: Mutex::default() });
        let registry = Registry::new([Arc::clone(&guest) as Arc<dyn Provider>]).unwrap();
        let registry = if is_named { registry.on_machine(hostname) } else { registry };
        let (report, _) = held_of(&registry, &guest.inner, vec![slot("good", 0, 0)]);
        assert_eq!(report.counts.failed, 0);
        let expected = ["flush", "get", "open", "set", "watch"].map(|call| format!("{call} by kilter on {hostname}"));
        assert!(guest.calls.lock().unwrap().iter().eq(&expected), "{:?}", guest.calls.lock().unwrap());
    }
}
