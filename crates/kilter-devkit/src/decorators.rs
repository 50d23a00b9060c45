//! Tests of decorators: a decorator must not drop a capability of the decorated provider.

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, ResourceRef, State, TypeSchema};
use kilter_provider::{
    Actions, Capabilities, ChangeLog, Context, Explain, Failure, Generate, Mode, Name, OutputDefaults, Owner, Predict,
    Provider, ProviderError, Query, ReadOne, Refresh, Relations, Revert, Scheduling, Session, SimpleProvider,
    ValidationError, Wanted, Watch,
};

/// Returns the names of the capabilities that a provider has.
pub fn capability_names(capabilities: &Capabilities<'_>) -> Vec<&'static str> {
    // A new capability does not compile until it is listed here.
    let Capabilities {
        read_one,
        session,
        scheduling,
        relations,
        owner,
        generate,
        refresh,
        actions,
        predict,
        explain,
        watch,
        revert,
        outputs,
    } = capabilities;
    let all = [
        ("read_one", read_one.is_some()),
        ("session", session.is_some()),
        ("scheduling", scheduling.is_some()),
        ("relations", relations.is_some()),
        ("owner", owner.is_some()),
        ("generate", generate.is_some()),
        ("refresh", refresh.is_some()),
        ("actions", actions.is_some()),
        ("predict", predict.is_some()),
        ("explain", explain.is_some()),
        ("watch", watch.is_some()),
        ("revert", revert.is_some()),
        ("outputs", outputs.is_some()),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

/// Provider with every capability and no resources. A test decorates it and compares the
/// [names](capability_names) of the capabilities.
#[derive(Debug)]
pub struct EveryCapability(TypeSchema);

impl EveryCapability {
    /// Creates the provider.
    pub fn new() -> EveryCapability {
        let schema = TypeSchema::new("every", "A type whose provider has every capability.")
            .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Desired existence.")
            .attribute("name", "String", Behaviour::Namevar, "Name of the resource.");
        EveryCapability(schema.features(&[Feature::Refresh, Feature::CustomGenerate]))
    }

    fn every(&self) -> Capabilities<'_> {
        Capabilities {
            read_one: Some(self),
            session: Some(self),
            scheduling: Some(self),
            relations: Some(self),
            owner: Some(self),
            generate: Some(self),
            refresh: Some(self),
            actions: Some(self),
            predict: Some(self),
            explain: Some(self),
            watch: Some(self),
            revert: Some(self),
            outputs: Some(self),
        }
    }
}

impl Default for EveryCapability {
    fn default() -> EveryCapability {
        EveryCapability::new()
    }
}

impl Provider for EveryCapability {
    fn schema(&self) -> &TypeSchema {
        &self.0
    }

    fn name(&self) -> &'static str {
        "every"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.every()
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        vec![Outcome::done(); changes.len()]
    }
}

/// A simple provider cannot generate resources.
impl SimpleProvider for EveryCapability {
    fn schema(&self) -> &TypeSchema {
        &self.0
    }

    fn name(&self) -> &'static str {
        "every"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { generate: None, ..self.every() }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn create(&self, _: &mut ChangeLog<'_>, _: Name<'_>, _: &Attributes) -> Result<(), Failure> {
        Ok(())
    }

    fn update(&self, _: &mut ChangeLog<'_>, _: Name<'_>, _: &Attributes) -> Result<(), Failure> {
        Ok(())
    }

    fn delete(&self, _: &mut ChangeLog<'_>, _: Name<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

impl Session for EveryCapability {}
impl Scheduling for EveryCapability {}
impl Relations for EveryCapability {}
impl Predict for EveryCapability {}
impl Explain for EveryCapability {}
impl Watch for EveryCapability {}
impl OutputDefaults for EveryCapability {}

impl ReadOne for EveryCapability {
    fn get_one(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        Ok(State::absent(wanted.name.clone()))
    }
}

impl Owner for EveryCapability {
    fn owned(&self, _: &str, _: &Attributes, _: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        Vec::new()
    }
}

impl Generate for EveryCapability {
    fn generate(&self, _: &Context<'_>, _: Wanted<'_>, _: &State) -> Result<Vec<ResourceRef>, ProviderError> {
        Ok(Vec::new())
    }
}

impl Refresh for EveryCapability {
    fn refresh(&self, _: &Context<'_>, _: Wanted<'_>) -> Outcome {
        Outcome { refreshed: true, ..Outcome::done() }
    }
}

impl Actions for EveryCapability {
    fn check_action(&self, _: &str) -> Result<(), ValidationError> {
        Ok(())
    }

    fn act(&self, _: &Context<'_>, _: Wanted<'_>, _: &str) -> Outcome {
        Outcome::done()
    }
}

impl Revert for EveryCapability {
    fn revert_state(&self, should: &Attributes, _: &State) -> Result<Attributes, EcoString> {
        Ok(should.clone())
    }
}

#[cfg(test)]
mod tests {
    use kilter_provider::Simple;

    use super::*;

    #[test]
    fn simple_provider_forwards_every_capability() {
        let every = EveryCapability::new();
        let own = capability_names(&SimpleProvider::capabilities(&every));
        assert_eq!(own.len(), capability_names(&Provider::capabilities(&every)).len() - 1);
        assert_eq!(capability_names(&Provider::capabilities(&Simple::new(every).unwrap())), own);
    }
}
