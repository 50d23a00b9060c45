//! The words of kilter.
//!
//! Every other crate speaks in the types of this one: [`Value`] and [`DataType`], the
//! [`TypeSchema`] of a resource type, [`Resource`], [`Catalog`] and its [`Relation`]s, the
//! [`State`] that is found, the [`Change`] that is asked for and the [`Difference`] between them,
//! and the [`expr`]ession language that manifests and providers share.
//!
//! Everything here is plain data and pure functions. Reading and writing the system, text formats,
//! clocks and terminals are left to others.
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
pub use change::{Because, Change, Difference, Outcome, Receipt, State, Unknown, UnknownCause};
pub use data_type::{
    Alias, AliasError, Aliases, DataType, DataTypeError, Fault, Field, Mismatch, Problem, Step, Subject,
};
pub use json::{from_json, to_json, to_json_clear};
pub use names::{AttributeName, ResourceRef, ResourceRefError, Title, TypeName, is_machine};
pub use pattern::{PatternError, Regexp};
pub use schema::{
    AttributeSchema, Attributes, AutoRelation, AutoTitle, Behaviour, Comparison, Feature, OutputSchema, PartOf,
    TitleError, TitlePattern, TypeSchema, WishError,
};
pub use semver_range::{SemVerRange, SemVerRangeError};
pub use span::{SourceId, Span};
pub use time::{TimeError, Timespan, Timestamp};
pub use value::{Hash, REDACTED, Value};

/// The examples of the page in Rust.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/type-definitions.md")]
struct TypeDefinitions;
