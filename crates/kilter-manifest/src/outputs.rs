//! Resolves the names in the expressions of an attribute.

use ecow::EcoString;
use kilter_model::ResourceRef;
use kilter_model::expr::{Lookup, Scope};

use crate::environment::Environment;
use crate::index::Index;

/// The environment together with the outputs of resources. Outputs of resources that are left out are missing; all
/// other outputs are still unknown.
pub(crate) struct Outputs<'e, 't> {
    pub(crate) environment: &'e Environment<'t>,
    pub(crate) index: Option<&'e Index<'t>>,
}

impl Scope for Outputs<'_, '_> {
    fn var(&self, name: &str) -> Lookup {
        self.environment.var(name)
    }

    fn fact(&self, name: &str) -> Lookup {
        self.environment.fact(name)
    }

    fn output(&self, reference: &ResourceRef, name: &str) -> Lookup {
        match self.index {
            Some(index) if index.is_left_out(reference) => Lookup::Missing,
            _ => self.environment.output(reference, name),
        }
    }

    fn var_names(&self) -> Vec<EcoString> {
        self.environment.var_names()
    }

    fn fact_names(&self) -> Vec<EcoString> {
        self.environment.fact_names()
    }
}
