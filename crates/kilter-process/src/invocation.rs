//! What to start, and under which conditions.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::confine::Confinement;
use crate::environment::Environment;
use crate::identity::Identity;
use crate::signal::Signal;
use crate::trust::TrustPolicy;

/// How much of an output is kept. What is not kept is read and dropped. An observer sees all of it,
/// but for [`Capture::Nothing`]: who only wants to look on takes `First(0)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Nothing, and there is no pipe: an output is `/dev/null`, descriptor 3 is closed.
    Nothing,
    /// The first so many bytes.
    First(usize),
    /// The last so many bytes; up to twice as many are held meanwhile.
    Last(usize),
    /// The first so many bytes; a child that writes more is ended.
    AtMost(usize),
}

/// The process group of a child. With an [`Identity`] it is always its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One of its own: what ends the child ends its group, and what descends from that in other groups.
    Own,
    /// That of the caller: a terminal's Ctrl-C reaches it, and only the child itself is ended.
    Inherited,
}

/// What becomes of the rest of its process group, and what descends from that, when a child has ended by itself. Those of
/// a child that was cut short (deadline, cancel, flood) are always ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They are left alone: who starts a daemon may mean it. Their outputs are no longer read.
    LeftAlone,
    /// They are ended like a child whose time is up: for calls that leave nothing behind. With
    /// [`Group::Inherited`] there is nothing to know them by, and they are left alone.
    Ended,
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
    /// What is kept of both together, in the order in which kilter saw it; of one that is [`Capture::Nothing`] there is
    /// nothing in it. What a child writes is then read as soon as it is there. Where both are [`Capture::Nothing`], the child
    /// writes both to one pipe, in its own order.
    pub together: Capture,
    /// What is kept of what it writes to descriptor 3, which is closed with [`Capture::Nothing`].
    /// A pipe there costs the start by `posix_spawn`.
    pub channel: Capture,
    /// How long it may take; without end if none.
    pub deadline: Option<Duration>,
    /// What tells it to end when its time is up, or when somebody cancels.
    pub stop_signal: Signal,
    /// How long it may take from that signal to SIGKILL.
    pub grace: Duration,
    /// Its process group.
    pub group: Group,
    /// What becomes of descendants that outlive it.
    pub leftovers: Leftovers,
    /// What it is kept from doing.
    pub confinement: Confinement,
    /// The rule that the program has to pass directly before it is started; none if whoever asks for it decides.
    pub trust: Option<TrustPolicy>,
}

impl Invocation {
    /// Whether both outputs are one.
    pub(crate) fn is_one_output(&self) -> bool {
        self.together != Capture::Nothing && [self.stdout, self.stderr] == [Capture::Nothing; 2]
    }

    /// A program without arguments, in the plain [`Environment`]: outputs dropped, descriptor 3 closed, no
    /// deadline, SIGTERM and two seconds of grace, a process group of its own, not confined.
    pub fn new(program: impl Into<OsString>) -> Invocation {
        Invocation {
            program: program.into(),
            args: Vec::new(),
            env: Environment::new().variables().to_vec(),
            cwd: None,
            stdin: None,
            identity: None,
            umask: None,
            stdout: Capture::Nothing,
            stderr: Capture::Nothing,
            together: Capture::Nothing,
            channel: Capture::Nothing,
            deadline: None,
            stop_signal: Signal::TERM,
            grace: Duration::from_secs(2),
            group: Group::Own,
            leftovers: Leftovers::LeftAlone,
            confinement: Confinement::None,
            trust: None,
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

    /// Gives it this environment and no other.
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

    /// Gives it a pipe at descriptor 3, and keeps what `capture` says of what it writes there.
    #[must_use]
    pub fn channel(mut self, capture: Capture) -> Invocation {
        self.channel = capture;
        self
    }

    /// Keeps it from doing something.
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

    /// Says what becomes of descendants that outlive it.
    #[must_use]
    pub fn leftovers(mut self, leftovers: Leftovers) -> Invocation {
        self.leftovers = leftovers;
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
