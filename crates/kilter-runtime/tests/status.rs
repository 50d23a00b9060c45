//! Status of a run: counters, and the state and reason of each resource.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod unedited;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use kilter_model::expr::Template;
use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Composite, Contested, Deferred, EventLimit, Feature, Meta, Outcome,
    Relation, RelationKind, Resource, ResourceRef, Semaphore, SourceId, Span, State, TypeSchema, Value,
};
use kilter_provider::{
    Batch, Capabilities, Context, Durability, Mode as Setting, Provider, ProviderError, Purpose, Query, Refresh,
    Registry, Scheduling, Strictness, Wanted, Watch, WatchSink, WatchSource,
};
use kilter_runtime::{
    CompositeStatus, Event, Hold, Mode, Observer, Options, ResourceStatus, ShutdownHandle, StatusFilter, StatusHandle,
    StatusSnapshot, Watched, plan_of,
};
use unedited::Fixed;

/// Scripted behaviour of a resource, by its name.
#[derive(Clone, Copy, Default)]
struct Script {
    /// Number of changes that have no effect and are followed by an event.
    disturbed: u32,
    /// So often it cannot be refreshed.
    refused: u32,
    /// True if its changes or refreshes wait until they are released.
    is_held: bool,
}

/// A provider that keeps values in memory.
struct StandingSlots {
    schema: TypeSchema,
    scripts: Mutex<BTreeMap<String, Script>>,
    /// Set values, and the number of checks that find each; none for all checks.
    set: Mutex<BTreeMap<String, Option<u32>>>,
    told: (Sender<String>, Mutex<Receiver<String>>),
    heard: (Sender<()>, Mutex<Receiver<()>>),
    is_open: (Mutex<bool>, Condvar),
    /// Output of set resources.
    sends: Mutex<&'static str>,
}

impl StandingSlots {
    fn new(scripts: &[(&str, Script)]) -> Arc<StandingSlots> {
        let schema = TypeSchema::new("slot", "A slot in memory.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("value", "String", Behaviour::Property, "What it holds.")
            .attribute("hint", "String[1]", Behaviour::Parameter, "What it is told.")
            .features(&[Feature::Refresh]);
        let scripts = scripts.iter().map(|(name, script)| ((*name).to_owned(), *script)).collect();
        let ((told, tells), (heard, hears)) = (channel(), channel());
        Arc::new(StandingSlots {
            schema,
            scripts: Mutex::new(scripts),
            set: Mutex::default(),
            told: (told, Mutex::new(tells)),
            heard: (heard, Mutex::new(hears)),
            is_open: (Mutex::new(false), Condvar::new()),
            sends: Mutex::new("something"),
        })
    }

    /// Lets go what waits.
    fn open(&self) {
        *self.is_open.0.lock().unwrap() = true;
        self.is_open.1.notify_all();
    }

    fn wait(&self, name: &str) {
        let is_held = self.scripts.lock().unwrap().get(name).is_some_and(|script| script.is_held);
        let mut is_open = self.is_open.0.lock().unwrap();
        while is_held && !*is_open {
            is_open = self.is_open.1.wait(is_open).unwrap();
        }
    }

    /// Something happens to a resource, or to its watch (`lose` and `find`): returns when the run has been told.
    fn happens(&self, name: &str) {
        self.told.0.send(name.to_owned()).unwrap();
        self.heard.1.lock().unwrap().recv().unwrap();
    }

    fn disturbs(&self, name: &str) -> bool {
        let mut scripts = self.scripts.lock().unwrap();
        let Some(script) = scripts.get_mut(name).filter(|script| script.disturbed > 0) else { return false };
        script.disturbed -= 1;
        true
    }
}

impl Provider for StandingSlots {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { scheduling: Some(self), refresh: Some(self), watch: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let value = |name: &String| Value::from(if name == "anew" { "anew" } else { "x" });
        let of = |name: &String| State::present(name.as_str(), [("value", value(name))].into_iter().collect());
        let mut set = self.set.lock().unwrap();
        set.retain(|_, looks| *looks != Some(0));
        set.values_mut().flatten().for_each(|looks| *looks -= 1);
        Ok(set.keys().map(of).collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        let set = |change: &Change<'_>| {
            self.wait(change.name);
            let is_disturbed = self.disturbs(change.name);
            if is_disturbed {
                self.happens(change.name);
            }
            // What was set is looked at once for that.
            self.set.lock().unwrap().insert(change.name.to_string(), is_disturbed.then_some(1));
            let outputs = [("sent", Value::from(*self.sends.lock().unwrap()))].into_iter().collect();
            Outcome { outputs, ..Outcome::done() }
        };
        changes.iter().map(set).collect()
    }
}

impl Scheduling for StandingSlots {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Refresh for StandingSlots {
    fn refresh(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.wait(wanted.name);
        let mut scripts = self.scripts.lock().unwrap();
        match scripts.get_mut(wanted.name.as_str()).filter(|script| script.refused > 0) {
            Some(script) => {
                script.refused -= 1;
                Outcome::failed("refused")
            }
            None => Outcome { refreshed: true, ..Outcome::done() },
        }
    }
}

impl Watch for StandingSlots {
    fn purpose(&self, should: &Attributes) -> Purpose {
        if should.text("value") == Some("anew") { Purpose::Action } else { Purpose::State }
    }

    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Provider]
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        tell.watching();
        let tells = self.told.1.lock().unwrap();
        while !cx.interrupt().is_raised() {
            if let Ok(name) = tells.recv_timeout(Duration::from_millis(10)) {
                match name.split_once(' ') {
                    Some(("lose", name)) => tell.unwatched(name, "it has ended"),
                    Some(("find", name)) => tell.rewatched(name),
                    _ => tell.changed(&name),
                }
                self.heard.0.send(()).unwrap();
            }
        }
        Ok(())
    }
}

