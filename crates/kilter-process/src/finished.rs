//! What became of a child, and why there may be none.

use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::confine::{Attempts, Confined};
use crate::trust::Distrust;

/// How a child ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It returned this exit code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Status {
    /// Whether it is exit code 0.
    pub fn is_success(self) -> bool {
        self == Status::Code(0)
    }

    /// The exit code, if it returned one.
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

/// `exit code 3`, `signal 9`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Code(code) => write!(f, "exit code {code}"),
            Status::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What brought about the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It ended by itself.
    Exited,
    /// Its time was up.
    Deadline,
    /// Somebody cancelled.
    Cancelled,
    /// It wrote more than was allowed.
    Flooded,
}

/// What was kept of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes that were kept.
    pub bytes: Vec<u8>,
    /// How many bytes were dropped beyond the limit.
    pub dropped: u64,
}

impl Captured {
    /// Whether bytes were dropped.
    pub fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// The bytes as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// What became of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub status: Status,
    /// What brought that about.
    pub ending: Ending,
    /// What was kept of its output.
    pub stdout: Captured,
    /// What was kept of its error output.
    pub stderr: Captured,
    /// What was kept of both together.
    pub together: Captured,
    /// What was kept of what it wrote to descriptor 3.
    pub channel: Captured,
    /// Whether a descendant outlived it and kept an output open.
    pub leaked: bool,
    /// How it was kept from changing the machine.
    pub confined: Confined,
    /// What it and its descendants tried to change, where the kernel tells, whatever they say of it themselves.
    pub attempts: Attempts,
    /// The last line of its error output that reads as if the confinement had refused something: a
    /// hint for people, no proof. A child may keep a refusal to itself, and may print what it likes.
    pub refusal_hint: Option<String>,
}

impl Finished {
    /// A child that ended by itself and wrote nothing: where to begin for those who pretend to run one.
    pub fn of(status: Status) -> Finished {
        Finished {
            status,
            ending: Ending::Exited,
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

    /// Whether it ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        self.ending == Ending::Exited && self.status.is_success()
    }
}

/// Says why there is no [`Finished`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No directory of the search path holds such a program.
    #[error("the program `{}` is not in the path {}", program.display(), path.display())]
    NotFound {
        /// The name that was looked up.
        program: OsString,
        /// Where.
        path: OsString,
    },
    /// The working directory cannot be entered.
    #[error("cannot enter the working directory {}", cwd.display())]
    Cwd {
        /// The directory.
        cwd: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It was to run as 4294967295, which no user and no group is: to the system it means "as before".
    #[error("`{}` was not started: {} is no user and no group", program.display(), u32::MAX)]
    NoSuchIdentity {
        /// The program.
        program: OsString,
    },
    /// A variable of its environment has a name that no variable can have.
    #[error("`{}` was not started: `{}` cannot be the name of a variable", program.display(), name.display())]
    NoSuchVariable {
        /// The program.
        program: OsString,
        /// The name.
        name: OsString,
    },
    /// There is no place for the temporary directory of a confined child.
    #[error("`{}` was not started: there is no place for its temporary directory", program.display())]
    Scratch {
        /// The program.
        program: OsString,
        /// Why not, in the last place that was tried.
        source: io::Error,
    },
    /// Another user can change the program.
    #[error("`{}` was not started", program.display())]
    Untrusted {
        /// The program.
        program: OsString,
        /// Who can.
        source: Box<Distrust>,
    },
    /// The system does not start it.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program, as it was found.
        program: OsString,
        /// Why not.
        source: io::Error,
    },
    /// It was started, could not be waited for, and has been killed.
    #[error("cannot wait for `{}`", program.display())]
    Wait {
        /// The program.
        program: OsString,
        /// Why not.
        source: io::Error,
    },
    /// It did not end although it was killed: it is stuck in the kernel, or belongs to another user.
    #[error("`{}` (process {pid}) does not end although it was killed", program.display())]
    Unkillable {
        /// The program.
        program: OsString,
        /// The process that is left behind.
        pid: u32,
    },
    /// It was not started, as somebody tells who stands in for the system.
    #[error("{text}")]
    Told {
        /// Why not.
        text: String,
    },
    /// It was not started because somebody had cancelled already.
    #[error("`{}` was not started: cancelled", program.display())]
    Cancelled {
        /// The program.
        program: OsString,
    },
}

impl SpawnError {
    /// The error with everything that led to it, on one line.
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
