//! Providers with the usual create, update and delete.

mod name;
mod provider;

#[cfg(test)]
mod tests;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, DataType, Feature, Outcome, State, TypeSchema};

pub use name::Name;
pub use provider::SimpleProvider;

use crate::auto_edge::AutoEdge;
use crate::context::Context;
use crate::contract::{
    Declared, Insync, Mode, Placement, Provider, ProviderError, Query, Suitability, ValidationError, Wanted,
};
use crate::logging::ChangeLog;
use crate::outlook::SideEffects;
use crate::watch::{Watch, WatchSink};

/// Reason why a type cannot have a simple provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimpleError {
    /// The type has no `ensure`.
    #[error("a simple provider needs a type that is ensurable: {0} has no attribute `ensure`")]
    NoEnsure(EcoString),
    /// `ensure` has another data type or another behaviour.
    #[error("a simple provider needs `ensure` to be a property of the type Enum[absent, present]: that of {0} is not")]
    OtherEnsure(EcoString),
    /// The provider could not remove generated resources.
    #[error(
        "a simple provider cannot have the feature `custom_generate`, which {0} has: it does not know the resources \
         to remove"
    )]
    Generates(EcoString),
    /// The type has no namevar.
    #[error("a simple provider needs a namevar: {0} has none")]
    NoNamevar(EcoString),
}

/// Adapter from a [`SimpleProvider`] to a [`Provider`].
///
/// A call makes its changes one after another, each in a block: `creating`, `updating` or `deleting`. A failure
/// applies only to its resource, and a fatal failure ends the run. A preview calls no method.
#[derive(Debug)]
pub struct Simple<P> {
    inner: P,
    has_several_namevars: bool,
}

impl<P: SimpleProvider> Simple<P> {
    /// Creates the adapter.
    ///
    /// # Errors
    /// If the type does not follow the conventions of simple providers.
    pub fn new(inner: P) -> Result<Simple<P>, SimpleError> {
        let schema = inner.schema();
        let name = || schema.name.text().clone();
        let ensure = schema.find("ensure").ok_or_else(|| SimpleError::NoEnsure(name()))?;
        if ensure.behaviour != Behaviour::Property || !is_present_or_absent(&ensure.data_type) {
            return Err(SimpleError::OtherEnsure(name()));
        }
        if schema.has(Feature::CustomGenerate) {
            return Err(SimpleError::Generates(name()));
        }
        match schema.namevars().count() {
            0 => Err(SimpleError::NoNamevar(name())),
            namevars => Ok(Simple { inner, has_several_namevars: namevars > 1 }),
        }
    }

    /// Returns the simple provider.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    fn change(&self, log: &mut ChangeLog<'_>, change: &Change<'_>) {
        if log.is_ending() {
            return;
        }
        if log.context().interrupt().is_raised() {
            return log.failed(change, "not started: the run was interrupted");
        }
        let hash = match self.has_several_namevars.then(|| namevars(self.schema(), change)).transpose() {
            Ok(hash) => hash,
            Err(why) => return log.failed(change, &why),
        };
        let name = hash.as_ref().map_or(Name::Single(change.name), Name::Composite);
        let wanted = change.should.filter(|should| should.text("ensure") != Some("absent"));
        match wanted {
            Some(should) if change.is.exists => {
                log.updating(change, None, |log| self.inner.update(log, name, should));
            }
            // Without `ensure`, an absent resource is not created.
            Some(should) if should.get("ensure").is_some() => {
                log.creating(change, None, |log| self.inner.create(log, name, should));
            }
            None if change.is.exists => {
                log.deleting(change, None, |log| self.inner.delete(log, name));
            }
            Some(_) | None => log.unchanged(change, None),
        }
    }
}

fn is_present_or_absent(data_type: &DataType) -> bool {
    match &*data_type.open() {
        DataType::Enum(words) => {
            !words.is_empty()
                && ["absent", "present"].iter().all(|word| words.iter().any(|known| known == word))
                && words.iter().all(|word| word == "absent" || word == "present")
        }
        _ => false,
    }
}

/// Returns the values of all namevars, desired or current.
fn namevars(schema: &TypeSchema, change: &Change<'_>) -> Result<Attributes, EcoString> {
    let value =
        |namevar: &str| change.should.and_then(|should| should.get(namevar)).or(change.is.attributes.get(namevar));
    let named = |namevar: &str| {
        let value = value(namevar).cloned();
        value
            .map(|value| (namevar.to_owned(), value))
            .ok_or_else(|| eco_format!("no value is known for its namevar `{namevar}`"))
    };
    schema.namevars().map(|namevar| named(namevar.name.as_str())).collect()
}

impl<P: SimpleProvider> Provider for Simple<P> {
    fn schema(&self) -> &TypeSchema {
        self.inner.schema()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn suitable(&self) -> Suitability {
        self.inner.suitable()
    }

    fn is_default(&self) -> bool {
        self.inner.is_default()
    }

    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.inner.open(cx)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        self.inner.get(cx, query)
    }

    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        self.inner.get_one(cx, wanted)
    }

    fn gets_one_by_one(&self) -> bool {
        self.inner.reads_singly()
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let mut log = ChangeLog::new(self, cx, changes, mode);
        for change in changes {
            self.change(&mut log, change);
        }
        log.outcomes()
    }

    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.inner.refresh(cx, wanted)
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        self.inner.validate(name, should, deferred)
    }

    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        self.inner.contradictions(name, should, declared)
    }

    fn canonicalize(&self, name: &EcoString, should: &mut Attributes) -> Result<(), ValidationError> {
        self.inner.canonicalize(name, should)
    }

    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.inner.insync(attribute, is, should)
    }

    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        self.inner.diff(attribute, is, should)
    }

    fn side_effects(&self, should: &Attributes) -> SideEffects {
        self.inner.reach(should)
    }

    fn placement(&self, should: &Attributes) -> Placement {
        self.inner.placement(should)
    }

    fn set_placement(&self, should: &Attributes) -> Placement {
        self.inner.set_placement(should)
    }

    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        self.inner.flush(cx)
    }

    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        self.inner.identities(name, should, say);
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        self.inner.auto_edges(name, should, add);
    }

    fn watches(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        self.inner.watches(name, should)
    }

    fn depends_on_catalog(&self, should: &Attributes) -> bool {
        self.inner.heeds_others(should)
    }

    fn is_action(&self, should: &Attributes) -> bool {
        self.inner.acts_anew(should)
    }

    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.inner.watch(cx, alone, tell)
    }
}
