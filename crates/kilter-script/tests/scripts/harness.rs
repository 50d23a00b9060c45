//! Scripts in a directory of their own, and what they were called with.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{Context, Found, Level, Log, Mode, Provider, Query, Wanted, check_one};
use kilter_script::{Limits, Script, ScriptEnvironment, Scripts};

/// A directory with scripts, which tell what they were called with by way of a socket: they cannot write
/// a file while they read. Its port is in the file `port`.
pub(crate) struct ScriptDir {
    directory: tempfile::TempDir,
    told: TcpListener,
    pub(crate) surroundings: ScriptEnvironment,
}

/// The lines that providers wrote.
#[derive(Default)]
pub(crate) struct ScriptTestLog(Mutex<Vec<String>>);

impl Log for ScriptTestLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.0.lock().unwrap().push(format!("{} {type_name}[{name}] {message}", level.word()));
    }
}

impl ScriptTestLog {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Start of each bash script: it prints its arguments.
pub(crate) const BASH: &str = "#!/bin/bash\ncd \"$(dirname \"$0\")\" || exit 9\n\
                               [ -e port ] && echo \"$*\" >\"/dev/tcp/127.0.0.1/$(<port)\"\neval \"$@\"\n";

impl ScriptDir {
    pub(crate) fn new() -> ScriptDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let limits = Limits { read: Duration::from_secs(20), change: Duration::from_secs(20), ..Limits::default() };
        let told = TcpListener::bind("127.0.0.1:0").unwrap();
        told.set_nonblocking(true).unwrap();
        std::fs::write(directory.path().join("port"), told.local_addr().unwrap().port().to_string()).unwrap();
        ScriptDir { directory, told, surroundings: ScriptEnvironment { limits, ..ScriptEnvironment::new() } }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes an executable `NAME.prov`.
    pub(crate) fn script(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(&format!("{name}.prov"), content);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Writes a bash script with metadata. Its body can read its arguments as variables.
    pub(crate) fn bash(&self, name: &str, metadata: &str, body: &str) -> Arc<dyn Script> {
        self.script(name, &format!("{BASH}{body}"));
        let lines: String = metadata.lines().map(|line| format!("  {line}\n")).collect();
        self.file(&format!("{name}.yaml"), &format!("---\nprovider:\n{lines}"));
        self.only(name)
    }

    pub(crate) fn found(&self) -> Scripts {
        Scripts::find(&[self.path().to_owned()], Some(&self.path().join("cache")), &Arc::new(self.surroundings.clone()))
    }

    /// The provider of a name.
    pub(crate) fn only(&self, name: &str) -> Arc<dyn Script> {
        let found = self.found();
        let one = found.providers.iter().find(|provider| provider.name() == name);
        Arc::clone(one.unwrap_or_else(|| panic!("{name}: {:?}", found.notes)))
    }

    /// The words of all calls so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut calls = String::new();
        // Whoever has been answered has told before: nothing is waited for.
        while let Ok((mut caller, _)) = self.told.accept() {
            caller.set_nonblocking(false).unwrap();
            caller.read_to_string(&mut calls).unwrap();
        }
        calls.lines().map(str::to_owned).collect()
    }

    /// A text without the path of this place.
    pub(crate) fn plain(&self, text: impl std::fmt::Display) -> String {
        text.to_string().replace(&self.path().canonicalize().unwrap().display().to_string(), "DIR")
    }
}

pub(crate) fn attributes(pairs: &[(&str, Value)]) -> Attributes {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

pub(crate) fn all(provider: &dyn Provider, log: &ScriptTestLog) -> Result<Vec<State>, String> {
    provider.get(&Context::empty().with_log(log), Query::All).map_err(|error| error.to_string())
}

/// The states of these names, as `kilter get` reads them.
pub(crate) fn named(provider: &dyn Provider, names: &[&str]) -> Result<Vec<State>, String> {
    let names: Vec<EcoString> = names.iter().map(|name| EcoString::from(*name)).collect();
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, None)).collect();
    provider.get(&Context::empty(), Query::Named(&wanted)).map_err(|error| error.to_string())
}

/// A resource in short: `a(v=1)`, `b-` when it is not there.
pub(crate) fn short(states: &[State]) -> String {
    let one = |state: &State| {
        let values: Vec<String> = state.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let sign = if state.exists { "" } else { "-" };
        format!("{}{sign}({})", state.name, values.join(" "))
    };
    states.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Checks a resource, and changes it if it differs; what differed and what became of it.
pub(crate) fn apply(
    provider: &dyn Provider,
    name: &str,
    should: &[(&str, Value)],
) -> Result<(Found, Option<Outcome>), String> {
    apply_as(provider, name, should, Mode::Apply)
}

pub(crate) fn apply_as(
    provider: &dyn Provider,
    name: &str,
    should: &[(&str, Value)],
    mode: Mode,
) -> Result<(Found, Option<Outcome>), String> {
    let (name, should, cx) = (EcoString::from(name), attributes(should), Context::empty());
    let found = check_one(provider, &cx, Wanted::new(&name, Some(&should))).map_err(|error| error.to_string())?;
    if found.differences.is_empty() {
        return Ok((found, None));
    }
    let differences = &found.differences;
    let change = Change::new(&name, &found.state, Some(&should), differences);
    let outcome = provider.set(&cx, &[change], mode).remove(0);
    Ok((found, Some(outcome)))
}

/// The changes that a provider told: `v: 1 -> 2`.
pub(crate) fn told(outcome: &Outcome) -> String {
    assert_eq!(outcome.failure, None);
    let told = outcome.changed.iter().map(|each| format!("{}: {} -> {}", each.attribute, each.is, each.should));
    told.collect::<Vec<_>>().join(", ")
}
