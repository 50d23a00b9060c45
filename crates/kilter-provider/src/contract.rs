//! The [`Provider`] trait and the types of its methods.

use ecow::EcoString;
use kilter_model::{AttributeName, Attributes, Change, Outcome, ReceivedValue, State, TypeSchema};

use crate::capabilities::{Capabilities, ReadOne};
use crate::context::Context;

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
    /// True if a refresh is pending, or would be in a plan.
    pub refresh: bool,
}

impl<'a> Wanted<'a> {
    /// Creates a request for a resource whose type has one namevar, or for a declared resource. The namevars of
    /// a declared resource are in `should`.
    pub fn new(name: &'a EcoString, should: Option<&'a Attributes>) -> Wanted<'a> {
        Wanted { name, namevars: should, should, received: &[], noop: false, refresh: false }
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

    /// Returns the request with another value of `refresh`.
    #[must_use]
    pub fn with_refresh(self, refresh: bool) -> Wanted<'a> {
        Wanted { refresh, ..self }
    }

    /// Returns true if `attribute` has a desired value. A lazy attribute is then read.
    pub fn manages(&self, attribute: &str) -> bool {
        self.should.is_some_and(|should| should.get(attribute).is_some())
    }
}

/// A declared resource to canonicalise.
#[derive(Debug)]
pub struct Declaration<'a> {
    /// Name on the system. The canonical name follows from the canonical namevars.
    pub name: &'a EcoString,
    /// Declared values, which are converted in place.
    pub should: &'a mut Attributes,
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

/// Rank of a provider among the suitable providers of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// It precedes the others.
    Default,
    /// It has no special rank.
    #[default]
    Normal,
    /// All other suitable ones precede it, external ones too.
    Last,
    /// Only resources that name the provider use it, for example because it has other names for the same type. It is
    /// the provider of a type that has no other.
    NamedOnly,
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

/// Function that finds the desired attributes of a declared resource by its type and its name on the system, or by
/// another [identity](crate::Relations::identities).
pub type Declared<'a> = &'a dyn Fn(&str, &str) -> Option<&'a Attributes>;

/// Function that returns the desired attributes of all declared resources of a type, in the order of the manifest.
pub type AllDeclared<'a> = &'a dyn Fn() -> Vec<&'a Attributes>;

/// Two resources of a type that would undo each other in every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opposites {
    /// Numbers of both in [`AllDeclared`]. The problem is that of the second one.
    pub pair: (usize, usize),
    /// Reason, which follows the name of the first one: `sets a line that this resource removes`.
    pub reason: &'static str,
}

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
/// The methods are the core of a provider. Everything else is a [capability](Capabilities).
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

    /// Returns the rank of the provider among the providers of its type.
    fn preference(&self) -> Preference {
        Preference::Normal
    }

    /// Returns true if the provider is not part of the program. Built-in providers are preferred to an external
    /// one unless that is a default. Several external providers have no order of preference.
    fn is_external(&self) -> bool {
        false
    }

    /// Returns the capabilities of the provider.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// Validates rules that the schema cannot express: attributes that exclude each other, paths that are not
    /// absolute. Attributes with values that become known during the run are in `deferred` and not in `should`.
    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let _ = (name, should, deferred);
        Vec::new()
    }

    /// Converts declared values to the form that `get` returns, and adds derived values. Called only if the schema
    /// has the feature `canonicalize`, with all resources that [`validate`](Provider::validate) accepts. Returns the
    /// problems of each resource, in order. The values of a resource with problems are undefined.
    ///
    /// A resource that `validate` rejects gets a call of its own, whose values are dropped: the run reports the
    /// problems of both methods at once.
    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        let _ = cx;
        vec![Vec::new(); resources.len()]
    }

    /// Reads the states of the requested resources.
    ///
    /// Without the feature `simple_get_filter`, all resources are requested. The provider may return more
    /// resources than requested. The runtime caches them as long as they are valid.
    ///
    /// # Errors
    /// If the provider as a whole cannot read. It is then unavailable for the run, and only its resources fail.
    /// If a single resource may be unreadable, set its [`State::unreadable`] or implement
    /// [`ReadOne`](crate::ReadOne).
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError>;

    /// Compares an attribute. Called only if the schema has the feature `custom_insync`, and only for
    /// properties with a desired value. If the resource does not exist ([`State::exists`]), called only for
    /// `ensure`.
    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let _ = (cx, attribute, is, should);
        Insync::Default
    }

    /// Makes or previews the changes. Returns one outcome for each, in order.
    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome>;
}

/// Reads the state of a resource. An error of a provider that reads [single resources](ReadOne) is only about that
/// resource.
///
/// # Errors
/// If the resource, or the provider as a whole, cannot be read.
pub fn get_one(provider: &dyn Provider, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
    if let Some(reader) = provider.capabilities().read_one {
        return reader.get_one(cx, wanted);
    }
    let states = provider.get(cx, Query::Named(&[wanted]))?;
    let found = states.into_iter().find(|state| state.name == *wanted.name);
    Ok(found.unwrap_or_else(|| State::absent(wanted.name.clone())))
}

/// Implements [`get`](Provider::get) for a provider that [reads single resources](ReadOne): reads each resource
/// separately. For all resources, `listed` returns the names.
///
/// # Errors
/// If the resources cannot be listed, or if a resource cannot be read.
pub fn get_each(
    provider: &dyn ReadOne,
    cx: &Context<'_>,
    query: Query<'_>,
    listed: impl FnOnce() -> Result<Vec<EcoString>, ProviderError>,
) -> Result<Vec<State>, ProviderError> {
    match query {
        Query::Named(wanted) => wanted.iter().map(|&wanted| provider.get_one(cx, wanted)).collect(),
        Query::All => listed()?.iter().map(|name| provider.get_one(cx, Wanted::new(name, None))).collect(),
    }
}
