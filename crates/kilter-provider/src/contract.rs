//! The trait, and what passes through it.

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeName, Attributes, Change, Outcome, Receipt, State, TypeSchema, Value};

use crate::check::Found;
use crate::context::Context;
use crate::outlook::Reach;
use crate::owner::Owner;
use crate::predict::{Effect, Footprint};
use crate::watch::{POLL, Tell, Watch};
use crate::wish::Wish;

/// Whether a `set` changes the system or only tells what it would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Changes the system.
    Apply,
    /// Changes nothing, and fails where the change is certain to fail. What it would change beside what differs is
    /// told by [`Outcome::changed`]. Only asked for of resources that are
    /// only looked at, and of a type with the feature `supports_noop`.
    Preview,
}

/// Which resources a `get` is to read.
#[derive(Clone, Copy, Debug)]
pub enum Query<'a> {
    /// All that are on the system.
    All,
    /// At least these.
    Named(&'a [Wanted<'a>]),
}

/// A resource that a `get` is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name on the system.
    pub name: &'a EcoString,
    /// The values of its namevars, where the type has several; `name` is then their
    /// [key](TypeSchema::key).
    pub namevars: Option<&'a Attributes>,
    /// What is wanted of it, canonical, when it was declared: a provider need not read what nobody
    /// compares, and finds its parameters here.
    pub should: Option<&'a Attributes>,
    /// Which of its attributes hold values that other resources have sent.
    pub received: &'a [Receipt],
    /// True if the run does not change the resource: `plan`, `--noop`, or the metaparameters `noop` and `policy`.
    pub noop: bool,
}

impl<'a> Wanted<'a> {
    /// A resource whose type has one namevar, or one that was declared: its namevars are then among
    /// what should be.
    pub fn new(name: &'a EcoString, should: Option<&'a Attributes>) -> Wanted<'a> {
        Wanted { name, namevars: should, should, received: &[], noop: false }
    }

    /// The same, and these are the values that others have sent.
    #[must_use]
    pub fn receiving(self, received: &'a [Receipt]) -> Wanted<'a> {
        Wanted { received, ..self }
    }

    /// The same resource in a run that does, or does not, change it.
    #[must_use]
    pub fn with_noop(self, noop: bool) -> Wanted<'a> {
        Wanted { noop, ..self }
    }

    /// Whether something is wanted of `attribute`, so that even a lazy one is to be read.
    pub fn manages(&self, attribute: &str) -> bool {
        self.should.is_some_and(|should| should.get(attribute).is_some())
    }
}

/// Whether a provider can work on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suitability {
    /// It can.
    Suitable,
    /// It cannot, and what is missing: `there is no command apt-get`.
    Unsuitable(EcoString),
}

impl Suitability {
    /// Whether it can.
    pub fn is_suitable(&self) -> bool {
        *self == Suitability::Suitable
    }
}

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On the thread of the engine: it takes microseconds and never waits.
    Inline,
    /// On a thread of its own: it may take long.
    Worker,
}

/// How many changes a `set` takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// All that are ready.
    Whole,
    /// One; those that are ready run side by side.
    One,
}

/// The answer of a provider that compares an attribute by itself (Puppet Resource API,
/// "custom_insync").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insync {
    /// Compare by equality.
    Default,
    /// It is as it should be.
    Same,
    /// It is not; with what is said in the place of "is → should".
    Differs(Option<EcoString>),
    /// It cannot be told, and why. The resource fails and is not changed.
    Failed(EcoString),
}

/// The attribute for which a provider with `custom_insync` is asked about a resource of a type that
/// has no properties. It is never seen elsewhere.
pub const INSYNC_TRIGGER: &str = "rsapi_custom_insync_trigger";

/// What is brought back of a resource that is declared no longer (`reverse`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restores {
    /// Nothing: it may not be asked for.
    Never,
    /// What was there before it was changed.
    WhatWasThere,
    /// That it is not there, whatever was: its name is enough to do so.
    Absence,
}

/// What is wrong with a declared resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The attribute at fault; none for the resource as a whole.
    pub attribute: Option<AttributeName>,
    /// What is wrong.
    pub message: EcoString,
    /// How to mend it.
    pub hint: Option<EcoString>,
}

