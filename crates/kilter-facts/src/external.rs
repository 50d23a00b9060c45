//! External facts: files and executables in directories.

mod read;
mod run;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kilter_model::{Hash, Value};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_process::{Invocation, Output, SpawnError};

use crate::kernel::Ids;

/// Maximum size of a file or of the output of an executable, in bytes.
const MAX_FACTS_BYTES: usize = 1 << 20;

/// Directories of external facts, and the timeout of executables.
///
/// Each directory is read in the order of file names: `*.json` (an object), `*.txt` (lines of `name=value`) and
/// executables (which print either format). A later file overrides an earlier one, and a later directory
/// overrides an earlier one. Names that start with a dot or end with `~` are ignored. A missing directory
/// counts as empty.
///
/// As root, files and directories that another user can change are not used: see [`FactProblem`].
#[derive(Clone, Debug)]
pub struct ExternalFacts {
    directories: Vec<PathBuf>,
    pub(super) deadline: Duration,
    pub(super) cancelled: Option<&'static AtomicBool>,
    trust: Option<TrustPolicy>,
    pub(super) observer: Option<ExecutableObserver>,
}

/// Receives each executable that has ended: its process, the result and the duration.
#[derive(Clone)]
pub struct ExecutableObserver(pub Arc<ObserveExecutable>);

/// Function that receives an executable that has ended.
pub type ObserveExecutable = dyn Fn(&Invocation, &Result<Output, SpawnError>, Duration) + Send + Sync;

impl std::fmt::Debug for ExecutableObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExecutableObserver")
    }
}

/// An external fact file that was not used, with the reason. This is a warning; the other files are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactProblem {
    /// The file or directory.
    pub file: PathBuf,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for FactProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

/// External facts that were read.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The facts.
    pub(crate) facts: Hash,
    /// The problems.
    pub(crate) problems: Vec<FactProblem>,
    /// The file of each fact.
    origins: Vec<(ecow::EcoString, PathBuf)>,
}

impl Gathered {
    /// Removes facts for which `why_not` returns a reason.
    pub(crate) fn reject(&mut self, why_not: impl Fn(&str) -> Option<&'static str>) {
        for (name, file) in &self.origins {
            if let Some(why) = why_not(name) {
                self.facts.shift_remove(name.as_str());
                self.problems
                    .push(FactProblem { file: file.clone(), why: format!("the fact `{name}` is not used: {why}") });
            }
        }
    }

    fn add(&mut self, file: &Path, told: Result<Hash, String>) {
        match told {
            Ok(facts) => {
                for (name, value) in facts {
                    self.origins.push((name.clone(), file.to_owned()));
                    self.facts.insert(name, value);
                }
            }
            Err(why) => self.problem(file, why),
        }
    }

    fn problem(&mut self, file: &Path, why: impl Into<String>) {
        self.problems.push(FactProblem { file: file.to_owned(), why: why.into() });
    }
}

/// Treatment of a file, by its name and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Json,
    Lines,
    Executable,
    Yaml,
    Unknown,
}

impl FileKind {
    fn of(path: &Path, mode: u32) -> FileKind {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => FileKind::Json,
            Some("txt") => FileKind::Lines,
            Some("yaml" | "yml") => FileKind::Yaml,
            _ if mode & 0o111 != 0 => FileKind::Executable,
            _ => FileKind::Unknown,
        }
    }
}

impl ExternalFacts {
    /// Creates a configuration without external facts.
    pub fn none() -> ExternalFacts {
        ExternalFacts::in_directories(Vec::<PathBuf>::new())
    }

    /// Creates a configuration with these directories and a timeout of ten seconds for executables.
    pub fn in_directories(directories: impl IntoIterator<Item = impl Into<PathBuf>>) -> ExternalFacts {
        let directories = directories.into_iter().map(Into::into).collect();
        ExternalFacts { directories, deadline: Duration::from_secs(10), cancelled: None, trust: None, observer: None }
    }

