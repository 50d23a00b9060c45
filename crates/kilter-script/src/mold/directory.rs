//! A mold directory: `facts`, `resources` and `actors`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, TypeSchema, Value, from_json};
use kilter_process::Confinement;
use kilter_provider::{Context, Provider, Redactor};

use super::error::{MoldCause, MoldError, document};
use super::files::{Files, LiveFiles};
use super::kind::{self, ScriptMetadata};
use super::resource::MoldProvider;
use super::runner::{ActorCall, Runner};
use crate::discovery::Note;
use crate::metadata::Metadata;
use crate::parallel_map::parallel_map;
use crate::script_environment::ScriptEnvironment;

/// Maximum number of fact scripts that run concurrently.
const GATHERING: usize = 8;

/// A mold directory with its scripts.
pub struct Mold {
    directory: PathBuf,
    files: Arc<dyn Files>,
    runner: Arc<Runner>,
    providers: Vec<Arc<MoldProvider>>,
    notes: Vec<Note>,
}

impl Mold {
    /// Opens a directory and finds its scripts. The historian of the surroundings receives all messages.
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn open(directory: &Path, surroundings: Arc<ScriptEnvironment>) -> std::io::Result<Mold> {
        let files = Arc::new(LiveFiles(surroundings.trust.clone()));
        Mold::open_through(files, directory, surroundings)
    }

    /// Opens a directory through another implementation of [`Files`].
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn open_through(
        files: Arc<dyn Files>,
        directory: &Path,
        surroundings: Arc<ScriptEnvironment>,
    ) -> std::io::Result<Mold> {
        let directory = files.directory(directory)?;
        let runner = Arc::new(Runner::new(surroundings));
        let mut mold = Mold { directory, files, runner, providers: Vec::new(), notes: Vec::new() };
        mold.find();
        Ok(mold)
    }

    fn find(&mut self) {
        let (scripts, notes) = self.files.scripts(&self.directory.join("resources"));
        self.notes.extend(notes);
        for (name, path) in scripts {
            match self.kind(&name, &path) {
                Ok(kind) => self.providers.push(Arc::new(MoldProvider::new(Arc::clone(&self.runner), path, kind))),
                Err(note) => self.notes.push(note),
            }
        }
    }

    fn kind(&self, name: &EcoString, path: &Path) -> Result<Metadata, Note> {
        match self.files.metadata(path)? {
            None => kind::without_metadata(name).map_err(|why| Note::warning(path, eco_format!("not used: {why}"))),
            Some((file, text)) => kind::read(name, &text).map_err(|faults| wrong(&file, &faults)),
        }
    }

    /// Returns the providers of the resource scripts, sorted by name.
    pub fn providers(&self) -> &[Arc<MoldProvider>] {
        &self.providers
    }

    /// Returns the provider of a kind.
    pub fn provider(&self, kind: &str) -> Option<&Arc<MoldProvider>> {
        self.providers.iter().find(|provider| provider.schema().name == *kind)
    }

    /// Returns the unused files, with the reasons.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Runs all fact scripts. Returns their output under the names of their files, and notes. A failing script
    /// causes a note and does not affect the others. The log receives their stderr.
    pub fn facts(&self, cx: &Context<'_>) -> (Hash, Vec<Note>) {
        let (scripts, mut notes) = self.files.scripts(&self.directory.join("facts"));
        let gathered = parallel_map(&scripts, GATHERING, |(name, path)| self.fact(cx, name, path));
        let mut facts = Hash::default();
        for ((name, path), fact) in scripts.into_iter().zip(gathered) {
            match fact {
                Ok(fact) => drop(facts.insert(name, fact)),
                Err(Ok(note)) => notes.push(note),
                Err(Err(error)) => notes.push(Note::warning(&path, eco_format!("its facts are missing: {error}"))),
            }
        }
        (facts, notes)
    }

    fn fact(&self, cx: &Context<'_>, name: &str, path: &Path) -> Result<Value, Result<Note, MoldError>> {
        let manner = self.manner(path).map_err(Ok)?;
        let call = ActorCall {
            path,
            role: eco_format!("facts/{name}"),
            keeps: eco_format!("facts/{name}"),
            task: eco_format!("the fact script `{name}`"),
            about: ("facts", name),
            action: None,
            input: None,
            confinement: if manner.is_confined { Confinement::ReadOnly } else { Confinement::None },
            output: self.runner.output(manner.output),
            is_read: true,
            known: Redactor::default(),
            schemas: Vec::new(),
            deadline: manner.timeout.unwrap_or(self.runner.surroundings.limits.read),
        };
        let finished = self.runner.run(cx, &call).map_err(Err)?;
        let document = document(&finished, "a fact document", call.output)
            .map_err(|cause| Err(call.error(cause, Some(&finished))))?;
        match document.is_object() {
            true => Ok(from_json(&document)),
            false => {
                let why = MoldCause::Document("facts are an object".into());
                Err(Err(call.error(why, Some(&finished))))
            }
        }
    }

    /// Returns the settings of a script that does not handle resources.
    pub(super) fn manner(&self, path: &Path) -> Result<ScriptMetadata, Note> {
        match self.files.metadata(path)? {
            None => Ok(ScriptMetadata::default()),
            Some((file, text)) => ScriptMetadata::read(&text).map_err(|faults| wrong(&file, &faults)),
        }
    }

    /// Returns the types that its actors may refer to.
    pub(super) fn schemas(&self) -> Vec<&TypeSchema> {
        self.providers.iter().map(|provider| provider.schema()).collect()
    }

    /// Returns the access to its files.
    pub(super) fn files(&self) -> &dyn Files {
        &*self.files
    }

    pub(super) fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Returns the absolute path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

fn wrong(file: &Path, faults: &[EcoString]) -> Note {
    Note::warning(file, eco_format!("its script is not used: the metadata is wrong: {}", faults.join("; ")))
}
