//! Directory of mold from the command line, and the log of mold's scripts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ecow::EcoString;
use kilter_model::Hash;
use kilter_provider::{Context, Level, Log};
use kilter_recording::{RecordMode, Recordable};
use kilter_script::mold::{Files, LiveFiles, Mold, RawLog};
use kilter_script::{Note, ScriptEnvironment};

use crate::exit::Exit;
use crate::output;
use crate::render::progress::PrintedLog;

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
    pub(crate) fn open(
        directory: &Path,
        surroundings: ScriptEnvironment,
        record: RecordMode,
        verbose: bool,
    ) -> Result<OpenedMold, Exit> {
        let files = Arc::new(RecordedFiles { live: LiveFiles(surroundings.trust.clone()), record });
        let mold = Mold::open_through(files, directory, Arc::new(surroundings)).map_err(|error| {
            output::fail(format!("cannot use the directory of mold {}: {error}", directory.display()))
        })?;
        mold.notes().iter().for_each(|note| report_note(note, verbose));
        let lines = PrintedLog { from: if verbose { Level::Debug } else { Level::Warning } };
        Ok(OpenedMold { mold, facts: OnceLock::new(), lines })
    }

    /// Returns the directory.
    pub(crate) fn mold(&self) -> &Mold {
        &self.mold
    }

    /// Returns the facts of its fact scripts by name. The scripts run once.
    pub(crate) fn facts(&self, cx: &Context<'_>) -> Hash {
        let gather = || {
            let (facts, notes) = self.mold.facts(cx);
            notes.iter().for_each(|note| report_note(note, false));
            facts
        };
        self.facts.get_or_init(gather).clone()
    }

    /// Returns the log of its scripts about no resource.
    pub(crate) fn log(&self) -> &dyn Log {
        &self.lines
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
    fn record_or_replay<T: Recordable>(&self, what: &'static str, path: &Path, live: impl FnOnce() -> T) -> T {
        self.record.record_or_replay(what, || path.to_string_lossy().into(), live)
    }
}

impl Files for RecordedFiles {
    fn directory(&self, path: &Path) -> std::io::Result<PathBuf> {
        let live = || self.live.directory(path).map_err(|error| error.to_string());
        self.record_or_replay("directory", path, live).map_err(std::io::Error::other)
    }

    fn scripts(&self, directory: &Path) -> (Vec<(EcoString, PathBuf)>, Vec<Note>) {
        self.record_or_replay("scripts of mold", directory, || self.live.scripts(directory))
    }

    fn script(&self, path: &Path) -> Result<Option<EcoString>, EcoString> {
        self.record_or_replay("script of mold", path, || self.live.script(path))
    }

    fn metadata(&self, script: &Path) -> Result<Option<(PathBuf, EcoString)>, Note> {
        self.record_or_replay("metadata of mold", script, || self.live.metadata(script))
    }

    fn exists(&self, path: &Path) -> bool {
        self.record_or_replay("exists", path, || self.live.exists(path))
    }
}

fn report_note(note: &Note, verbose: bool) {
    match note.level {
        Level::Warning => output::warning(note),
        _ if verbose => output::line(note),
        _ => {}
    }
}
