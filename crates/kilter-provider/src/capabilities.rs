//! Capabilities: the optional parts of a provider, one trait for each reader.
//!
//! The default methods of a trait are the behaviour of a provider without the capability.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Feature, Outcome, ResourceRef, State, TypeSchema, Value};

use crate::auto_edge::AutoEdge;
use crate::check::Found;
use crate::context::Context;
use crate::contract::{AllDeclared, Declared, Opposites, Provider, ProviderError, ValidationError, Wanted};
use crate::predict::{Effect, Footprint};
use crate::preview_context::SideEffects;
use crate::watch::{POLL, WatchSink, WatchSource};

/// Capabilities of a provider. A field is none if the provider does not have the capability.
///
/// A provider lists its own capabilities and takes the others from [`Capabilities::default`]. A decorator replaces
/// the capabilities that it changes and takes the others from the decorated provider.
#[derive(Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// Reads single resources.
    pub read_one: Option<&'a dyn ReadOne>,
    /// Begins and ends a run.
    pub session: Option<&'a dyn Session>,
    /// Decides the threads and the size of calls.
    pub scheduling: Option<&'a dyn Scheduling>,
    /// Relates resources to other resources.
    pub relations: Option<&'a dyn Relations>,
    /// Lists the paths owned by resources.
    pub owner: Option<&'a dyn Owner>,
    /// Generates resources that belong to a resource.
    pub generate: Option<&'a dyn Generate>,
    /// Refreshes resources.
    pub refresh: Option<&'a dyn Refresh>,
    /// Runs one-time actions.
    pub actions: Option<&'a dyn Actions>,
    /// Predicts the effects of changes for plans.
    pub predict: Option<&'a dyn Predict>,
    /// Explains differences.
    pub explain: Option<&'a dyn Explain>,
    /// Watches resources for `kilter run`.
    pub watch: Option<&'a dyn Watch>,
    /// Restores the earlier state of resources.
    pub revert: Option<&'a dyn Revert>,
    /// Knows outputs without a change.
    pub outputs: Option<&'a dyn OutputDefaults>,
}

/// A provider without any capability.
struct Nothing;

impl Session for Nothing {}
impl Scheduling for Nothing {}
impl Relations for Nothing {}
impl Predict for Nothing {}
impl Watch for Nothing {}
impl OutputDefaults for Nothing {}

impl<'a> Capabilities<'a> {
    /// Returns the session, or one that does nothing.
    pub fn session(&self) -> &'a dyn Session {
        self.session.unwrap_or(&Nothing)
    }

    /// Returns the scheduling, or the default one.
    pub fn scheduling(&self) -> &'a dyn Scheduling {
        self.scheduling.unwrap_or(&Nothing)
    }

    /// Returns the relations, or none.
    pub fn relations(&self) -> &'a dyn Relations {
        self.relations.unwrap_or(&Nothing)
    }

    /// Returns the predictions, or none.
    pub fn predict(&self) -> &'a dyn Predict {
        self.predict.unwrap_or(&Nothing)
    }

    /// Returns the watch, or one that polls.
    pub fn watch(&self) -> &'a dyn Watch {
        self.watch.unwrap_or(&Nothing)
    }

    /// Returns the outputs, or none.
    pub fn outputs(&self) -> &'a dyn OutputDefaults {
        self.outputs.unwrap_or(&Nothing)
    }

    /// Returns the effects of a change with this scope.
    pub fn effects_of(&self, scope: SideEffects) -> Vec<Effect> {
        match scope {
            SideEffects::Own => Vec::new(),
            SideEffects::Anything if self.owner.is_some() => vec![Effect::Brings],
            SideEffects::Anything => vec![Effect::Anything],
        }
    }

    /// Returns the effects of a change ([`Predict::effects`]).
    pub fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Vec<Effect> {
        let none = Attributes::new();
        let scope = || self.predict().side_effects(change.should.unwrap_or(&none));
        self.predict().effects(cx, change).unwrap_or_else(|| self.effects_of(scope()))
    }
}

/// Returns the feature of a schema that contradicts the capabilities of its provider.
pub fn contradiction(schema: &TypeSchema, capabilities: &Capabilities<'_>) -> Option<Feature> {
    let pairs = [
        (Feature::Refresh, capabilities.refresh.is_some()),
        (Feature::CustomGenerate, capabilities.generate.is_some()),
    ];
    pairs.into_iter().find(|(feature, is_there)| schema.has(*feature) != *is_there).map(|(feature, _)| feature)
}

/// Reads single resources, as cheaply as a `get` of many. The failure of one does not affect the others.
pub trait ReadOne {
    /// Reads the state of a resource, with an error of its own.
    ///
    /// # Errors
    /// If the resource cannot be read.
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError>;
}

