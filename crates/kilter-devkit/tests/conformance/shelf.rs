//! A provider of things on a shelf in memory, with at most one defect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    Capabilities, Context, Declaration, Level, Mode, Provider, ProviderError, Query, Refresh, Suitability,
    ValidationError, Wanted,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::defect::Defect;

/// The shelf.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<ShelfContents>>, Arc<Condvar>);

#[derive(Default)]
struct ShelfContents {
    on_it: BTreeMap<EcoString, Attributes>,
    ever: BTreeSet<EcoString>,
    traces: u32,
    providers: usize,
    is_waiting: bool,
}

impl Store {
    fn things(&self) -> MutexGuard<'_, ShelfContents> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn fingerprint(&self) -> String {
        let things = self.things();
        format!("{:?} {}", things.on_it, things.traces)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.things().is_waiting
    }

    /// Blocks until a change waits for its interrupt.
    pub(crate) fn until_waiting(&self) {
        drop(self.1.wait_while(self.things(), |things| !things.is_waiting).expect("no thread panicked with the lock"));
    }
}

/// The provider.
pub(crate) struct Shelf {
    schema: TypeSchema,
    store: Store,
    defect: Option<Defect>,
    own: Mutex<Own>,
}

/// State that only a provider with a defect keeps.
#[derive(Default)]
struct Own {
    made: BTreeSet<EcoString>,
    last: Option<(EcoString, Option<Attributes>)>,
}

fn schema(defect: Option<Defect>, keyed: bool, count: usize) -> TypeSchema {
    let (property, parameter) = (Behaviour::Property, Behaviour::Parameter);
    let desc = if defect == Some(Defect::NotDescribed) { "" } else { "What is written on it." };
    let mut schema = TypeSchema::new("thing", "Things on a shelf.")
        .attribute("ensure", "Enum[present, absent]", property, "Whether it is there.")
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Its name.")
        .output("place", "Integer", "Where it stands.");
    if keyed {
        schema = schema
            .attribute("room", "String[1]", Behaviour::Namevar, "Where the shelf is.")
            .title_pattern(r"\A(?<name>[^@]+)@(?<room>[^@]+)\z", "the thing and the room");
    }
    schema = schema
        .attribute("label", "String", property, desc)
        .compare(kilter_model::Comparison::CaseInsensitive)
        .attribute("size", "Integer[0, 100]", property, "How large it is.")
        .attribute("tags", "Array[String]", property, "What it is for.")
        .attribute("mark", "String", property, "A mark.")
        .attribute("secret", "Sensitive[String]", property, "What nobody is to know.")
        .attribute("note", "String", parameter, "How to put it there.")
        .attribute("state", "String", Behaviour::ReadOnly, "What is found.");
    if defect == Some(Defect::DeclaredTwice) {
        schema = schema.attribute("label", "String", property, desc);
    }
    if defect == Some(Defect::HasNoSameSchema) {
        schema = schema.attribute(&format!("extra{count}"), "Enum[x]", parameter, "Another one each time.");
    }
    let features = [Feature::Canonicalize, Feature::SimpleGetFilter, Feature::SupportsNoop, Feature::Refresh];
    schema.features(if defect == Some(Defect::RefreshesWithoutFeature) { &features[..3] } else { &features })
}

