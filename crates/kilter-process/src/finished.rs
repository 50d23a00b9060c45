//! Result of a child, and errors of a failed start.

use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::confine::{Attempts, Confined};
use crate::trust::Distrust;

/// Exit code or signal of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The child returned this exit code.
    Code(i32),
    /// This signal ended the child.
    Signal(i32),
}

impl Status {
    /// Returns true for exit code 0.
    pub fn is_success(self) -> bool {
        self == Status::Code(0)
    }

    /// Returns the exit code, if the child returned one.
    pub fn code(self) -> Option<i32> {
        match self {
            Status::Code(code) => Some(code),
            Status::Signal(_) => None,
        }
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Status {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Status::Code(code),
            (None, signal) => Status::Signal(signal.unwrap_or(0)),
        }
    }
}

/// Prints `exit code 3` or `signal 9`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Code(code) => write!(f, "exit code {code}"),
            Status::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Cause of the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Termination {
    /// The child ended by itself.
    Exited,
    /// The deadline passed.
    Deadline,
    /// The caller cancelled.
    Cancelled,
    /// The child wrote more than [`AtMost`](crate::Capture::AtMost) allows.
    OutputLimit,
}

impl Termination {
    /// Returns the reason why kilter ended the child, in a word; none if the child ended by itself.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Termination::Exited => None,
            Termination::Deadline => Some("deadline"),
            Termination::Cancelled => Some("cancelled"),
            Termination::OutputLimit => Some("output_limit"),
        }
    }
}

/// Captured part of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The captured bytes.
    pub bytes: Vec<u8>,
    /// Number of bytes dropped beyond the limit.
    pub dropped: u64,
}

impl Captured {
    /// Returns true if bytes were dropped.
    pub fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// Returns the bytes as text, with replacement characters for invalid UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// Result of a child that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit code or signal.
    pub status: Status,
    /// Cause of the end.
    pub ending: Termination,
    /// Captured standard output.
    pub stdout: Captured,
    /// Captured standard error.
    pub stderr: Captured,
    /// Captured standard output and standard error together.
    pub together: Captured,
    /// Captured bytes of descriptor 3.
    pub channel: Captured,
    /// True if a descendant outlived the child and kept an output open.
    pub leaked: bool,
    /// Degree to which the child was confined.
    pub confined: Confined,
    /// Changes that the child and its descendants tried to make, as far as the kernel reports them.
    pub attempts: Attempts,
    /// The last line on standard error that looks like a refusal by the confinement. It is a hint for people and no
    /// proof, because a child may hide a refusal and may print any text.
    pub refusal_hint: Option<String>,
}

impl Output {
    /// Creates the result of a child that ended by itself and wrote nothing. Code that simulates children starts
    /// from it.
    pub fn of(status: Status) -> Output {
        Output {
            status,
            ending: Termination::Exited,
            stdout: Captured::default(),
            stderr: Captured::default(),
            together: Captured::default(),
            channel: Captured::default(),
            leaked: false,
            confined: Confined::NotAsked,
            attempts: Attempts::default(),
            refusal_hint: None,
        }
    }

    /// Returns true if the child ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        self.ending == Termination::Exited && self.status.is_success()
    }
}

/// The reason why there is no [`Output`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No directory of the search path contains the program.
    #[error("the program `{}` is not in the path {}", program.display(), path.display())]
    NotFound {
        /// Name of the program.
        program: OsString,
        /// Search path.
        path: OsString,
    },
    /// The child cannot enter its working directory.
    #[error("cannot enter the working directory {}", cwd.display())]
    Cwd {
        /// The directory.
        cwd: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// An id is 4294967295. No user or group has it, and system calls take it for "unchanged".
    #[error("`{}` was not started: {} is no user and no group", program.display(), u32::MAX)]
    NoSuchIdentity {
        /// The program.
        program: OsString,
    },
    /// A variable of the environment has an invalid name.
    #[error("`{}` was not started: `{}` cannot be the name of a variable", program.display(), name.display())]
    NoSuchVariable {
        /// The program.
        program: OsString,
        /// The name.
        name: OsString,
    },
    /// No directory is available for the temporary directory of a confined child.
    #[error("`{}` was not started: its temporary directory cannot be created", program.display())]
    Scratch {
        /// The program.
        program: OsString,
        /// Error in the last directory that was tried.
        source: io::Error,
    },
    /// Another user can change the program.
    #[error("`{}` was not started", program.display())]
    Untrusted {
        /// The program.
        program: OsString,
        /// The user who can change it.
        source: Box<Distrust>,
    },
    /// The system refuses to start the program.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program, as found in the search path.
        program: OsString,
        /// Error of the system.
        source: io::Error,
    },
    /// The child started, but kilter could not wait for it and killed it.
    #[error("cannot wait for `{}`", program.display())]
    Wait {
        /// The program.
        program: OsString,
        /// Error of the system.
        source: io::Error,
    },
    /// The child did not end after SIGKILL. It is stuck in the kernel or belongs to another user.
    #[error("`{}` (process {pid}) does not end although it was killed", program.display())]
    Unkillable {
        /// The program.
        program: OsString,
        /// Process id of the child that is left behind.
        pid: u32,
    },
    /// Code that stands in for the system, such as a recording, reports that the child was not started.
    #[error("{text}")]
    Reported {
        /// The recorded reason.
        text: String,
    },
    /// The caller had cancelled before the start.
    #[error("`{}` was not started: cancelled", program.display())]
    Cancelled {
        /// The program.
        program: OsString,
    },
}

impl SpawnError {
    /// Returns the error and all its sources on one line.
    pub fn with_sources(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        text
    }
}
