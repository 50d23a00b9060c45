//! Files that values name: templates. Each is read once, at its first use.

use std::cell::RefCell;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::SourceId;
use rustc_hash::FxHashMap;

use super::Environment;
use crate::source::{Source, Sources};

/// Maximum number of files.
const MAX_FILES: usize = 10_000;

/// Files that values name.
pub(crate) struct Files<'t> {
    /// Manifests and their includes.
    sources: &'t Sources,
    read: RefCell<Vec<Source>>,
    /// Results by the name of the file that names another one, and by the written path.
    known: RefCell<FxHashMap<(EcoString, EcoString), FoundSource>>,
}

/// Id of a file; none if it does not exist.
type FoundSource = Result<Option<SourceId>, EcoString>;

/// A file.
pub(crate) struct File {
    pub(crate) id: SourceId,
    pub(crate) name: EcoString,
    pub(crate) text: Arc<String>,
}

impl<'t> Files<'t> {
    pub(super) fn new(sources: &'t Sources) -> Files<'t> {
        Files { sources, read: RefCell::default(), known: RefCell::default() }
    }

    /// Returns the files in the order of their ids, which follow those of the manifests.
    pub(super) fn into_read(self) -> Vec<Source> {
        self.read.into_inner()
    }

    fn get(&self, id: SourceId) -> File {
        let read = self.read.borrow();
        let source = match usize::from(id.0).checked_sub(self.sources.len()) {
            Some(at) => &read[at],
            None => self.sources.get(id),
        };
        File { id, name: source.name.clone(), text: Arc::clone(&source.text) }
    }

    fn add(&self, source: Source) -> Result<SourceId, EcoString> {
        let mut read = self.read.borrow_mut();
        // A file may have several paths.
        let same = read.iter().position(|known| known.name == source.name);
        let at = same.unwrap_or(read.len());
        if at >= MAX_FILES {
            return Err(eco_format!("more than {MAX_FILES} templates"));
        }
        let id = u16::try_from(self.sources.len() + at).map_err(|_| EcoString::from("too many files"))?;
        if same.is_none() {
            read.push(source);
        }
        Ok(SourceId(id))
    }
}

impl Environment<'_> {
    /// Returns the name of a manifest or of another file.
    pub(crate) fn file_name(&self, id: SourceId) -> EcoString {
        self.files.get(id).name
    }

    /// Returns the file at `path`, which the file named `from` names; none if there is none and it `may_be_missing`.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn file(&self, from: &str, path: &str, may_be_missing: bool) -> Result<Option<File>, EcoString> {
        let key = (EcoString::from(from), EcoString::from(path));
        if let Some(known) = self.files.known.borrow().get(&key) {
            let found = known.clone()?.map(|id| self.files.get(id));
            if found.is_some() || may_be_missing {
                return Ok(found);
            }
        }
        let loader = self.inputs.loader;
        let found = match may_be_missing {
            true => loader.load_if_exists(from, path),
            false => loader.load(from, path).map(Some),
        };
        let found = found.map_err(EcoString::from).and_then(|source| source.map(|one| self.files.add(one)).transpose());
        self.files.known.borrow_mut().insert(key, found.clone());
        Ok(found?.map(|id| self.files.get(id)))
    }
}