/// Reported results and unwatched resources.
#[derive(Clone, Default)]
struct ReportedResults(Arc<Mutex<Vec<String>>>);

impl Observer for ReportedResults {
    fn event(&mut self, event: Event<'_>) {
        let line = match event {
            Event::Settled(report) => format!("{} {}", report.reference.title, report.status.word()),
            Event::Unwatched { count, why, .. } => format!("{count} unwatched: {why}"),
            Event::Rewatched { count } => format!("{count} rewatched"),
            Event::Demoted { reference, differences, .. } | Event::Contested { reference, differences, .. } => {
                let values = differences.iter().map(|each| format!(" {} → {}", each.is, each.should));
                format!("{} contested:{}", reference.title, values.collect::<String>())
            }
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

fn slot(name: &str, meta: Meta) -> Resource {
    let span = Span::new(SourceId(0), 0, 0);
    let mut resource = Resource::new(ResourceRef::new("slot", name), name, span);
    resource.attributes = [("value", Value::from("x"))].into_iter().collect();
    resource.particulars_mut().meta = Some(meta);
    resource
}

/// The first refreshes the second.
fn notify(first: u32, second: u32) -> Relation {
    Relation { first, second, kind: RelationKind::Notify, span: Span::new(SourceId(0), 0, 0) }
}

/// Status of a run.
struct Seen<'a> {
    status_handle: &'a StatusHandle,
}

impl Seen<'_> {
    fn all(&self) -> Option<StatusSnapshot> {
        self.status_handle.snapshot(StatusFilter::All, Duration::from_secs(60)).ok()
    }

    /// Waits until the status meets a condition, and returns it.
    fn when(&self, is_so: impl Fn(&StatusSnapshot) -> bool) -> StatusSnapshot {
        // The run answers between two things that it does: there is nothing to wait for but its answer.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(120) {
            if let Some(standings) = self.all().filter(|standings| is_so(standings)) {
                return standings;
            }
            std::thread::yield_now();
        }
        panic!("it never was: {:?}", self.all());
    }
}

