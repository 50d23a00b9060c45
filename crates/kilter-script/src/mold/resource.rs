//! Provider of a mold resource script.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Feature, Outcome, State, TypeSchema, Value, from_json};
use kilter_process::{Confinement, Output};
use kilter_provider::{
    Actions, Batch, Capabilities, Context, INSYNC_TRIGGER, Insync, Level, Mode, Owner, Preference, Provider,
    ProviderError, Query, ReadOne, Redactor, Refresh, Relations, Scheduling, Strictness, Suitability, ValidationError,
    Wanted, Watch, WatchSink, WatchSource,
};
use serde_json::Value as Json;

use super::document;
use super::error::{self, MoldCause, MoldError};
use super::recorder::hide_below;
use super::runner::{ActorCall, Runner, WATCH};
use crate::call_lock::CallLock;
use crate::condition::ConditionResult;
use crate::convention::beginning;
use crate::metadata::{EXISTS, Metadata, is_action};
use crate::provider::{keeps, kept};
use crate::script::Script;
use crate::script_environment::ScriptEnvironment;

/// Maximum number of output lines or undeclared attributes in messages.
const NOTED: usize = 20;

/// Provider of a mold resource script: a script in `resources`, or a file `*.prov`.
pub struct MoldProvider {
    runner: Arc<Runner>,
    path: PathBuf,
    kind: Metadata,
    name: &'static str,
    /// Name of the script in messages: `resources/file`.
    role: EcoString,
    /// Directory of the script for persistent data, relative to that of all scripts.
    keeps: EcoString,
    turns: CallLock,
}

impl MoldProvider {
    /// Creates the provider of a script in `resources`.
    pub(super) fn new(runner: Arc<Runner>, path: PathBuf, kind: Metadata) -> MoldProvider {
        let (name, role) = (kept(&kind.name), eco_format!("resources/{}", kind.schema.name));
        let keeps = keeps(&kind);
        MoldProvider { runner, path, kind, name, role, keeps, turns: CallLock::default() }
    }

    /// Creates the provider of a file `*.prov`.
    pub(crate) fn of_file(path: &Path, kind: Metadata, surroundings: Arc<ScriptEnvironment>) -> MoldProvider {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let (name, role) = (kept(&kind.name), eco_format!("providers/{stem}"));
        let keeps = keeps(&kind);
        MoldProvider {
            runner: Arc::new(Runner::new(surroundings)),
            path: path.to_owned(),
            kind,
            name,
            role,
            keeps,
            turns: CallLock::default(),
        }
    }

    pub(super) fn runner(&self) -> &Runner {
        &self.runner
    }

    pub(super) fn known(&self) -> &Metadata {
        &self.kind
    }

    /// Returns the observation of a resource as printed by the script.
    ///
    /// # Errors
    /// If the script fails or prints an invalid document.
    pub fn observe(&self, cx: &Context<'_>, name: &EcoString) -> Result<Json, MoldError> {
        self.inspect(cx, name, None).map(|(document, _)| document)
    }

    /// Brings a resource to a state from any current state.
    pub fn conform(&self, cx: &Context<'_>, name: &EcoString, should: &Attributes) -> Outcome {
        self.conformed(cx, name, should, Redactor::default(), Mode::Apply)
    }

    fn conformed(
        &self,
        cx: &Context<'_>,
        name: &EcoString,
        should: &Attributes,
        known: Redactor,
        mode: Mode,
    ) -> Outcome {
        let input = document::prescription(&self.kind, name, should, mode);
        self.called(cx, &ActorCall { known, ..self.call_in("conform", name, &input, mode) })
    }

    fn inspect(
        &self,
        cx: &Context<'_>,
        name: &EcoString,
        should: Option<&Attributes>,
    ) -> Result<(Json, State), MoldError> {
        let known = should.map(Redactor::of).unwrap_or_default();
        // A value outside of its type counts as a difference to repair if another value is declared.
        let is_declared =
            |name: &str| should.and_then(|should| should.get(name)).is_some_and(|value| !value.is_undef());
        let is_repairable = |name: &str| cx.strictness() != Strictness::Error && is_declared(name);
        let input = Value::hash(document::identity(&self.kind, name));
        let call = ActorCall { known, ..self.call("inspect", name, &input) };
        let _turn = self.turns.to_read(self.kind.parallel);
        let finished = self.runner.run(cx, &call)?;
        let fail = |cause| call.error(cause, Some(&finished));
        let document = error::document(&finished, "an observation document", call.output).map_err(fail)?;
        let (state, undeclared) = document::state(&self.kind, name, &document, &is_repairable).map_err(fail)?;
        self.pass_over(cx, name, &undeclared);
        Ok((document, state))
    }

