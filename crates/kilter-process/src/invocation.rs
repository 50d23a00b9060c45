//! What to start, and under which conditions.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::identity::Identity;

/// Where programs are found unless something else is asked for.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The locale of children, so that their output can be read on every machine.
pub const LOCALE: &str = "C.UTF-8";

/// How much of an output is kept. What is not kept is read and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Nothing: the output is `/dev/null`.
    Nothing,
    /// The first so many bytes.
    First(usize),
    /// The last so many bytes.
    Last(usize),
    /// The first so many bytes; a child that writes more is ended.
    AtMost(usize),
}

/// The process group of a child. With an [`Identity`] it is always its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One of its own: what ends the child ends its descendants.
    Own,
    /// That of the caller: a terminal's Ctrl-C reaches it, and only the child itself is ended.
    Inherited,
}

/// A program to start, and under which conditions.
#[derive(Clone)]
pub struct Invocation {
    /// The program: a path, or a name that is looked up in the `PATH` of `env`.
    pub program: OsString,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, which the user it runs as must be able to enter; that of the caller if none.
    pub cwd: Option<PathBuf>,
    /// What the child can read; `/dev/null` if none.
    pub stdin: Option<Vec<u8>>,
    /// The user it runs as, in a session without terminal; the caller's if none.
    pub identity: Option<Identity>,
    /// The umask; the caller's if none.
    pub umask: Option<u32>,
    /// What is kept of its output.
    pub stdout: Capture,
    /// What is kept of its error output.
    pub stderr: Capture,
    /// How long it may take; without end if none.
    pub deadline: Option<Duration>,
    /// How long it may take from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Its process group.
    pub group: Group,
}

impl Invocation {
    /// A program without arguments, in the environment that the crate promises: outputs dropped, no
    /// deadline, two seconds of grace, a process group of its own.
    pub fn new(program: impl Into<OsString>) -> Invocation {
        let env = [("PATH", DEFAULT_PATH), ("LANG", LOCALE), ("LC_ALL", LOCALE)];
        Invocation {
            program: program.into(),
            args: Vec::new(),
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            cwd: None,
            stdin: None,
            identity: None,
            umask: None,
            stdout: Capture::Nothing,
            stderr: Capture::Nothing,
            deadline: None,
            grace: Duration::from_secs(2),
            group: Group::Own,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Invocation {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Invocation {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Invocation {
        let (name, value) = (name.into(), value.into());
        match self.env.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.env.push((name, value)),
        }
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Invocation {
        self.cwd = Some(cwd.into());
        self
    }

    /// Gives it something to read.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Invocation {
        self.stdin = Some(bytes.into());
        self
    }

    /// Keeps the first `limit` bytes of its output and the last `limit` bytes of its error output,
    /// where the reason of a failure is.
    #[must_use]
    pub fn captured(mut self, limit: usize) -> Invocation {
        self.stdout = Capture::First(limit);
        self.stderr = Capture::Last(limit);
        self
    }

    /// Limits how long it may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Invocation {
        self.deadline = Some(deadline);
        self
    }

    /// The process group that the child really gets.
    pub(crate) fn group_of_child(&self) -> Group {
        if self.identity.is_some() { Group::Own } else { self.group }
    }

    /// The search path of its environment.
    pub(crate) fn search_path(&self) -> &OsStr {
        self.env.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path)
    }
}

/// Shows the program only: arguments, environment and input may hold secrets.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invocation({} with {} arguments)", self.program.display(), self.args.len())
    }
}