fn one<'a>(standings: &'a StatusSnapshot, name: &str) -> &'a ResourceStatus {
    standings.resources.iter().find(|one| one.reference.title == name).unwrap()
}

/// Runs with this number of workers while `look` queries the status. Returns the events.
fn hold(
    slots: &Arc<StandingSlots>,
    resources: Vec<Resource>,
    relations: Vec<Relation>,
    jobs: usize,
    look: impl FnOnce(&Seen<'_>) + Send,
) -> Vec<String> {
    hold_catalog(slots, Catalog { relations, ..Catalog::of(resources) }, jobs, look)
}

/// The same of a whole catalog.
fn hold_catalog(
    slots: &Arc<StandingSlots>,
    catalog: Catalog,
    jobs: usize,
    look: impl FnOnce(&Seen<'_>) + Send,
) -> Vec<String> {
    let registry = Registry::new([Arc::clone(slots) as Arc<dyn Provider>]).unwrap();
    let prepared = plan_of(catalog, &registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{rejected:?}"));
    let (durability, strictness) = (Durability::Unflushed, Strictness::Warning);
    let options = Options { mode: Mode::Apply, jobs, durability, strictness, state_dir: None };
    let (status_handle, stop, heard) =
        (StatusHandle::default(), ShutdownHandle::new().unwrap(), ReportedResults::default());
    let hold = Hold {
        converged: None,
        until_converged: false,
        longest: None,
        declared: &mut Fixed,
        watchdog_interval: None,
        paused: None,
        status_handle: Some(&status_handle),
        status_socket: None,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whatever it finds, the run ends.
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                look(&Seen { status_handle: &status_handle })
            }));
            slots.open();
            stop.request();
            looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        prepared.hold(&options, hold, &stop, &mut heard.clone()).unwrap();
    });
    let heard = heard.0.lock().unwrap();
    heard.clone()
}

#[test]
fn change_is_reported_despite_events_during_the_call() {
    let slots = StandingSlots::new(&[("busy", Script { disturbed: 3, ..Script::default() })]);
    let settled = hold(&slots, vec![slot("busy", Meta::default())], Vec::new(), 2, |seen| {
        let standings = seen.when(|standings| standings.quiet_for.is_some());
        assert_eq!((one(&standings, "busy").tally.changes, one(&standings, "busy").word), (4, "in_sync"));
        assert_eq!(standings.settled.changed, 4);
    });
    assert_eq!(settled, ["busy changed"; 4]);
}

#[test]
fn contested_resource_is_reported_with_both_values_and_its_next_repair() {
    let slots = StandingSlots::new(&[("busy", Script { disturbed: 1000, ..Script::default() })]);
    let told = hold(&slots, vec![slot("busy", Meta::default())], Vec::new(), 2, |seen| {
        let standings = seen.when(|standings| standings.quiet_for.is_some());
        let busy = one(&standings, "busy");
        assert_eq!((busy.tally.changes, busy.word, standings.conditions.contested), (21, "would_change", 1));
        let contest = busy.contest.as_ref().unwrap();
        assert_eq!((contest.repairs, contest.differences.len()), (21, 1));
        let next = busy.next_look.unwrap();
        assert!(next <= Duration::from_secs(5) && contest.next_repair <= next, "{busy:?}");
    });
    let contested: Vec<&String> = told.iter().filter(|line| line.contains("contested")).collect();
    assert_eq!(contested, ["busy contested: undef → x"]);
}