    /// Logs the undeclared attributes, which are ignored.
    pub(super) fn pass_over(&self, cx: &Context<'_>, name: &str, undeclared: &[EcoString]) {
        if !undeclared.is_empty() {
            let shown: Vec<EcoString> = undeclared.iter().take(NOTED).map(|name| beginning(name, 80)).collect();
            let more = undeclared.len() - shown.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!("attributes that the type does not have are passed over: {}{more}", shown.join(", "));
            cx.log(Level::Debug, self.kind.schema.name.as_str(), name, &message);
        }
    }

    fn state(&self, cx: &Context<'_>, wanted: &Wanted<'_>) -> Result<State, MoldError> {
        let (_, state) = self.inspect(cx, wanted.name, wanted.should)?;
        let told = |name: &str| state.attributes.get(name).is_some() || self.kind.schema.find(name).is_some();
        let should = wanted.should.filter(|_| state.exists).into_iter().flat_map(Attributes::iter);
        let untold: Vec<&str> = should.map(|(name, _)| name.as_str()).filter(|name| !told(name)).collect();
        if !untold.is_empty() {
            let message = eco_format!(
                "`inspect` does not return {}, so kilter does not compare it (metadata of the script can declare it)",
                untold.join(", ")
            );
            cx.log(Level::Warning, self.kind.schema.name.as_str(), wanted.name, &message);
        }
        Ok(state)
    }

    /// Runs a script that changes a resource.
    fn called(&self, cx: &Context<'_>, call: &ActorCall<'_>) -> Outcome {
        let _turn = self.turns.to_change(self.kind.parallel);
        if cx.interrupt().is_raised() {
            return Outcome::failed("not started: the run was interrupted");
        }
        let finished = match self.runner.run(cx, call) {
            Ok(finished) => finished,
            Err(error) => return Outcome::failed(eco_format!("{error}")),
        };
        match self.outcome(call.about.1, &finished, call.output) {
            Ok((outcome, document)) => {
                let secrets = call.secrets(&finished);
                // Without known secrets, the document is not shown.
                let document = document.filter(|_| call.action != Some("conform")).zip(secrets.as_ref());
                let document = document.map(|(mut document, seal)| {
                    hide_below(seal, &mut document);
                    from_json(&document)
                });
                let outcome = Outcome { by: call.made(&finished), document, ..outcome };
                secrets.unwrap_or_else(|| call.given()).outcome(outcome)
            }
            Err(cause) => Outcome::failed(eco_format!("{}", call.error(cause, Some(&finished)))),
        }
    }

    /// Interprets the output of a script after a change: empty, a document, or lines for people.
    fn outcome(&self, name: &str, finished: &Output, most: usize) -> Result<(Outcome, Option<Json>), MoldCause> {
        error::ended(finished)?;
        let bytes = finished.stdout.bytes.as_slice();
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let is_document = bytes.trim_ascii_start().starts_with(b"{");
        if is_document {
            let document = error::document(finished, "a document", most)?;
            let changed = document::changed(&self.kind, name, &document)?;
            return Ok((Outcome { changed, ..Outcome::done() }, Some(document)));
        }
        let text = finished.stdout.text();
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let notes = lines.take(NOTED).map(|line| beginning(line, 200)).collect();
        Ok((Outcome { notes, ..Outcome::done() }, None))
    }

    /// Creates a call that reads or changes.
    pub(super) fn call<'a>(&'a self, action: &'a str, name: &'a EcoString, input: &'a Value) -> ActorCall<'a> {
        self.call_in(action, name, input, Mode::Apply)
    }

