//! Trait for simple providers.

use ecow::EcoString;
use kilter_model::{Attributes, Outcome, State, TypeSchema};

use super::Name;
use crate::auto_edge::AutoEdge;
use crate::context::Context;
use crate::contract::{Declared, Insync, Placement, ProviderError, Query, Suitability, ValidationError, Wanted};
use crate::logging::{ChangeLog, Failure};
use crate::outlook::SideEffects;
use crate::watch::{POLL, Watch, WatchSink};

/// A provider that creates, updates and deletes one resource at a time (Puppet Resource API, "Implementing
/// simple providers"). [`Simple`](super::Simple) turns it into a [`Provider`](crate::Provider) with logging and
/// failure handling.
///
/// The calls run inside the block of their resource. Messages without a title apply to that resource, and its
/// status follows from the result.
pub trait SimpleProvider: Send + Sync {
    /// Returns the schema of the type. It needs `ensure: Enum[absent, present]` and at least one namevar.
    fn schema(&self) -> &TypeSchema;

    /// See [`Provider::name`](crate::Provider::name).
    fn name(&self) -> &'static str;

    /// See [`Provider::suitable`](crate::Provider::suitable).
    fn suitable(&self) -> Suitability {
        Suitability::Suitable
    }

    /// See [`Provider::is_default`](crate::Provider::is_default).
    fn is_default(&self) -> bool {
        false
    }

    /// See [`Provider::open`](crate::Provider::open).
    ///
    /// # Errors
    /// If the provider cannot work in this run.
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }

    /// See [`Provider::get`](crate::Provider::get).
    ///
    /// # Errors
    /// If the provider as a whole cannot read.
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError>;

    /// See [`Provider::get_one`](crate::Provider::get_one).
    ///
    /// # Errors
    /// If the resource cannot be read.
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let states = self.get(cx, Query::Named(&[wanted]))?;
        let found = states.into_iter().find(|state| state.name == *wanted.name);
        Ok(found.unwrap_or_else(|| State::absent(wanted.name.clone())))
    }

    /// See [`Provider::gets_one_by_one`](crate::Provider::gets_one_by_one).
    fn reads_singly(&self) -> bool {
        false
    }

    /// Creates an absent resource.
    ///
    /// # Errors
    /// If it cannot be created. A fatal failure ends the run.
    fn create(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure>;

    /// Updates an existing resource.
    ///
    /// # Errors
    /// If it cannot be updated. A fatal failure ends the run.
    fn update(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure>;

    /// Deletes an existing resource.
    ///
    /// # Errors
    /// If it cannot be deleted. A fatal failure ends the run.
    fn delete(&self, log: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure>;

    /// See [`Provider::refresh`](crate::Provider::refresh).
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let _ = (cx, wanted);
        Outcome { refreshed: true, ..Outcome::default() }
    }

    /// See [`Provider::validate`](crate::Provider::validate).
    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let _ = (name, should, deferred);
        Vec::new()
    }

    /// See [`Provider::conflicts`](crate::Provider::conflicts).
    fn contradictions(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        let _ = (name, should, declared);
        Vec::new()
    }

    /// See [`Provider::canonicalize`](crate::Provider::canonicalize).
    ///
    /// # Errors
    /// If a value has no canonical form.
    fn canonicalize(&self, name: &EcoString, should: &mut Attributes) -> Result<(), ValidationError> {
        let _ = (name, should);
        Ok(())
    }

    /// See [`Provider::insync`](crate::Provider::insync).
    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let _ = (attribute, is, should);
        Insync::Default
    }

    /// See [`Provider::diff`](crate::Provider::diff).
    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let _ = (attribute, is, should);
        None
    }

    /// See [`Provider::side_effects`](crate::Provider::side_effects).
    fn reach(&self, should: &Attributes) -> SideEffects {
        let _ = should;
        SideEffects::Anything
    }

    /// See [`Provider::placement`](crate::Provider::placement).
    fn placement(&self, should: &Attributes) -> Placement {
        let _ = should;
        Placement::Worker
    }

    /// See [`Provider::set_placement`](crate::Provider::set_placement).
    fn set_placement(&self, should: &Attributes) -> Placement {
        self.placement(should)
    }

    /// See [`Provider::flush`](crate::Provider::flush).
    ///
    /// # Errors
    /// If the system does not guarantee that the results survive a crash.
    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }

    /// See [`Provider::identities`](crate::Provider::identities).
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        let _ = (name, should, say);
    }

    /// See [`Provider::auto_edges`](crate::Provider::auto_edges).
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let _ = (name, should, add);
    }

    /// See [`Provider::watches`](crate::Provider::watches).
    fn watches(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        let _ = (name, should);
        vec![Watch::Poll(POLL)]
    }

    /// See [`Provider::is_action`](crate::Provider::is_action).
    fn acts_anew(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// See [`Provider::depends_on_catalog`](crate::Provider::depends_on_catalog).
    fn heeds_others(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// See [`Provider::watch`](crate::Provider::watch).
    ///
    /// # Errors
    /// If the provider cannot watch, or cannot continue.
    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let _ = (cx, alone, tell);
        Err(ProviderError::new("the provider has no watch"))
    }
}
