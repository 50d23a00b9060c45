//! System that contains the accounts, real or for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_process::{Cancel, Invocation, Output, SpawnError};

/// Starts the programs that change accounts.
pub trait Runner: Send + Sync {
    /// Runs a program and returns when it has ended.
    ///
    /// # Errors
    /// If it cannot be started.
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError>;
}

/// Runs real programs.
pub struct RealRunner;

impl Runner for RealRunner {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        kilter_process::run(invocation, Some(cancel))
    }
}

/// Location of the account files, and the runner of the tools.
#[derive(Clone)]
pub struct System {
    root: PathBuf,
    runner: Arc<dyn Runner>,
}

impl System {
    /// Returns this machine.
    pub fn real() -> System {
        System::new("/", Arc::new(RealRunner))
    }

    /// Creates a system with files below `root`, whose tools `runner` runs.
    pub fn new(root: impl Into<PathBuf>, runner: Arc<dyn Runner>) -> System {
        System { root: root.into(), runner }
    }

    /// Returns the path of a file in `/etc`.
    pub(crate) fn etc(&self, name: &str) -> PathBuf {
        self.root.join("etc").join(name)
    }

    /// Returns the place of an absolute path.
    pub(crate) fn path(&self, path: &str) -> String {
        self.root.join(path.trim_start_matches('/')).to_string_lossy().into_owned()
    }

    pub(crate) fn runner(&self) -> &dyn Runner {
        &*self.runner
    }

    /// Returns the directory that represents `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
