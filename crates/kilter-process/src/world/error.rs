//! Errors of the creation of a sandbox.

use std::io;
use std::path::PathBuf;

/// The reason why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The kernel gives users other than root no namespace.
    #[error("this machine gives namespaces only to root")]
    NoUserNamespace {
        /// Error of the system.
        source: io::Error,
    },
    /// The list of mounts cannot be read.
    #[error("cannot read /proc/thread-self/mountinfo")]
    Mounts {
        /// Error of the system.
        source: io::Error,
    },
    /// No directory to build sandboxes in is available.
    #[error("no directory for sandboxes can be created")]
    Stage {
        /// Error in the last directory that was tried.
        source: io::Error,
    },
    /// A mount was refused.
    #[error("cannot mount {what} at {}", at.display())]
    Mount {
        /// Subject of the mount.
        what: String,
        /// Mount point.
        at: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another operation was refused.
    #[error("cannot {what}")]
    Refused {
        /// The operation.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The thread that made the sandbox ended.
    #[error("the thread that was making it has ended")]
    Lost,
}

impl SandboxError {
    /// Converts an error of the system during an operation.
    pub(super) fn of<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SandboxError {
        move |error| SandboxError::Refused { what, source: error.into() }
    }
}
