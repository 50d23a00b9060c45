//! Scripts that are part of the program.

// A wrapper that takes the default method of the trait would hide the method of the script.
#![warn(clippy::missing_trait_methods)]

use std::sync::{Arc, OnceLock};

use kilter_model::{Attributes, Change, Outcome, State, TypeSchema};
use kilter_provider::{
    Capabilities, Context, Declaration, Insync, Mode, Preference, Provider, ProviderError, Query, Suitability,
    ValidationError,
};

use crate::metadata::Metadata;
use crate::script::Script;
use crate::script_environment::{EmbeddedScript, ScriptEnvironment};
use crate::scripts::script;

/// Provider of an embedded script. It parses the metadata when the type is used.
pub struct EmbeddedProvider {
    source: &'static EmbeddedScript,
    /// Environment and limits of the script, until it is used.
    environment: Arc<ScriptEnvironment>,
    /// Scripts of the user for the same type. A default one of them precedes this provider.
    rivals: Vec<Arc<dyn Script>>,
    script: OnceLock<Arc<dyn Script>>,
}

impl EmbeddedProvider {
    /// Creates the provider of an embedded script, beside other scripts of the same type.
    pub fn new(
        source: &'static EmbeddedScript,
        rivals: Vec<Arc<dyn Script>>,
        environment: &Arc<ScriptEnvironment>,
    ) -> EmbeddedProvider {
        EmbeddedProvider { source, environment: Arc::clone(environment), rivals, script: OnceLock::new() }
    }

    /// Returns the script with its metadata.
    pub fn script(&self) -> &Arc<dyn Script> {
        self.script.get_or_init(|| {
            let metadata = Metadata::parse(self.source.metadata, self.source.name);
            let metadata = metadata.expect("a test parses the metadata of each embedded script");
            let environment = ScriptEnvironment { embedded: Some(self.source), ..(*self.environment).clone() };
            script(&self.source.path(), metadata, &Arc::new(environment))
        })
    }
}

impl Provider for EmbeddedProvider {
    fn schema(&self) -> &TypeSchema {
        self.script().schema()
    }

    fn type_name(&self) -> &str {
        self.source.type_name
    }

    fn name(&self) -> &'static str {
        self.source.name
    }

    fn suitable(&self) -> Suitability {
        self.script().suitable()
    }

    /// Returns the rank of the script. A rival that is the default of its type takes precedence.
    fn preference(&self) -> Preference {
        match self.script().preference() {
            Preference::Default if self.rivals.iter().any(|rival| rival.preference() == Preference::Default) => {
                Preference::Normal
            }
            rank => rank,
        }
    }

    fn is_external(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.script().capabilities()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        self.script().validate(name, should, deferred)
    }

    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        self.script().canonicalize(cx, resources)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        self.script().get(cx, query)
    }

    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.script().insync(cx, attribute, is, should)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        self.script().set(cx, changes, mode)
    }
}
