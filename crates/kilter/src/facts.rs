//! The facts that commands work with.

use std::path::{Path, PathBuf};

use ecow::EcoString;
use kilter_facts::{ExternalFacts, Facts, System};
use kilter_model::{Hash, Value};
use serde_json::Value as Json;

use crate::{mold, paths, recording, say, signals, trust};

/// The facts that a command works with.
pub(crate) struct Gathered(Facts);

impl Gathered {
    /// The value of a top-level fact.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        recording::ask("fact", || name.into(), || self.0.get(name))
    }

    /// The names of all facts that may have a value.
    pub(crate) fn names(&self) -> Vec<EcoString> {
        recording::ask("fact names", || Json::Null, || self.0.names())
    }

    /// All facts.
    pub(crate) fn all(&self) -> Hash {
        let all = recording::ask("facts", || Json::Null, || Value::hash(self.0.all()));
        all.as_hash().cloned().unwrap_or_default()
    }

    /// The facts themselves, for what is asked of them on this machine alone.
    pub(crate) fn live(&self) -> &Facts {
        &self.0
    }
}

/// The facts of this machine, each gathered when it is asked for: external ones from `dirs` (the
/// usual directories when there are none), the fact `kilter`, and those of mold's scripts.
pub(crate) fn gather(dirs: &[PathBuf], manifest_dir: Option<&Path>) -> Gathered {
    let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    let dirs = if dirs.is_empty() { paths::facts_dirs() } else { dirs.iter().map(absolute).collect() };
    let facts = Facts::new(System::live())
        .with_external(
            ExternalFacts::in_directories(dirs).cancelled_by(signals::raised()).trusting(trust::policy().clone()),
        )
        .with_fact("kilter", kilter(manifest_dir));
    Gathered(mold::facts().into_iter().fold(facts, |facts, (name, value)| facts.with_fact(name, value)))
}

/// Warns of external facts that were not used.
pub(crate) fn warn(facts: &Gathered) {
    let problems = || facts.0.problems().iter().map(ToString::to_string).collect::<Vec<String>>();
    recording::ask("fact problems", || Json::Null, problems).iter().for_each(say::warning);
}

/// What the command says of itself: its version, and the directories it works in.
fn kilter(manifest_dir: Option<&Path>) -> Value {
    let working_dir = std::env::current_dir().ok();
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let mut entries = vec![("version", Value::from(env!("CARGO_PKG_VERSION")))];
    entries.extend(working_dir.as_deref().map(|dir| ("working_dir", path(dir))));
    entries.extend(manifest_dir.map(|dir| ("manifest_dir", path(dir))));
    Value::hash(entries)
}
