//! Inputs of a compilation: types, facts, included files.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::EcoString;
use indexmap::IndexMap;
use kilter_manifest::{Collect, Loader, Schemas, Source};
use kilter_model::expr::Lookup;
use kilter_model::{TypeSchema, Value};
use kilter_process::trust::TrustedFile;
use kilter_provider::Registry;

use super::InputFiles;
use super::content::{self, content_name};
use super::recorded::RecordedSource;
use crate::collected::Collected;
use crate::facts::Gathered;
use crate::pull::Checkout;
use crate::session::Session;
use crate::world::Collector;
use crate::{trust, world};

/// Maximum size of the content of a file that a value names, in bytes.
const LARGEST_CONTENT: u64 = 64 << 20;

/// Types of a registry.
pub(crate) struct Types<'r>(pub(crate) &'r Registry);

impl Schemas for Types<'_> {
    fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        self.0.schema(type_name)
    }

    fn names(&self) -> Vec<&str> {
        self.0.types().map(|provider| provider.schema().name.as_str()).collect()
    }

    fn schema_of(&self, type_name: &str, provider: &str) -> Option<&TypeSchema> {
        self.0.choose(type_name, Some(provider)).ok().map(|at| self.0.at(at).schema())
    }

    fn variants(&self, type_name: &str) -> Vec<&TypeSchema> {
        let usual = self.schema(type_name);
        let all = self.0.iter().filter(|provider| provider.type_name() == type_name).map(|provider| provider.schema());
        let others = all.filter(|schema| usual.is_none_or(|usual| !std::ptr::eq(*schema, usual)));
        usual.into_iter().chain(others).collect()
    }
}

/// Facts that record each use.
pub(super) trait FactSource {
    fn as_facts(&self) -> &dyn kilter_manifest::Facts;
    fn taken(&self) -> IndexMap<EcoString, Value>;
}

/// Facts of this machine.
pub(super) struct LiveFacts<'a> {
    facts: &'a Gathered,
    taken: RefCell<IndexMap<EcoString, Value>>,
}

impl<'a> LiveFacts<'a> {
    pub(super) fn new(facts: &'a Gathered) -> LiveFacts<'a> {
        LiveFacts { facts, taken: RefCell::default() }
    }
}

impl kilter_manifest::Facts for LiveFacts<'_> {
    fn fact(&self, name: &str) -> Lookup {
        match self.facts.get(name) {
            Some(value) => {
                self.taken.borrow_mut().insert(name.into(), value.clone());
                Lookup::Found(value)
            }
            None => Lookup::Missing,
        }
    }

    fn names(&self) -> Vec<EcoString> {
        self.facts.names()
    }

    fn is_lower_case(&self, path: &str) -> bool {
        kilter_facts::LOWER_CASE.contains(&path)
    }
}

impl FactSource for LiveFacts<'_> {
    fn as_facts(&self) -> &dyn kilter_manifest::Facts {
        self
    }

    fn taken(&self) -> IndexMap<EcoString, Value> {
        self.taken.borrow().clone()
    }
}

/// Facts of a plan.
pub(super) struct KnownFacts<'a>(&'a IndexMap<EcoString, Value>);

impl<'a> KnownFacts<'a> {
    pub(super) fn new(facts: &'a IndexMap<EcoString, Value>) -> KnownFacts<'a> {
        KnownFacts(facts)
    }
}

impl kilter_manifest::Facts for KnownFacts<'_> {
    fn fact(&self, name: &str) -> Lookup {
        self.0.get(name).cloned().map_or(Lookup::Missing, Lookup::Found)
    }

    fn names(&self) -> Vec<EcoString> {
        self.0.keys().cloned().collect()
    }

    fn is_lower_case(&self, path: &str) -> bool {
        kilter_facts::LOWER_CASE.contains(&path)
    }
}

impl FactSource for KnownFacts<'_> {
    fn as_facts(&self) -> &dyn kilter_manifest::Facts {
        self
    }

    fn taken(&self) -> IndexMap<EcoString, Value> {
        self.0.clone()
    }
}

type Included = IndexMap<(EcoString, EcoString), Source>;

