//! What scripts are given of the world, and how much they may take.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ecow::EcoString;
use kilter_model::Value;
use kilter_process::trust::TrustPolicy;
use kilter_process::{Capture, Environment, Invocation, which};
use kilter_provider::PROGRAM;

use crate::condition::Machine;
use crate::exchange::{Exchanges, Live};
use crate::mold::{Historian, NoHistorian};

/// Answers for a fact by its top-level name.
pub type FactsFn = Arc<dyn Fn(&str) -> Option<Value> + Send + Sync>;

/// Whether there is a command of a name.
pub type CommandsFn = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What scripts are given of the world: the same for all.
#[derive(Clone)]
pub struct Surroundings {
    /// The facts that conditions ask for.
    pub facts: FactsFn,
    /// The environment of scripts; conditions find commands in its `PATH`.
    pub environment: Environment,
    /// Who says whether there is a command; if nobody, the `PATH` of the environment is searched.
    pub commands: Option<CommandsFn>,
    /// The state directory, below which each script keeps what it wants to find again; none where nothing is kept.
    pub state_dir: Option<PathBuf>,
    /// What this machine is called among those that it shares things with; none where nobody is told.
    pub hostname: Option<EcoString>,
    /// The scripts and files of scripts that are used.
    pub trust: TrustPolicy,
    /// True if a script that said in an earlier process that it is suitable is asked again before it is used.
    pub verify_suitability: bool,
    /// How much a script may take.
    pub limits: Limits,
    /// Who is told what scripts of mold do.
    pub historian: Arc<dyn Historian>,
    /// Set when scripts that describe themselves are to be ended.
    pub cancelled: Option<&'static AtomicBool>,
    /// What runs them.
    pub exchanges: Arc<dyn Exchanges>,
}

/// How much one call of a script may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time to describe itself.
    pub describe: Duration,
    /// The time to read, if its metadata says nothing.
    pub read: Duration,
    /// The time to change something, if its metadata says nothing.
    pub change: Duration,
    /// Bytes on standard output, if its metadata says nothing. A call about one resource, of which several may run at
    /// the same time, may print a quarter; and what is made of an answer may take three and a half times as much memory.
    pub output: usize,
    /// Bytes that are kept of standard error, the last ones.
    pub error: usize,
    /// Calls of one provider at the same time.
    pub jobs: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            describe: Duration::from_secs(10),
            read: Duration::from_secs(300),
            change: Duration::from_secs(3600),
            output: 16 << 20,
            error: 256 << 10,
            jobs: 4,
        }
    }
}

impl Surroundings {
    /// The plain environment, no facts, every script is used.
    pub fn new() -> Surroundings {
        Surroundings {
            facts: Arc::new(|_| None),
            environment: Environment::new(),
            commands: None,
            state_dir: None,
            hostname: None,
            trust: TrustPolicy::any(),
            verify_suitability: true,
            limits: Limits::default(),
            historian: Arc::new(NoHistorian),
            cancelled: None,
            exchanges: Arc::new(Live),
        }
    }

    /// Where commands are found.
    pub(crate) fn path(&self) -> &OsStr {
        let variables = self.environment.variables().iter();
        variables.clone().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path)
    }

    /// Whether the search path leads to a command. A path is one if there is such a program.
    pub fn finds_command(&self, name: &str) -> bool {
        match name.contains('/') {
            true => {
                let path = Path::new(name);
                path.parent()
                    .zip(path.file_name())
                    .is_some_and(|(parent, file)| which(file, parent.as_os_str()).is_some())
            }
            false => which(OsStr::new(name), self.path()).is_some(),
        }
    }

    /// How a script is started: in `/`, in the environment and, where its data directory has lenses, with
    /// `AUGEAS_LENS_LIB`. Its input is empty, its process group its own.
    pub fn invocation(&self, script: &Path) -> Invocation {
        let mut invocation = Invocation::new(script).environment(&self.environment).cwd("/").trusted(&self.trust);
        let lenses = script.parent().and_then(Path::parent).map(|data| data.join("lenses"));
        if let Some(lenses) = lenses.filter(|lenses| lenses.is_dir()) {
            invocation = invocation.env("AUGEAS_LENS_LIB", lenses);
        }
        invocation.stdout = Capture::AtMost(self.limits.output);
        invocation.stderr = Capture::Last(self.limits.error);
        invocation
    }

    /// Tells a script who runs it, and what this machine is called.
    pub(crate) fn introducing(&self, invocation: Invocation) -> Invocation {
        let invocation = invocation.env("KILTER_PROGRAM", PROGRAM);
        match &self.hostname {
            Some(hostname) => invocation.env("KILTER_HOSTNAME", hostname.as_str()),
            None => invocation,
        }
    }
}

impl Default for Surroundings {
    fn default() -> Surroundings {
        Surroundings::new()
    }
}

impl Machine for Surroundings {
    fn fact(&self, name: &str) -> Option<Value> {
        (self.facts)(name)
    }

    fn has_command(&self, name: &str) -> bool {
        match &self.commands {
            Some(commands) => commands(name),
            None => self.finds_command(name),
        }
    }
}
