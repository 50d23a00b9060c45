//! The expression language of manifests and providers: a small subset of CEL.
//!
//! An [`Expr`] is a single expression (`when: facts.os.family == "debian"`). A [`Template`] is a text with
//! embedded expressions (`listen ${vars.port}`), or a tree of such texts. Both are parsed once and evaluated
//! against a [`Scope`], which resolves names. The three roots are `vars`, `facts` and the outputs of resources
//! (`exec[token].stdout`).
//!
//! - Every error has a byte range, relative to the parsed text.
//! - A name may be [`Lookup::Unknown`] for now. All values that depend on it are then unknown too.
//! - A value computed from a sensitive value is sensitive.
//! - Depth, length and work are bounded, so that a hostile text causes an error at worst.

mod ast;
mod comparison;
mod eval;
mod functions;
mod kind;
mod lex;
mod operators;
mod parse;
mod template;
mod version;

use std::ops::Range;

use ecow::EcoString;

use crate::data_type::DataType;
use crate::names::ResourceRef;
use crate::value::Value;

pub use comparison::FactComparison;
pub use template::{Template, TextMaker, is_plain, quoted};
pub(crate) use version::compare as compare_versions;

/// Maximum nesting depth of an expression.
pub const MAX_DEPTH: u16 = 100;

/// Maximum size of a text made by an expression, in bytes.
pub const MAX_TEXT: usize = 16 << 20;

/// Maximum number of elements of a list made by an expression.
pub const MAX_ELEMENTS: usize = 100_000;

/// Resolver for the names of an expression.
pub trait Scope {
    /// Looks up a variable.
    fn var(&self, name: &str) -> Lookup;
    /// Looks up a top-level fact.
    fn fact(&self, name: &str) -> Lookup;
    /// Looks up an output of a resource.
    fn output(&self, reference: &ResourceRef, name: &str) -> Lookup;
    /// Looks up a name of the target that a condition of [`Expr::parse_for_target`] selects: `name` or `groups`.
    fn target(&self, _name: &str) -> Lookup {
        Lookup::Missing
    }
    /// Returns the names of all variables, for "did you mean".
    fn var_names(&self) -> Vec<EcoString> {
        Vec::new()
    }
    /// Returns the names of all facts, for "did you mean".
    fn fact_names(&self) -> Vec<EcoString> {
        Vec::new()
    }
}

/// Result of a lookup.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The value.
    Found(Value),
    /// The name does not exist.
    Missing,
    /// The value is not known yet: the reason.
    Unknown(EcoString),
}

/// Function that returns the type of an output of a resource.
pub type OutputTypeOf<'a> = &'a dyn Fn(&ResourceRef, &str) -> DataType;

/// Syntax error of an expression or a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// Description of the error.
    pub message: EcoString,
    /// Byte range in the text.
    pub at: Range<u32>,
    /// Suggested correction.
    pub hint: Option<EcoString>,
}

/// Reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The value is not known yet: the reason.
    #[error("known {0}")]
    Unknown(EcoString),
    /// The evaluation failed.
    #[error("{message}")]
    Failed {
        /// Description of the error.
        message: EcoString,
        /// Byte range in the template's text.
        at: Range<u32>,
        /// Suggested correction.
        hint: Option<EcoString>,
    },
}

/// A name in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A variable.
    Var(&'a EcoString),
    /// A top-level fact.
    Fact(&'a EcoString),
    /// An attribute of the composite resource that contains the text, `self.port`. It is replaced by its value
    /// before the text is evaluated.
    Own(&'a EcoString),
    /// `each.key` or `each.value`: a part of the element of `for_each` that the text is evaluated for. It is replaced
    /// in the same way.
    Each(&'a EcoString),
    /// An output of a resource.
    Output(&'a ResourceRef, &'a EcoString),
}

/// A single expression, such as the condition of a `when`.
#[derive(Clone, Debug)]
pub struct Expr {
    root: ast::Node,
}

impl Expr {
    /// Parses a whole text as one expression.
    ///
    /// # Errors
    /// The syntax error and its location.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        parse::whole(text).map(|root| Expr { root })
    }

    /// Parses a whole text as a condition for targets of an inventory. `name` is the name of the target there, and
    /// `groups` the list of its groups.
    ///
    /// # Errors
    /// The syntax error and its location.
    pub fn parse_for_target(text: &str) -> Result<Expr, ExprError> {
        parse::whole_for_target(text).map(|root| Expr { root })
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// If the evaluation fails, or if a required value is not known yet.
    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        eval::eval(&self.root, scope).map_err(EvalError::from)
    }

    /// Returns every error that prevents the expression from having a value, in the order of the text.
    pub fn errors(&self, scope: &dyn Scope) -> Vec<EvalError> {
        let mut found = Vec::new();
        eval::errors(&self.root, scope, &mut found);
        found
    }

    /// Calls `see` with each comparison of a fact with a text.
    pub fn fact_comparisons(&self, see: &mut dyn FnMut(FactComparison<'_>)) {
        comparison::find(&self.root, see);
    }

    /// Calls `see` with each name in the expression and its byte range.
    pub fn names<'a>(&'a self, see: &mut dyn FnMut(Name<'a>, Range<u32>)) {
        self.root.names(see);
    }
}

#[cfg(test)]
mod tests;
