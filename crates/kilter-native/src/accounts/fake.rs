//! A system for tests: files in a directory, and a runner that records its calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kilter_model::Attributes;
use kilter_process::{Cancel, Captured, Invocation, Output, SpawnError, Status};
use kilter_provider::PreviewContext;

use super::{Runner, System};

pub(crate) struct Fake {
    pub(crate) root: tempfile::TempDir,
    pub(crate) log: Arc<FakeRunner>,
}

#[derive(Default)]
pub(crate) struct FakeRunner {
    calls: Mutex<Vec<(String, String)>>,
    /// Exit code and output of the tools.
    pub(crate) answer: Mutex<(i32, String)>,
}

impl Fake {
    pub(crate) fn new(passwd: &str, group: &str, shadow: &str) -> Fake {
        let root = tempfile::tempdir().expect("there is room for a directory");
        std::fs::create_dir(root.path().join("etc")).expect("the directory is new");
        let fake = Fake { root, log: Arc::default() };
        [("passwd", passwd), ("group", group), ("shadow", shadow)]
            .iter()
            .for_each(|(name, text)| fake.write(name, text));
        fake
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root.path().join("etc").join(name), text).expect("the directory is ours");
    }

    pub(crate) fn system(&self) -> System {
        System::new(self.root.path(), self.log.clone())
    }

    /// Returns the argvs since the last call.
    pub(crate) fn argvs(&self) -> Vec<String> {
        self.log.taken().into_iter().map(|(argv, _)| argv).collect()
    }

    /// Returns the standard inputs of the tools since the last call.
    pub(crate) fn inputs(&self) -> Vec<String> {
        self.log.taken().into_iter().map(|(_, stdin)| stdin).collect()
    }
}

impl FakeRunner {
    fn calls(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.calls())
    }
}

impl Runner for FakeRunner {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let words = std::iter::once(&invocation.program).chain(&invocation.args);
        let argv: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let stdin = String::from_utf8(invocation.stdin.clone().unwrap_or_default()).expect("tools are told texts");
        self.calls().push((argv.join(" "), stdin));
        let (code, said) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let output = |text: &str| Captured { bytes: text.as_bytes().to_vec(), dropped: 0 };
        Ok(Output { stdout: output(&said), stderr: output(&said), ..Output::of(Status::Code(code)) })
    }
}

/// Catalog that declares one user.
pub(crate) struct OneUser {
    pub(crate) name: &'static str,
    pub(crate) attributes: Attributes,
}

impl PreviewContext for OneUser {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        ((type_name, name) == ("user", self.name)).then_some(&self.attributes)
    }
}
