//! Facts that files and executables in directories tell.

mod read;
mod run;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kilter_model::{Hash, Value};
use kilter_process::trust::{Distrust, TrustPolicy};

use crate::kernel::Ids;

/// The most that one file or the output of one executable may hold.
const LONGEST: usize = 1 << 20;

/// Where external facts are, and how long an executable may take.
///
/// In each directory, in the order of their names: `*.json` (an object), `*.txt` (lines of
/// `name=value`) and executables (which print either). What a later one says of a name replaces
/// what an earlier one said, and a later directory goes before an earlier one. Names that begin
/// with a dot or end with `~` are left alone. A directory that does not exist is empty.
///
/// When the process has root's rights, a file or a directory that somebody else can change is not
/// used: see [`FactProblem`].
#[derive(Clone, Debug)]
pub struct ExternalFacts {
    directories: Vec<PathBuf>,
    deadline: Duration,
    cancelled: Option<&'static AtomicBool>,
    trust: Option<TrustPolicy>,
}

/// An external fact file that was not used, and why. It is a warning: all others are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactProblem {
    /// The file or the directory.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl std::fmt::Display for FactProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

/// What was gathered of external facts.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The facts.
    pub(crate) facts: Hash,
    /// What went wrong.
    pub(crate) problems: Vec<FactProblem>,
    /// Which file told which fact.
    origins: Vec<(ecow::EcoString, PathBuf)>,
}

impl Gathered {
    /// Drops the facts for whose names there is a reason against them.
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

/// What to do with a file, by its name and its mode.
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
    /// No external facts.
    pub fn none() -> ExternalFacts {
        ExternalFacts::in_directories(Vec::<PathBuf>::new())
    }

    /// The facts in these directories; an executable may take ten seconds.
    pub fn in_directories(directories: impl IntoIterator<Item = impl Into<PathBuf>>) -> ExternalFacts {
        let directories = directories.into_iter().map(Into::into).collect();
        ExternalFacts { directories, deadline: Duration::from_secs(10), cancelled: None, trust: None }
    }

    /// The same with another time that an executable may take.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> ExternalFacts {
        ExternalFacts { deadline, ..self }
    }

    /// The same, with executables ended when `flag` is set.
    #[must_use]
    pub fn cancelled_by(self, flag: &'static AtomicBool) -> ExternalFacts {
        ExternalFacts { cancelled: Some(flag), ..self }
    }

    /// The same, with files and directories that this policy accepts. By default only root has one.
    #[must_use]
    pub fn trusting(self, policy: TrustPolicy) -> ExternalFacts {
        ExternalFacts { trust: Some(policy), ..self }
    }

    fn policy(&self, ids: Ids) -> TrustPolicy {
        let usual = || if ids.uid == 0 { TrustPolicy::root() } else { TrustPolicy::any() };
        self.trust.clone().unwrap_or_else(usual)
    }

    /// Reads the files, and tells of all that is neither file nor executable.
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
        // What is wrong with a directory has been told when its files were read.
        for (path, kind) in self.entries(&policy, &mut Gathered::default()) {
            if kind == FileKind::Executable {
                gathered.add(&path, run::executable(&path, &policy, self.deadline, self.cancelled));
            }
        }
        gathered
    }

    /// The files that may be used, in order.
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
    paths.sort();
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

/// The mode of a file that may be used; none of a directory.
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

/// Whether a name is not that of an editor's or a package manager's leftover.
fn is_meant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let leftovers = ["~", ".bak", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".rpmsave", ".rpmnew", ".swp"];
    !name.starts_with('.') && !leftovers.iter().any(|end| name.ends_with(end))
}

/// A hash whose names can be used as facts.
fn checked(facts: Hash) -> Result<Hash, String> {
    match facts.keys().find(|name| !is_name(name)) {
        Some(name) => Err(format!("`{name}` cannot be the name of a fact: it takes letters, digits, `_`, `-` and `.`")),
        None => Ok(facts),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_part)
}

/// Facts written as a JSON object.
fn from_json_text(text: &str) -> Result<Hash, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match kilter_model::from_json(&json) {
        Value::Hash(facts) => checked((*facts).clone()),
        other => Err(format!("a JSON object of facts is needed, not a value of kind {}", other.kind())),
    }
}

/// Facts written as lines of `name=value`; empty lines and lines that begin with `#` are left out.
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