    /// Creates a call. A call that only reads is confined unless the metadata lifts the confinement. A preview
    /// is always confined.
    fn call_in<'a>(&'a self, action: &'a str, name: &'a EcoString, input: &'a Value, mode: Mode) -> ActorCall<'a> {
        let type_name = &self.kind.schema.name;
        let limits = &self.runner.surroundings.limits;
        let is_read = matches!(action, "inspect" | "list" | WATCH);
        let is_confined = mode == Mode::Preview || is_read && self.kind.confine;
        let of = if name.is_empty() { eco_format!("{type_name}") } else { eco_format!("{type_name}[{name}]") };
        ActorCall {
            path: &self.path,
            role: self.role.clone(),
            keeps: self.keeps.clone(),
            task: eco_format!("{action} of {of} by the provider `{}`", self.name),
            about: (type_name.as_str(), name),
            action: Some(action),
            input: Some(input),
            confinement: if is_confined { Confinement::ReadOnly } else { Confinement::None },
            is_read: is_read || mode == Mode::Preview,
            known: Redactor::default(),
            schemas: vec![&self.kind.schema],
            output: if action == "list" {
                self.kind.output.unwrap_or(limits.output)
            } else {
                self.runner.output(self.kind.output)
            },
            deadline: self.kind.timeout.unwrap_or(if is_read { limits.read } else { limits.change }),
        }
    }

    fn unknown(&self, attribute: &str) -> ValidationError {
        let type_name = &self.kind.schema.name;
        ValidationError::with(
            attribute,
            eco_format!("the provider `{}` of {type_name} has no such attribute", self.name),
        )
    }
}

impl Provider for MoldProvider {
    fn schema(&self) -> &TypeSchema {
        &self.kind.schema
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn suitable(&self) -> Suitability {
        match self.kind.suitable.evaluate(&*self.runner.surroundings) {
            ConditionResult::Holds => Suitability::Suitable,
            ConditionResult::Fails(why) => Suitability::Unsuitable(why),
        }
    }

    fn preference(&self) -> Preference {
        match self.kind.default.evaluate(&*self.runner.surroundings).holds() {
            true => Preference::Default,
            false if self.kind.is_named_only => Preference::NamedOnly,
            false => Preference::Normal,
        }
    }

    fn is_external(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            read_one: Some(self),
            scheduling: Some(self),
            relations: Some(self),
            owner: self.kind.owns.is_some().then_some(self as &dyn Owner),
            refresh: self.schema().has(Feature::Refresh).then_some(self as &dyn Refresh),
            actions: Some(self),
            watch: Some(self),
            ..Capabilities::default()
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return self.list(cx) };
        let state = |wanted: &Wanted<'_>| match self.state(cx, wanted) {
            Ok(state) => state,
            Err(error) => State { unreadable: Some(eco_format!("{error}")), ..State::absent(wanted.name.clone()) },
        };
        Ok(wanted.iter().map(state).collect())
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if let Some(why) = self.kind.only_reads() {
            return changes.iter().map(|_| Outcome::failed(why.clone())).collect();
        }
        if mode == Mode::Preview && !self.kind.noop_safe {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let gone = Attributes::from_iter([(EXISTS, Value::Boolean(false))]);
        let conform = |change: &Change<'_>| {
            let should = alike(&self.kind, change.should.unwrap_or(&gone), change.is);
            self.conformed(cx, change.name, &should, Redactor::of(&change.is.attributes), mode)
        };
        changes.iter().map(conform).collect()
    }

    fn validate(&self, _: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let unknown = |name: &&str| self.kind.schema.known(name).is_none();
        let mut problems: Vec<ValidationError> =
            deferred.iter().filter(|name| unknown(name)).map(|name| self.unknown(name)).collect();
        for (name, value) in should.iter().filter(|(_, value)| !value.is_undef()) {
            match self.kind.schema.known(name.as_str()) {
                None => problems.push(self.unknown(name.as_str())),
                Some(_) if matches!(name.as_str(), "kind" | "action") => {
                    problems.push(ValidationError::with(name.as_str(), "mold's documents use this key for themselves"));
                }
                Some(known) => {
                    if let Err(mismatch) = known.data_type.check(value) {
                        problems.push(ValidationError::with(name.as_str(), eco_format!("{mismatch}")));
                    }
                }
            }
        }
        problems
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if attribute == INSYNC_TRIGGER {
            return Insync::Same;
        }
        if should.get(EXISTS) == Some(&Value::Boolean(false)) {
            // For an absent resource, other attributes do not matter.
            return if attribute == EXISTS && is.exists { Insync::Default } else { Insync::Same };
        }
        if self.kind.schema.find(attribute).is_some() {
            return Insync::Default;
        }
        match (is.attributes.get(attribute), should.get(attribute)) {
            (None, _) if is.exists => Insync::Same,
            // An undeclared attribute may be a number or a text.
            (Some(found), Some(wanted)) if same_text(found, wanted) => Insync::Same,
            _ => Insync::Default,
        }
    }
}

