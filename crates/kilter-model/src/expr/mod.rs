//! Expressions (placeholder while being written).

use crate::names::ResourceRef;
use crate::value::Value;

/// A text with `${…}` in it, or one whole expression.
#[derive(Clone, Debug)]
pub struct Template {}

/// Where the names of an expression lead to.
pub trait Scope {
    /// The variable of a name.
    fn var(&self, name: &str) -> Lookup;
    /// The top-level fact of a name.
    fn fact(&self, name: &str) -> Lookup;
    /// The output of a resource.
    fn output(&self, reference: &ResourceRef, name: &str) -> Lookup;
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A value.
    Found(Value),
    /// Nothing.
    Missing,
    /// A value that is not known yet, and why.
    Unknown(ecow::EcoString),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// The value is not known yet: the reason.
    #[error("known {0}")]
    Unknown(ecow::EcoString),
    /// The expression fails.
    #[error("{message}")]
    Failed {
        /// What is wrong.
        message: ecow::EcoString,
        /// The byte range in the template's text.
        at: std::ops::Range<u32>,
        /// How to mend it.
        hint: Option<ecow::EcoString>,
    },
}

impl Template {
    /// The value.
    ///
    /// # Errors
    /// When a part fails or is not known yet.
    pub fn render(&self, _scope: &dyn Scope) -> Result<Value, EvalError> {
        Ok(Value::Undef)
    }

    /// The resources whose outputs the template refers to.
    pub fn references(&self) -> Vec<ResourceRef> {
        Vec::new()
    }
}