impl Shelf {
    pub(crate) fn new(store: Store, defect: Option<Defect>, keyed: bool) -> Shelf {
        let count = {
            let mut things = store.things();
            things.providers += 1;
            things.providers
        };
        Shelf { schema: schema(defect, keyed, count), store, defect, own: Mutex::default() }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn state(&self, name: &EcoString, thing: &Attributes) -> State {
        let mut state = State::present(name.clone(), thing.clone());
        if !self.has(Defect::ReturnsNoTitle)
            && let (Some(name), Some(room)) = (thing.text("name"), thing.text("room"))
        {
            state.title = Some(format!("{name}@{room}").into());
        }
        if self.has(Defect::ReturnsWibble) {
            state.attributes.push("wibble", true);
        }
        state.outputs.push("place", if self.has(Defect::SendsWibble) { "wibble".into() } else { Value::Integer(1) });
        if self.has(Defect::ReturnsUncanonical) && thing.text("label") == Some("green") {
            state.attributes.set("label", "GREEN");
        }
        if self.has(Defect::KeepsStateToItself) && self.own().made.contains(name) {
            state.attributes.push("state", "made by me");
        }
        state
    }

    fn find(&self, things: &ShelfContents, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let name = wanted.name;
        let Some(thing) = things.on_it.get(name) else {
            self.own().last = None;
            if self.has(Defect::UnknownIsAnError) && name == "nothing" {
                return Err(ProviderError::new("there is nothing"));
            }
            let mut state = State::absent(name.clone());
            let is_to_go = wanted.should.and_then(|should| should.text("ensure")) == Some("absent");
            if self.has(Defect::IsNeverAbsent) && is_to_go && name == "b" && !things.ever.contains(name) {
                state.attributes.push("ensure", "present");
            }
            return Ok(state);
        };
        let mut state = self.state(name, thing);
        if self.has(Defect::TellsSomethingElse) {
            let asked = Some((name.clone(), wanted.should.cloned()));
            let again = std::mem::replace(&mut self.own().last, asked.clone()) == asked;
            state.attributes.push("state", if again && name == "a" { "again" } else { "once" });
        }
        match wanted.should {
            Some(should) => self.spoil(&mut state, should),
            None if self.has(Defect::RefusesWhatItReturns) => state.attributes.set("mark", "m"),
            None => {}
        }
        Ok(state)
    }

    fn spoil(&self, state: &mut State, should: &Attributes) {
        state.exists = !self.has(Defect::DoesNotExist);
        let label = should.get("label").filter(|label| state.attributes.get("label") != Some(*label)).cloned();
        if let Some(label) = label {
            if self.has(Defect::Echoes) {
                state.attributes.set("label", label);
            } else if self.has(Defect::DiffersInWibble) {
                state.drift.push(Difference::new("wibble", Value::Undef, Value::Undef));
            }
        }
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        if cx.interrupt().is_raised() {
            return if self.has(Defect::LiesWhenInterrupted) { Ok(()) } else { Err("interrupted".into()) };
        }
        let mut things = self.store.things();
        let is_blocked = self.has(Defect::NeedsNoEnsure) && !change.is.exists && !change.is.attributes.is_empty();
        match change.should {
            None if self.has(Defect::KeepsWithoutShould) && change.name == "b" => {}
            Some(should) if should.text("ensure") == Some("absent") && self.has(Defect::KeepsTheAbsent) => {}
            Some(should) if should.text("ensure") != Some("absent") => {
                if is_blocked {
                    return Err("what is `ensure`?".into());
                }
                if should.text("note") == Some("wait") {
                    things.is_waiting = true;
                    self.store.1.notify_all();
                    drop(things);
                    return self.wait(cx);
                }
                self.put(cx, &mut things, change, should)?;
            }
            _ => {
                things.on_it.remove(change.name);
            }
        }
        Ok(())
    }

    fn put(
        &self,
        cx: &Context<'_>,
        things: &mut ShelfContents,
        change: &Change<'_>,
        should: &Attributes,
    ) -> Result<(), EcoString> {
        let label = should.text("label").unwrap_or_default();
        if label == "refuse" {
            return Err("it falls off".into());
        }
        if self.has(Defect::QuotesSecrets) && label.starts_with('/') {
            return Err(format!("`{label}` is no label").into());
        }
        if self.has(Defect::LogsSecrets) {
            cx.log(Level::Info, "thing", change.name, label);
        }
        assert!(!(self.has(Defect::PanicsAtTheBound) && should.get("size") == Some(&Value::Integer(100))), "too large");
        if self.has(Defect::CannotSetMark) && should.get("mark").is_some() {
            return Err("line 3: unknown attribute".into());
        }
        let is_update = things.on_it.contains_key(change.name);
        if self.has(Defect::DoesNotUpdate) && is_update {
            return Ok(());
        }
        if self.has(Defect::WritesAgain) && change.differences.is_empty() {
            things.traces += 1;
        }
        if self.has(Defect::TouchesOthers) && is_update && label == "blue" {
            things.on_it.values_mut().for_each(|other| other.set("size", Value::Integer(99)));
        }
        let injects = self.has(Defect::InjectsLines) || self.has(Defect::InjectsLinesInUpdates) && is_update;
        if injects && label.contains('\n') {
            things.on_it.insert("injected".into(), Attributes::new());
        }
        self.store_in(things, change.name, should);
        Ok(())
    }

    fn store_in(&self, things: &mut ShelfContents, name: &EcoString, should: &Attributes) {
        let name = if self.has(Defect::LosesBlanks) { EcoString::from(name.trim()) } else { name.clone() };
        things.ever.insert(name.clone());
        self.own().made.insert(name.clone());
        let thing = things.on_it.entry(name).or_default();
        if self.has(Defect::WipesAttributes) {
            *thing = Attributes::new();
        }
        for (attribute, value) in should.iter().filter(|(attribute, _)| *attribute != "note") {
            let cut = match value {
                Value::String(text) if self.has(Defect::CutsLines) => text.lines().next().unwrap_or_default().into(),
                whole => whole.clone(),
            };
            thing.set(attribute.clone(), cut);
        }
    }

    /// Waits for its interrupt, or ignores that for two minutes.
    fn wait(&self, cx: &Context<'_>) -> Result<(), EcoString> {
        let (interrupt, timeout) = (cx.interrupt(), Timespec { tv_sec: 120, tv_nsec: 0 });
        let fd = interrupt.fd().filter(|_| !self.has(Defect::IgnoresInterrupt));
        let mut awaited: Vec<PollFd<'_>> = fd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut awaited, Some(&timeout)) {
            Ok(1) if interrupt.is_raised() => Err("interrupted".into()),
            answer => Err(eco_format!("nobody came: {answer:?}")),
        }
    }

