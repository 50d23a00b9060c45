//! What a machine says of itself.
//!
//! [`Facts`] answers by name: a built-in fact (named and shaped like Facter's structured facts) is
//! gathered when it is first asked for and then kept; [`ExternalFacts`] are files and executables
//! in directories that the caller names. [`Facts::new`] itself does nothing at all.
//!
//! Built-in facts come from `/proc`, `/sys`, `/etc` and system calls: no process, no name service
//! library, no environment. What is read goes through a [`System`]: a root directory and a
//! [`Kernel`], so that another machine can be described by a tree of files.
//!
//! Values that identify something (`os.name`, `os.family`, `os.distro.id`, `virtual`) are in lower
//! case, because the expression language compares texts exactly.
//!
//! Left to others: the expressions that ask for facts, where the directories are, and how facts
//! and problems are shown.
//!
//! *Start from* [`Facts`] and [`System`].

/// Facts that identify something: their values are in lower case.
pub const LOWER_CASE: [&str; 4] = ["os.name", "os.family", "os.distro.id", "virtual"];

mod builtin;
mod external;
mod facts;
mod kernel;
mod lookup;
mod system;

pub use external::{ExternalFacts, FactProblem};
pub use facts::Facts;
pub use kernel::{Address, Ids, Kernel, LiveKernel, Space, Uname};
pub use lookup::LookupError;
pub use system::System;
