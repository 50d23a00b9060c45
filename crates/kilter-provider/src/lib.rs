//! The contract between kilter and the providers of resource types.
//!
//! [`Provider`] is the trait for providers in any language. `get` and `set` are mandatory, and every other
//! method is a feature with a default. [`check()`] is the check of the engine (`get`, canonicalise, compare)
//! for `kilter get`, plan and apply. [`Registry`] contains the providers of a program by type.
//!
//! Other crates read manifests, order the work and render reports. Only providers make system calls.
//!
//! Calls block. The runtime chooses their thread ([`Placement`]).
//!
//! A provider reports its progress and the status of each resource through a [`ChangeLog`]. A provider with the
//! usual create, update and delete implements [`SimpleProvider`].
//!
//! *Start from* [`Provider`] and [`Context`].

mod auto_edge;
mod canonical;
mod check;
mod compare;
mod context;
mod contract;
mod logging;
mod outlook;
mod owner;
mod predict;
mod registry;
mod seal;
mod simple;
mod validate_states;
mod watch;
mod world;

pub use auto_edge::{AutoEdge, Direction, Match};
pub use canonical::{canonical_name, canonicalize};
pub use check::{Found, check, check_one, check_state, read};
pub use compare::compare;
pub use context::{Context, Durability, Interrupt, Level, Log, NoLog, PROGRAM, Strictness};
pub use contract::{
    Batch, Declared, INSYNC_TRIGGER, Insync, Mode, Placement, Provider, ProviderError, Query, Revert, Suitability,
    ValidationError, Wanted, get_each,
};
pub use logging::{Action, Block, ChangeLog, EventKind, Failure, InScope, Misuse, ProviderEvent, Rule, Status, Titles};
pub use outlook::{NoPendingChanges, PreviewContext, SideEffects};
pub use owner::Owner;
pub use predict::{Account, Content, Effect, Footprint, Forecast, Node};
pub use registry::{Candidate, ChoiceError, Registry};
pub use seal::{Redactor, redacted};
pub use simple::{Name, Simple, SimpleError, SimpleProvider};
pub use validate_states::{Reading, get_checked, get_named};
pub use watch::{Network, POLL, Scope, Watch, WatchSink};
pub use world::{Shared, Unreachable, World, WorldError};

/// Compiles and runs the examples of these pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/reference/provider-context.md")]
    struct ProviderContext;
}
