//! Discovery of scripts in directories.

mod cache;
mod candidate;
mod describe;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_provider::Level;

use crate::confined::ConfinementReporter;
use crate::convention::line;
use crate::parallel_map::parallel_map;
use crate::script::{self, Script};
use crate::surroundings::ScriptEnvironment;

use candidate::ExecutableFile;

/// Maximum number of scripts that describe themselves concurrently.
const DESCRIBING: usize = 8;

/// Providers found in directories, and notes about other files.
#[derive(Default)]
pub struct Scripts {
    /// Providers, in the order of directories and file names.
    pub providers: Vec<Arc<dyn Script>>,
    /// Unused files with the reasons, and oddities of used files.
    pub notes: Vec<Note>,
}

/// Scripts found in directories, with unparsed metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Scripts, in the order of directories and file names.
    pub scripts: Vec<FoundScript>,
    /// Files that look like scripts and are unusable.
    pub notes: Vec<Note>,
}

/// A script with its unparsed metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundScript {
    /// The script.
    pub path: PathBuf,
    /// File name without the extension.
    pub stem: EcoString,
    /// File with the metadata: the script itself, or the file next to it.
    pub file: PathBuf,
    /// Metadata as text, or the reason why there is none.
    pub described: Result<EcoString, EcoString>,
    /// Notes about the script.
    pub notes: Vec<Note>,
    /// True if the metadata comes from the cache.
    pub is_cached: bool,
}

impl Found {
    /// Searches directories. See [`Scripts::find`].
    pub fn look(directories: &[PathBuf], cache: Option<&Path>, surroundings: &Arc<ScriptEnvironment>) -> Found {
        let mut notes = Vec::new();
        let mut candidates: Vec<ExecutableFile> = Vec::new();
        for directory in directories {
            candidate::collect(directory, &surroundings.trust, &mut candidates, &mut notes);
        }
        let watch = ConfinementReporter::default();
        let look = |candidate: &ExecutableFile| describe::look(candidate, cache, surroundings, &watch);
        let scripts = parallel_map(&candidates, DESCRIBING, look);
        Found { scripts, notes }
    }
}

/// A note about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file or directory.
    pub file: PathBuf,
    /// Severity. An unused file is a warning.
    pub level: Level,
    /// Text of the note.
    pub message: EcoString,
}

impl Note {
    pub(crate) fn warning(file: &Path, message: impl Into<EcoString>) -> Note {
        Note { file: file.to_owned(), level: Level::Warning, message: message.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // File names and quoted content are untrusted.
        write!(f, "{}: {}", line(&self.file.display().to_string()), line(&self.message))
    }
}

/// Reads a trusted text file with a maximum size in bytes.
pub(crate) fn trusted_text(trust: &TrustPolicy, path: &Path, longest: usize) -> Result<EcoString, EcoString> {
    let bytes = trust.read(path, longest as u64).map_err(|distrust| match distrust {
        Distrust::Io { source, .. } => eco_format!("it cannot be read: {source}"),
        Distrust::Changeable { .. } => eco_format!("{distrust}"),
    })?;
    String::from_utf8(bytes).map(EcoString::from).map_err(|_| "it is not UTF-8".into())
}

impl Scripts {
    /// Returns the providers in `directories`: the files `*.prov` in each directory and in its subdirectory
    /// `providers`. A missing directory counts as empty. If two providers have the same type and name, the
    /// first one wins.
    ///
    /// A script without a metadata file next to it is asked to describe itself once. `cache` stores the answer.
    /// It stays valid while the path, size, times and inode of the script and the directories of the search
    /// path are unchanged.
    pub fn find(directories: &[PathBuf], cache: Option<&Path>, surroundings: &Arc<ScriptEnvironment>) -> Scripts {
        Scripts::of(Found::look(directories, cache, surroundings), surroundings)
    }

    /// Creates the providers of scripts.
    pub fn of(found: Found, surroundings: &Arc<ScriptEnvironment>) -> Scripts {
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

    /// Returns the provider in a file in any directory, with notes. Without a metadata file next to it, the
    /// script describes itself. The cache is not used.
    pub fn at(file: &Path, surroundings: &Arc<ScriptEnvironment>) -> Scripts {
        match candidate::at(file, &surroundings.trust) {
            Err(why) => Scripts { providers: Vec::new(), notes: vec![Note::warning(file, why)] },
            Ok(candidate) => {
                let scripts = vec![describe::look(&candidate, None, surroundings, &ConfinementReporter::default())];
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
