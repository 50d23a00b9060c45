//! The [`Provider`] trait and the types of its methods.

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeName, Attributes, Change, Outcome, ReceivedValue, State, TypeSchema, Value};

use crate::auto_edge::AutoEdge;
use crate::check::Found;
use crate::context::Context;
use crate::outlook::SideEffects;
use crate::owner::Owner;
use crate::predict::{Effect, Footprint};
use crate::watch::{POLL, Watch, WatchSink};

/// Mode of a `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Changes the system.
    Apply,
    /// Makes no changes; fails if the change is certain to fail. Changes to attributes that are already in sync
    /// are reported in [`Outcome::changed`]. Called only for noop resources whose type has the feature
    /// `supports_noop`.
    Preview,
}

/// Resources that a `get` reads.
#[derive(Clone, Copy, Debug)]
pub enum Query<'a> {
    /// All resources on the system.
    All,
    /// At least these resources.
    Named(&'a [Wanted<'a>]),
}

/// A resource requested in a `get`.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Name on the system.
    pub name: &'a EcoString,
    /// Values of the namevars if the type has several. `name` is then their [key](TypeSchema::key).
    pub namevars: Option<&'a Attributes>,
    /// Desired attributes in canonical form, if the resource is declared. A provider need not read attributes
    /// that are not compared. Parameters are found here.
    pub should: Option<&'a Attributes>,
    /// Attributes with values from other resources.
    pub received: &'a [ReceivedValue],
    /// True if the run does not change the resource: `plan`, `--noop`, or the metaparameters `noop` and `policy`.
    pub noop: bool,
}

impl<'a> Wanted<'a> {
    /// Creates a request for a resource whose type has one namevar, or for a declared resource. The namevars of
    /// a declared resource are in `should`.
    pub fn new(name: &'a EcoString, should: Option<&'a Attributes>) -> Wanted<'a> {
        Wanted { name, namevars: should, should, received: &[], noop: false }
    }

    /// Returns the request with the attributes that have values from other resources.
    #[must_use]
    pub fn receiving(self, received: &'a [ReceivedValue]) -> Wanted<'a> {
        Wanted { received, ..self }
    }

    /// Returns the request with another value of `noop`.
    #[must_use]
    pub fn with_noop(self, noop: bool) -> Wanted<'a> {
        Wanted { noop, ..self }
    }

    /// Returns true if `attribute` has a desired value. A lazy attribute is then read.
    pub fn manages(&self, attribute: &str) -> bool {
        self.should.is_some_and(|should| should.get(attribute).is_some())
    }
}

/// Ability of a provider to work on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suitability {
    /// The provider works.
    Suitable,
    /// The provider does not work: the missing requirement, such as `there is no command apt-get`.
    Unsuitable(EcoString),
}

impl Suitability {
    /// Returns true if the provider works.
    pub fn is_suitable(&self) -> bool {
        *self == Suitability::Suitable
    }
}

/// Thread on which a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On the thread of the runtime, for calls that take microseconds and never wait.
    Inline,
    /// On a worker thread, for calls that may take long.
    Worker,
}

/// Number of changes per `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// All ready changes.
    Whole,
    /// One change. The calls of several ready changes run concurrently.
    One,
}

/// Result of a custom comparison of an attribute (Puppet Resource API, "custom_insync").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insync {
    /// Use the default comparison.
    Default,
    /// The attribute is in sync.
    Same,
    /// The attribute is out of sync, with an optional text to show instead of "is → should".
    Differs(Option<EcoString>),
    /// The comparison failed: the reason. The resource fails and is not changed.
    Failed(EcoString),
}

/// Name passed to [`Provider::insync`] to compare a resource of a type without properties as a whole. It is
/// used nowhere else.
pub const INSYNC_TRIGGER: &str = "rsapi_custom_insync_trigger";

/// State to restore when a resource is no longer declared (`reverse`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revert {
    /// The provider cannot restore a state, so `reverse` is not allowed.
    Never,
    /// The saved pre-change state.
    WhatWasThere,
    /// Absence, regardless of the pre-change state. The name is enough to restore it.
    Absence,
}

/// A problem of a declared resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The invalid attribute. None for a problem of the resource as a whole.
    pub attribute: Option<AttributeName>,
    /// Description of the problem.
    pub message: EcoString,
    /// Suggested correction.
    pub hint: Option<EcoString>,
}