    /// Returns the configuration with another timeout for executables.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> ExternalFacts {
        ExternalFacts { deadline, ..self }
    }

    /// Returns the configuration with a flag that cancels executables.
    #[must_use]
    pub fn cancelled_by(self, flag: &'static AtomicBool) -> ExternalFacts {
        ExternalFacts { cancelled: Some(flag), ..self }
    }

    /// Returns the configuration with an observer of the executables.
    #[must_use]
    pub fn observed_by(self, observer: ExecutableObserver) -> ExternalFacts {
        ExternalFacts { observer: Some(observer), ..self }
    }

    /// Returns the configuration with another trust policy for files and directories. By default, only root has
    /// a policy.
    #[must_use]
    pub fn trusting(self, policy: TrustPolicy) -> ExternalFacts {
        ExternalFacts { trust: Some(policy), ..self }
    }

    fn policy(&self, ids: Ids) -> TrustPolicy {
        let usual = || if ids.uid == 0 { TrustPolicy::root() } else { TrustPolicy::any() };
        self.trust.clone().unwrap_or_else(usual)
    }

    /// Reads the files. Reports entries that are neither fact files nor executables.
    pub(crate) fn read_files(&self, ids: Ids) -> Gathered {
        let mut gathered = Gathered::default();
        let policy = self.policy(ids);
        for (path, kind) in self.entries(&policy, &mut gathered) {
            match kind {
                FileKind::Json => gathered.add(&path, read::json_file(&path, &policy)),
                FileKind::Lines => gathered.add(&path, read::lines_file(&path, &policy)),
                FileKind::Executable => {}
                FileKind::Yaml => gathered.problem(&path, "YAML is not read here: write the facts as .json or .txt"),
                FileKind::Unknown => gathered.problem(&path, "neither .json nor .txt, and not executable"),
            }
        }
        gathered
    }

    /// Runs the executables.
    pub(crate) fn run_executables(&self, ids: Ids) -> Gathered {
        let mut gathered = Gathered::default();
        let policy = self.policy(ids);
        // Problems of the directories were reported when the files were read.
        for (path, kind) in self.entries(&policy, &mut Gathered::default()) {
            if kind == FileKind::Executable {
                gathered.add(&path, run::executable(&path, &policy, self));
            }
        }
        gathered
    }

    /// Returns the usable files, in order.
    fn entries(&self, policy: &TrustPolicy, gathered: &mut Gathered) -> Vec<(PathBuf, FileKind)> {
        self.directories.iter().flat_map(|directory| entries_of(directory, policy, gathered)).collect()
    }
}

fn entries_of(directory: &Path, policy: &TrustPolicy, gathered: &mut Gathered) -> Vec<(PathBuf, FileKind)> {
    let listed = std::fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = match listed {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            gathered.problem(directory, format!("cannot be read: {error}"));
            return Vec::new();
        }
    };
    if let Err(distrust) = policy.directory(directory) {
        gathered.problem(directory, why_not(&distrust));
        return Vec::new();
    }
    let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).filter(|path| is_meant(path)).collect();
    paths.sort_unstable();
    let mut usable = Vec::new();
    for path in paths {
        match usable_mode(&path, policy) {
            Ok(Some(mode)) => usable.push((path.clone(), FileKind::of(&path, mode))),
            Ok(None) => {}
            Err(why) => gathered.problem(&path, why),
        }
    }
    usable
}

/// Returns the mode of a usable file. None for a directory.
fn usable_mode(path: &Path, policy: &TrustPolicy) -> Result<Option<u32>, String> {
    let file = policy.open(path).map_err(|distrust| why_not(&distrust))?;
    let metadata = file.metadata();
    match () {
        () if metadata.is_dir() => Ok(None),
        () if metadata.is_file() => Ok(Some(metadata.permissions().mode())),
        () => Err("not a regular file".to_owned()),
    }
}

fn why_not(distrust: &Distrust) -> String {
    match distrust {
        Distrust::Io { source, .. } => format!("cannot be read: {source}"),
        Distrust::Changeable { .. } => distrust.to_string(),
    }
}

/// Returns true unless the name is a leftover of an editor or a package manager.
fn is_meant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let leftovers = ["~", ".bak", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".rpmsave", ".rpmnew", ".swp"];
    !name.starts_with('.') && !leftovers.iter().any(|end| name.ends_with(end))
}

/// Checks that all names are valid fact names.
fn checked(facts: Hash) -> Result<Hash, String> {
    match facts.keys().find(|name| !is_name(name)) {
        Some(name) => {
            Err(format!("`{name}` cannot be the name of a fact: a name has letters, digits, `_`, `-` and `.`"))
        }
        None => Ok(facts),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_part)
}

/// Parses facts in a JSON object.
fn from_json_text(text: &str) -> Result<Hash, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match kilter_model::from_json(&json) {
        Value::Hash(facts) => checked((*facts).clone()),
        other => Err(format!("a JSON object of facts is needed, not a value of kind {}", other.kind())),
    }
}

/// Parses facts in lines of `name=value`. Skips empty lines and lines that start with `#`.
fn from_lines(text: &str) -> Result<Hash, String> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let meant = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let facts: Result<Hash, String> = meant
        .map(|(number, line)| {
            let (name, value) = line.split_once('=').ok_or_else(|| {
                let start: String = line.chars().take(40).collect();
                format!("line {number} is not of the form name=value: {start:?}")
            })?;
            Ok((name.trim().into(), Value::from(value.trim())))
        })
        .collect();
    checked(facts?)
}
