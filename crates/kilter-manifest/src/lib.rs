//! Compiles manifests and facts to a catalog.
//!
//! [`compile`] takes [`Sources`] (YAML or JSON) and [`Inputs`] (schemas, facts, secrets, includes, variables). It
//! returns a [`Catalog`](kilter_model::Catalog) or all problems, each with its position and a hint. [`render`]
//! prints problems for people, [`to_json`] for programs. [`AttributeSpans`] finds the position for a problem that a
//! provider reports later. [`json_schema`] describes manifests for editors. [`define`] reads the definition of a type
//! instead of a manifest.
//!
//! This crate reads no file, no environment variable and no clock. It gets all external data through the traits in
//! [`Inputs`]. It does not detect cycles among resources or values that a provider refuses.
//!
//! Modules:
//! - text to tree: `yaml`, `fast_yaml` and `json` (fast parsers for common forms), `tree`, `scalar`;
//! - tree to catalog: `load` (files and includes), `environment` (variables and facts), `value` (nodes to values),
//!   `resources`, `attributes`, `relations`, `meta`;
//! - type check of outputs against the attributes that use them: `output_types`;
//! - exports to and from other machines: `export`, `collect`;
//! - resources that are entries of others: `parts`;
//! - composite types: `composite` (definitions), `own` (`self` in their members);
//! - mgmt graphs to a tree: `mgmt`;
//! - tree to type: `definition`;
//! - problems: [`Diagnostic`], `render`, `scalar_span`.
//!
//! *Start from* [`compile`] and [`Inputs`].

mod attributes;
mod collect;
mod compile;
mod composite;
mod definition;
mod diagnostic;
mod environment;
mod export;
mod fast_yaml;
mod json;
mod load;
mod meta;
mod mgmt;
mod output_types;
mod outputs;
mod own;
mod parts;
mod places;
mod puppet;
mod relations;
mod render;
mod resources;
mod scalar;
mod scalar_span;
mod schema;
mod secrets;
mod source;
mod tree;
mod types;
mod value;
mod yaml;

pub use collect::{Collect, RESERVED};
pub use compile::{Compiled, Facts, Inputs, Loader, Schemas, Secrets, compile, compile_partly};
pub use definition::{Defined, define};
pub use diagnostic::Diagnostic;
pub use places::AttributeSpans;
pub use render::{MAX_SHOWN_PROBLEMS, render, render_warnings, to_json};
pub use schema::json_schema;
pub use secrets::SecretSource;
pub use source::{Location, Source, Sources};