/// Begin and end of a run.
pub trait Session {
    /// Starts the provider. Called once per run, as late as possible before the first `get`, `set` or `refresh`, so
    /// that the provider can use programs that earlier resources installed. State for the duration of a run starts
    /// here.
    ///
    /// # Errors
    /// If the provider cannot work. It is then unavailable for the run, and its resources fail.
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let _ = cx;
        Ok(())
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

/// Threads and size of the calls.
pub trait Scheduling {
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

    /// Returns false if the change of a resource can change the states of others, such as those in the same file. A
    /// run then reads no resource before those that it requires are in their states.
    fn reads_ahead(&self) -> bool {
        true
    }
}

/// Object on the system that a resource sets and that is not its name, such as a setting of a file.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The object in messages: `/etc/php.ini [PHP] memory_limit`.
    pub target: &'a str,
    /// True if no other resource of the type may claim the object. Otherwise, other resources may claim parts too.
    pub is_whole: bool,
}

impl<'a> Claim<'a> {
    /// Creates a claim of a whole object.
    pub fn whole(target: &'a str) -> Claim<'a> {
        Claim { target, is_whole: true }
    }

    /// Creates a claim of a part of an object.
    pub fn part(target: &'a str) -> Claim<'a> {
        Claim { target, is_whole: false }
    }
}

/// Relations of a resource to other declared resources.
pub trait Relations {
    /// Lists additional names under which the automatic edges of other resources find this resource.
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        let _ = (name, should, say);
    }

    /// Lists the objects that a resource sets, if not only its name identifies them. Two resources of the type that
    /// set the same object are a problem, because they would undo each other in every run.
    fn claims(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let _ = (name, should, say);
    }

    /// Lists the automatic dependency edges of a resource. An edge is added if the other resource is declared.
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let _ = (name, should, add);
    }

    /// Returns problems of a resource in combination with others, which `declared` finds by type and name.
    /// Example: two resources that undo each other in every run. All attributes are canonical.
    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        let _ = (name, should, declared);
        Vec::new()
    }

    /// Returns the pairs of resources of the type that would undo each other in every run, except for pairs with the
    /// same [claim](Relations::claims).
    fn opposites(&self, all: AllDeclared<'_>) -> Vec<Opposites> {
        let _ = all;
        Vec::new()
    }

    /// Returns true if the names of resources are paths. The [owner](Owner) of such a path comes before the
    /// resource. It also comes before resources that require the path, even if the path itself is not declared.
    fn names_are_paths(&self) -> bool {
        false
    }
}

/// Paths owned by resources, as a package owns its files. The owner comes before resources at these paths, and
/// before resources that use them.
pub trait Owner {
    /// Returns the paths among `is_wanted` that a resource owns, as far as known without starting a process. An
    /// absent resource owns no paths. Shared directories are omitted.
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString>;
}

/// Resources that belong to a resource, such as the rules of a chain or the entries of a table. Requires the feature
/// `custom_generate`.
pub trait Generate {
    /// Returns the resources on the system that belong to this resource. Each has a type and a name on the system.
    /// With several namevars, the name is a title that contains all of them, or their key.
    ///
    /// The run must remove the undeclared resources among them. They become differences of this resource, with
    /// the reference as [entry](kilter_model::Difference::entry), and `set` removes them. Return an empty list
    /// if undeclared resources may stay.
    ///
    /// # Errors
    /// If the resources cannot be read.
    fn generate(&self, cx: &Context<'_>, wanted: Wanted<'_>, is: &State) -> Result<Vec<ResourceRef>, ProviderError>;
}

/// Refreshes. Requires the feature `refresh`.
pub trait Refresh {
    /// Refreshes a resource that is in sync.
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome;

    /// Returns true if a refresh has an effect on a resource that was found as `is` and then brought to
    /// `should`. Otherwise, the refresh counts as done. It does not start a stopped service, and a service that
    /// the change starts already runs with all earlier changes.
    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let _ = (is, should);
        true
    }
}

/// One-time actions, such as `restart`.
pub trait Actions {
    /// Checks that resources have an action with this name.
    ///
    /// # Errors
    /// If they do not.
    fn check_action(&self, action: &str) -> Result<(), ValidationError>;

    /// Runs an action on a resource in any state. Called only after [`Actions::check_action`].
    fn act(&self, cx: &Context<'_>, wanted: Wanted<'_>, action: &str) -> Outcome;
}

/// Returns the actions of a provider, after a check that it has `action`.
///
/// # Errors
/// If it does not.
pub fn actions<'a>(provider: &'a dyn Provider, action: &str) -> Result<&'a dyn Actions, ValidationError> {
    let none = || ValidationError::new(eco_format!("{} has no one-time actions", provider.schema().name));
    let actions = provider.capabilities().actions.ok_or_else(none)?;
    actions.check_action(action).map(|()| actions)
}

