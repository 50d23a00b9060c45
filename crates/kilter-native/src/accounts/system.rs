//! The system that accounts live on, real or made up by a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_process::{Cancel, Finished, Invocation, SpawnError};

/// Starts the programs that change accounts.
pub trait Runner: Send + Sync {
    /// Starts one and returns when it has ended.
    ///
    /// # Errors
    /// When it cannot be started.
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Finished, SpawnError>;
}

/// Really starts them.
pub struct RealRunner;

impl Runner for RealRunner {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Finished, SpawnError> {
        kilter_process::run(invocation, Some(cancel))
    }
}

/// Where the account files are, and who runs the tools.
#[derive(Clone)]
pub struct System {
    root: PathBuf,
    runner: Arc<dyn Runner>,
}

impl System {
    /// This machine.
    pub fn real() -> System {
        System::new("/", Arc::new(RealRunner))
    }

    /// A system whose files are below `root` and whose tools are run by `runner`.
    pub fn new(root: impl Into<PathBuf>, runner: Arc<dyn Runner>) -> System {
        System { root: root.into(), runner }
    }

    /// The path of a file in `/etc`.
    pub(crate) fn etc(&self, name: &str) -> PathBuf {
        self.root.join("etc").join(name)
    }

    pub(crate) fn runner(&self) -> &dyn Runner {
        &*self.runner
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