/// Included files that record each use.
pub(super) trait Includes {
    fn as_loader(&self) -> &dyn Loader;
    fn taken(&self) -> Included;
}

/// Files, relative to the one that includes them. A file has one name for all paths that lead to it: the first path
/// under which it was read.
pub(super) struct LiveIncludes<'a> {
    session: &'a Session,
    names: RefCell<IndexMap<PathBuf, EcoString>>,
    taken: RefCell<Included>,
    noted: &'a InputFiles,
    collection: Collector,
    /// For another host: the directory that contains all files. A host could choose a path by its facts.
    root: Option<PathBuf>,
}

impl<'a> LiveIncludes<'a> {
    /// Creates the includes of `manifests`, which are recorded before they are read. While the world is
    /// unreachable, it collects the resources stored in the state directory `fallback`.
    pub(super) fn new(
        session: &'a Session,
        manifests: &[PathBuf],
        noted: &'a InputFiles,
        fallback: Option<&Path>,
    ) -> LiveIncludes<'a> {
        let manifests = if session.record.is_replay() { &[] } else { manifests };
        let named = manifests
            .iter()
            .filter_map(|path| Some((std::fs::canonicalize(path).ok()?, path.display().to_string().into())));
        LiveIncludes {
            session,
            names: RefCell::new(named.collect()),
            taken: RefCell::default(),
            noted,
            collection: Collector::new(Arc::clone(&session.world), fallback),
            root: None,
        }
    }

    /// Creates the includes of `manifests` for another host.
    pub(super) fn for_host(session: &'a Session, manifests: &[PathBuf], noted: &'a InputFiles) -> LiveIncludes<'a> {
        let directory = super::directory(manifests).and_then(|directory| std::fs::canonicalize(directory).ok());
        let root = directory.map(|directory| {
            let repository = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
            repository.map(Path::to_owned).unwrap_or(directory)
        });
        LiveIncludes { root: Some(root.unwrap_or_default()), ..LiveIncludes::new(session, manifests, noted, None) }
    }

    /// Returns the receiver of the read files.
    pub(super) fn noted(&self) -> &'a InputFiles {
        self.noted
    }
}

impl Loader for LiveIncludes<'_> {
    fn load(&self, from: &str, path: &str) -> Result<Source, String> {
        let RecordedSource(source) = self.session.record.record_or_replay(
            "include",
            || serde_json::json!([from, path]),
            || self.read(from, path).map(RecordedSource),
        )?;
        self.taken.borrow_mut().insert((from.into(), path.into()), source.clone());
        Ok(source)
    }

    fn load_if_exists(&self, from: &str, path: &str) -> Result<Option<Source>, String> {
        let read =
            || -> Result<Option<RecordedSource>, String> { Ok(self.read_if_exists(from, path)?.map(RecordedSource)) };
        let about = || serde_json::json!([from, path]);
        let found = self.session.record.record_or_replay("optional file", about, read)?;
        Ok(found.map(|RecordedSource(source)| {
            self.taken.borrow_mut().insert((from.into(), path.into()), source.clone());
            source
        }))
    }

    fn content(&self, from: &str, path: &str) -> Result<Value, String> {
        let key = (EcoString::from(from), content_name(path));
        if let Some(known) = self.taken.borrow().get(&key) {
            return content::decoded(known);
        }
        let RecordedSource(source) = self.session.record.record_or_replay(
            "content",
            || serde_json::json!([from, path]),
            || self.read_content(from, path).map(RecordedSource),
        )?;
        let value = content::decoded(&source);
        self.taken.borrow_mut().insert(key, source);
        value
    }

    fn collect(&self, from: &str, wanted: &Collect) -> Result<Source, String> {
        if self.root.is_some() {
            return Err("resources of other machines cannot be collected with --on".to_owned());
        }
        let entry = wanted.to_string();
        let text = self.session.record.record_or_replay(
            "collect",
            || entry.as_str().into(),
            || {
                world::watched(self.session.world.as_ref()).iter().for_each(|path| self.noted.note_tree(path));
                self.collection.take(wanted)
            },
        )?;
        let source = Source::new(entry.as_str(), text);
        self.taken.borrow_mut().insert((from.into(), entry.into()), source.clone());
        Ok(source)
    }
}

