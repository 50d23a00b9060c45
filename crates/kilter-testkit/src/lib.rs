//! The simulator: a seeded, hostile world around the reconcile machine.
//!
//! A *world* is a random graph with random vertices, a *system* is what those vertices manage and
//! how it misbehaves, a *driver* carries out what [`kilter_engine::Machine`] commands in a random
//! order, with events, interrupts and crashes in between. While it does so it shows every command
//! and every answer to an observer, which knows what must hold ([`Property`]) without knowing how
//! the machine works. Everything follows from one seed: no clock, no thread.
//!
//! That these checks can fail is shown by [`Mutant`]s: bugs applied to the command stream, each of
//! which has to be caught by its property.
//!
//! What a machine under test should do is left to the engine, and real providers to their own suites.
//!
//! Apart from it are [`hosts`]: real machines, booted by systemd, for tests of the command; and runs of the command that hold a
//! state, as they are seen from [`outside`], in a [`storm`] of file events and through many [`edits`] of what they hold. Tests and
//! measurements share those: they differ in how much of it there is.
//!
//! *Start from* [`simulate`].

mod chaos;
mod driver;
pub mod edits;
mod held;
pub mod hosts;
mod journal;
mod mutant;
mod observed;
pub mod outside;
mod properties;
mod shape;
mod simulation;
pub mod storm;
mod stream;
mod system;
mod world;

pub use held::{Fault, simulate_held, simulate_held_with};
pub use mutant::Mutant;
pub use properties::{Property, Violation};
pub use simulation::{Counts, Report, simulate, simulate_with};
