//! Provider whose work is recorded, or replayed.
//!
//! Scripts are recorded call by call, so that a replay parses their answers again. This wrapper only registers
//! their secrets. Reads and changes of native providers are recorded as their results. A replay calls native
//! providers only for results that follow from the declaration.

// A decorator that takes the default method of a trait would hide the method of the provider.
#![warn(clippy::missing_trait_methods)]

use std::sync::{Arc, Mutex, PoisonError};

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, ResourceRef, State, TypeSchema, Value};
use kilter_provider::{
    Actions, Batch, Capabilities, Context, Declaration, Effect, Explain, Footprint, Found, Generate, Insync, Level,
    Log, Mode, Owner, Placement, Predict, Preference, Provider, ProviderError, ProviderEvent, Query, ReadOne, Refresh,
    Scheduling, Session, SideEffects, Suitability, ValidationError, Wanted,
};
use serde_json::{Value as Json, json};

use crate::RecordMode;
use crate::recordable::Recordable;

/// Wrapper of a provider.
pub(crate) struct RecordingProvider {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) mode: RecordMode,
}

/// Log line of a provider: severity, type, name and message.
type LogLine = (Level, (EcoString, (EcoString, EcoString)));

/// Passes lines on, and stores them.
struct Tee<'a> {
    cx: Context<'a>,
    lines: Mutex<Vec<LogLine>>,
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
        let (answer, lines): (T, Vec<LogLine>) = self.mode.record_or_replay(
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

/// Returns a capability of a decorated provider. The decorator has only the capabilities of that provider.
fn decorated<T>(capability: Option<T>) -> T {
    capability.expect("the decorator has only the capabilities of the provider")
}

fn wanted(of: &Wanted<'_>) -> Json {
    json!({
        "name": of.name.as_str(),
        "namevars": of.namevars.map(Recordable::to_json),
        "should": of.should.map(Recordable::to_json),
    })
}

fn change(of: &Change<'_>) -> Json {
    json!({
        "name": of.name.as_str(),
        "is": of.is.to_json(),
        "should": of.should.map(Recordable::to_json),
        "differences": of.differences.iter().map(Recordable::to_json).collect::<Vec<_>>(),
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

    fn preference(&self) -> Preference {
        if self.passes() {
            return self.inner.preference();
        }
        self.mode.record_or_replay("provider", || self.about("preference", Json::Null), || self.inner.preference())
    }

    fn is_external(&self) -> bool {
        self.inner.is_external()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let inner = self.inner.capabilities();
        Capabilities {
            read_one: inner.read_one.map(|_| self as &dyn ReadOne),
            session: inner.session.map(|_| self as &dyn Session),
            scheduling: inner.scheduling.map(|_| self as &dyn Scheduling),
            owner: inner.owner.map(|_| self as &dyn Owner),
            generate: inner.generate.map(|_| self as &dyn Generate),
            refresh: inner.refresh.map(|_| self as &dyn Refresh),
            actions: inner.actions.map(|_| self as &dyn Actions),
            predict: inner.predict.map(|_| self as &dyn Predict),
            explain: inner.explain.map(|_| self as &dyn Explain),
            ..inner
        }
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

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        self.inner.validate(name, should, deferred)
    }

    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        self.inner.canonicalize(cx, resources)
    }

    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if self.passes() {
            return self.inner.insync(cx, attribute, is, should);
        }
        let about = || self.about("insync", json!({ "attribute": attribute, "name": is.name.as_str() }));
        self.mode.record_or_replay("provider", about, || self.inner.insync(cx, attribute, is, should))
    }
}

impl ReadOne for RecordingProvider {
    fn get_one(&self, cx: &Context<'_>, one: Wanted<'_>) -> Result<State, ProviderError> {
        let state = if self.passes() {
            decorated(self.inner.capabilities().read_one).get_one(cx, one)
        } else {
            let state = self.call(
                cx,
                "get_one",
                || wanted(&one),
                |cx| decorated(self.inner.capabilities().read_one).get_one(cx, one).map_err(message),
            );
            state.map_err(ProviderError::new)
        };
        state.as_ref().map(|state| learn_states(&self.mode, std::slice::from_ref(state))).unwrap_or_default();
        state
    }
}

impl Session for RecordingProvider {
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        if self.passes() {
            return decorated(self.inner.capabilities().session).open(cx);
        }
        let opened = self.call(
            cx,
            "open",
            || Json::Null,
            |cx| decorated(self.inner.capabilities().session).open(cx).map_err(message),
        );
        opened.map_err(ProviderError::new)
    }

    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        if self.passes() {
            return decorated(self.inner.capabilities().session).flush(cx);
        }
        let flushed = self.call(
            cx,
            "flush",
            || Json::Null,
            |cx| decorated(self.inner.capabilities().session).flush(cx).map_err(message),
        );
        flushed.map_err(ProviderError::new)
    }
}