#[test]
fn contested_resource_that_yields_is_demoted() {
    let slots = StandingSlots::new(&[("busy", Script { disturbed: 1000, ..Script::default() })]);
    let yields = Meta { contested: Contested::Observe, ..Meta::default() };
    hold(&slots, vec![slot("busy", yields)], Vec::new(), 2, |seen| {
        let standings = seen.when(|standings| standings.quiet_for.is_some());
        let busy = one(&standings, "busy");
        assert_eq!((busy.tally.changes, busy.watched_only, standings.conditions.contested), (21, true, 0));
        assert_eq!(standings.conditions.watched_only, 1);
        assert_eq!((busy.contest.as_ref(), busy.next_look), (None, None));
    });
}

#[test]
fn job_that_triggers_itself_is_rate_limited() {
    let slots = StandingSlots::new(&[("anew", Script { disturbed: 100_000, ..Script::default() })]);
    let mut anew = slot("anew", Meta::default());
    anew.attributes = [("value", Value::from("anew"))].into_iter().collect();
    let told = hold(&slots, vec![anew], Vec::new(), 2, |seen| {
        let standings = seen.when(|standings| one(standings, "anew").word == "delayed");
        let standing = one(&standings, "anew");
        assert!(standing.tally.changes >= 100 && standing.next_look.is_some(), "{standing:?}");
        seen.when(|standings| one(standings, "anew").tally.changes > standing.tally.changes);
    });
    let others: Vec<&String> = told.iter().filter(|line| *line != "anew changed").collect();
    assert!(others.is_empty() || others == ["anew interrupted"], "{others:?}");
}

#[test]
fn status_names_the_causes_of_refreshes() {
    let refused = Script { refused: 1, is_held: true, ..Script::default() };
    let slots = StandingSlots::new(&[("weak", refused)]);
    slots.set.lock().unwrap().insert("weak".into(), None);
    let meta = |retry| Meta { retry, delay: 100, ..Meta::default() };
    let resources = vec![slot("first", Meta::default()), slot("weak", meta(1))];
    let settled = hold(&slots, resources, vec![notify(0, 1)], 2, |seen| {
        let names = |standing: &ResourceStatus| standing.owed_by.iter().map(ToString::to_string).collect::<Vec<_>>();
        let standings = seen.when(|standings| one(standings, "weak").word == "refreshing");
        assert_eq!(names(one(&standings, "weak")), ["slot[first]"]);
        assert_eq!(names(one(&standings, "first")), [""; 0]);
        slots.open();
        let standings = seen.when(|standings| one(standings, "weak").word == "delayed");
        assert_eq!((standings.counts.in_sync, standings.in_sync_now, standings.under_way), (1, 1, 1));
        assert_eq!(names(one(&standings, "weak")), ["slot[first]"]);
        let standings = seen.when(|standings| standings.quiet_for.is_some());
        let weak = one(&standings, "weak");
        assert_eq!((names(weak), weak.tally.refreshes), (Vec::new(), 1));
        assert_eq!(weak.tally.last_refresh.as_ref().unwrap().1[0].to_string(), "slot[first]");
    });
    assert_eq!(settled, ["first changed", "weak refreshed"]);
}

#[test]
fn unsettled_resource_has_no_status() {
    let slots = StandingSlots::new(&[("slow", Script { is_held: true, ..Script::default() })]);
    let resources = vec![slot("slow", Meta::default()), slot("behind", Meta::default())];
    hold(&slots, resources, vec![notify(0, 1)], 2, |seen| {
        let standings = seen.when(|standings| one(standings, "slow").word == "changing");
        assert_eq!((standings.counts.in_sync, standings.in_sync_now, standings.under_way), (0, 0, 2));
        slots.open();
        let standings = seen.when(|standings| standings.quiet_for.is_some());
        assert_eq!((standings.counts.in_sync, standings.in_sync_now, standings.under_way), (2, 2, 0));
    });
}

