//! Parts that the providers of the built-in types have in common.

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    Placement, Predict, ProviderError, Query, Scheduling, SideEffects, ValidationError, Watch, WatchSource,
    redacted_outcome,
};

/// Implements the methods of a provider that describe it: its type, its name, its schema and its capabilities. The
/// schema is built at its first use. The second list names the capabilities of [`InProcess`].
///
/// Each start asks all providers for their names. `cold` puts these functions side by side, so that the start does not
/// load a page of each type.
macro_rules! describe {
    ($type_name:literal, $name:literal, $schema:path, [$($own:ident),*] $(, InProcess: [$($common:ident),*])?) => {
        #[cold]
        fn schema(&self) -> &kilter_model::TypeSchema {
            static SCHEMA: std::sync::LazyLock<kilter_model::TypeSchema> = std::sync::LazyLock::new($schema);
            &SCHEMA
        }

        #[cold]
        fn type_name(&self) -> &str {
            $type_name
        }

        #[cold]
        fn name(&self) -> &'static str {
            $name
        }

        #[cold]
        fn capabilities(&self) -> kilter_provider::Capabilities<'_> {
            kilter_provider::Capabilities {
                $($own: Some(self),)*
                $($($common: Some(&crate::builtin::InProcess),)*)?
                ..kilter_provider::Capabilities::default()
            }
        }
    };
}
pub(crate) use describe;

/// Capabilities of a type whose resources exist only in kilter: a call takes microseconds, has no effect on other
/// resources, and there are no events.
pub(crate) struct InProcess;

impl Scheduling for InProcess {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }
}

impl Predict for InProcess {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Watch for InProcess {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        Vec::new()
    }
}

/// Creates the problem of an attribute that must be known before the run but depends on an output. `why` gives the
/// purpose.
pub(crate) fn known_before(attribute: &str, why: &str) -> ValidationError {
    let problem = ValidationError::with(attribute, format!("{why}: it must be known before the run"));
    problem.hint("give it without outputs of other resources: by a variable or a fact")
}

/// Returns the state of a resource that always exists and has only a name.
pub(crate) fn present(name: &EcoString) -> State {
    State::present(name.clone(), Attributes::from_iter([("name", Value::String(name.clone()))]))
}

/// Returns the states of resources that become parts of another resource: a provider finds none.
pub(crate) fn no_parts(query: Query<'_>) -> Result<Vec<State>, ProviderError> {
    let Query::Named(wanted) = query else { return Ok(Vec::new()) };
    Ok(wanted.iter().map(|wanted| State::absent(wanted.name.clone())).collect())
}

/// Returns the outcomes of changes of resources that have no state. Only a removal fails.
pub(crate) fn stateless(changes: &[Change<'_>]) -> Vec<Outcome> {
    let done = |change: &Change<'_>| match change.should {
        Some(_) => Outcome::done(),
        None => Outcome::failed("there is nothing that could be removed"),
    };
    changes.iter().map(done).collect()
}

/// Returns the outcomes of previews, with secrets redacted.
pub(crate) fn previews(changes: &[Change<'_>], preview: impl Fn(&Change<'_>) -> Result<(), EcoString>) -> Vec<Outcome> {
    let previewed = |change| preview(change).map_or_else(Outcome::failed, |()| Outcome::done());
    changes.iter().map(|change| redacted_outcome(change, previewed(change))).collect()
}

/// Returns true if a declaration removes its resource.
pub(crate) fn is_absent(should: &Attributes) -> bool {
    should.text("ensure") == Some("absent")
}
