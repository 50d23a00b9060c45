//! What the author of a simple provider writes.

use ecow::EcoString;
use kilter_model::{Attributes, Outcome, State, TypeSchema};

use super::Name;
use crate::context::Context;
use crate::contract::{Declared, Insync, Placement, Problem, ProviderError, Query, Suitability, Wanted};
use crate::logging::{ChangeLog, Failure};
use crate::outlook::Reach;
use crate::watch::{POLL, Tell, Watch};
use crate::wish::Wish;

/// A provider that creates, updates and deletes one resource at a time (Puppet Resource API,
/// "Implementing simple providers"). [`Simple`](super::Simple) makes a [`Provider`](crate::Provider) of it, and takes care of logging and
/// failures.
///
/// The calls run inside of the block of their resource: what is said without a title is said of it, its
/// status comes from the result.
pub trait SimpleProvider: Send + Sync {
    /// The type: with `ensure: Enum[absent, present]` and at least one namevar.
    fn schema(&self) -> &TypeSchema;

    /// As [`Provider::name`](crate::Provider::name).
    fn name(&self) -> &'static str;

    /// As [`Provider::suitable`](crate::Provider::suitable).
    fn suitable(&self) -> Suitability {
        Suitability::Suitable
    }

    /// As [`Provider::is_default`](crate::Provider::is_default).
    fn is_default(&self) -> bool {
        false
    }

    /// As [`Provider::open`](crate::Provider::open).
    ///
    /// # Errors
    /// When the provider cannot work in this run.
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }

    /// As [`Provider::get`](crate::Provider::get).
    ///
    /// # Errors
    /// When the provider as a whole cannot read.
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError>;

    /// As [`Provider::get_one`](crate::Provider::get_one).
    ///
    /// # Errors
    /// When that resource cannot be read.
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let states = self.get(cx, Query::Named(&[wanted]))?;
        let found = states.into_iter().find(|state| state.name == *wanted.name);
        Ok(found.unwrap_or_else(|| State::absent(wanted.name.clone())))
    }

    /// As [`Provider::reads_singly`](crate::Provider::reads_singly).
    fn reads_singly(&self) -> bool {
        false
    }

    /// Creates a resource that is not there.
    ///
    /// # Errors
    /// When it cannot be created; a fatal failure ends the run.
    fn create(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure>;

    /// Updates a resource that is there.
    ///
    /// # Errors
    /// When it cannot be updated; a fatal failure ends the run.
    fn update(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure>;

    /// Deletes a resource that is there.
    ///
    /// # Errors
    /// When it cannot be deleted; a fatal failure ends the run.
    fn delete(&self, log: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure>;

    /// As [`Provider::refresh`](crate::Provider::refresh).
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let _ = (cx, wanted);
        Outcome { refreshed: true, ..Outcome::default() }
    }

    /// As [`Provider::validate`](crate::Provider::validate).
    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<Problem> {
        let _ = (name, should, deferred);
        Vec::new()
    }

    /// As [`Provider::contradictions`](crate::Provider::contradictions).
    fn contradictions(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<Problem> {
        let _ = (name, should, declared);
        Vec::new()
    }

    /// As [`Provider::canonicalize`](crate::Provider::canonicalize).
    ///
    /// # Errors
    /// When a value has no such form.
    fn canonicalize(&self, name: &EcoString, should: &mut Attributes) -> Result<(), Problem> {
        let _ = (name, should);
        Ok(())
    }

    /// As [`Provider::insync`](crate::Provider::insync).
    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let _ = (attribute, is, should);
        Insync::Default
    }

    /// As [`Provider::diff`](crate::Provider::diff).
    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let _ = (attribute, is, should);
        None
    }

    /// As [`Provider::reach`](crate::Provider::reach).
    fn reach(&self, should: &Attributes) -> Reach {
        let _ = should;
        Reach::Anything
    }

    /// As [`Provider::placement`](crate::Provider::placement).
    fn placement(&self, should: &Attributes) -> Placement {
        let _ = should;
        Placement::Worker
    }

    /// As [`Provider::set_placement`](crate::Provider::set_placement).
    fn set_placement(&self, should: &Attributes) -> Placement {
        self.placement(should)
    }

    /// As [`Provider::flush`](crate::Provider::flush).
    ///
    /// # Errors
    /// When the system does not promise that what was done will survive a crash.
    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }

    /// As [`Provider::identities`](crate::Provider::identities).
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        let _ = (name, should, say);
    }

    /// As [`Provider::wishes`](crate::Provider::wishes).
    fn wishes(&self, name: &str, should: &Attributes, wish: &mut dyn FnMut(Wish<'_>)) {
        let _ = (name, should, wish);
    }

    /// As [`Provider::watches`](crate::Provider::watches).
    fn watches(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        let _ = (name, should);
        vec![Watch::Every(POLL)]
    }

    /// As [`Provider::acts_anew`](crate::Provider::acts_anew).
    fn acts_anew(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// As [`Provider::heeds_others`](crate::Provider::heeds_others).
    fn heeds_others(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// As [`Provider::watch`](crate::Provider::watch).
    ///
    /// # Errors
    /// When it cannot watch, or not any longer.
    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn Tell) -> Result<(), ProviderError> {
        let _ = (cx, alone, tell);
        Err(ProviderError::new("the provider has no watch"))
    }
}