/// Predictions of changes, for plans.
pub trait Predict {
    /// Returns a digest of all inputs of a change that its differences do not contain: the contents of its
    /// sources, the entries that it removes. The digest is sensitive if it may reveal a secret. Called when a
    /// plan is made, and again before its step is carried out. A step with a different digest is refused.
    fn basis(&self, cx: &Context<'_>, wanted: Wanted<'_>, found: &Found) -> Option<Value> {
        let _ = (cx, wanted, found);
        None
    }

    /// Returns the scope of the effects of a change. Previews of other resources depend on it.
    fn side_effects(&self, should: &Attributes) -> SideEffects {
        let _ = should;
        SideEffects::Anything
    }

    /// Predicts the effects of a change on parts of the system that other resources read. Called only in a
    /// plan, for resources that would change. None if they follow from the [scope](Predict::side_effects).
    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let _ = (cx, change);
        None
    }

    /// Lists the paths that a resource reads and writes, and the commands that its check runs. A plan checks a
    /// resource after the resources that write its inputs, even if no relation orders them.
    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        let _ = (name, should, say);
    }
}

/// Texts for the differences of a resource, which may be absent.
pub trait Explain {
    /// Returns the text to show instead of "is → should", for an attribute that is out of sync.
    fn message(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let _ = (attribute, is, should);
        None
    }

    /// Returns the unified diff of an attribute if it can and may be shown.
    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let _ = (attribute, is, should);
        None
    }
}

/// Purpose of a resource in `kilter run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It holds a state. The repair budget limits its changes.
    State,
    /// It handles events. It has no repair budget.
    EventHandler,
    /// It is an action rather than a state, and an event handler.
    Action,
}

/// Watches of the resources that `kilter run` holds.
pub trait Watch {
    /// Returns the event sources of a held resource. The resource may have changed after an event of any of
    /// them. An empty list means that the resource never changes by itself.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let _ = (name, should);
        vec![WatchSource::Poll(POLL)]
    }

    /// Watches resources and reports events until it is interrupted, then returns immediately. Runs on a thread
    /// of its own and is restarted after a delay when it returns. Runs once for all resources with
    /// [`WatchSource::Provider`], and once for each resource with [`WatchSource::ProviderPerResource`], which is then
    /// `alone`.
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
        Err(ProviderError::new("the provider has no watch"))
    }

    /// Returns the purpose of a resource.
    fn purpose(&self, should: &Attributes) -> Purpose {
        let _ = should;
        Purpose::State
    }

    /// Returns true if the desired state of a resource depends on the other declared resources
    /// ([`Context::manages`]). The run checks it again when the declarations change.
    fn depends_on_catalog(&self, should: &Attributes) -> bool {
        let _ = should;
        false
    }
}

/// State to restore when a resource is no longer declared, or when its change is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevertTo {
    /// The state before the change, as [`Revert::revert_state`] declares it.
    Earlier,
    /// Absence, regardless of the earlier state. The name is enough to restore it.
    Absence,
    /// The values of the changed attributes before the change. This is the way of types without this capability.
    Values,
}

/// Restores the state of resources that are no longer declared (`reverse`), or whose change is undone, in another way
/// than by the values of their attributes.
pub trait Revert {
    /// Returns the state to restore.
    fn revert_to(&self) -> RevertTo {
        RevertTo::Earlier
    }

    /// Returns the declaration that restores the current state `is`. Not called for [`RevertTo::Values`].
    ///
    /// # Errors
    /// The reason why the state could not be restored. The resource is then not changed.
    fn revert_state(&self, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
        let _ = (should, is);
        Err("the values of its attributes are its state".into())
    }

    /// Completes the declaration that restores the values of changed attributes ([`RevertTo::Values`]). `is` is the
    /// state before the change, as the read for `should` reports it. A type needs this method if a declared value
    /// allows more than itself, such as a minimum of memberships, or if `is` lacks values for the restoration.
    ///
    /// # Errors
    /// The reason why the values could not be restored.
    fn revert_values(&self, should: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        let _ = (should, is, before);
        Ok(())
    }

    /// Completes the declaration that removes a resource again. `is` is the state before the resource was created.
    ///
    /// # Errors
    /// The reason why it could not be removed again.
    fn revert_creation(&self, is: &State, removal: &mut Attributes) -> Result<(), EcoString> {
        let _ = (is, removal);
        Ok(())
    }

    /// Distinguishes the locations a resource of the same name may have lived in; the earlier state is stored per
    /// location.
    fn revert_scope(&self) -> Option<String> {
        None
    }
}

/// Outputs that are known without a change.
pub trait OutputDefaults {
    /// Returns the outputs of a resource that is in sync and whose earlier outputs are unknown.
    fn default_outputs(&self, should: &Attributes) -> Attributes {
        let _ = should;
        Attributes::new()
    }

    /// Returns the attributes that do not influence the outputs. Changing them keeps stored outputs valid.
    fn output_independent_attributes(&self) -> &'static [&'static str] {
        &[]
    }
}
