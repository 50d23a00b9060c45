//! Data model of kilter.
//!
//! All other crates use these types:
//!
//! - [`Value`] and [`DataType`]
//! - the [`TypeSchema`] of a resource type
//! - [`Resource`], [`Catalog`] and its [`Relation`]s
//! - the [`State`] on the system, the requested [`Change`] and the [`Difference`] between them
//! - the [`expr`]ession language of manifests and providers
//!
//! This crate contains only plain data and pure functions. Other crates handle the system, text formats, clocks
//! and terminals.
//!
//! *Start from* [`Catalog`], [`TypeSchema`] and [`Value`].

mod bytes;
mod canonical;
mod catalog;
mod change;
mod data_type;
pub mod definition;
pub mod expr;
pub mod foreign_words;
mod json;
mod names;
mod pattern;
mod schema;
mod semver_range;
mod span;
pub mod suggest;
mod time;
mod value;

pub use bytes::{base64, from_base64};
pub use canonical::{CanonicalError, from_canonical_json, to_canonical_json, to_canonical_json_clear};
pub use catalog::{
    Catalog, Composite, Contested, Deferred, EventLimit, Meta, Policy, Poll, Relation, RelationKind, Resource,
    Semaphore,
};
pub use change::{Because, Change, Difference, Outcome, ReceivedValue, State, Unknown, UnknownCause};
pub use data_type::{
    Alias, AliasError, Aliases, DataType, DataTypeError, Field, Mismatch, MismatchFault, NamedMismatch, Problem, Step,
};
pub use json::{from_json, to_json, to_json_clear};
pub use names::{AttributeName, ResourceRef, ResourceRefError, Title, TypeName, is_machine};
pub use pattern::{PatternError, Regexp};
pub use schema::{
    AttributeSchema, Attributes, AutoRelation, AutoRelationError, AutoTitle, Behaviour, Comparison, Feature,
    OutputSchema, PartOf, TitleError, TitlePattern, TypeSchema,
};
pub use semver_range::{SemVerRange, SemVerRangeError};
pub use span::{SourceId, Span};
pub use time::{TimeError, Timespan, Timestamp};
pub use value::{Hash, REDACTED, Value};

/// Compiles the Rust examples of the page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/type-definitions.md")]
struct TypeDefinitions;
