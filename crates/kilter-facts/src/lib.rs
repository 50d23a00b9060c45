//! Facts about a machine.
//!
//! [`Facts`] returns facts by name. A built-in fact has the name and shape of Facter's structured fact. It is
//! gathered on first use and then cached. [`ExternalFacts`] are files and executables in directories given by
//! the caller. [`Facts::new`] reads nothing.
//!
//! Built-in facts come from `/proc`, `/sys`, `/etc` and system calls. They use no processes, no name service
//! library and no environment. All access goes through a [`FactSource`], which is a root directory and a
//! [`Kernel`]. So a tree of files can describe another machine.
//!
//! Identifiers (`os.name`, `os.family`, `os.distro.id`, `virtual`) are in lower case, because the expression
//! language compares texts exactly.
//!
//! Callers provide the expressions and the directories, and show facts and problems.
//!
//! *Start from* [`Facts`] and [`FactSource`].

/// Facts with identifiers as values, which are in lower case.
pub const LOWER_CASE: [&str; 4] = ["os.name", "os.family", "os.distro.id", "virtual"];

mod builtin;
mod external;
mod facts;
mod kernel;
mod lookup;
mod system;

pub use external::{ExecutableObserver, ExternalFacts, FactProblem, ObserveExecutable};
pub use facts::Facts;
pub use kernel::{Address, Ids, Kernel, LiveKernel, Space, Uname, machine_name};
pub use lookup::LookupError;
pub use system::FactSource;