impl ValidationError {
    /// Creates a problem of the resource as a whole.
    pub fn new(message: impl Into<EcoString>) -> ValidationError {
        ValidationError { attribute: None, message: message.into(), hint: None }
    }

    /// Creates a problem of an attribute.
    pub fn with(attribute: &str, message: impl Into<EcoString>) -> ValidationError {
        ValidationError { attribute: Some(attribute.into()), message: message.into(), hint: None }
    }

    /// Adds a suggested correction.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<EcoString>) -> ValidationError {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for ValidationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(attribute) = &self.attribute {
            write!(f, "{attribute}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Function that finds the desired attributes of a declared resource by its type and its name on the system.
pub type Declared<'a> = &'a dyn Fn(&str, &str) -> Option<&'a Attributes>;

/// Error of a provider that could not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The failed operation, its object and the reason.
    pub message: EcoString,
}

impl ProviderError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<EcoString>) -> ProviderError {
        ProviderError { message: message.into() }
    }
}

/// Interface to read and change the resources of a type.
///
/// # Contract of the provider
/// - `get` never changes the system. A requested resource that is not returned does not exist.
/// - `set` makes exactly the given changes and returns one outcome for each, in order.
/// - After an interrupted `set`, a later `get` reports the true state.
///
/// # Contract of the runtime
/// - `should` and [`Wanted::should`] are valid by the schema and canonical.
/// - Calls for one resource never overlap.
pub trait Provider: Send + Sync {
    /// Returns the schema: the type, its attributes, and the features of the provider.
    fn schema(&self) -> &TypeSchema;

    /// Returns the name of the type. A provider may know it before it builds the schema.
    fn type_name(&self) -> &str {
        self.schema().name.as_str()
    }

    /// Returns the name of the provider, which distinguishes several providers of a type: `posix`, `systemd`.
    fn name(&self) -> &'static str;

    /// Returns the ability of the provider to work on this machine. Called to choose a provider of the type,
    /// and again before its first use, because an earlier resource may have installed its requirements.
    fn suitable(&self) -> Suitability {
        Suitability::Suitable
    }

    /// Returns true if the provider is preferred to other suitable providers of its type.
    fn is_default(&self) -> bool {
        false
    }

    /// Returns true if the provider is not part of the program. Built-in providers are preferred to an external
    /// one unless that is a default. Several external providers have no order of preference.
    fn is_external(&self) -> bool {
        false
    }

