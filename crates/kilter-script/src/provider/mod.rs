//! Provider of a script.

mod call;
mod change;
mod error;
mod log;
mod read;
mod state;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    Batch, Capabilities, Context, Insync, Interrupt, Mode, Owner, Preference, Provider, ProviderError, Query, Refresh,
    Relations, Scheduling, Suitability, ValidationError, Wanted, Watch, WatchSink, WatchSource,
};

use crate::call_lock::CallLock;
use crate::condition::{Condition, ConditionResult};
use crate::confined;
use crate::convention::{Convention, ConventionName, Reply, Request, Update};
use crate::metadata::{Metadata, Origin};
use crate::script::Script;
use crate::script_environment::ScriptEnvironment;

pub(crate) use error::{last_words, status};

/// Provider of a script in the `simple` or `json` convention.
pub struct ScriptProvider {
    path: PathBuf,
    metadata: Metadata,
    name: &'static str,
    /// Directory of the provider for persistent data, relative to that of all scripts.
    keeps: EcoString,
    convention: Box<dyn Convention>,
    surroundings: Arc<ScriptEnvironment>,
    confined: confined::ConfinementReporter,
    turns: CallLock,
    /// Latest suitability reported by the script in this process.
    described_suitability: Mutex<Option<Suitability>>,
}

impl ScriptProvider {
    /// Creates the provider of a script.
    pub fn new(
        path: &Path,
        metadata: Metadata,
        convention: Box<dyn Convention>,
        surroundings: Arc<ScriptEnvironment>,
    ) -> ScriptProvider {
        let name = kept(&metadata.name);
        let keeps = keeps(&metadata);
        ScriptProvider {
            path: path.to_owned(),
            metadata,
            name,
            keeps,
            convention,
            surroundings,
            confined: confined::ConfinementReporter::default(),
            turns: CallLock::default(),
            described_suitability: Mutex::default(),
        }
    }

    /// Returns true if a call handles many resources, as in `json`. In `simple`, it handles one.
    fn takes_many(&self) -> bool {
        self.metadata.convention == ConventionName::Json
    }
}

/// Returns the directory of a provider for persistent data, relative to that of all scripts.
pub(crate) fn keeps(metadata: &Metadata) -> EcoString {
    eco_format!("providers/{}.{}", metadata.schema.name, metadata.name)
}

/// Returns a text with static lifetime. Each distinct text is leaked only once.
pub(crate) fn kept(text: &str) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut kept = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.iter().find(|known| **known == text) {
        return known;
    }
    let new: &'static str = Box::leak(text.into());
    kept.push(new);
    new
}

impl Provider for ScriptProvider {
    fn schema(&self) -> &TypeSchema {
        &self.metadata.schema
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn suitable(&self) -> Suitability {
        match (&self.metadata.suitable, self.metadata.origin) {
            // The script may have computed the value.
            (Condition::Constant(said), Origin::Described | Origin::Cached) => self.suitable_as_described(*said),
            (condition, _) => judged(condition, &self.surroundings),
        }
    }

    fn preference(&self) -> Preference {
        match self.metadata.default.evaluate(&*self.surroundings).holds() {
            true => Preference::Default,
            false if self.metadata.is_named_only => Preference::NamedOnly,
            false => Preference::Normal,
        }
    }

    fn is_external(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            scheduling: Some(self),
            relations: Some(self),
            owner: self.metadata.owns.is_some().then_some(self as &dyn Owner),
            refresh: self.schema().has(Feature::Refresh).then_some(self as &dyn Refresh),
            watch: Some(self),
            ..Capabilities::default()
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => self.list(cx),
            Query::Named(wanted) => self.named(cx, wanted),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        self.change(cx, changes, mode)
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems: Vec<ValidationError> = deferred
            .iter()
            .filter(|attribute| self.schema().find(attribute).is_none())
            .map(|attribute| self.unknown_attribute(attribute))
            .collect();
        for (attribute, value) in should.iter().filter(|(_, value)| !value.is_undef()) {
            match self.schema().find(attribute.as_str()) {
                None => problems.push(self.unknown_attribute(attribute.as_str())),
                Some(known) => {
                    if let Err(mismatch) = known.data_type.check(value) {
                        problems.push(ValidationError::with(attribute.as_str(), eco_format!("{mismatch}")));
                    }
                }
            }
        }
        let update = Update { name, is: None, should, received: &[] };
        if let Err(refusal) = self.convention.encode(&Request::Update(&[update], Mode::Apply)) {
            problems.push(ValidationError::new(eco_format!("{refusal}")));
        }
        problems
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.metadata.compare(attribute, is, should)
    }
}

impl Scheduling for ScriptProvider {
    fn batch_size(&self) -> Batch {
        if self.takes_many() { Batch::Whole } else { Batch::One }
    }
}

impl Relations for ScriptProvider {
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        self.metadata.identify(name, should, say);
    }
}

impl Refresh for ScriptProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.act_on_refresh(cx, &wanted)
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        self.metadata.acts_on_refresh(is, should)
    }
}

impl Watch for ScriptProvider {
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        self.metadata.watched(name, should)
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.listen(cx, tell)
    }
}

impl Owner for ScriptProvider {
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        self.metadata.owned(&self.surroundings.trust, (name, should), is_wanted)
    }
}

impl Script for ScriptProvider {
    fn path(&self) -> &Path {
        &self.path
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// Evaluates a condition.
fn judged(condition: &Condition, surroundings: &ScriptEnvironment) -> Suitability {
    match condition.evaluate(surroundings) {
        ConditionResult::Holds => Suitability::Suitable,
        ConditionResult::Fails(why) => Suitability::Unsuitable(why),
    }
}

impl ScriptProvider {
    /// Returns the suitability that the script reports in `describe`. A cached answer may be outdated, and a
    /// requirement may have been installed. So the script is asked again until it reports that it is suitable.
    fn suitable_as_described(&self, said: bool) -> Suitability {
        let mut known = self.described_suitability.lock().unwrap_or_else(PoisonError::into_inner);
        let suitability = match known.take() {
            Some(Suitability::Suitable) => Suitability::Suitable,
            None if self.metadata.origin == Origin::Described => judged(&Condition::Constant(said), &self.surroundings),
            None if said && !self.surroundings.verify_suitability => Suitability::Suitable,
            _ => self.describe_again(),
        };
        known.insert(suitability).clone()
    }

    fn describe_again(&self) -> Suitability {
        let cx = match self.surroundings.cancelled {
            Some(cancelled) => Context::empty().with_interrupt(Interrupt::new(cancelled, None)),
            None => Context::empty(),
        };
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        match self.call(&cx, &Request::Describe) {
            Ok((Reply::Described(text), _)) => match Metadata::described(&text, &stem) {
                Ok(metadata) => judged(&metadata.suitable, &self.surroundings),
                Err(faults) => {
                    let first = faults.first().map(|fault| eco_format!(": {fault}")).unwrap_or_default();
                    Suitability::Unsuitable(eco_format!("its new description is invalid{first}"))
                }
            },
            Ok(_) => Suitability::Unsuitable("its new description failed".into()),
            Err(error) => Suitability::Unsuitable(eco_format!("checking its suitability again: {error}")),
        }
    }

    fn unknown_attribute(&self, attribute: &str) -> ValidationError {
        let type_name = &self.schema().name;
        ValidationError::with(
            attribute,
            eco_format!("the provider `{}` of {type_name} has no such attribute", self.name),
        )
    }
}
