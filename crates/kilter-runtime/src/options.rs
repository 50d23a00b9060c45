//! Options of a run.

use kilter_provider::{Durability, Strictness};

use crate::journal::JournalError;
use crate::state_dir::{StateDir, StateDirError};

/// Mode of a run: with or without changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Brings resources to their declared state.
    Apply,
    /// Only reports the changes that a run would make. Takes no lock and writes nothing.
    Noop,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Mode of the run.
    pub mode: Mode,
    /// Maximum number of concurrent calls that may block.
    pub jobs: usize,
    /// Durability of changes after a crash of the machine.
    pub durability: Durability,
    /// Strictness of the checks that providers keep their contract.
    pub strictness: Strictness,
    /// State directory; none for a run that stores no state.
    pub state_dir: Option<StateDir>,
}

/// Reason why a run did not take place, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The journal of pending refreshes cannot be used; the run makes no further changes.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system has no descriptor left for the interrupt.
    #[error("cannot make an event descriptor")]
    Event(#[source] std::io::Error),
}
