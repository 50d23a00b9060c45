//! Trait for simple providers.

use kilter_model::{Attributes, State, TypeSchema};

use super::Name;
use crate::capabilities::Capabilities;
use crate::context::Context;
use crate::contract::{Declaration, Insync, Preference, ProviderError, Query, Suitability, ValidationError};
use crate::logging::{ChangeLog, Failure};

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

    /// See [`Provider::preference`](crate::Provider::preference).
    fn preference(&self) -> Preference {
        Preference::Normal
    }

    /// Returns the capabilities of the provider. It cannot have [`Generate`](crate::Generate).
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// See [`Provider::get`](crate::Provider::get).
    ///
    /// # Errors
    /// If the provider as a whole cannot read.
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError>;

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

    /// See [`Provider::validate`](crate::Provider::validate).
    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let _ = (name, should, deferred);
        Vec::new()
    }

    /// See [`Provider::canonicalize`](crate::Provider::canonicalize).
    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        let _ = cx;
        vec![Vec::new(); resources.len()]
    }

    /// See [`Provider::insync`](crate::Provider::insync).
    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let _ = (cx, attribute, is, should);
        Insync::Default
    }
}
