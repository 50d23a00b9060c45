//! Why there is no world.

use std::io;
use std::path::PathBuf;

/// Why there is no world.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The kernel gives a user who is not root no namespace.
    #[error("a user who is not root gets no namespace here")]
    NoUserNamespace {
        /// Why not.
        source: io::Error,
    },
    /// The list of mounts cannot be read.
    #[error("cannot read /proc/thread-self/mountinfo")]
    Mounts {
        /// Why not.
        source: io::Error,
    },
    /// There is no directory to put worlds together in.
    #[error("there is no place for a directory to put worlds together in")]
    Stage {
        /// Why not, in the last place that was tried.
        source: io::Error,
    },
    /// A mount was refused.
    #[error("cannot mount {what} at {}", at.display())]
    Mount {
        /// What was to be mounted.
        what: String,
        /// Where.
        at: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else was refused.
    #[error("cannot {what}")]
    Refused {
        /// What was attempted.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The thread that made it ended.
    #[error("the thread that was making it has ended")]
    Lost,
}

impl WorldError {
    /// An error of the system, at an attempt.
    pub(super) fn of<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> WorldError {
        move |error| WorldError::Refused { what, source: error.into() }
    }
}
