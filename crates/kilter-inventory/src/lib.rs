//! Reads inventories of hosts and devices, and selects targets.
//!
//! [`Inventory::load`] reads kilter's own format, Bolt's `inventory.yaml` and Ansible's formats: a file, a directory,
//! or a program that prints JSON. It returns the [`Target`]s with their variables and options of connections, or all
//! [`Problem`]s with their places. [`Selector`] chooses targets by names, patterns and conditions.
//! [`ask_for_passwords`] puts the answers of the user in the place of the passwords that the inventory does not have.
//!
//! | pass | module | output |
//! |---|---|---|
//! | finds files, runs programs, detects formats | `load` | texts and trees |
//! | reads one format | `own_format`, `ansible` | `graph`: hosts and groups as declared |
//! | applies the precedence of groups | `graph` | [`Inventory`] |
//! | reads and resolves Bolt's format | `bolt` | [`Inventory`] |
//! | chooses | `selector` | targets |
//!
//! This crate opens no connection and asks no user. It starts only programs that are inventories. It is above
//! `kilter-script` because it shares the YAML reader of that crate.
//!
//! *Start from* [`Inventory`], [`Target`] and [`Selector`].

mod ansible;
mod bolt;
mod destination;
mod graph;
mod host_range;
mod inventory;
mod load;
mod options;
mod own_format;
mod problem;
mod prompts;
mod secrets;
mod selector;
mod target;
mod yaml_1_1;

pub use inventory::{GroupMembers, Inventory};
pub use load::LoadOptions;
pub use problem::Problem;
pub use prompts::ask_for_passwords;
pub use selector::{SelectError, Selector};
pub use target::{Become, ConnectionKind, Target};
