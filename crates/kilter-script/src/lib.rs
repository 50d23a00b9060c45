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
//! - `mold`: convention and directories of mold; `channel`: messages of its scripts;
//! - `metadata`: converts YAML to a type; `condition`: `suitable` and `default`;
//! - `coerce`: converts the output of a script to values of its type;
//! - `provider`: implements the contract; `discovery`: directories and cache; `scripts`: providers by convention;
//!   `embedded`: scripts of the program;
//! - [`yaml`]: YAML with locations;
//! - `coprocess`: transports, and the calls of their providers;
//! - `exchange`: calls of scripts; `recorded`: calls as data; `spoken`: output during a call.
//!
//! No top-level module imports another one that imports it, directly or indirectly.
//!
//! *Start from* [`Scripts::find`] and [`Convention`].

mod call_lock;
mod channel;
mod coerce;
pub mod condition;
mod confined;
mod convention;
mod coprocess;
mod discovery;
mod embedded;
mod exchange;
mod fault;
mod json;
mod metadata;
pub mod mold;
mod parallel_map;
mod provider;
pub mod recorded;
mod script;
mod script_environment;
mod scripts;
mod secrets;
mod simple;
mod stderr_forwarder;
mod var_dir;
mod watch_reader;
pub mod yaml;

pub use condition::{Condition, ConditionFacts, ConditionResult};
pub use convention::{
    AttributeChange, ChangeReport, Convention, ConventionName, ErrorKind, LineParser, ProtocolError, Record,
    RecordError, Refusal, Reply, Request, Update, WatchLine,
};
pub use coprocess::{ScriptConnection, ScriptTransport};
pub use discovery::{Found, FoundScript, Note};
pub use embedded::EmbeddedProvider;
pub use exchange::{ProcessRunner, ScriptCall, ScriptRunner, process_record};
pub use fault::{Fault, TextPosition};
pub use json::Json;
pub use metadata::{Actions, InSyncRule, Metadata, TransportMetadata};
pub use provider::ScriptProvider;
pub use script::Script;
pub use script_environment::{CommandsFn, EmbeddedScript, FactsFn, Limits, ScriptEnvironment};
pub use scripts::{Scripts, script};
pub use simple::Simple;