impl Problem {
    /// A problem with the resource as a whole.
    pub fn new(message: impl Into<EcoString>) -> Problem {
        Problem { attribute: None, message: message.into(), hint: None }
    }

    /// A problem with one attribute.
    pub fn with(attribute: &str, message: impl Into<EcoString>) -> Problem {
        Problem { attribute: Some(attribute.into()), message: message.into(), hint: None }
    }

    /// Adds how to mend it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<EcoString>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Problem {
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

/// Finds what is wanted of a declared resource by its type and its name on the system.
pub type Declared<'a> = &'a dyn Fn(&str, &str) -> Option<&'a Attributes>;

/// Why a provider could not read what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What was attempted on what, and why it failed.
    pub message: EcoString,
}

impl ProviderError {
    /// An error with this text.
    pub fn new(message: impl Into<EcoString>) -> ProviderError {
        ProviderError { message: message.into() }
    }
}

/// Reads and changes the resources of one type.
///
/// # Promises of a provider
/// - `get` never changes the system. A resource that was asked for and is not returned does not
///   exist.
/// - `set` makes exactly the changes it is given and answers each, in their order.
/// - After an interrupted `set`, a later `get` reports the true state.
///
/// # Promises of the runtime
/// - What `should` and [`Wanted::should`] hold is valid by the schema and canonical.
/// - No two calls for one resource overlap.
pub trait Provider: Send + Sync {
    /// The type, its attributes, and what the provider can do.
    fn schema(&self) -> &TypeSchema;

    /// The name of the type, which a provider may know before it has made the schema.
    fn type_name(&self) -> &str {
        self.schema().name.as_str()
    }

    /// The provider's own name, when a type has several: `posix`, `systemd`.
    fn name(&self) -> &'static str;

    /// Whether the provider can work on this machine. Asked when a provider of the type has to be
    /// chosen, and again before it is first used, since what it needs may have come by then.
    fn suitable(&self) -> Suitability {
        Suitability::Suitable
    }

    /// Whether it is preferred to other suitable providers of its type.
    fn is_default(&self) -> bool {
        false
    }

    /// Whether it comes from outside of the program. Those that do not are preferred to it, unless it is a
    /// default; between several that do, none is preferred because it was found first.
    fn is_external(&self) -> bool {
        false
    }

