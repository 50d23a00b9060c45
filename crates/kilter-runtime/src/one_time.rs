//! One-time actions as units of work: a run of one resource whose change is the action.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Catalog, Change, Feature, Outcome, Resource, State, TypeSchema};
use kilter_provider::{
    Capabilities, Context, INSYNC_TRIGGER, Insync, Mode, Provider, ProviderError, Query, Registry, Suitability, Wanted,
};

use crate::prepare::{Prepared, plan_of};

/// Function that performs an action on a resource with a provider.
pub type Perform<P> = dyn Fn(&P, &Context<'_>, Wanted<'_>) -> Outcome + Send + Sync;

/// Prepares a run that performs one action on `resource`, whatever its state is.
///
/// The run is like any other: it holds the lock, delivers a refresh that the journal has for the resource, and
/// reports the outcome. The provider neither checks nor compares the resource. `hostname` is the machine of the run.
///
/// # Panics
/// If the resource has another type than the provider, or relations.
pub fn one_time<P: Provider + ?Sized + 'static>(
    provider: Arc<P>,
    resource: Resource,
    action: &str,
    hostname: &str,
    perform: Box<Perform<P>>,
) -> Prepared {
    let words = eco_format!("{} {action}", resource.reference);
    let action =
        OneTimeAction { schema: schema_of(&*provider), provider, words, perform, is_done: AtomicBool::default() };
    let registry = Registry::new([Arc::new(action) as Arc<dyn Provider>]).expect("one provider has a name of its own");
    let registry = registry.on_machine(hostname);
    let catalog = Catalog::of([resource]);
    plan_of(catalog, &registry, &Context::empty()).expect("a resource without relations is valid in a run of its own")
}

/// Provider whose resource is out of sync until the action has been performed.
struct OneTimeAction<P: ?Sized> {
    provider: Arc<P>,
    schema: TypeSchema,
    /// Resource and action, for the report.
    words: EcoString,
    perform: Box<Perform<P>>,
    is_done: AtomicBool,
}

/// Returns the schema of a type whose resources are compared as a whole: it has only the namevars.
fn schema_of(provider: &(impl Provider + ?Sized)) -> TypeSchema {
    let of = provider.schema();
    let mut schema = TypeSchema::new(of.name.clone(), of.desc.clone());
    let namevars = of.attributes.iter().filter(|attribute| attribute.behaviour == Behaviour::Namevar);
    schema.attributes = namevars.cloned().collect();
    schema.title_patterns.clone_from(&of.title_patterns);
    schema.features = vec![Feature::CustomInsync, Feature::SimpleGetFilter];
    schema.features.extend(of.has(Feature::Refresh).then_some(Feature::Refresh));
    schema
}

impl<P: Provider + ?Sized> Provider for OneTimeAction<P> {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn suitable(&self) -> Suitability {
        self.provider.suitable()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let Capabilities { session, scheduling, refresh, .. } = self.provider.capabilities();
        Capabilities { session, scheduling, refresh, ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return Ok(Vec::new()) };
        Ok(wanted.iter().map(|one| State::present(one.name.clone(), Attributes::new())).collect())
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, _: &State, _: &Attributes) -> Insync {
        match attribute == INSYNC_TRIGGER && !self.is_done.load(Ordering::Acquire) {
            true => Insync::Differs(Some(self.words.clone())),
            false => Insync::Same,
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        let perform = |change: &Change<'_>| {
            let wanted = Wanted::new(change.name, change.should).receiving(change.received);
            let outcome = (self.perform)(&self.provider, cx, wanted);
            self.is_done.store(outcome.is_done(), Ordering::Release);
            outcome
        };
        changes.iter().map(perform).collect()
    }
}
