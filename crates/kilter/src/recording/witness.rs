//! Provider whose work is recorded, or replayed.
//!
//! Scripts are recorded call by call, so that a replay parses their answers again. This wrapper only registers
//! their secrets. Reads and changes of native providers are recorded as their results. A replay calls native
//! providers only for results that follow from the declaration.

use std::sync::{Arc, Mutex, PoisonError};

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, ResourceRef, State, TypeSchema, Value};
use kilter_provider::{
    AutoEdge, Batch, Context, Declared, Effect, Footprint, Found, Insync, Level, Log, Mode, Owner, Placement, Provider,
    ProviderError, ProviderEvent, Query, Revert, SideEffects, Suitability, ValidationError, Wanted, Watch, WatchSink,
};
use serde_json::{Value as Json, json};

use super::RecordMode;
use super::kept::Recordable;

/// Wrapper of a provider.
pub(super) struct RecordingProvider {
    pub(super) inner: Arc<dyn Provider>,
    pub(super) mode: RecordMode,
}

/// Log line of a provider: severity, type, name and message.
type Line = (Level, (EcoString, (EcoString, EcoString)));

/// Passes lines on, and stores them.
struct Tee<'a> {
    cx: Context<'a>,
    lines: Mutex<Vec<Line>>,
}

impl Tee<'_> {
    fn keep(&self, level: Level, type_name: &str, name: &str, message: &str) {
        let line = (level, (type_name.into(), (name.into(), message.into())));
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Log for Tee<'_> {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.keep(level, type_name, name, message);
        self.cx.log(level, type_name, name, message);
    }

    fn event(&self, event: &ProviderEvent<'_>) {
        let text = event.text();
        if event.titles.is_empty() {
            self.keep(event.level, event.type_name, "", &text);
        }
        event.titles.iter().for_each(|title| self.keep(event.level, event.type_name, title, &text));
        self.cx.event(event);
    }
}

impl RecordingProvider {
    /// Makes a query for a call. The lines written during the call belong to the answer.
    fn call<T: Recordable>(
        &self,
        cx: &Context<'_>,
        call: &str,
        about: impl FnOnce() -> Json,
        live: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let mut was_asked = false;
        let (answer, lines): (T, Vec<Line>) = self.mode.record_or_replay(
            "provider",
            || self.about(call, about()),
            || {
                was_asked = true;
                let tee = Tee { cx: *cx, lines: Mutex::default() };
                let answer = live(&cx.with_log(&tee));
                (answer, tee.lines.into_inner().unwrap_or_else(PoisonError::into_inner))
            },
        );
        if !was_asked {
            lines.iter().for_each(|(level, (of, (name, message)))| cx.log(*level, of, name, message));
        }
        answer
    }

    fn about(&self, call: &str, about: Json) -> Json {
        json!({ "type": self.type_name(), "provider": self.name(), "call": call, "about": about })
    }

    /// Records the placement of a call, because it influences the order of calls: a replay uses the same placement.
    fn placed(&self, call: &str, should: &Attributes, live: impl FnOnce() -> Placement) -> Placement {
        if self.passes() {
            return live();
        }
        let about = || should.iter().map(|(name, _)| Json::from(name.as_str())).collect();
        let is_inline =
            self.mode.record_or_replay("provider", || self.about(call, about()), || live() == Placement::Inline);
        if is_inline { Placement::Inline } else { Placement::Worker }
    }

    /// Returns true if calls pass through, because the script's own exchanges are recorded.
    fn passes(&self) -> bool {
        self.inner.is_external()
    }
}

fn wanted(of: &Wanted<'_>) -> Json {
    json!({
        "name": of.name.as_str(),
        "namevars": of.namevars.map(Recordable::keep),
        "should": of.should.map(Recordable::keep),
    })
}

fn change(of: &Change<'_>) -> Json {
    json!({
        "name": of.name.as_str(),
        "is": of.is.keep(),
        "should": of.should.map(Recordable::keep),
        "differences": of.differences.iter().map(Recordable::keep).collect::<Vec<_>>(),
        "refresh": of.refresh,
    })
}

fn message(error: ProviderError) -> EcoString {
    error.message
}

/// Registers the secrets in states.
fn learn_states(mode: &RecordMode, states: &[State]) {
    for state in states {
        mode.register_secrets(state.attributes.iter().chain(state.outputs.iter()).map(|(_, value)| value));
    }
}

