//! The scripts in directories.

mod cache;
mod candidate;
mod describe;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_provider::Level;

use crate::confined::Watch;
use crate::convention::line;
use crate::script::{self, Script};
use crate::side_by_side::side_by_side;
use crate::surroundings::Surroundings;

use candidate::Candidate;

/// So many scripts describe themselves at a time.
const DESCRIBING: usize = 8;

/// The providers that were found in directories, and what is to be said of the rest.
#[derive(Default)]
pub struct Scripts {
    /// The providers, in the order of the directories and the names of their files.
    pub providers: Vec<Arc<dyn Script>>,
    /// Files that were not used, and why; oddities of those that were.
    pub notes: Vec<Note>,
}

/// What there is in directories: the scripts, each with what it says of itself, before any of it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The scripts, in the order of the directories and the names of their files.
    pub scripts: Vec<FoundScript>,
    /// Files that are no scripts, though they look like some.
    pub notes: Vec<Note>,
}

/// A script that was found, and what it says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundScript {
    /// The script.
    pub path: PathBuf,
    /// The name of its file without the ending.
    pub stem: EcoString,
    /// The file that says it: the script itself, or the one beside it.
    pub file: PathBuf,
    /// The metadata as text, or why there is none.
    pub described: Result<EcoString, EcoString>,
    /// What is to be said of it.
    pub notes: Vec<Note>,
    /// Whether an earlier process asked the script to describe itself.
    pub is_cached: bool,
}

impl Found {
    /// Looks into directories; see [`Scripts::find`].
    pub fn look(directories: &[PathBuf], cache: Option<&Path>, surroundings: &Arc<Surroundings>) -> Found {
        let mut notes = Vec::new();
        let mut candidates: Vec<Candidate> = Vec::new();
        for directory in directories {
            candidate::collect(directory, &surroundings.trust, &mut candidates, &mut notes);
        }
        let watch = Watch::default();
        let look = |candidate: &Candidate| describe::look(candidate, cache, surroundings, &watch);
        let scripts = side_by_side(&candidates, DESCRIBING, look);
        Found { scripts, notes }
    }
}

/// Something to be said of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file, or the directory.
    pub file: PathBuf,
    /// How much it matters: what is not used is a warning.
    pub level: Level,
    /// What there is to say.
    pub message: EcoString,
}

impl Note {
    pub(crate) fn warning(file: &Path, message: impl Into<EcoString>) -> Note {
        Note { file: file.to_owned(), level: Level::Warning, message: message.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names are chosen by whoever makes the file, and messages quote what is in it.
        write!(f, "{}: {}", line(&self.file.display().to_string()), line(&self.message))
    }
}

/// The text of a file that may be used, of at most so many bytes.
pub(crate) fn trusted_text(trust: &TrustPolicy, path: &Path, longest: usize) -> Result<EcoString, EcoString> {
    let bytes = trust.read(path, longest as u64).map_err(|distrust| match distrust {
        Distrust::Io { source, .. } => eco_format!("it cannot be read: {source}"),
        Distrust::Changeable { .. } => eco_format!("{distrust}"),
    })?;
    String::from_utf8(bytes).map(EcoString::from).map_err(|_| "it is not UTF-8".into())
}

impl Scripts {
    /// The providers in `directories`: files `*.prov` in each, or in its `providers`. A directory that does
    /// not exist is empty; of two providers with one type and name the one that is found first is used.
    ///
    /// A script whose metadata is not in a file beside it is asked for it, once: what it says is kept in
    /// `cache`, and holds as long as the script's path, size, times and inode, and the directories of the
    /// search path, are the same.
    pub fn find(directories: &[PathBuf], cache: Option<&Path>, surroundings: &Arc<Surroundings>) -> Scripts {
        Scripts::of(Found::look(directories, cache, surroundings), surroundings)
    }

    /// The providers that scripts amount to.
    pub fn of(found: Found, surroundings: &Arc<Surroundings>) -> Scripts {
        let mut scripts = Scripts { providers: Vec::new(), notes: found.notes };
        for found in &found.scripts {
            let (metadata, notes) = describe::read(found);
            scripts.notes.extend(notes);
            if let Some(metadata) = metadata {
                scripts.add(script::script(&found.path, metadata, surroundings));
            }
        }
        scripts
    }

    /// The provider that a file is, whatever directory it is in, and what is to be said of it. It is asked to describe itself
    /// if nothing lies beside it, and nothing is kept.
    pub fn at(file: &Path, surroundings: &Arc<Surroundings>) -> Scripts {
        match candidate::at(file, &surroundings.trust) {
            Err(why) => Scripts { providers: Vec::new(), notes: vec![Note::warning(file, why)] },
            Ok(candidate) => {
                let scripts = vec![describe::look(&candidate, None, surroundings, &Watch::default())];
                Scripts::of(Found { scripts, notes: Vec::new() }, surroundings)
            }
        }
    }

    fn add(&mut self, provider: Arc<dyn Script>) {
        let is_same =
            |known: &&Arc<dyn Script>| known.schema().name == provider.schema().name && known.name() == provider.name();
        match self.providers.iter().find(is_same) {
            None => self.providers.push(provider),
            Some(known) => {
                let message = eco_format!(
                    "not used: {} is the provider `{}` of {} already",
                    known.path().display(),
                    provider.name(),
                    provider.schema().name
                );
                self.notes.push(Note::warning(provider.path(), message));
            }
        }
    }
}
