//! Providers with the usual create, update and delete.

mod name;
mod provider;

#[cfg(test)]
mod tests;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, DataType, Outcome, State, TypeSchema};

pub use name::Name;
pub use provider::SimpleProvider;

use crate::capabilities::Capabilities;
use crate::context::Context;
use crate::contract::{
    Declaration, Insync, Mode, Preference, Provider, ProviderError, Query, Suitability, ValidationError,
};
use crate::logging::ChangeLog;

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
    #[error("a simple provider cannot generate resources, as that of {0} does: it could not remove them")]
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
        if inner.capabilities().generate.is_some() {
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
        if log.is_stopping() {
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

    fn preference(&self) -> Preference {
        self.inner.preference()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner.capabilities()
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        self.inner.get(cx, query)
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

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        self.inner.validate(name, should, deferred)
    }

    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        self.inner.canonicalize(cx, resources)
    }

    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.inner.insync(cx, attribute, is, should)
    }
}
