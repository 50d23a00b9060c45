//! Type definitions as data: a [`TypeSchema`] from a hash and back.
//!
//! The keys are those of `register_type` in the Puppet Resource API, with some of kilter's own; the
//! page docs/reference/type-definitions.md has them all. Words may be written as Ruby's symbols:
//! `:namevar`. What kilter does not know is kept ([`TypeSchema::extra`]).
//!
//! A definition that is wrong is refused with everything that is wrong in it. [`check`] finds what
//! can be wrong in a schema that was built in Rust. Texts in YAML or JSON, with places, are read by
//! `kilter_manifest::definition`.

mod aliases;
mod attribute;
mod check;
mod fault;
mod output;
mod patterns;
mod read;
mod relations;
mod write;

pub use check::check;
pub use fault::{Fault, Path, Place, Step, Warning};
pub use write::{attributes, to_value};

use crate::schema::TypeSchema;
use crate::value::Value;

/// What a definition says, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The type, as far as it could be read.
    pub schema: TypeSchema,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What is allowed, but hardly meant.
    pub warnings: Vec<Warning>,
}

/// Reads a definition.
///
/// # Errors
/// Everything that is wrong with it.
pub fn from_value(value: &Value) -> Result<(TypeSchema, Vec<Warning>), Vec<Fault>> {
    let reading = read(value);
    if reading.faults.is_empty() { Ok((reading.schema, reading.warnings)) } else { Err(reading.faults) }
}

/// Reads a definition as far as it can be: for modules that Puppet's library takes although they are
/// wrong by its own text ([`Fault::is_tolerated`]).
pub fn read(value: &Value) -> Reading {
    read::read(value)
}

#[cfg(test)]
mod tests;
