//! Manifests: texts and facts to a catalog.
//!
//! [`compile`] takes [`Sources`] (YAML or JSON) and what it may ask for ([`Inputs`]: schemas, facts,
//! secrets, includes, variables), and returns either a [`Catalog`](kilter_model::Catalog) or every
//! problem there is, each with its place and a hint. [`render`] shows problems to people,
//! [`to_json`] to programs; [`Places`] puts a place on a problem that is found later, by a
//! provider. [`json_schema`] describes manifests to editors. [`define`] reads the definition of a type
//! instead of a manifest.
//!
//! Nothing here reads a file, the environment or a clock: whatever comes from outside is asked for
//! through the traits in [`Inputs`]. Cycles among resources, and what a provider has against a
//! value, are left to others.
//!
//! Where things are:
//! - text to tree: `yaml`, `block` and `json` (fast ways for the common forms), `tree`, `scalar`;
//! - tree to catalog: `load` (files and includes), `environment` (vars and facts), `value` (nodes to
//!   values), `resources`, `attributes`, `relations`, `meta`;
//! - what others send, held against what is wanted of it: `sent`;
//! - what is declared for other machines, and by them: `export`, `collect`;
//! - resources that are entries of others: `parts`;
//! - types that stand for others: `composite` (their definitions), `own` (`self` in what they stand for);
//! - graphs of mgmt to such a tree: `mgmt`;
//! - tree to type: `definition`;
//! - problems: [`Diagnostic`], `render`, `offsets`.
//!
//! *Start from* [`compile`] and [`Inputs`].

mod attributes;
mod block;
mod collect;
mod compile;
mod composite;
mod definition;
mod diagnostic;
mod environment;
mod export;
mod json;
mod load;
mod meta;
mod mgmt;
mod offsets;
mod outputs;
mod own;
mod parts;
mod places;
mod puppet;
mod relations;
mod render;
mod resources;
mod scalar;
mod schema;
mod secrets;
mod sent;
mod source;
mod tree;
mod types;
mod value;
mod yaml;

pub use collect::{Collect, RESERVED};
pub use compile::{Compiled, Facts, Inputs, Loader, Schemas, Secrets, compile, compile_partly};
pub use definition::{Defined, define};
pub use diagnostic::Diagnostic;
pub use places::Places;
pub use render::{SHOWN, render, render_warnings, to_json};
pub use schema::json_schema;
pub use secrets::SecretSource;
pub use source::{Location, Source, Sources};
