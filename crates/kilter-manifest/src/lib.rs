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
//! [`compile`] is a sequence of passes. Each one has an output type that the later ones take:
//!
//! | pass | module | output |
//! |---|---|---|
//! | reads the texts with their includes and data | `load`, `yaml`, `layers` | `Loaded`: trees |
//! | reads composite types | `composite` | `Composites` |
//! | collects variables, and evaluates them on first use | `environment` | `Environment` |
//! | reads defaults of metaparameters and attributes | `meta`, `metaparameters`, `attribute_defaults` | `Defaults` |
//! | finds all resources, and expands composite ones | `register` | `Registered`: index, owners |
//! | compiles attributes and relations | `resources`, `attributes`, `relations` | [`Catalog`](kilter_model::Catalog) |
//! | moves parts into their owners, adds exports | `parts`, `export` | the same catalog |
//!
//! No top-level module imports another one that imports it, directly or indirectly. From the lowest to the highest:
//! - text to tree: `source`, `tree`, `scalar`, `yaml`, `fast_yaml` and `json` (fast parsers for common forms);
//! - other formats to a tree: `mgmt`, `puppet`;
//! - templates in another language: `jinja`;
//! - interfaces to the caller: `schemas`, `inputs`, `collect` (resources of other machines);
//! - layered data: `merge` (rules for values), `layers` (hierarchies of files);
//! - names in texts: `environment`, `text_scope` (`self` in members of composite resources, `each`), `outputs`;
//! - nodes to values: `value`, `for_each` (entries that declare several resources), `output_types` (outputs against the
//!   attributes that use them), `mismatch`;
//! - references to resources: `types`, `index`;
//! - tree to type: `definition`;
//! - warnings about whole manifests: `lint`;
//! - explanations of values: `explain`, above all others;
//! - problems: [`Diagnostic`], `render`, `attribute_spans`, `scalar_span`, `secrets` (masks of secrets).
//!
//! *Start from* [`compile`] and [`Inputs`].

mod attribute_defaults;
mod attribute_spans;
mod attributes;
mod collect;
mod compile;
mod composite;
mod definition;
mod diagnostic;
mod environment;
mod explain;
mod export;
mod fast_yaml;
mod for_each;
mod format;
mod index;
mod inputs;
mod jinja;
mod json;
mod json_schema;
mod layers;
mod lint;
mod load;
mod merge;
mod meta;
mod metaparameters;
mod mgmt;
mod mismatch;
mod output_types;
mod outputs;
mod parts;
mod puppet;
mod register;
mod relations;
mod render;
mod resources;
mod scalar;
mod scalar_span;
mod schemas;
mod secrets;
mod source;
mod text_scope;
mod tree;
mod types;
mod value;
mod yaml;

pub use attribute_spans::AttributeSpans;
pub use collect::{Collect, RESERVED};
pub use compile::{Compiled, compile, compile_partly};
pub use definition::{Defined, define};
pub use diagnostic::Diagnostic;
pub use explain::{Contribution, ExplainedValue, Explanation, Part, Subject, explain};
pub use format::format;
pub use inputs::{EncryptedSecret, EncryptionProgram, Facts, Inputs, Loader, SecretSource, Secrets};
pub use json_schema::json_schema;
pub use lint::lint;
pub use render::{MAX_SHOWN_PROBLEMS, render, render_warnings, to_json};
pub use schemas::Schemas;
pub use source::{Location, Source, SourceOrigin, Sources};
