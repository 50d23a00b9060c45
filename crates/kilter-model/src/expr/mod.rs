//! The expression language of manifests and providers: a small subset of CEL.
//!
//! An [`Expr`] is one expression (`when: facts.os.family == "debian"`). A [`Template`] is a text
//! with expressions in it (`listen ${vars.port}`), or a tree of such texts. Both are parsed once and
//! evaluated against a [`Scope`], which says what the names stand for: the three roots are `vars`,
//! `facts` and the outputs of resources (`exec[token].stdout`).
//!
//! - Every error carries the range of bytes it is about, relative to the text that was parsed.
//! - A name may be [`Lookup::Unknown`] for the time being; so is then every value that needs it.
//! - What is computed from a sensitive value is sensitive.
//! - Depth, length and work are bounded, so that hostile text costs an error and nothing else.

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
pub use template::{Template, is_plain, quoted};
pub(crate) use version::compare as compare_versions;

/// How deep an expression may be nested.
pub const MAX_DEPTH: u16 = 100;

/// How many bytes a text made by an expression may have.
pub const MAX_TEXT: usize = 16 << 20;

/// How many elements a list made by an expression may have.
pub const MAX_ELEMENTS: usize = 100_000;

/// Where the names of an expression lead to.
pub trait Scope {
    /// The variable of a name.
    fn var(&self, name: &str) -> Lookup;
    /// The top-level fact of a name.
    fn fact(&self, name: &str) -> Lookup;
    /// The output of a resource.
    fn output(&self, reference: &ResourceRef, name: &str) -> Lookup;
    /// The names of all variables, for "did you mean".
    fn var_names(&self) -> Vec<EcoString> {
        Vec::new()
    }
    /// The names of all facts, for "did you mean".
    fn fact_names(&self) -> Vec<EcoString> {
        Vec::new()
    }
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A value.
    Found(Value),
    /// Nothing.
    Missing,
    /// A value that is not known yet, and why.
    Unknown(EcoString),
}

/// The type of the values that an output of a resource has.
pub type Sent<'a> = &'a dyn Fn(&ResourceRef, &str) -> DataType;

/// Says why a text is not an expression, or not a text with expressions in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// What is wrong.
    pub message: EcoString,
    /// The byte range in the text.
    pub at: Range<u32>,
    /// How to mend it.
    pub hint: Option<EcoString>,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The value is not known yet: the reason.
    #[error("known {0}")]
    Unknown(EcoString),
    /// The expression fails.
    #[error("{message}")]
    Failed {
        /// What is wrong.
        message: EcoString,
        /// The byte range in the template's text.
        at: Range<u32>,
        /// How to mend it.
        hint: Option<EcoString>,
    },
}

/// A name that an expression asks its scope for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A variable.
    Var(&'a EcoString),
    /// A top-level fact.
    Fact(&'a EcoString),
    /// An attribute of the composite resource that the text is part of, `self.port`. It is put in the place of the name
    /// before the text is evaluated.
    Own(&'a EcoString),
    /// An output of a resource.
    Output(&'a ResourceRef, &'a EcoString),
}

/// One expression, such as that of a `when`.
#[derive(Clone, Debug)]
pub struct Expr {
    root: ast::Node,
}

impl Expr {
    /// Parses a whole text as one expression.
    ///
    /// # Errors
    /// Says what is wrong and where.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        parse::whole(text).map(|root| Expr { root })
    }

    /// The value.
    ///
    /// # Errors
    /// When it fails, or a part that it needs is not known yet.
    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        eval::eval(&self.root, scope).map_err(EvalError::from)
    }

    /// Every error that keeps the expression from having a value, in the order of the text.
    pub fn errors(&self, scope: &dyn Scope) -> Vec<EvalError> {
        let mut found = Vec::new();
        eval::errors(&self.root, scope, &mut found);
        found
    }

    /// Calls `see` with each comparison of a fact with a text.
    pub fn fact_comparisons(&self, see: &mut dyn FnMut(FactComparison<'_>)) {
        comparison::find(&self.root, see);
    }

    /// Calls `see` with each name that the expression holds and the range it is written at.
    pub fn names<'a>(&'a self, see: &mut dyn FnMut(Name<'a>, Range<u32>)) {
        self.root.names(see);
    }
}

#[cfg(test)]
mod tests;
