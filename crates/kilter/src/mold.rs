//! Directory of mold from the command line, and the log of mold's scripts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ecow::EcoString;
use kilter_model::Hash;
use kilter_provider::{Context, Level};
use kilter_recording::{RecordMode, Recordable};
use kilter_script::Note;
use kilter_script::mold::{Files, Historian, LiveFiles, Mold, NoHistorian, RawLog};

use crate::commands::get::PrintedLog;
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers};

/// Opened directory of mold.
pub(crate) struct OpenedMold {
    mold: Mold,
    facts: OnceLock<Hash>,
    /// Receiver of log lines of scripts about no resource.
    lines: PrintedLog,
}

impl OpenedMold {
    /// Opens a directory, and reports notes about it.
    ///
    /// # Errors
    /// If it cannot be opened; reported.
    pub(crate) fn open(session: &Session, directory: &Path) -> Result<OpenedMold, Exit> {
        let surroundings = providers::surroundings(session, session.state_dir_if_any());
        let files =
            Arc::new(RecordedFiles { live: LiveFiles(surroundings.trust.clone()), record: session.record.clone() });
        let mold = Mold::open_through(files, directory, Arc::new(surroundings)).map_err(|error| {
            output::fail(format!("cannot use the directory of mold {}: {error}", directory.display()))
        })?;
        let verbose = session.global.verbose;
        mold.notes().iter().for_each(|note| tell(note, verbose));
        let lines = PrintedLog { from: if verbose { Level::Debug } else { Level::Warning } };
        Ok(OpenedMold { mold, facts: OnceLock::new(), lines })
    }

    /// Returns the directory.
    pub(crate) fn mold(&self) -> &Mold {
        &self.mold
    }

    /// Returns the facts of its fact scripts by name. The scripts run once.
    pub(crate) fn facts(&self, session: &Session) -> Hash {
        let gather = || {
            let (facts, notes) = self.mold.facts(&self.context(session));
            notes.iter().for_each(|note| tell(note, false));
            facts
        };
        self.facts.get_or_init(gather).clone()
    }

    /// Returns the context of its scripts about no resource.
    pub(crate) fn context<'a>(&'a self, session: &'a Session) -> Context<'a> {
        session.context(&self.lines)
    }
}

/// Returns the historian for the actions of scripts.
pub(crate) fn historian(session: &Session) -> Arc<dyn Historian> {
    match &session.channel3 {
        Some(log) => Arc::clone(log) as Arc<dyn Historian>,
        None => Arc::new(NoHistorian),
    }
}

/// Opens the log of channel 3.
///
/// # Errors
/// If it cannot be opened; reported.
pub(crate) fn open_log(path: &Path) -> Result<RawLog, Exit> {
    let shown = path.display();
    RawLog::open(path).map_err(|error| output::fail(format!("cannot open the log of channel 3 {shown}: {error}")))
}

/// Files of the directory, through a recording or replay.
struct RecordedFiles {
    live: LiveFiles,
    record: RecordMode,
}

impl RecordedFiles {
    fn ask<T: Recordable>(&self, what: &'static str, path: &Path, live: impl FnOnce() -> T) -> T {
        self.record.record_or_replay(what, || path.to_string_lossy().into(), live)
    }
}

impl Files for RecordedFiles {
    fn directory(&self, path: &Path) -> std::io::Result<PathBuf> {
        let live = || self.live.directory(path).map_err(|error| error.to_string());
        self.ask("directory", path, live).map_err(std::io::Error::other)
    }

    fn scripts(&self, directory: &Path) -> (Vec<(EcoString, PathBuf)>, Vec<Note>) {
        self.ask("scripts of mold", directory, || self.live.scripts(directory))
    }

    fn script(&self, path: &Path) -> Result<Option<EcoString>, EcoString> {
        self.ask("script of mold", path, || self.live.script(path))
    }

    fn metadata(&self, script: &Path) -> Result<Option<(PathBuf, EcoString)>, Note> {
        self.ask("metadata of mold", script, || self.live.metadata(script))
    }

    fn exists(&self, path: &Path) -> bool {
        self.ask("exists", path, || self.live.exists(path))
    }
}

fn tell(note: &Note, verbose: bool) {
    match note.level {
        Level::Warning => output::warning(note),
        _ if verbose => output::line(note),
        _ => {}
    }
}
