//! Providers of scripts: creates them by their conventions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::eco_format;
use kilter_process::Capture;
use kilter_provider::TransportType;

use crate::convention::ConventionName;
use crate::coprocess::ScriptTransport;
use crate::discovery::{self, Described, Found, Note};
use crate::json::Json;
use crate::metadata::{Metadata, TransportMetadata};
use crate::mold::MoldProvider;
use crate::provider::ScriptProvider;
use crate::script::Script;
use crate::script_environment::ScriptEnvironment;
use crate::simple::Simple;

/// Creates the provider of the script at `path` with `metadata`.
pub fn script(path: &Path, metadata: Metadata, surroundings: &Arc<ScriptEnvironment>) -> Arc<dyn Script> {
    let mut base = surroundings.invocation(path);
    base.stdout = Capture::AtMost(metadata.output.unwrap_or(surroundings.limits.output));
    let surroundings = Arc::clone(surroundings);
    match metadata.convention {
        ConventionName::Simple => {
            Arc::new(ScriptProvider::new(path, metadata, Box::new(Simple::new(base)), surroundings))
        }
        ConventionName::Json => Arc::new(ScriptProvider::new(path, metadata, Box::new(Json::new(base)), surroundings)),
        ConventionName::Mold => Arc::new(MoldProvider::of_file(path, metadata, surroundings)),
    }
}

/// Providers found in directories, and notes about other files.
#[derive(Default)]
pub struct Scripts {
    /// Providers, in the order of directories and file names.
    pub providers: Vec<Arc<dyn Script>>,
    /// Transports, in the same order.
    pub transports: Vec<Arc<ScriptTransport>>,
    /// Unused files with the reasons, and oddities of used files.
    pub notes: Vec<Note>,
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
        Scripts::of(Found::search(directories, cache, surroundings), surroundings)
    }

    /// Creates the providers of scripts.
    pub fn of(found: Found, surroundings: &Arc<ScriptEnvironment>) -> Scripts {
        let mut scripts = Scripts { notes: found.notes, ..Scripts::default() };
        for found in &found.scripts {
            let (described, notes) = discovery::read(found);
            scripts.notes.extend(notes);
            match described {
                Some(Described::Provider(metadata)) => scripts.add(script(&found.path, *metadata, surroundings)),
                Some(Described::Transport(metadata)) => scripts.add_transport(&found.path, *metadata, surroundings),
                None => {}
            }
        }
        scripts
    }

    /// Adds a transport with its providers.
    fn add_transport(&mut self, path: &Path, mut metadata: TransportMetadata, surroundings: &Arc<ScriptEnvironment>) {
        let name = &metadata.schema.name;
        if let Some(known) = self.transports.iter().find(|known| known.schema().name == *name) {
            let message = eco_format!("not used: {} is the transport `{name}` already", known.path().display());
            return self.notes.push(Note::warning(path, message));
        }
        for provider in std::mem::take(&mut metadata.providers) {
            self.add(script(path, provider, surroundings));
        }
        self.transports.push(Arc::new(ScriptTransport::new(path, metadata, Arc::clone(surroundings))));
    }

    /// Returns the provider in a file in any directory, with notes. Without a metadata file next to it, the
    /// script describes itself. The cache is not used.
    pub fn at(file: &Path, surroundings: &Arc<ScriptEnvironment>) -> Scripts {
        Scripts::of(Found::at(file, surroundings), surroundings)
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