impl Scheduling for RecordingProvider {
    fn placement(&self, should: &Attributes) -> Placement {
        self.placed("placement", should, || decorated(self.inner.capabilities().scheduling).placement(should))
    }

    fn set_placement(&self, should: &Attributes) -> Placement {
        self.placed("set_placement", should, || decorated(self.inner.capabilities().scheduling).set_placement(should))
    }

    fn batch_size(&self) -> Batch {
        decorated(self.inner.capabilities().scheduling).batch_size()
    }

    fn reads_ahead(&self) -> bool {
        decorated(self.inner.capabilities().scheduling).reads_ahead()
    }
}

impl Generate for RecordingProvider {
    fn generate(&self, cx: &Context<'_>, one: Wanted<'_>, is: &State) -> Result<Vec<ResourceRef>, ProviderError> {
        if self.passes() {
            return decorated(self.inner.capabilities().generate).generate(cx, one, is);
        }
        let about = || wanted(&one);
        let found = self.call(cx, "generate", about, |cx| {
            decorated(self.inner.capabilities().generate).generate(cx, one, is).map_err(message)
        });
        found.map_err(ProviderError::new)
    }
}

impl Refresh for RecordingProvider {
    fn refresh(&self, cx: &Context<'_>, one: Wanted<'_>) -> Outcome {
        learn_wanted(&self.mode, one.should);
        let outcome = match self.passes() {
            true => decorated(self.inner.capabilities().refresh).refresh(cx, one),
            false => self.call(
                cx,
                "refresh",
                || wanted(&one),
                |cx| decorated(self.inner.capabilities().refresh).refresh(cx, one),
            ),
        };
        learn_outcomes(&self.mode, std::slice::from_ref(&outcome));
        outcome
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        decorated(self.inner.capabilities().refresh).acts_on_refresh(is, should)
    }
}

impl Actions for RecordingProvider {
    fn check_action(&self, action: &str) -> Result<(), ValidationError> {
        decorated(self.inner.capabilities().actions).check_action(action)
    }

    fn act(&self, cx: &Context<'_>, one: Wanted<'_>, action: &str) -> Outcome {
        learn_wanted(&self.mode, one.should);
        let about = || json!({ "action": action, "of": wanted(&one) });
        let outcome = match self.passes() {
            true => decorated(self.inner.capabilities().actions).act(cx, one, action),
            false => {
                self.call(cx, "act", about, |cx| decorated(self.inner.capabilities().actions).act(cx, one, action))
            }
        };
        learn_outcomes(&self.mode, std::slice::from_ref(&outcome));
        outcome
    }
}

impl Predict for RecordingProvider {
    fn basis(&self, cx: &Context<'_>, one: Wanted<'_>, found: &Found) -> Option<Value> {
        if self.passes() {
            return decorated(self.inner.capabilities().predict).basis(cx, one, found);
        }
        let basis = self.call(
            cx,
            "basis",
            || wanted(&one),
            |cx| decorated(self.inner.capabilities().predict).basis(cx, one, found).unwrap_or_default(),
        );
        Some(basis).filter(|basis| !basis.is_undef())
    }

    fn side_effects(&self, should: &Attributes) -> SideEffects {
        decorated(self.inner.capabilities().predict).side_effects(should)
    }

    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        decorated(self.inner.capabilities().predict).effects(cx, change)
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        decorated(self.inner.capabilities().predict).footprint(name, should, say);
    }
}

impl Explain for RecordingProvider {
    fn message(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        if self.passes() {
            return decorated(self.inner.capabilities().explain).message(attribute, is, should);
        }
        let about = || self.about("message", json!({ "attribute": attribute, "name": is.name.as_str() }));
        self.mode.record_or_replay("provider", about, || {
            decorated(self.inner.capabilities().explain).message(attribute, is, should)
        })
    }

    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        if self.passes() {
            return decorated(self.inner.capabilities().explain).diff(attribute, is, should);
        }
        let about = || self.about("diff", json!({ "attribute": attribute, "name": is.name.as_str() }));
        self.mode.record_or_replay("provider", about, || {
            decorated(self.inner.capabilities().explain).diff(attribute, is, should)
        })
    }
}

/// A query for owned paths runs no script, so that it is recorded here for all providers.
impl Owner for RecordingProvider {
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        let owner = decorated(self.inner.capabilities().owner);
        self.mode.record_or_replay(
            "provider",
            || self.about("owned", Json::from(name)),
            || owner.owned(name, should, is_wanted),
        )
    }
}

#[cfg(test)]
mod tests {
    use kilter_devkit::{EveryCapability, capability_names};

    use crate::*;

    #[test]
    fn recording_provider_forwards_every_capability() {
        let inner: Arc<dyn Provider> = Arc::new(EveryCapability::new());
        let recording = RecordingProvider { inner: Arc::clone(&inner), mode: RecordMode::Live };
        assert_eq!(capability_names(&recording.capabilities()), capability_names(&inner.capabilities()));
    }
}
