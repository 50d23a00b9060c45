//! Type definitions as data: conversion of a [`TypeSchema`] from a hash and back.
//!
//! The keys are those of `register_type` in the Puppet Resource API and some of kilter's own, listed in
//! docs/reference/type-definitions.md. Words may be written as Ruby symbols: `:namevar`. Unknown keys are kept
//! ([`TypeSchema::extra`]).
//!
//! An invalid definition is rejected with all its faults. [`check`] validates a schema that was built in Rust.
//! `kilter_manifest::definition` reads YAML and JSON and adds locations.

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
pub use fault::{Fault, FaultPlace, Path, PathSegment, Warning};
pub use write::{attributes, to_value};

use crate::schema::TypeSchema;
use crate::value::Value;

/// Result of reading a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionReading {
    /// The type, as far as it could be read.
    pub schema: TypeSchema,
    /// Faults of the definition.
    pub faults: Vec<Fault>,
    /// Valid constructs that are probably unintended.
    pub warnings: Vec<Warning>,
}

/// Reads a definition.
///
/// # Errors
/// All faults of the definition.
pub fn from_value(value: &Value) -> Result<(TypeSchema, Vec<Warning>), Vec<Fault>> {
    let reading = read(value);
    if reading.faults.is_empty() { Ok((reading.schema, reading.warnings)) } else { Err(reading.faults) }
}

/// Reads a definition as far as possible. This supports modules that Puppet's library accepts although they are
/// invalid by its documentation ([`Fault::is_tolerated`]).
pub fn read(value: &Value) -> DefinitionReading {
    read::read(value)
}

#[cfg(test)]
mod tests;
