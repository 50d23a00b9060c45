//! Providers that are programs: scripts in libral's calling conventions `simple` and `json`, and in mold's
//! convention.
//!
//! A [`Convention`] consists of two pure functions. They convert a [`Request`] to a process, and a finished
//! process to a [`Reply`]. [`Metadata`] is the description of a script, and [`Condition`] its suitability.
//! [`ScriptProvider`] turns a script into a [`Provider`](kilter_provider::Provider), and [`mold::MoldProvider`]
//! does so for a mold script. Both implement [`Script`]. [`Scripts`] finds scripts in directories and caches
//! their descriptions.
//!
//! Only [`ProcessRunner`] starts processes, through [`kilter_process::run_observed`]. To inspect or replace calls,
//! implement [`ScriptRunner`]. This crate does not read the environment, choose directories or print. The caller
//! supplies all inputs.
//!
//! Modules:
//! - `convention`: requests and replies; `simple` and `json`: conventions of libral;
//! - `mold`: convention and directories of mold;
//! - `metadata`: converts YAML to a type; `condition`: `suitable` and `default`;
//! - `coerce`: converts the output of a script to values of its type;
//! - `provider`: implements the contract; `discovery`: directories and cache; `embedded`: scripts of the program;
//! - [`yaml`]: YAML with locations;
//! - `exchange`: calls of scripts; `recorded`: calls as data; `spoken`: output during a call.
//!
//! *Start from* [`Scripts::find`] and [`Convention`].

mod coerce;
pub mod condition;
mod confined;
mod convention;
mod discovery;
mod embedded;
mod exchange;
mod heard;
mod json;
mod metadata;
pub mod mold;
mod owned;
mod parallel_map;
mod provider;
pub mod recorded;
mod script;
mod secrets;
mod simple;
mod spoken;
mod surroundings;
mod turns;
mod var_dir;
pub mod yaml;

pub use condition::{Condition, ConditionResult, Machine};
pub use convention::{
    AttributeChange, ChangeReport, Convention, ConventionName, ErrorKind, LineParser, ProtocolError, Record,
    RecordError, Refusal, Reply, Request, Update, WatchLine,
};
pub use discovery::{Found, FoundScript, Note, Scripts};
pub use embedded::{EmbeddedProvider, EmbeddedScript};
pub use exchange::{ProcessRunner, ScriptCall, ScriptRunner};
pub use json::Json;
pub use metadata::{Actions, Fault, InSyncRule, Metadata, TextPosition};
pub use provider::ScriptProvider;
pub use script::{Script, script};
pub use simple::Simple;
pub use surroundings::{CommandsFn, FactsFn, Limits, ScriptEnvironment};