    fn preview(&self) -> Outcome {
        if self.has(Defect::PreviewWrites) {
            self.store.things().traces += 1;
        }
        if self.has(Defect::PreviewFails) { Outcome::failed("who knows") } else { Outcome::done() }
    }
}

impl Provider for Shelf {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn is_external(&self) -> bool {
        self.has(Defect::CannotSetMark)
    }

    fn suitable(&self) -> Suitability {
        match self.has(Defect::CannotWork) {
            true => Suitability::Unsuitable("there is no shelf".into()),
            false => Suitability::Suitable,
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { refresh: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let mut things = self.store.things();
        match query {
            Query::All => {
                let mut all: Vec<State> = things.on_it.iter().map(|(name, thing)| self.state(name, thing)).collect();
                if self.has(Defect::ListsTwice) {
                    all.extend(all.first().cloned());
                }
                if self.has(Defect::ListsAnotherState) {
                    all.iter_mut().for_each(|state| state.attributes.set("label", "another"));
                }
                Ok(all)
            }
            Query::Named(wanted) if self.has(Defect::OneIsUnlikeMany) && wanted.len() > 1 => {
                Ok(wanted.iter().map(|one| State::absent(one.name.clone())).collect())
            }
            Query::Named([]) if self.has(Defect::NoneIsAnError) => Err(ProviderError::new("none?")),
            Query::Named(wanted) => {
                if self.has(Defect::GetLeavesATrace) && wanted.iter().any(|one| one.name == "nothing") {
                    things.traces += 1;
                }
                wanted.iter().map(|&one| self.find(&things, one)).collect()
            }
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        self.own().last = None;
        if mode == Mode::Preview {
            return changes.iter().map(|_| self.preview()).collect();
        }
        let fails = |change: &Change<'_>| change.should.and_then(|should| should.text("label")) == Some("refuse");
        if self.has(Defect::FailsTogether) && changes.iter().any(fails) {
            return changes.iter().map(|_| Outcome::failed("one of them falls off")).collect();
        }
        if self.has(Defect::CountsBatches) && changes.len() > 1 {
            self.store.things().traces += 1;
        }
        let done = |change| self.change(cx, change).map_or_else(Outcome::failed, |()| Outcome::done());
        let mut outcomes: Vec<Outcome> = changes.iter().map(done).collect();
        if self.has(Defect::AnswersTooMuch) && changes.len() > 1 {
            outcomes.push(Outcome::done());
        }
        if self.has(Defect::AnswersBackwards) {
            outcomes.reverse();
        }
        outcomes
    }

    fn validate(&self, _: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let is_present = should.text("ensure") != Some("absent");
        if self.has(Defect::MissesTheDeferred) && is_present && should.get("label").is_none() {
            return vec![ValidationError::with("label", "it needs a label")];
        }
        if self.has(Defect::RefusesWhatItReturns) && should.get("mark").is_some() {
            return vec![ValidationError::with("mark", "it cannot be given")];
        }
        Vec::new()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(Value::String(label)) = should.get("label") {
                let label = label.to_lowercase();
                should.set("label", label);
            }
            if self.has(Defect::CanonicalizesOnAndOn)
                && let Some(Value::String(note)) = should.get("note")
            {
                let note = format!("{note}!");
                should.set("note", note);
            }
        }
        vec![Vec::new(); resources.len()]
    }
}

impl Refresh for Shelf {
    fn refresh(&self, _: &Context<'_>, _: Wanted<'_>) -> Outcome {
        match self.has(Defect::FailsToRefresh) {
            true => Outcome::failed("it is stale"),
            false => Outcome { refreshed: true, ..Outcome::done() },
        }
    }
}
