//! Explanations as data.

use ecow::EcoString;
use kilter_model::{Span, Value};

/// Subject of an explanation.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A variable, by name.
    Variable(&'a str),
    /// A resource, written `type[title]`, and one of its attributes or all.
    Resource {
        /// The reference.
        reference: &'a str,
        /// The attribute; none for all that have a value.
        attribute: Option<&'a str>,
    },
}

/// Explanation of a variable or a resource.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The resource, or none for a variable.
    pub resource: Option<EcoString>,
    /// Places that declare the resource: its entry, loops and composite resources around it.
    pub declared: Vec<Contribution>,
    /// The explained values.
    pub values: Vec<ExplainedValue>,
}

/// A value with everything that contributed.
#[derive(Clone, Debug)]
pub struct ExplainedValue {
    /// Its name: `vars.port`, `facts.os`, `mode`.
    pub name: EcoString,
    /// The value; none if it is unknown before the run, or not declared.
    pub value: Option<Value>,
    /// Reason why there is no value.
    pub reason: Option<EcoString>,
    /// Merge rule, with its place if it is declared.
    pub rule: Option<(EcoString, Option<Span>)>,
    /// Places that were tried, the one with the highest priority first.
    pub tried: Vec<Contribution>,
    /// Names that the value contains.
    pub uses: Vec<ExplainedValue>,
}

/// A place that was tried.
#[derive(Clone, Debug)]
pub struct Contribution {
    /// Description: a path, or the kind of the place.
    pub what: EcoString,
    /// Position of the value, or of the declaration of a layer without one.
    pub span: Option<Span>,
    /// The value there, if several were merged or overridden.
    pub value: Option<Value>,
    /// Part that the place has in the value.
    pub part: Part,
}

/// Part that a place has in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The value comes from this place, or a part of it.
    Used,
    /// Another place has a higher priority.
    Overridden,
    /// The file exists and has no such key.
    NoKey,
    /// The file does not exist.
    NoFile,
}

impl Part {
    /// Returns the name of the part in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Part::Used => "used",
            Part::Overridden => "overridden",
            Part::NoKey => "no key",
            Part::NoFile => "no file",
        }
    }
}

impl ExplainedValue {
    /// Creates an explanation without a value.
    pub(super) fn new(name: EcoString) -> ExplainedValue {
        ExplainedValue { name, value: None, reason: None, rule: None, tried: Vec::new(), uses: Vec::new() }
    }
}
