//! Simulator: a seeded, hostile environment for the reconcile machine.
//!
//! A *world* is a random graph with random vertices. A *system* is the managed state with its failures. A *driver*
//! carries out the commands of [`kilter_engine::Machine`] in a random order, with events, interrupts and crashes in
//! between. It reports every command and every answer to an observer, which checks each [`Property`] without
//! knowledge of the machine's implementation. A single seed determines everything. There are no clocks and no
//! threads.
//!
//! [`Mutant`]s show that these checks can fail: they inject bugs into the command stream, and the corresponding
//! property must detect each of them.
//!
//! The tests of the engine cover its detailed behaviour. Real providers have their own test suites.
//!
//! The crate also contains [`hosts`], real machines booted by systemd for tests of the command, and [`fleet`] for
//! commands on many of them. [`kilter_process`] observes runs of the command from outside, in a [`stress_test`] of file
//! events and through many [`edits`]. Tests and measurements share these modules with different sizes.
//!
//! [`declarations`] shuffles manifests. [`appliance`] is a device with an HTTP interface that misbehaves on request.
//!
//! *Start from* [`simulate`].

pub mod appliance;
mod chaos;
pub mod declarations;
mod driver;
pub mod edits;
pub mod fleet;
mod graph_gen;
mod held;
pub mod hosts;
mod journal;
pub mod kilter_process;
mod mutant;
mod observed;
mod properties;
mod simulation;
mod stream;
pub mod stress_test;
mod system;
mod world;

pub use held::{SeededBug, simulate_held, simulate_held_with};
pub use mutant::Mutant;
pub use properties::{Property, Violation};
pub use simulation::{SimulationCounts, SimulationReport, simulate, simulate_with};