fn learn_outcomes(mode: &RecordMode, outcomes: &[Outcome]) {
    for outcome in outcomes {
        mode.register_secrets(outcome.outputs.iter().map(|(_, value)| value));
        mode.register_secrets(outcome.changed.iter().flat_map(|changed| [&changed.is, &changed.should]));
    }
}

fn learn_wanted<'a>(mode: &RecordMode, attributes: impl IntoIterator<Item = &'a Attributes>) {
    attributes.into_iter().for_each(|attributes| mode.register_secrets(attributes.iter().map(|(_, value)| value)));
}

impl Provider for RecordingProvider {
    fn schema(&self) -> &TypeSchema {
        self.inner.schema()
    }

    fn type_name(&self) -> &str {
        self.inner.type_name()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn suitable(&self) -> Suitability {
        if self.passes() {
            return self.inner.suitable();
        }
        self.mode.record_or_replay("provider", || self.about("suitable", Json::Null), || self.inner.suitable())
    }

    fn is_default(&self) -> bool {
        if self.passes() {
            return self.inner.is_default();
        }
        self.mode.record_or_replay("provider", || self.about("is_default", Json::Null), || self.inner.is_default())
    }

    fn is_external(&self) -> bool {
        self.inner.is_external()
    }

    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        if self.passes() {
            return self.inner.open(cx);
        }
        let opened = self.call(cx, "open", || Json::Null, |cx| self.inner.open(cx).map_err(message));
        opened.map_err(ProviderError::new)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let states = if self.passes() {
            self.inner.get(cx, query)
        } else {
            let about = || match query {
                Query::All => Json::Null,
                Query::Named(names) => names.iter().map(wanted).collect(),
            };
            let states = self.call(cx, "get", about, |cx| self.inner.get(cx, query).map_err(message));
            states.map_err(ProviderError::new)
        };
        states.as_deref().map(|states| learn_states(&self.mode, states)).unwrap_or_default();
        states
    }

    fn get_one(&self, cx: &Context<'_>, one: Wanted<'_>) -> Result<State, ProviderError> {
        let state = if self.passes() {
            self.inner.get_one(cx, one)
        } else {
            let state = self.call(cx, "get_one", || wanted(&one), |cx| self.inner.get_one(cx, one).map_err(message));
            state.map_err(ProviderError::new)
        };
        state.as_ref().map(|state| learn_states(&self.mode, std::slice::from_ref(state))).unwrap_or_default();
        state
    }

    fn gets_one_by_one(&self) -> bool {
        self.inner.gets_one_by_one()
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        learn_wanted(
            &self.mode,
            changes.iter().flat_map(|change| change.should.into_iter().chain([&change.is.attributes])),
        );
        let outcomes = if self.passes() {
            self.inner.set(cx, changes, mode)
        } else {
            let call = if mode == Mode::Preview { "preview" } else { "set" };
            let about = || changes.iter().map(change).collect();
            let mut outcomes = self.call(cx, call, about, |cx| self.inner.set(cx, changes, mode));
            if self.mode.is_replay() {
                outcomes.resize_with(changes.len(), Outcome::missing);
            }
            outcomes
        };
        learn_outcomes(&self.mode, &outcomes);
        outcomes
    }

    fn refresh(&self, cx: &Context<'_>, one: Wanted<'_>) -> Outcome {
        learn_wanted(&self.mode, one.should);
        let outcome = match self.passes() {
            true => self.inner.refresh(cx, one),
            false => self.call(cx, "refresh", || wanted(&one), |cx| self.inner.refresh(cx, one)),
        };
        learn_outcomes(&self.mode, std::slice::from_ref(&outcome));
        outcome
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        self.inner.acts_on_refresh(is, should)
    }

    fn check_action(&self, action: &str) -> Result<(), ValidationError> {
        self.inner.check_action(action)
    }

