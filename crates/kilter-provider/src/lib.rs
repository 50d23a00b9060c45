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
//! Calls block: the runtime decides on which thread they run ([`Placement`]).
//!
//! *Start from* [`Provider`] and [`Context`].

mod check;
mod context;
mod contract;
mod outlook;
mod registry;

pub use check::{Found, check, check_one, compare, get_checked};
pub use context::{Context, Durability, Interrupt, Level, Log, NoLog};
pub use contract::{
    Batch, Declared, Direction, Insync, Match, Mode, Placement, Problem, Provider, ProviderError, Query, Wanted, Wish,
};
pub use outlook::{Alone, Outlook, Reach};
pub use registry::Registry;
