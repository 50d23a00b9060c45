//! Providers that are programs: scripts in libral's calling conventions `simple` and `json`, and in mold's.
//!
//! A convention is two pure functions ([`Convention`]): which process to start for a [`Request`], and
//! which [`Reply`] a finished process gave. [`Metadata`] is what a script says of itself;
//! [`Condition`] is when it can be used. [`ScriptProvider`] makes a
//! [`Provider`](kilter_provider::Provider) of a script, and [`mold::MoldProvider`] one of a script of mold; both are
//! [`Script`]s. [`Scripts`] finds those in directories, and keeps what they say of themselves.
//!
//! The only process is started by [`Live`], through [`kilter_process::run_observed`]; who wants to see each call, or to
//! answer in a script's place, is another [`Exchanges`]. Nothing here reads the environment, knows
//! where directories are, or prints: the caller says, and is told.
//!
//! Where things are:
//! - `convention`: requests and replies; `simple` and `json`: the conventions of libral;
//! - `mold`: the convention of mold, and its directories;
//! - `metadata`: YAML to a type; `condition`: `suitable` and `default`;
//! - `typed`: what a script printed, as values of its type;
//! - `provider`: the contract; `discovery`: directories and the cache;
//! - `check_file`: what a provider is put to the test with;
//! - `exchange`: calls of scripts; `recorded`: the same as data; `spoken`: what they say meanwhile.
//!
//! *Start from* [`Scripts::find`] and [`Convention`].

mod check_file;
pub mod condition;
mod confined;
mod convention;
mod discovery;
mod exchange;
mod heard;
mod json;
mod metadata;
pub mod mold;
mod owned;
mod provider;
pub mod recorded;
mod script;
mod secrets;
mod side_by_side;
mod simple;
mod spoken;
mod surroundings;
mod turns;
mod typed;
mod var_dir;

pub use check_file::{CheckFile, Lasting};
pub use condition::{Condition, Machine, Verdict};
pub use convention::{
    AttributeChange, ChangeReport, Convention, ConventionName, ErrorKind, Heard, Listener, ProtocolError, Record,
    RecordError, Refusal, Reply, Request, Update,
};
pub use discovery::{Found, FoundScript, Note, Scripts};
pub use exchange::{Exchange, Exchanges, Live};
pub use json::Json;
pub use metadata::{Actions, Fault, Metadata, Place};
pub use provider::ScriptProvider;
pub use script::{Script, script};
pub use simple::Simple;
pub use surroundings::{CommandsFn, FactsFn, Limits, Surroundings};
