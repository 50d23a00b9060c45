//! The provider that a resource script amounts to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, TypeSchema, Value};
use kilter_process::{Confinement, Finished};
use kilter_provider::{
    Batch, Context, INSYNC_TRIGGER, Insync, Level, Mode, Problem, Provider, ProviderError, Query, Wanted,
};
use serde_json::Value as Json;

use super::document;
use super::error::{self, MoldCause, MoldError};
use super::kind::{EXISTS, Kind, is_action};
use super::runner::{Call, Runner};
use crate::convention::beginning;
use crate::provider::kept;

/// What every provider of mold is called.
const NAME: &str = "mold";

/// How many lines of a script's output, or attributes that nobody has declared, are shown.
const NOTED: usize = 20;

/// A provider that is a resource script of mold.
pub struct MoldProvider {
    runner: Arc<Runner>,
    path: PathBuf,
    kind: Kind,
}

impl MoldProvider {
    pub(super) fn new(runner: Arc<Runner>, path: PathBuf, kind: Kind) -> MoldProvider {
        MoldProvider { runner, path, kind }
    }

    /// The script.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the script observes of a resource, as it prints it.
    ///
    /// # Errors
    /// When it does not, or prints something else.
    pub fn observe(&self, cx: &Context<'_>, name: &EcoString) -> Result<Json, MoldError> {
        self.inspect(cx, name).map(|(document, _)| document)
    }

    /// Brings a resource to a state, whatever its state is now.
    pub fn conform(&self, cx: &Context<'_>, name: &EcoString, should: &Attributes) -> Outcome {
        let input = document::prescription(&self.kind, name, should);
        self.called(cx, "conform", name, &input)
    }

    fn inspect(&self, cx: &Context<'_>, name: &EcoString) -> Result<(Json, State), MoldError> {
        let input = Value::hash(document::identity(&self.kind, name));
        let call = self.call("inspect", name, &input);
        let finished = self.runner.run(cx, &call)?;
        let fail = |cause| call.error(cause, Some(&finished));
        let document = error::document(&finished, "an observation document", call.output).map_err(fail)?;
        let wrong = |why| call.error(MoldCause::Document(why), Some(&finished));
        let (state, undeclared) = document::state(&self.kind, name, &document).map_err(wrong)?;
        if !undeclared.is_empty() {
            let shown: Vec<EcoString> = undeclared.iter().take(NOTED).map(|name| beginning(name, 80)).collect();
            let more = undeclared.len() - shown.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!("attributes that the type does not have are passed over: {}{more}", shown.join(", "));
            cx.log(Level::Debug, self.kind.schema.name.as_str(), name, &message);
        }
        Ok((document, state))
    }

    fn state(&self, cx: &Context<'_>, wanted: &Wanted<'_>) -> Result<State, MoldError> {
        let (_, state) = self.inspect(cx, wanted.name)?;
        let told = |name: &str| state.attributes.get(name).is_some() || self.kind.schema.find(name).is_some();
        let should = wanted.should.filter(|_| state.exists).into_iter().flat_map(Attributes::iter);
        let untold: Vec<&str> = should.map(|(name, _)| name.as_str()).filter(|name| !told(name)).collect();
        if !untold.is_empty() {
            let message = eco_format!(
                "`inspect` tells nothing of {}: it is not compared (metadata beside the script can declare it)",
                untold.join(", ")
            );
            cx.log(Level::Warning, self.kind.schema.name.as_str(), wanted.name, &message);
        }
        Ok(state)
    }

    /// Has the script change something.
    fn called(&self, cx: &Context<'_>, action: &str, name: &EcoString, input: &Value) -> Outcome {
        if cx.interrupt().is_raised() {
            return Outcome::failed("not begun: the run was interrupted");
        }
        let call = self.call(action, name, input);
        let finished = match self.runner.run(cx, &call) {
            Ok(finished) => finished,
            Err(error) => return Outcome::failed(eco_format!("{error}")),
        };
        match self.outcome(name, &finished) {
            Ok(outcome) => outcome,
            Err(cause) => Outcome::failed(eco_format!("{}", call.error(cause, Some(&finished)))),
        }
    }

    /// What a script that has changed something says of it: nothing, a document, or lines for people.
    fn outcome(&self, name: &str, finished: &Finished) -> Result<Outcome, MoldCause> {
        error::ended(finished)?;
        let bytes = finished.stdout.bytes.as_slice();
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let is_document = bytes.trim_ascii_start().starts_with(b"{");
        if is_document {
            let document = error::document(finished, "a document", self.runner.output(self.kind.manner))?;
            let changed = document::changed(&self.kind, name, &document).map_err(MoldCause::Document)?;
            return Ok(Outcome { changed, ..Outcome::done() });
        }
        let text = finished.stdout.text();
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        Ok(Outcome { notes: lines.take(NOTED).map(|line| beginning(line, 200)).collect(), ..Outcome::done() })
    }