#[test]
fn composite_resource_has_the_worst_status_of_its_parts() {
    let slots = StandingSlots::new(&[("slow", Script { is_held: true, ..Script::default() })]);
    let mut resources: Vec<Resource> =
        ["first", "slow", "behind", "bad", "alone"].map(|name| slot(name, Meta::default())).into();
    // It is never found so.
    resources[3].attributes = [("value", Value::from("y"))].into_iter().collect();
    let composite = |title: &str, owner, parts| Composite {
        reference: ResourceRef::new("site", title),
        owner,
        parts,
        entries_in: Vec::new(),
    };
    let composites =
        vec![composite("all", None, 0..4), composite("none", Some(0), 1..1), composite("two", Some(0), 1..3)];
    let catalog = Catalog { relations: vec![notify(1, 2)], composites, ..Catalog::of(resources) };
    hold_catalog(&slots, catalog, 2, |seen| {
        let standings =
            seen.when(|standings| (one(standings, "slow").word, one(standings, "bad").word) == ("changing", "failed"));
        let shown = |one: &CompositeStatus| {
            let parts: Vec<String> = one.parts.iter().map(ToString::to_string).collect();
            let owner = one.owner.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} {owner} {}: {:?} {}", one.reference, one.word, one.counts, parts.join(" "))
        };
        assert_eq!(
            standings.composites.iter().map(shown).collect::<Vec<_>>(),
            [
                "site[all]  failed: [(\"failed\", 1), (\"changing\", 1), (\"waiting\", 1), (\"in_sync\", 1)] \
                 slot[first] site[none] site[two] slot[bad]",
                "site[none] site[all] in_sync: [] ",
                "site[two] site[all] changing: [(\"changing\", 1), (\"waiting\", 1)] slot[slow] slot[behind]",
            ]
        );
        let owner = |name| one(&standings, name).owner.as_ref().map(ToString::to_string);
        assert_eq!(["bad", "slow", "alone"].map(owner), [Some("site[all]".into()), Some("site[two]".into()), None]);
        slots.open();
        let standings = seen.when(|standings| one(standings, "behind").word == "in_sync");
        assert_eq!((standings.composites[2].word, standings.composites[0].word), ("in_sync", "failed"));
        // What is in its state is not among what is notable, but what holds something that is not.
        let look = |which| seen.status_handle.snapshot(which, Duration::from_secs(60)).unwrap();
        let notable = look(StatusFilter::Notable);
        assert_eq!(notable.composites.iter().map(|one| one.word).collect::<Vec<_>>(), ["failed"]);
        let named = look(StatusFilter::Named(vec![ResourceRef::new("site", "two"), ResourceRef::new("site", "three")]));
        assert_eq!((named.composites.len(), named.resources.len(), named.unknown.len()), (1, 2, 1));
    });
}

#[test]
fn resource_with_too_many_events_is_delayed() {
    let slots = StandingSlots::new(&[]);
    let limit = Some(EventLimit { per_second: 0.001, burst: 1 });
    hold(&slots, vec![slot("limited", Meta { limit, ..Meta::default() })], Vec::new(), 2, |seen| {
        seen.when(|standings| standings.quiet_for.is_some());
        slots.happens("limited");
        seen.when(|standings| standings.quiet_for.is_some());
        slots.happens("limited");
        let standings = seen.when(|standings| one(standings, "limited").word == "delayed");
        assert!(one(&standings, "limited").next_look.is_some());
        assert_eq!((standings.counts.in_sync, standings.in_sync_now, standings.under_way), (1, 0, 1));
    });
}

#[test]
fn waiting_resource_names_its_semaphore_and_holder() {
    let held = Script { is_held: true, ..Script::default() };
    let slots = StandingSlots::new(&[("one", held), ("other", held)]);
    let semaphores = ["free:2", "taken"].map(Semaphore::of).to_vec();
    let meta = || Meta { semaphores: semaphores.clone(), ..Meta::default() };
    hold(&slots, vec![slot("one", meta()), slot("other", meta())], Vec::new(), 2, |seen| {
        let standings = seen.when(|standings| one(standings, "one").word == "changing");
        let other = one(&standings, "other");
        assert_eq!((other.word, other.semaphore.as_deref()), ("waiting", Some("taken")));
        assert_eq!(other.because_of.as_ref().unwrap().to_string(), "slot[one]");
        assert_eq!(one(&standings, "one").semaphore, None);
    });
}