    /// Called once in a run, before the first `get`, `set` or `refresh` and as late as possible: what
    /// an earlier resource has installed is there. State that is kept for a run begins here.
    ///
    /// # Errors
    /// When the provider cannot work; it is unavailable for the run, and its resources fail.
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }

    /// The states of the resources asked for.
    ///
    /// Without the feature `simple_get_filter` it is asked for all. More resources may be returned
    /// than were asked for: they are kept, and not asked for again while they hold.
    ///
    /// # Errors
    /// When the provider as a whole cannot read; it is then unavailable for the run, and its resources
    /// fail, no others. Where one resource alone can fail to be read, its state [says so](State::unreadable), or
    /// the provider [reads singly](Provider::reads_singly).
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError>;

    /// The state of one declared resource, with an error of its own.
    ///
    /// # Errors
    /// When that resource cannot be read.
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let states = self.get(cx, Query::Named(&[wanted]))?;
        let found = states.into_iter().find(|state| state.name == *wanted.name);
        Ok(found.unwrap_or_else(|| State::absent(wanted.name.clone())))
    }

    /// Whether [`Provider::get_one`] is as cheap as a `get` of many, and fails for one resource alone.
    fn reads_singly(&self) -> bool {
        false
    }

    /// Makes the changes, or tells what it would do; answers each in order.
    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome>;

    /// Acts on a refresh of a resource that is in its state. Only asked for if the schema has the
    /// feature.
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let _ = (cx, wanted);
        Outcome { refreshed: true, ..Outcome::default() }
    }

    /// Returns true if a refresh of a resource that is found as `is`, and then brought to `should`, does something. If it does
    /// not, the refresh counts as served: it does not start a stopped service, and a service that the change starts runs
    /// with everything that was changed before. Only called if the schema has the feature `refresh`.
    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let _ = (is, should);
        true
    }

    /// Whether resources have a one-time action of this name, such as `restart`.
    ///
    /// # Errors
    /// When they have not.
    fn check_action(&self, action: &str) -> Result<(), Problem> {
        let _ = action;
        Err(Problem::new(format!("{} has no one-time actions", self.schema().name)))
    }

    /// Carries out a one-time action on a resource, whatever its state is. Only asked for after
    /// [`Provider::check_action`].
    fn act(&self, cx: &Context<'_>, wanted: Wanted<'_>, action: &str) -> Outcome {
        let _ = (cx, wanted, action);
        Outcome::failed(format!("{} has no one-time actions", self.schema().name))
    }

    /// What the schema cannot say: attributes that exclude each other, paths that are not absolute.
    /// Attributes that are only known during the run are in `deferred`, not in `should`.
    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<Problem> {
        let _ = (name, should, deferred);
        Vec::new()
    }

    /// What is wrong with a resource in the light of others, which `declared` finds by type and name:
    /// two that would undo each other in every run. All are canonical.
    fn contradictions(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<Problem> {
        let _ = (name, should, declared);
        Vec::new()
    }

    /// Brings declared values into the form that `get` returns, and adds what follows from them.
    ///
    /// # Errors
    /// When a value has no such form.
    fn canonicalize(&self, name: &EcoString, should: &mut Attributes) -> Result<(), Problem> {
        let _ = (name, should);
        Ok(())
    }

    /// Compares one attribute. Only asked for if the schema has the feature `custom_insync`, and only
    /// for properties that something is wanted of. If the resource does not exist ([`State::exists`]), it is called for
    /// `ensure` alone.
    fn insync(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let _ = (attribute, is, should);
        Insync::Default
    }

    /// Returns true if [`Provider::insync`] is also called for the other properties of a resource that does not exist, for the
    /// message about their values. The Puppet Resource API never does that.
    fn compares_absent(&self) -> bool {
        false
    }

    /// The resources that belong to this one and are on the system, by type and name on the system (where
    /// there are several namevars, a title that gives all of them, or their key): the rules of a chain,
    /// the entries of a table. Only asked for if the schema has the feature
    /// `custom_generate`.
    ///
    /// Those that nobody declares are to go: they become differences of this resource, each with the
    /// reference as its [entry](kilter_model::Difference::entry), and `set` removes them. Nothing is
    /// returned where they may stay.
    ///
    /// # Errors
    /// When they cannot be read.
    fn generate(
        &self,
        cx: &Context<'_>,
        wanted: Wanted<'_>,
        is: &State,
    ) -> Result<Vec<kilter_model::ResourceRef>, ProviderError> {
        let _ = (cx, wanted, is);
        Ok(Vec::new())
    }

    /// Returns a digest of everything that the change of a resource reads or replaces and that its differences do not tell: the
    /// contents of its sources, what it removes. A secret one if it can tell of a secret. Called for plans only: when one is made, and
    /// before a step is carried out, which is refused if the digest is another one.
    fn basis(&self, cx: &Context<'_>, wanted: Wanted<'_>, found: &Found) -> Option<Value> {
        let _ = (cx, wanted, found);
        None
    }

    /// The unified diff of an attribute, if it may and can be shown.
    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let _ = (attribute, is, should);
        None
    }

    /// How far the change of a resource reaches: what it may bring for others, a preview of those
    /// others cannot know.
    fn reach(&self, should: &Attributes) -> Reach {
        let _ = should;
        Reach::Anything
    }

    /// Predicts what a change does to the parts of the system that other resources read. Called in a plan only, for
    /// resources that it would change.
    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Vec<Effect> {
        let _ = cx;
        let none = Attributes::new();
        match self.reach(change.should.unwrap_or(&none)) {
            Reach::Own => Vec::new(),
            Reach::Anything if self.owner().is_some() => vec![Effect::Brings],
            Reach::Anything => vec![Effect::Anything],
        }
    }

    /// Lists the paths that a resource reads and writes, and the commands that its check runs. The plan checks a resource
    /// after those that write what it reads, even if no relation orders them.
    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        let _ = (name, should, say);
    }

    /// Where checks and changes of a resource run.
    fn placement(&self, should: &Attributes) -> Placement {
        let _ = should;
        Placement::Worker
    }

    /// Where changes and refreshes of a resource run, when not where its checks do.
    fn set_placement(&self, should: &Attributes) -> Placement {
        self.placement(should)
    }

    /// How many changes `set` takes at once.
    fn batch(&self) -> Batch {
        Batch::Whole
    }

    /// Names, beside its own, under which a resource answers wishes.
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        let _ = (name, should, say);
    }

    /// The resources that one wants beside it, if they are declared: the automatic edges.
    fn wishes(&self, name: &str, should: &Attributes, wish: &mut dyn FnMut(Wish<'_>)) {
        let _ = (name, should, wish);
    }

    /// Who tells which paths its resources own; none if they own nothing.
    fn owner(&self) -> Option<&dyn Owner> {
        None
    }

    /// Whether its resources are named by paths. What [owns](Provider::owner) such a path comes before the resource, and
    /// before whoever wishes that one first, declared or not.
    fn names_paths(&self) -> bool {
        false
    }

    /// What tells that a resource may have changed, while its state is held: any of these. With nothing, it
    /// never changes by itself.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        let _ = (name, should);
        vec![Watch::Every(POLL)]
    }

    /// Whether what a resource was before it was changed can be brought back: only then may it be declared with `reverse`.
    fn restores(&self) -> Restores {
        Restores::Never
    }

    /// What has to be declared of a resource to bring back what is there now, all of which is in `is`. Only asked for if the
    /// provider [restores](Provider::restores) anything.
    ///
    /// # Errors
    /// When it could not be brought back, and why. It is then not changed.
    fn before(&self, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
        let _ = (should, is);
        Err(eco_format!("what a {} was cannot be restored", self.schema().name))
    }

    /// What a resource that is in its state sends to others while nothing is known of what it sent before.
    fn fallback(&self, should: &Attributes) -> Attributes {
        let _ = should;
        Attributes::new()
    }

    /// What tells one place from another, where a resource of one name may have been in several: of each it is kept what it was there.
    fn before_where(&self) -> Option<String> {
        None
    }

    /// The attributes that have nothing to do with what a resource sends: with others, what it has sent is known still.
    fn apart_from_outputs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether each change of a resource is an act of its own rather than the repair of a state: nobody can fight over
    /// it, and it is never done too often.
    fn acts_anew(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// Whether what happens to a resource brings it work, rather than undoes its state: it does that however often it has to,
    /// and nobody fights over it. It does where each change is an act of its own.
    fn does_jobs(&self, should: &Attributes) -> bool {
        self.acts_anew(should)
    }

    /// Whether what is wanted of a resource depends on which others are declared ([`Context::manages`]): it is looked at
    /// again when those change while it is held.
    fn heeds_others(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }

    /// Tells what changes, for as long as it can, or until it is interrupted: then it returns at once. Called on a thread
    /// of its own, and again a while after it has returned: once for all resources that are watched by [`Watch::Told`],
    /// and for each that is by [`Watch::ToldAlone`], which is `alone` then.
    ///
    /// First it says that it is [watching](Tell::watching). What was changed before that is looked for; what changes
    /// later is told, too often rather than not at all. It may tell of resources that nobody has declared. One for all
    /// goes on when others are declared, one for a resource as long as that is declared as it is.
    ///
    /// # Errors
    /// When it cannot watch, or not any longer.
    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn Tell) -> Result<(), ProviderError> {
        let _ = (cx, alone, tell);
        Err(ProviderError::new(eco_format!("the provider `{}` has no watch", self.name())))
    }

    /// Makes durable what `set` has done. Asked for once, before a run reports success.
    ///
    /// # Errors
    /// When the system does not promise that it will survive a crash.
    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
    }
}

/// What a [`get`](Provider::get) answers whose provider [reads singly](Provider::reads_singly): each resource by itself, and where
/// all are asked for, those that are `listed`.
///
/// # Errors
/// When they cannot be listed, or one of them cannot be read.
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