impl ReadOne for MoldProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        Ok(self.state(cx, &wanted)?)
    }
}

impl Scheduling for MoldProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Relations for MoldProvider {
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        self.kind.identify(name, should, say);
    }
}

impl Refresh for MoldProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        match &self.kind.refresh {
            Some(action) => {
                let mut outcome = self.act(cx, wanted, action);
                // The report of a run consists of lines.
                if let Some(Value::Hash(entries)) = outcome.document.take() {
                    let line = |(key, value): (&EcoString, &Value)| {
                        eco_format!("{key}: {}", beginning(&value.to_string(), 200))
                    };
                    outcome.notes.extend(entries.iter().take(NOTED).map(line));
                }
                Outcome { refreshed: true, ..outcome }
            }
            None => Outcome { refreshed: true, ..Outcome::done() },
        }
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        self.kind.acts_on_refresh(is, should)
    }
}

impl Actions for MoldProvider {
    fn check_action(&self, action: &str) -> Result<(), ValidationError> {
        let type_name = &self.kind.schema.name;
        match &self.kind.one_time {
            _ if !is_action(action) => Err(ValidationError::new(eco_format!("`{action}` cannot be a one-time action"))
                .hint("it is one word of letters, digits, `_` and `-`, none of list, inspect, conform and watch")),
            Some(actions) if !actions.iter().any(|known| known == action) => {
                let known = if actions.is_empty() { "none".into() } else { actions.join(", ") };
                let problem = ValidationError::new(eco_format!("{type_name} has no action `{action}`"));
                Err(problem.hint(eco_format!("its actions: {known}")))
            }
            _ => Ok(()),
        }
    }

    fn act(&self, cx: &Context<'_>, wanted: Wanted<'_>, action: &str) -> Outcome {
        match self.check_action(action) {
            Ok(()) => {
                let input = Value::hash(document::identity(&self.kind, wanted.name));
                self.called(cx, &self.call(action, wanted.name, &input))
            }
            Err(problem) => Outcome::failed(eco_format!("{problem}")),
        }
    }
}

impl Watch for MoldProvider {
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        self.kind.watched(name, should)
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.listen(cx, tell)
    }
}

impl Owner for MoldProvider {
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        self.kind.owned(&self.runner.surroundings.trust, (name, should), is_wanted)
    }
}

impl Script for MoldProvider {
    fn path(&self) -> &Path {
        &self.path
    }

    fn metadata(&self) -> &Metadata {
        &self.kind
    }
}

/// Converts the desired text of undeclared attributes to the type that the script prints, because words of the
/// command line are texts.
fn alike(kind: &Metadata, should: &Attributes, is: &State) -> Attributes {
    let mut alike = should.clone();
    for (name, value) in alike.iter_mut().filter(|(name, _)| kind.schema.find(name.as_str()).is_none()) {
        let Value::String(text) = &*value else { continue };
        let same_kind = match is.attributes.get(name.as_str()) {
            Some(Value::Boolean(_)) => text.parse().ok().map(Value::Boolean),
            Some(Value::Integer(_)) => text.parse().ok().map(Value::Integer),
            Some(Value::Float(_)) => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float),
            _ => None,
        };
        if let Some(same_kind) = same_kind {
            *value = same_kind;
        }
    }
    alike
}

fn same_text(found: &Value, wanted: &Value) -> bool {
    let (found, wanted) = (found.unwrap_sensitive().to_text(), wanted.unwrap_sensitive().to_text());
    found.is_some() && found == wanted
}
