//! Discovery of scripts in directories, with their unparsed metadata.

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
use crate::script_environment::ScriptEnvironment;

use candidate::ExecutableFile;

pub(crate) use describe::{Described, read};

/// Maximum number of scripts that describe themselves concurrently.
const DESCRIBING: usize = 8;

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
    /// Searches directories. See [`Scripts::find`](crate::Scripts::find).
    pub fn search(directories: &[PathBuf], cache: Option<&Path>, surroundings: &Arc<ScriptEnvironment>) -> Found {
        let mut notes = Vec::new();
        let mut candidates: Vec<ExecutableFile> = Vec::new();
        for directory in directories {
            candidate::collect(directory, &surroundings.trust, &mut candidates, &mut notes);
        }
        let watch = ConfinementReporter::default();
        let look = |candidate: &ExecutableFile| describe::read_metadata(candidate, cache, surroundings, &watch);
        let scripts = parallel_map(&candidates, DESCRIBING, look);
        Found { scripts, notes }
    }

    /// Describes the script in a file in any directory, without the cache.
    pub(crate) fn at(file: &Path, surroundings: &Arc<ScriptEnvironment>) -> Found {
        match candidate::at(file, &surroundings.trust) {
            Err(why) => Found { scripts: Vec::new(), notes: vec![Note::warning(file, why)] },
            Ok(candidate) => {
                let watch = ConfinementReporter::default();
                Found {
                    scripts: vec![describe::read_metadata(&candidate, None, surroundings, &watch)],
                    notes: Vec::new(),
                }
            }
        }
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
