//! Facts for commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::EcoString;
use kilter_facts::{ExecutableObserver, ExternalFacts, FactSource, Facts, ObserveExecutable};
use kilter_model::{Hash, Value};
use kilter_recording::RecordMode;
use serde_json::Value as Json;

use crate::session::Session;
use crate::{output, paths, signals};

/// Facts for a command.
pub(crate) struct Gathered {
    facts: Facts,
    record: RecordMode,
}

impl Gathered {
    /// Returns the value of a top-level fact.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.record.record_or_replay("fact", || name.into(), || self.facts.get(name))
    }

    /// Returns the names of all facts that may have a value.
    pub(crate) fn names(&self) -> Vec<EcoString> {
        self.record.record_or_replay("fact names", || Json::Null, || self.facts.names())
    }

    /// Returns all facts.
    pub(crate) fn all(&self) -> Hash {
        let all = self.record.record_or_replay("facts", || Json::Null, || Value::hash(self.facts.all()));
        all.as_hash().cloned().unwrap_or_default()
    }

    /// Returns the facts without a recording, for queries that concern this machine only.
    pub(crate) fn live(&self) -> &Facts {
        &self.facts
    }
}

/// Returns the facts of this machine, each gathered at its first use.
///
/// They include external facts from `dirs` (without `dirs`, the usual directories), the fact `kilter`, and facts of
/// mold's scripts.
pub(crate) fn gather(session: &Session, dirs: &[PathBuf], manifest_dir: Option<&Path>) -> Gathered {
    if let Some(open) = session.device() {
        let facts = Facts::of_another_machine(open.facts.clone()).with_fact("kilter", kilter(manifest_dir));
        return Gathered { facts, record: session.record.clone() };
    }
    let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    let dirs = if dirs.is_empty() { paths::facts_dirs() } else { dirs.iter().map(absolute).collect() };
    let early = session.early_processes.clone();
    let observe: Arc<ObserveExecutable> =
        Arc::new(move |invocation, result, duration| early.add("fact", invocation, result, duration));
    let external = ExternalFacts::in_directories(dirs)
        .cancelled_by(signals::raised())
        .observed_by(ExecutableObserver(observe))
        .trusting(session.trust.clone());
    let facts = Facts::new(FactSource::live()).with_external(external).with_fact("kilter", kilter(manifest_dir));
    let of_mold = session.mold().map(|mold| mold.facts(&session.mold_context(mold))).unwrap_or_default();
    let facts = of_mold.into_iter().fold(facts, |facts, (name, value)| facts.with_fact(name, value));
    Gathered { facts, record: session.record.clone() }
}

/// Returns the facts that another host has reported.
pub(crate) fn of_host(session: &Session, facts: Hash) -> Gathered {
    Gathered { facts: Facts::of_another_machine(facts), record: session.record.clone() }
}

/// Warns about external facts that cannot be used.
pub(crate) fn warn(facts: &Gathered) {
    let problems = || facts.facts.problems().iter().map(ToString::to_string).collect::<Vec<String>>();
    facts.record.record_or_replay("fact problems", || Json::Null, problems).iter().for_each(output::warning);
}

/// Returns the fact `kilter`: the version, and the directories of the command.
fn kilter(manifest_dir: Option<&Path>) -> Value {
    let working_dir = std::env::current_dir().ok();
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let mut entries = vec![("version", Value::from(env!("CARGO_PKG_VERSION")))];
    entries.extend(working_dir.as_deref().map(|dir| ("working_dir", path(dir))));
    entries.extend(manifest_dir.map(|dir| ("manifest_dir", path(dir))));
    Value::hash(entries)
}