    /// Starts the provider. Called once per run, as late as possible before the first `get`, `set` or
    /// `refresh`, so that it can use programs that earlier resources installed. State for the duration of a run
    /// starts here.
    ///
    /// # Errors
    /// If the provider cannot work. It is then unavailable for the run, and its resources fail.
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }

    /// Reads the states of the requested resources.
    ///
    /// Without the feature `simple_get_filter`, all resources are requested. The provider may return more
    /// resources than requested. The runtime caches them as long as they are valid.
    ///
    /// # Errors
    /// If the provider as a whole cannot read. It is then unavailable for the run, and only its resources fail.
    /// If a single resource may be unreadable, set its [`State::unreadable`] or implement
    /// [`gets_one_by_one`](Provider::gets_one_by_one).
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError>;

    /// Reads the state of a declared resource, with an error of its own.
    ///
    /// # Errors
    /// If the resource cannot be read.
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let states = self.get(cx, Query::Named(&[wanted]))?;
        let found = states.into_iter().find(|state| state.name == *wanted.name);
        Ok(found.unwrap_or_else(|| State::absent(wanted.name.clone())))
    }

    /// Returns true if [`Provider::get_one`] is as cheap as a `get` of many and fails for single resources.
    fn gets_one_by_one(&self) -> bool {
        false
    }

    /// Makes or previews the changes. Returns one outcome for each, in order.
    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome>;

    /// Refreshes a resource that is in sync. Called only if the schema has the feature `refresh`.
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let _ = (cx, wanted);
        Outcome { refreshed: true, ..Outcome::default() }
    }

    /// Returns true if a refresh has an effect on a resource that was found as `is` and then brought to
    /// `should`. Otherwise, the refresh counts as done. It does not start a stopped service, and a service that
    /// the change starts already runs with all earlier changes. Called only if the schema has the feature
    /// `refresh`.
    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let _ = (is, should);
        true
    }

    /// Checks that resources have a one-time action with this name, such as `restart`.
    ///
    /// # Errors
    /// If they do not.
    fn check_action(&self, action: &str) -> Result<(), ValidationError> {
        let _ = action;
        Err(ValidationError::new(format!("{} has no one-time actions", self.schema().name)))
    }

    /// Runs a one-time action on a resource in any state. Called only after [`Provider::check_action`].
    fn act(&self, cx: &Context<'_>, wanted: Wanted<'_>, action: &str) -> Outcome {
        let _ = (cx, wanted, action);
        Outcome::failed(format!("{} has no one-time actions", self.schema().name))
    }

    /// Validates rules that the schema cannot express: attributes that exclude each other, paths that are not
    /// absolute. Attributes with values that become known during the run are in `deferred` and not in `should`.
    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let _ = (name, should, deferred);
        Vec::new()
    }

    /// Returns problems of a resource in combination with others, which `declared` finds by type and name.
    /// Example: two resources that undo each other in every run. All attributes are canonical.
    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        let _ = (name, should, declared);
        Vec::new()
    }

    /// Converts declared values to the form that `get` returns, and adds derived values.
    ///
    /// # Errors
    /// If a value has no canonical form.
    fn canonicalize(&self, name: &EcoString, should: &mut Attributes) -> Result<(), ValidationError> {
        let _ = (name, should);
        Ok(())
    }

    /// Compares an attribute. Called only if the schema has the feature `custom_insync`, and only for
    /// properties with a desired value. If the resource does not exist ([`State::exists`]), called only for
    /// `ensure`.
    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let _ = (attribute, is, should);
        Insync::Default
    }

    /// Returns true if [`Provider::insync`] is also called for the other properties of a resource that does not
    /// exist, to get the messages for their values. The Puppet Resource API never does that.
    fn compares_absent(&self) -> bool {
        false
    }

    /// Returns the resources on the system that belong to this resource, such as the rules of a chain or the
    /// entries of a table. Each has a type and a name on the system. With several namevars, the name is a title
    /// that contains all of them, or their key. Called only if the schema has the feature `custom_generate`.
    ///
    /// The run must remove the undeclared resources among them. They become differences of this resource, with
    /// the reference as [entry](kilter_model::Difference::entry), and `set` removes them. Return an empty list
    /// if undeclared resources may stay.
    ///
    /// # Errors
    /// If the resources cannot be read.
    fn generate(
        &self,
        cx: &Context<'_>,
        wanted: Wanted<'_>,
        is: &State,
    ) -> Result<Vec<kilter_model::ResourceRef>, ProviderError> {
        let _ = (cx, wanted, is);
        Ok(Vec::new())
    }

    /// Returns a digest of all inputs of a change that its differences do not contain: the contents of its
    /// sources, the entries that it removes. The digest is sensitive if it may reveal a secret. Called when a
    /// plan is made, and again before its step is carried out. A step with a different digest is refused.
    fn basis(&self, cx: &Context<'_>, wanted: Wanted<'_>, found: &Found) -> Option<Value> {
        let _ = (cx, wanted, found);
        None
    }

    /// Returns the unified diff of an attribute if it can and may be shown.
    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let _ = (attribute, is, should);
        None
    }

    /// Returns the scope of the effects of a change. Previews of other resources depend on it.
    fn side_effects(&self, should: &Attributes) -> SideEffects {
        let _ = should;
        SideEffects::Anything
    }

    /// Predicts the effects of a change on parts of the system that other resources read. Called only in a
    /// plan, for resources that would change.
    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Vec<Effect> {
        let _ = cx;
        let none = Attributes::new();
        match self.side_effects(change.should.unwrap_or(&none)) {
            SideEffects::Own => Vec::new(),
            SideEffects::Anything if self.owned_paths().is_some() => vec![Effect::Brings],
            SideEffects::Anything => vec![Effect::Anything],
        }
    }

    /// Lists the paths that a resource reads and writes, and the commands that its check runs. A plan checks a
    /// resource after the resources that write its inputs, even if no relation orders them.
    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        let _ = (name, should, say);
    }

    /// Returns the thread for checks and changes of a resource.
    fn placement(&self, should: &Attributes) -> Placement {
        let _ = should;
        Placement::Worker
    }

    /// Returns the thread for changes and refreshes of a resource, if it differs from the thread for checks.
    fn set_placement(&self, should: &Attributes) -> Placement {
        self.placement(should)
    }

    /// Returns the number of changes per `set`.
    fn batch_size(&self) -> Batch {
        Batch::Whole
    }

    /// Lists additional names under which the automatic edges of other resources find this resource.
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        let _ = (name, should, say);
    }

    /// Lists the automatic dependency edges of a resource. An edge is added if the other resource is declared.
    fn auto_edges(&self, name: &str, should: &Attributes, wish: &mut dyn FnMut(AutoEdge<'_>)) {
        let _ = (name, should, wish);
    }

    /// Returns the interface that lists the paths owned by resources. None if they own no paths.
    fn owned_paths(&self) -> Option<&dyn Owner> {
        None
    }

    /// Returns true if the names of resources are paths. The [owner](Provider::owned_paths) of such a path comes
    /// before the resource. It also comes before resources that require the path, even if the path itself is
    /// not declared.
    fn names_are_paths(&self) -> bool {
        false
    }

    /// Returns the event sources of a held resource. The resource may have changed after an event of any of
    /// them. An empty list means that the resource never changes by itself.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        let _ = (name, should);
        vec![Watch::Poll(POLL)]
    }

    /// Returns the state that can be restored when a resource is no longer declared. `reverse` is allowed only
    /// if the provider can restore a state.
    fn revert_support(&self) -> Revert {
        Revert::Never
    }

    /// Returns the declaration that restores the current state `is`. Called only if the provider
    /// [restores](Provider::revert_support) states.
    ///
    /// # Errors
    /// The reason why the state could not be restored. The resource is then not changed.
    fn revert_state(&self, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
        let _ = (should, is);
        Err(eco_format!("the earlier state of a {} cannot be restored", self.schema().name))
    }

    /// Returns the outputs of a resource that is in sync and whose earlier outputs are unknown.
    fn default_outputs(&self, should: &Attributes) -> Attributes {
        let _ = should;
        Attributes::new()
    }

    /// Distinguishes the locations a resource of the same name may have lived in; the pre-change state is
    /// stored per location.
    fn revert_scope(&self) -> Option<String> {
        None
    }

    /// Returns the attributes that do not influence the outputs. Changing them keeps stored outputs valid.
    fn output_independent_attributes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns true if the resource is an action rather than a state; the repair budget does not apply to it.
    fn is_action(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// Returns true if the resource handles events instead of holding a state. It has no repair budget. The
    /// default is true for an action.
    fn is_event_handler(&self, should: &Attributes) -> bool {
        self.is_action(should)
    }

    /// Returns true if the desired state of a resource depends on the other declared resources
    /// ([`Context::manages`]). The run checks it again when the declarations change.
    fn depends_on_catalog(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// Watches resources and reports events until it is interrupted, then returns immediately. Runs on a thread
    /// of its own and is restarted after a delay when it returns. Runs once for all resources with
    /// [`Watch::Provider`], and once for each resource with [`Watch::ProviderPerResource`], which is then `alone`.
    ///
    /// The provider first reports that it is [watching](WatchSink::watching). The run finds earlier changes with a
    /// check. The provider must report all later changes; an event too many is harmless. Events may be about
    /// undeclared resources. A common watch continues when the declarations change. The watch of a single
    /// resource continues until its declaration changes.
    ///
    /// # Errors
    /// If the provider cannot watch, or cannot continue.
    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let _ = (cx, alone, tell);
        Err(ProviderError::new(eco_format!("the provider `{}` has no watch", self.name())))
    }

    /// Makes the results of `set` durable. Called once, before the run reports success.
    ///
    /// # Errors
    /// If the system does not guarantee that the results survive a crash.
    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }
}

/// Implements [`get`](Provider::get) for a provider that [reads singly](Provider::gets_one_by_one): reads each
/// resource separately. For all resources, `listed` returns the names.
///
/// # Errors
/// If the resources cannot be listed, or if a resource cannot be read.
pub fn get_each(
    provider: &dyn Provider,
    cx: &Context<'_>,
    query: Query<'_>,
    listed: impl FnOnce() -> Result<Vec<EcoString>, ProviderError>,
) -> Result<Vec<State>, ProviderError> {
    match query {
        Query::Named(wanted) => wanted.iter().map(|&wanted| provider.get_one(cx, wanted)).collect(),
        Query::All => listed()?.iter().map(|name| provider.get_one(cx, Wanted::new(name, None))).collect(),
    }
}