#[test]
fn call_without_a_free_worker_is_queued() {
    let held = Script { is_held: true, ..Script::default() };
    let names = ["a", "b", "c"];
    let slots = StandingSlots::new(&names.map(|name| (name, held)));
    hold(&slots, names.map(|name| slot(name, Meta::default())).to_vec(), Vec::new(), 1, |seen| {
        // The one worker checks all three as a batch, then it changes one.
        let is_checked = |standings: &StatusSnapshot| standings.resources.iter().all(|one| one.word != "checking");
        let standings = seen.when(|all| all.resources.iter().any(|one| one.word == "changing") && is_checked(all));
        let words: Vec<&str> = names.iter().map(|name| one(&standings, name).word).collect();
        assert_eq!(words, ["changing", "queued", "queued"]);
    });
}

#[test]
fn resource_without_watch_is_polled_until_the_watch_returns() {
    let slots = StandingSlots::new(&[]);
    let mut anew = slot("anew", Meta::default());
    anew.attributes = [("value", Value::from("anew"))].into_iter().collect();
    slots.set.lock().unwrap().insert("other".into(), None);
    let resources = vec![slot("lone", Meta::default()), anew, slot("other", Meta::default())];
    let told = hold(&slots, resources, Vec::new(), 2, |seen| {
        seen.when(|standings| standings.quiet_for.is_some());
        ["lose lone", "lose anew"].into_iter().for_each(|what| slots.happens(what));
        let standings = seen.when(|standings| one(standings, "anew").unwatched.is_some());
        let lone = one(&standings, "lone");
        assert_eq!((lone.watched.word(), lone.unwatched.as_deref()), ("poll", Some("it has ended")));
        assert!(lone.next_look.is_some());
        // It would run each time.
        assert_eq!(one(&standings, "anew").watched, Watched::Once);
        assert_eq!(one(&standings, "other").watched, Watched::ByEvents);
        ["lose lone", "find lone"].into_iter().for_each(|what| slots.happens(what));
        let standings = seen.when(|standings| one(standings, "lone").unwatched.is_none());
        assert_eq!((one(&standings, "lone").watched, one(&standings, "lone").next_look), (Watched::ByEvents, None));
    });
    let about_watches: Vec<&String> = told.iter().filter(|line| line.contains("watched")).collect();
    assert_eq!(
        about_watches,
        ["1 unwatched: slot[lone]: it has ended", "1 unwatched: slot[anew]: it has ended", "1 rewatched"]
    );
}

#[test]
fn unusable_value_counts_as_not_received() {
    let slots = StandingSlots::new(&[]);
    let mut receiver = slot("receiver", Meta::default());
    let template = Template::parse("${slot[sender].sent}").unwrap();
    let span = Span::new(SourceId(0), 0, 0);
    let deferred = Deferred { attribute: "hint".into(), template, sensitive: false, span };
    receiver.particulars_mut().deferred.push(deferred);
    hold(&slots, vec![slot("sender", Meta::default()), receiver], vec![notify(0, 1)], 2, |seen| {
        let standings = seen.when(|standings| standings.quiet_for.is_some());
        let received = &one(&standings, "receiver").received[0];
        assert_eq!((received.attribute.as_str(), received.changed), ("hint", false));
        *slots.sends.lock().unwrap() = "";
        slots.set.lock().unwrap().remove("sender");
        slots.happens("sender");
        let standings = seen.when(|standings| one(standings, "receiver").word == "failed");
        let receiver = one(&standings, "receiver");
        let why = "what slot[sender].sent sends for `hint` is empty, and has to be String[1]";
        assert_eq!((receiver.failure.as_deref(), receiver.received[0].changed), (Some(why), true));
    });
}