    fn act(&self, cx: &Context<'_>, one: Wanted<'_>, action: &str) -> Outcome {
        learn_wanted(&self.mode, one.should);
        let about = || json!({ "action": action, "of": wanted(&one) });
        let outcome = match self.passes() {
            true => self.inner.act(cx, one, action),
            false => self.call(cx, "act", about, |cx| self.inner.act(cx, one, action)),
        };
        learn_outcomes(&self.mode, std::slice::from_ref(&outcome));
        outcome
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        self.inner.validate(name, should, deferred)
    }

    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        self.inner.conflicts(name, should, declared)
    }

    fn canonicalize(&self, name: &EcoString, should: &mut Attributes) -> Result<(), ValidationError> {
        self.inner.canonicalize(name, should)
    }

    fn compares_absent(&self) -> bool {
        self.inner.compares_absent()
    }

    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if self.passes() {
            return self.inner.insync(attribute, is, should);
        }
        let about = || self.about("insync", json!({ "attribute": attribute, "name": is.name.as_str() }));
        self.mode.record_or_replay("provider", about, || self.inner.insync(attribute, is, should))
    }

    fn generate(&self, cx: &Context<'_>, one: Wanted<'_>, is: &State) -> Result<Vec<ResourceRef>, ProviderError> {
        if self.passes() {
            return self.inner.generate(cx, one, is);
        }
        let about = || wanted(&one);
        let found = self.call(cx, "generate", about, |cx| self.inner.generate(cx, one, is).map_err(message));
        found.map_err(ProviderError::new)
    }

    fn basis(&self, cx: &Context<'_>, one: Wanted<'_>, found: &Found) -> Option<Value> {
        if self.passes() {
            return self.inner.basis(cx, one, found);
        }
        let basis = self.call(cx, "basis", || wanted(&one), |cx| self.inner.basis(cx, one, found).unwrap_or_default());
        Some(basis).filter(|basis| !basis.is_undef())
    }

    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        if self.passes() {
            return self.inner.diff(attribute, is, should);
        }
        let about = || self.about("diff", json!({ "attribute": attribute, "name": is.name.as_str() }));
        self.mode.record_or_replay("provider", about, || self.inner.diff(attribute, is, should))
    }

    fn side_effects(&self, should: &Attributes) -> SideEffects {
        self.inner.side_effects(should)
    }

    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Vec<Effect> {
        self.inner.effects(cx, change)
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        self.inner.footprint(name, should, say);
    }

    fn placement(&self, should: &Attributes) -> Placement {
        self.placed("placement", should, || self.inner.placement(should))
    }

    fn set_placement(&self, should: &Attributes) -> Placement {
        self.placed("set_placement", should, || self.inner.set_placement(should))
    }

    fn batch_size(&self) -> Batch {
        self.inner.batch_size()
    }

    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        self.inner.identities(name, should, say);
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        self.inner.auto_edges(name, should, add);
    }

    fn owned_paths(&self) -> Option<&dyn Owner> {
        self.inner.owned_paths().map(|_| self as &dyn Owner)
    }

    fn names_are_paths(&self) -> bool {
        self.inner.names_are_paths()
    }

    fn watches(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        self.inner.watches(name, should)
    }

    fn depends_on_catalog(&self, should: &Attributes) -> bool {
        self.inner.depends_on_catalog(should)
    }

    fn revert_support(&self) -> Revert {
        self.inner.revert_support()
    }

    fn revert_state(&self, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
        self.inner.revert_state(should, is)
    }

    fn revert_scope(&self) -> Option<String> {
        self.inner.revert_scope()
    }

    fn output_independent_attributes(&self) -> &'static [&'static str] {
        self.inner.output_independent_attributes()
    }

    fn default_outputs(&self, should: &Attributes) -> Attributes {
        self.inner.default_outputs(should)
    }

    fn is_action(&self, should: &Attributes) -> bool {
        self.inner.is_action(should)
    }

    fn is_event_handler(&self, should: &Attributes) -> bool {
        self.inner.is_event_handler(should)
    }

    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.inner.watch(cx, alone, tell)
    }

    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        if self.passes() {
            return self.inner.flush(cx);
        }
        let flushed = self.call(cx, "flush", || Json::Null, |cx| self.inner.flush(cx).map_err(message));
        flushed.map_err(ProviderError::new)
    }
}

/// A query for owned paths runs no script, so that it is recorded here for all providers.
impl Owner for RecordingProvider {
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        let Some(owner) = self.inner.owned_paths() else { return Vec::new() };
        self.mode.record_or_replay(
            "provider",
            || self.about("owned", Json::from(name)),
            || owner.owned(name, should, is_wanted),
        )
    }
}
