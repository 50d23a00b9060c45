//! Parts that the providers of the built-in types have in common.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};
use kilter_provider::{Placement, Predict, Scheduling, SideEffects, ValidationError, Watch, WatchSource};

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

/// Returns true if a declaration removes its resource.
pub(crate) fn is_absent(should: &Attributes) -> bool {
    should.text("ensure") == Some("absent")
}
