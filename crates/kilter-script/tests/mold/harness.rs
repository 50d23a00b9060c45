//! A directory of mold, and what its historian heard.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Outcome, State, Value};
use kilter_provider::{Actions, Context, Level, Log, ReadOne, Wanted};
use kilter_script::mold::{Historian, Message, Mold, MoldProvider};
use kilter_script::{Limits, ScriptEnvironment};

/// A directory of mold.
pub(crate) struct MoldDir {
    directory: tempfile::TempDir,
    pub(crate) heard: Arc<MemoryHistorian>,
    pub(crate) limits: Limits,
}

/// A historian that keeps everything in memory.
#[derive(Default)]
pub(crate) struct MemoryHistorian(Mutex<Vec<Message>>);

impl Historian for MemoryHistorian {
    fn record(&self, message: &Message) {
        self.0.lock().unwrap().push(message.clone());
    }
}

impl MemoryHistorian {
    /// Recorded events, one line each: `NAME KEY DATA`, without environment and process.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |message: &Message| {
            let mut data = message.data.clone();
            if let Some(data) = data.as_object_mut() {
                data.remove("env");
                data.remove("pid");
            }
            format!("{} {} {data}", message.name.as_deref().unwrap_or("-"), message.key_text())
        };
        self.0.lock().unwrap().iter().map(line).collect()
    }
}

/// The lines that scripts wrote.
#[derive(Default)]
pub(crate) struct MoldTestLog(pub(crate) Mutex<Vec<String>>);

impl Log for MoldTestLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.0.lock().unwrap().push(format!("{} {type_name}[{name}] {message}", level.word()));
    }
}

impl MoldDir {
    pub(crate) fn new() -> MoldDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let limits = Limits { read: Duration::from_secs(20), change: Duration::from_secs(20), ..Limits::default() };
        MoldDir { directory, heard: Arc::default(), limits }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes an executable.
    pub(crate) fn script(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name, content);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn mold(&self) -> Mold {
        Mold::open(self.path(), Arc::new(self.surroundings())).unwrap()
    }

    pub(crate) fn surroundings(&self) -> ScriptEnvironment {
        let historian = Arc::clone(&self.heard) as Arc<dyn Historian>;
        ScriptEnvironment { limits: self.limits, historian, ..ScriptEnvironment::new() }
    }

    pub(crate) fn provider(&self, kind: &str) -> Arc<MoldProvider> {
        let mold = self.mold();
        Arc::clone(mold.provider(kind).unwrap_or_else(|| panic!("{:?}", mold.notes())))
    }

    /// A text without the path of this place.
    pub(crate) fn plain(&self, text: impl std::fmt::Display) -> String {
        text.to_string().replace(&self.path().canonicalize().unwrap().display().to_string(), "DIR")
    }
}

pub(crate) fn attributes(pairs: &[(&str, Value)]) -> Attributes {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Returns the state of a resource that a script reports.
pub(crate) fn inspect(provider: &MoldProvider, name: &str) -> Result<State, String> {
    let name = EcoString::from(name);
    provider.get_one(&Context::empty(), Wanted::new(&name, None)).map_err(|error| error.to_string())
}

pub(crate) fn conform(provider: &MoldProvider, name: &str, should: &[(&str, Value)]) -> Outcome {
    provider.conform(&Context::empty(), &name.into(), &attributes(should))
}

pub(crate) fn act(provider: &MoldProvider, name: &str, action: &str) -> Outcome {
    provider.act(&Context::empty(), Wanted::new(&name.into(), None), action)
}

/// The attributes of a state: `a=1 b=x`.
pub(crate) fn short(state: &State) -> String {
    state.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