impl LiveIncludes<'_> {
    /// Returns the resources that others exported for this machine, if the manifests collect any.
    pub(super) fn into_collected(self) -> Option<Collected> {
        self.collection.into_collected()
    }

    /// Returns the path that a file names.
    pub(super) fn resolve(from: &str, path: &str) -> PathBuf {
        let from_path = from.strip_suffix(super::OUTPUT).unwrap_or(from);
        Path::new(from_path).parent().unwrap_or(Path::new("")).join(path)
    }

    fn read_if_exists(&self, from: &str, path: &str) -> Result<Option<Source>, String> {
        let file = LiveIncludes::resolve(from, path);
        match std::fs::symlink_metadata(&file) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                self.noted.note_awaited(&file);
                Ok(None)
            }
            _ => self.read(from, path).map(Some),
        }
    }

    fn read(&self, from: &str, path: &str) -> Result<Source, String> {
        let (file, opened) = self.open(from, path)?;
        let text = super::text(&file, &opened)?;
        let found = std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        let name = self.names.borrow_mut().entry(found).or_insert_with(|| file.display().to_string().into()).clone();
        Ok(Source::new(name, text))
    }

    fn read_content(&self, from: &str, path: &str) -> Result<Source, String> {
        let (file, opened) = self.open(from, path)?;
        let bytes = super::bounded(&file, &opened, LARGEST_CONTENT)?;
        Ok(content::encoded(file.display().to_string(), bytes))
    }

    /// Opens a file, which is an input of the manifests from now on.
    fn open(&self, from: &str, path: &str) -> Result<(PathBuf, TrustedFile), String> {
        let file = LiveIncludes::resolve(from, path);
        self.noted.note(&file);
        if let Some(root) = &self.root
            && !std::fs::canonicalize(&file).is_ok_and(|file| file.starts_with(root))
        {
            let (file, root) = (file.display(), root.display());
            return Err(format!("{file} is not below {root}: for other hosts, all files are there"));
        }
        if let Some(checkout) = Checkout::of(Path::new(from)).filter(|_| Path::new(path).is_relative())
            && let Ok(found) = std::fs::canonicalize(&file)
        {
            checkout.refuse_outside(&found)?;
        }
        let opened = trust::open_as(&self.session.trust, "", &file)?;
        if !opened.metadata().is_file() {
            return Err(format!("{} is not a file", file.display()));
        }
        Ok((file, opened))
    }
}

impl Includes for LiveIncludes<'_> {
    fn as_loader(&self) -> &dyn Loader {
        self
    }

    fn taken(&self) -> Included {
        self.taken.borrow().clone()
    }
}

/// Included texts of a plan.
pub(super) struct KnownIncludes<'a>(&'a Included);

impl<'a> KnownIncludes<'a> {
    pub(super) fn new(includes: &'a Included) -> KnownIncludes<'a> {
        KnownIncludes(includes)
    }
}

impl Loader for KnownIncludes<'_> {
    fn load(&self, from: &str, path: &str) -> Result<Source, String> {
        let found = self.0.get(&(from.into(), path.into())).cloned();
        found.ok_or_else(|| format!("the plan does not hold {path}, included from {from}"))
    }

    fn load_if_exists(&self, from: &str, path: &str) -> Result<Option<Source>, String> {
        Ok(self.0.get(&(from.into(), path.into())).cloned())
    }

    fn content(&self, from: &str, path: &str) -> Result<Value, String> {
        let found = self.0.get(&(from.into(), content_name(path)));
        content::decoded(found.ok_or_else(|| format!("the plan does not hold the content {path}, named in {from}"))?)
    }

    fn collect(&self, from: &str, wanted: &Collect) -> Result<Source, String> {
        self.load(from, &wanted.to_string())
    }
}

impl Includes for KnownIncludes<'_> {
    fn as_loader(&self) -> &dyn Loader {
        self
    }

    fn taken(&self) -> Included {
        self.0.clone()
    }
}
