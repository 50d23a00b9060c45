//! The contract between kilter and the providers of resource types.
//!
//! [`Provider`] is the trait for providers in any language. Every optional part is
//! a capability ([`Capabilities`]). [`check()`] is the check of the engine (`get`, canonicalise, compare)
//! for `kilter get`, plan and apply. [`Registry`] contains the providers of a program by type.
//!
//! Other crates read manifests, order the work and render reports. Only providers make system calls.
//!
//! Calls block. The runtime chooses their thread ([`Placement`]).
//!
//! A provider reports its progress and the status of each resource through a [`ChangeLog`]. A provider with the
//! usual create, update and delete implements [`SimpleProvider`].
//!
//! A [`Transport`] is a connection to a [`Device`] that cannot run kilter.
//!
//! *Start from* [`Provider`] and [`Context`].

mod auto_edge;
mod canonical;
mod capabilities;
mod check;
mod compare;
mod context;
mod contract;
mod logging;
mod percent;
mod predict;
mod preview_context;
mod process;
mod redact;
mod registry;
mod simple;
mod transport;
mod validate_states;
mod watch;
mod world;

pub use auto_edge::{AutoEdge, Direction, Match};
pub use canonical::{canonical_name, canonicalize, canonicalize_one};
pub use capabilities::{
    Actions, Batch, Capabilities, Claim, Explain, Generate, OutputDefaults, Owner, Placement, Predict, Purpose,
    ReadOne, Refresh, Relations, Revert, RevertTo, Scheduling, Session, Watch, actions, contradiction,
};
pub use check::{Found, check, check_one, check_state, read};
pub use compare::compare;
pub use context::{Context, Durability, Interrupt, Level, Log, NoLog, PROGRAM, Strictness};
pub use contract::{
    AllDeclared, Declaration, Declared, INSYNC_TRIGGER, Insync, Mode, Opposites, Preference, Provider, ProviderError,
    Query, Suitability, ValidationError, Wanted, get_each, get_one,
};
pub use logging::{
    Action, Block, ChangeLog, EventKind, Failure, FinalStatus, InScope, Misuse, ProviderEvent, Rule, Titles,
};
pub use percent::percent_decode;
pub use predict::{Account, Content, Effect, Footprint, Forecast, PathState};
pub use preview_context::{NoPendingChanges, PreviewContext, SideEffects};
pub use process::{MessageList, ProcessEnd, ProcessList, ProcessLog, ProcessRecord};
pub use redact::{Redactor, redacted, redacted_outcome};
pub use registry::{Candidate, ChoiceError, Contradiction, Registry, RegistryError};
pub use simple::{Name, Simple, SimpleError, SimpleProvider};
pub use transport::{CONNECT_TIMEOUT, Device, Transport, TransportError, TransportSchema, TransportType};
pub use validate_states::{Reading, get_checked, get_named};
pub use watch::{Network, POLL, Scope, WatchSink, WatchSource};
pub use world::{Shared, Unreachable, World, WorldError};

/// Compiles and runs the examples of these pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/reference/provider-context.md")]
    struct ProviderContext;
}
