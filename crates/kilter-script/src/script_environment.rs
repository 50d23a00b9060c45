//! Environment and resource limits for scripts.

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

use crate::channel::{Historian, NoHistorian};
use crate::condition::ConditionFacts;
use crate::exchange::{ProcessRunner, ScriptRunner};

/// Function that returns a top-level fact by name.
pub type FactsFn = Arc<dyn Fn(&str) -> Option<Value> + Send + Sync>;

/// Function that returns true if a command exists.
pub type CommandsFn = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Environment and resource limits, shared by all scripts.
#[derive(Clone)]
pub struct ScriptEnvironment {
    /// Facts for conditions.
    pub facts: FactsFn,
    /// Environment of scripts. Conditions search its `PATH` for commands.
    pub environment: Environment,
    /// Replacement for the search of the `PATH` for commands.
    pub commands: Option<CommandsFn>,
    /// State directory for persistent data of scripts. None if the run keeps no data.
    pub state_dir: Option<PathBuf>,
    /// Name of this machine for values shared with other machines. None if scripts do not receive it.
    pub hostname: Option<EcoString>,
    /// Trust policy for scripts and their files.
    pub trust: TrustPolicy,
    /// True if a script with a cached suitability is asked again before its first use.
    pub verify_suitability: bool,
    /// Resource limits.
    pub limits: Limits,
    /// Receiver of the messages of mold scripts.
    pub historian: Arc<dyn Historian>,
    /// Set to cancel scripts that describe themselves.
    pub cancelled: Option<&'static AtomicBool>,
    /// Runner of the scripts.
    pub exchanges: Arc<dyn ScriptRunner>,
    /// The script, if it is part of the program and not a file.
    pub embedded: Option<&'static EmbeddedScript>,
}

/// A script that is part of the program.
#[derive(Debug)]
pub struct EmbeddedScript {
    /// The type.
    pub type_name: &'static str,
    /// Name of the provider, and of its files without the extension.
    pub name: &'static str,
    /// Text of the script, which starts with the name of its interpreter.
    pub text: &'static str,
    /// Metadata of the script.
    pub metadata: &'static str,
}

impl EmbeddedScript {
    /// Returns the name of the script in messages. It is not absolute, so it is the path of no file that kilter uses.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("embedded/{}.prov", self.name))
    }
}

/// Resource limits of a script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Timeout of `describe`.
    pub describe: Duration,
    /// Default timeout for reading.
    pub read: Duration,
    /// Default timeout for a change.
    pub change: Duration,
    /// Default output limit in bytes. A call about one resource may print a quarter of it, because several may
    /// run concurrently. The parsed answer may take three and a half times as much memory.
    pub output: usize,
    /// Maximum captured size of the end of stderr, in bytes.
    pub error: usize,
    /// Maximum number of concurrent calls per provider.
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

impl ScriptEnvironment {
    /// Creates surroundings with a plain environment and without facts, which trust every script.
    pub fn new() -> ScriptEnvironment {
        ScriptEnvironment {
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
            exchanges: Arc::new(ProcessRunner),
            embedded: None,
        }
    }

    /// Returns the search path for commands.
    pub(crate) fn path(&self) -> &OsStr {
        let variables = self.environment.variables().iter();
        variables.clone().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path)
    }

    /// Returns true if the search path contains a command. A path counts as a command if the program exists.
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

    /// Returns the process for a script. It starts in `/` with the configured environment, an empty input and
    /// its own process group. If the data directory of the script has lenses, `AUGEAS_LENS_LIB` is set.
    pub fn invocation(&self, script: &Path) -> Invocation {
        let invocation = Invocation::new(script).environment(&self.environment).cwd("/");
        let mut invocation = match self.embedded {
            Some(embedded) => invocation.script(embedded.text),
            None => with_lenses(invocation.trusted(&self.trust), script),
        };
        invocation.stdout = Capture::AtMost(self.limits.output);
        invocation.stderr = Capture::Last(self.limits.error);
        invocation
    }

    /// Adds the name of the calling program and of this machine to the environment.
    pub(crate) fn introducing(&self, invocation: Invocation) -> Invocation {
        let invocation = invocation.env("KILTER_PROGRAM", PROGRAM);
        match &self.hostname {
            Some(hostname) => invocation.env("KILTER_HOSTNAME", hostname.as_str()),
            None => invocation,
        }
    }
}

/// Sets `AUGEAS_LENS_LIB` if the data directory of the script has lenses.
fn with_lenses(invocation: Invocation, script: &Path) -> Invocation {
    let lenses = script.parent().and_then(Path::parent).map(|data| data.join("lenses"));
    match lenses.filter(|lenses| lenses.is_dir()) {
        Some(lenses) => invocation.env("AUGEAS_LENS_LIB", lenses),
        None => invocation,
    }
}

impl Default for ScriptEnvironment {
    fn default() -> ScriptEnvironment {
        ScriptEnvironment::new()
    }
}

impl ConditionFacts for ScriptEnvironment {
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
