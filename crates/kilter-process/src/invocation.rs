//! Description of a child to start.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::confine::Confinement;
use crate::environment::Environment;
use crate::identity::Identity;
use crate::signal::Signal;
use crate::trust::TrustPolicy;

/// Amount of an output to keep. kilter reads and drops the rest.
///
/// An observer sees the complete output, except with [`Capture::Nothing`]. Use `First(0)` to observe an output
/// without keeping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Keeps nothing and creates no pipe: an output is `/dev/null`, descriptor 3 is closed.
    Nothing,
    /// Keeps the first bytes, up to this number.
    First(usize),
    /// Keeps the last bytes, up to this number. Up to twice as many are in memory while the child runs.
    Last(usize),
    /// Keeps the first bytes, up to this number. kilter ends a child that writes more.
    AtMost(usize),
}

/// Process group of a child. A child with an [`Identity`] always has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// A new group. kilter ends the child together with its group and the group's descendants in other groups.
    Own,
    /// The caller's group. Ctrl-C in a terminal reaches the child, and kilter ends only the child itself.
    Inherited,
}

/// Treatment of the process group and its descendants after the child has ended by itself. They always end if the
/// child was cut short (deadline, cancel, flood).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillMode {
    /// They keep running, because a child may start a daemon on purpose. kilter no longer reads their outputs.
    LeftAlone,
    /// kilter ends them as at a deadline. With [`Group::Inherited`] kilter cannot identify them, so they keep
    /// running.
    Ended,
}

/// A program to start, with its settings.
#[derive(Clone)]
pub struct Invocation {
    /// The program: a path, or a name to find in the `PATH` of `env`. With a `script`, the name of the script.
    pub program: OsString,
    /// Text of a script to run in place of a file. Its first line names the interpreter. The child reads the text from
    /// a sealed memory file, so it needs no directory, and no user can change it.
    pub script: Option<&'static str>,
    /// Arguments, without the program.
    pub args: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; the caller's if none. The user of the child must be able to enter it.
    pub cwd: Option<PathBuf>,
    /// Standard input of the child; `/dev/null` if none.
    pub stdin: Option<Vec<u8>>,
    /// Descriptor that the child reads as its standard input, in place of `stdin`.
    pub input: Option<Arc<OwnedFd>>,
    /// User and groups of the child, in a session without a terminal; the caller's if none.
    pub identity: Option<Identity>,
    /// The umask; the caller's if none.
    pub umask: Option<u32>,
    /// Maximum size in bytes of a file that the child and its descendants write (RLIMIT_FSIZE). The signal SIGXFSZ ends
    /// a process that exceeds it; the caller's limit if none.
    pub max_file_bytes: Option<u64>,
    /// Amount of standard output to keep.
    pub stdout: Capture,
    /// Amount of standard error to keep.
    pub stderr: Capture,
    /// Amount to keep of standard output and standard error together, in the order in which kilter reads them.
    ///
    /// An output with [`Capture::Nothing`] is not part of it. kilter then reads each output as soon as it is
    /// written. If both outputs are [`Capture::Nothing`], the child writes both to one pipe, in its own order.
    pub together: Capture,
    /// Amount to keep of descriptor 3. The descriptor is closed with [`Capture::Nothing`]. A pipe there rules out a
    /// start by `posix_spawn`.
    pub channel: Capture,
    /// Maximum duration; unlimited if none.
    pub deadline: Option<Duration>,
    /// Signal that ends the child at the deadline or on cancel.
    pub stop_signal: Signal,
    /// Time between that signal and SIGKILL.
    pub grace: Duration,
    /// Process group of the child.
    pub group: Group,
    /// Treatment of descendants that outlive the child.
    pub leftovers: KillMode,
    /// Confinement of the child.
    pub confinement: Confinement,
    /// Trust rule that the program must pass directly before the start. If none, the caller has decided. It does not
    /// apply to a `script`.
    pub trust: Option<TrustPolicy>,
}

impl Invocation {
    /// Returns true if the child writes both outputs to one pipe.
    pub(crate) fn is_one_output(&self) -> bool {
        self.together != Capture::Nothing && [self.stdout, self.stderr] == [Capture::Nothing; 2]
    }

    /// Creates an invocation without arguments and with the default [`Environment`].
    ///
    /// Outputs are dropped and descriptor 3 is closed. There is no deadline; the stop signal is SIGTERM with a grace
    /// of two seconds. The child has its own process group and is not confined.
    pub fn new(program: impl Into<OsString>) -> Invocation {
        Invocation {
            program: program.into(),
            script: None,
            args: Vec::new(),
            env: Environment::new().variables().to_vec(),
            cwd: None,
            stdin: None,
            input: None,
            identity: None,
            umask: None,
            max_file_bytes: None,
            stdout: Capture::Nothing,
            stderr: Capture::Nothing,
            together: Capture::Nothing,
            channel: Capture::Nothing,
            deadline: None,
            stop_signal: Signal::TERM,
            grace: Duration::from_secs(2),
            group: Group::Own,
            leftovers: KillMode::LeftAlone,
            confinement: Confinement::None,
            trust: None,
        }
    }

    /// Runs this text in place of a file.
    #[must_use]
    pub fn script(mut self, text: &'static str) -> Invocation {
        self.script = Some(text);
        self
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

    /// Replaces the environment.
    #[must_use]
    pub fn environment(mut self, environment: &Environment) -> Invocation {
        self.env = environment.variables().to_vec();
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Invocation {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Invocation {
        self.stdin = Some(bytes.into());
        self
    }

    /// Keeps the first `limit` bytes of standard output, and the last `limit` bytes of standard error, because the
    /// reason of a failure comes last.
    #[must_use]
    pub fn captured(mut self, limit: usize) -> Invocation {
        self.stdout = Capture::First(limit);
        self.stderr = Capture::Last(limit);
        self
    }

    /// Creates a pipe at descriptor 3, and keeps as much of its bytes as `capture` says.
    #[must_use]
    pub fn channel(mut self, capture: Capture) -> Invocation {
        self.channel = capture;
        self
    }

    /// Sets the confinement.
    #[must_use]
    pub fn confined(mut self, confinement: Confinement) -> Invocation {
        self.confinement = confinement;
        self
    }

    /// Starts the program only if it passes the trust rule.
    #[must_use]
    pub fn trusted(mut self, policy: &TrustPolicy) -> Invocation {
        self.trust = Some(policy.clone());
        self
    }

    /// Sets the treatment of descendants that outlive the child.
    #[must_use]
    pub fn leftovers(mut self, leftovers: KillMode) -> Invocation {
        self.leftovers = leftovers;
        self
    }

    /// Sets the maximum duration.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Invocation {
        self.deadline = Some(deadline);
        self
    }

    /// Returns the process group that the child actually gets.
    pub(crate) fn group_of_child(&self) -> Group {
        if self.identity.is_some() { Group::Own } else { self.group }
    }

    /// Returns the search path in the environment.
    pub(crate) fn search_path(&self) -> &OsStr {
        self.env.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path)
    }
}

/// Prints the program only, because arguments, environment and input may contain secrets.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invocation({} with {} arguments)", self.program.display(), self.args.len())
    }
}