    fn call<'a>(&'a self, action: &'a str, name: &'a EcoString, input: &'a Value) -> Call<'a> {
        let type_name = &self.kind.schema.name;
        let limits = &self.runner.surroundings.limits;
        let (confinement, usual) = match action {
            "inspect" if self.kind.manner.is_confined => (Confinement::ReadOnly, limits.read),
            "inspect" => (Confinement::None, limits.read),
            _ => (Confinement::None, limits.change),
        };
        Call {
            path: &self.path,
            role: eco_format!("resources/{type_name}"),
            task: eco_format!("{action} of {type_name}[{name}] by the provider `{NAME}`"),
            about: (type_name.as_str(), name),
            action: Some(action),
            input: Some(input),
            confinement,
            output: self.runner.output(self.kind.manner),
            deadline: self.kind.manner.timeout.unwrap_or(usual),
        }
    }

    fn unknown(&self, attribute: &str) -> Problem {
        let type_name = &self.kind.schema.name;
        Problem::with(attribute, eco_format!("the provider `{NAME}` of {type_name} has no such attribute"))
    }
}

impl Provider for MoldProvider {
    fn schema(&self) -> &TypeSchema {
        &self.kind.schema
    }

    fn name(&self) -> &'static str {
        kept(NAME)
    }

    fn is_default(&self) -> bool {
        self.kind.is_default
    }

    fn is_external(&self) -> bool {
        true
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else {
            let type_name = &self.kind.schema.name;
            return Err(ProviderError::new(eco_format!(
                "a script of mold cannot list its resources: name those of {type_name} to inspect"
            )));
        };
        let state = |wanted: &Wanted<'_>| match self.state(cx, wanted) {
            Ok(state) => state,
            Err(error) => State { unreadable: Some(eco_format!("{error}")), ..State::absent(wanted.name.clone()) },
        };
        Ok(wanted.iter().map(state).collect())
    }

    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        Ok(self.state(cx, &wanted)?)
    }

    fn reads_singly(&self) -> bool {
        true
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let gone = Attributes::from_iter([(EXISTS, Value::Boolean(false))]);
        let conform = |change: &Change<'_>| {
            let should = alike(&self.kind, change.should.unwrap_or(&gone), change.is);
            self.conform(cx, change.name, &should)
        };
        changes.iter().map(conform).collect()
    }

    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        match &self.kind.refresh {
            Some(action) => Outcome { refreshed: true, ..self.act(cx, wanted, action) },
            None => Outcome { refreshed: true, ..Outcome::done() },
        }
    }

    fn check_action(&self, action: &str) -> Result<(), Problem> {
        let type_name = &self.kind.schema.name;
        match &self.kind.actions {
            _ if !is_action(action) => Err(Problem::new(eco_format!("`{action}` cannot be a one-time action"))
                .hint("it is one word of letters, digits, `_` and `-`, neither inspect nor conform")),
            Some(actions) if !actions.iter().any(|known| known == action) => {
                let known = if actions.is_empty() { "none".into() } else { actions.join(", ") };
                let problem = Problem::new(eco_format!("{type_name} has no action `{action}`"));
                Err(problem.hint(eco_format!("its actions: {known}")))
            }
            _ => Ok(()),
        }
    }

    fn act(&self, cx: &Context<'_>, wanted: Wanted<'_>, action: &str) -> Outcome {
        match self.check_action(action) {
            Ok(()) => {
                let input = Value::hash(document::identity(&self.kind, wanted.name));
                self.called(cx, action, wanted.name, &input)
            }
            Err(problem) => Outcome::failed(eco_format!("{problem}")),
        }
    }

    fn validate(&self, _: &str, should: &Attributes, deferred: &[&str]) -> Vec<Problem> {
        let unknown = |name: &&str| self.kind.schema.known(name).is_none();
        let mut problems: Vec<Problem> =
            deferred.iter().filter(|name| unknown(name)).map(|name| self.unknown(name)).collect();
        for (name, value) in should.iter().filter(|(_, value)| !value.is_undef()) {
            match self.kind.schema.known(name.as_str()) {
                None => problems.push(self.unknown(name.as_str())),
                Some(_) if matches!(name.as_str(), "kind" | "action") => {
                    problems.push(Problem::with(name.as_str(), "mold's documents use this key for themselves"));
                }
                Some(known) => {
                    if let Err(mismatch) = known.data_type.check(value) {
                        problems.push(Problem::with(name.as_str(), eco_format!("{mismatch}")));
                    }
                }
            }
        }
        problems
    }

    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if attribute == INSYNC_TRIGGER {
            return Insync::Same;
        }
        if should.get(EXISTS) == Some(&Value::Boolean(false)) {
            // Of what is to be gone nothing else is of interest.
            return if attribute == EXISTS && is.exists { Insync::Default } else { Insync::Same };
        }
        if self.kind.schema.find(attribute).is_some() {
            return Insync::Default;
        }
        match (is.attributes.get(attribute), should.get(attribute)) {
            (None, _) if is.exists => Insync::Same,
            // Nobody has said whether it is a number or a text.
            (Some(found), Some(wanted)) if same_text(found, wanted) => Insync::Same,
            _ => Insync::Default,
        }
    }

    fn batch(&self) -> Batch {
        Batch::One
    }
}

/// What is wanted, where nobody has said of which type it is as the script itself tells it: words of the command line are
/// texts.
fn alike(kind: &Kind, should: &Attributes, is: &State) -> Attributes {
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
