//! The contract between kilter and whoever can read and change resources of a type.
//!
//! One trait, [`Provider`], whichever language a provider is written in: `get` and `set` are
//! mandatory, everything else is a feature with a default. [`check()`] is the engine's check
//! (`get`, canonicalise, compare), the same for `kilter get`, plan and apply. [`Registry`] holds
//! the providers of a program by type.
//!
//! Reading manifests, deciding what runs when and drawing reports are left to others; so is every
//! system call, which belongs to the providers.
//!
//! [`conformance`] is what every provider is put through.
//!
//! Calls block: the runtime decides on which thread they run ([`Placement`]).
//!
//! A provider that tells its progress and the status of each resource does so through a
//! [`ChangeLog`]; one that follows the usual create, update, delete is a [`SimpleProvider`].
//!
//! *Start from* [`Provider`] and [`Context`].

mod accept;
mod canonical;
mod check;
mod compare;
pub mod conformance;
mod context;
mod contract;
mod logging;
mod outlook;
mod owner;
mod predict;
mod registry;
mod seal;
mod simple;
mod watch;
mod wish;
mod world;

pub use accept::{Reading, get_checked, get_named};
pub use canonical::{canonical_name, canonicalize};
pub use check::{Found, check, check_one, check_state, read};
pub use compare::compare;
pub use context::{Context, Durability, Interrupt, Level, Log, NoLog, PROGRAM, Strictness};
pub use contract::{
    Batch, Declared, INSYNC_TRIGGER, Insync, Mode, Placement, Problem, Provider, ProviderError, Query, Restores,
    Suitability, Wanted, get_each,
};
pub use logging::{Action, Block, ChangeLog, Failure, Happening, Here, Misuse, ProviderEvent, Rule, Status, Titles};
pub use outlook::{Alone, Outlook, Reach};
pub use owner::Owner;
pub use predict::{Account, Content, Effect, Footprint, Forecast, Node};
pub use registry::{Candidate, ChoiceError, Registry};
pub use seal::{Seal, redacted};
pub use simple::{Name, Simple, SimpleError, SimpleProvider};
pub use watch::{Network, POLL, Scope, Tell, Watch};
pub use wish::{Direction, Match, Wish};
pub use world::{Shared, World, WorldError};

/// The examples of these pages are run as tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/reference/provider-context.md")]
    struct ProviderContext;

    #[doc = include_str!("../../../docs/reference/conformance.md")]
    struct Conformance;
}
