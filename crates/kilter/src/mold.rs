//! Directory of mold from the command line, and the log of mold's scripts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ecow::EcoString;
use kilter_model::Hash;
use kilter_provider::{Context, Interrupt, Level};
use kilter_script::Note;
use kilter_script::mold::{Files, Historian, LiveFiles, Mold, NoHistorian, RawLog};

use crate::cli::Global;
use crate::commands::get::Lines;
use crate::exit::Exit;
use crate::{output, providers, recording, signals, world};

static LOG: OnceLock<Arc<RawLog>> = OnceLock::new();
static OPENED: OnceLock<Opened> = OnceLock::new();

struct Opened {
    mold: Mold,
    facts: OnceLock<Hash>,
    /// Receiver of log lines of scripts about no resource.
    lines: Lines,
}

/// Opens the directory and the log of the command line.
///
/// # Errors
/// If the directory or the log cannot be opened; reported.
pub(crate) fn open(global: &Global) -> Result<(), Exit> {
    // The command is parsed once, and no other code opens them. A replay writes nothing.
    if let Some(path) = global.channel3.as_ref().filter(|_| !recording::is_replay()) {
        let _ = LOG.set(Arc::new(log(path)?));
    }
    let Some(directory) = &global.mold else { return Ok(()) };
    let surroundings = providers::surroundings(global.state_dir_if_any());
    let files = Arc::new(Asked(LiveFiles(surroundings.trust.clone())));
    let mold = Mold::open_through(files, directory, Arc::new(surroundings))
        .map_err(|error| output::fail(format!("cannot use the directory of mold {}: {error}", directory.display())))?;
    mold.notes().iter().for_each(|note| tell(note, global.verbose));
    let lines = Lines { from: if global.verbose { Level::Debug } else { Level::Warning } };
    let _ = OPENED.set(Opened { mold, facts: OnceLock::new(), lines });
    Ok(())
}

/// Returns the historian for the actions of scripts.
pub(crate) fn historian() -> Arc<dyn Historian> {
    match LOG.get() {
        Some(log) => Arc::clone(log) as Arc<dyn Historian>,
        None => Arc::new(NoHistorian),
    }
}

/// Files of the directory, through a recording or replay.
struct Asked(LiveFiles);

impl Files for Asked {
    fn directory(&self, path: &Path) -> std::io::Result<PathBuf> {
        let live = || self.0.directory(path).map_err(|error| error.to_string());
        ask("directory", path, live).map_err(std::io::Error::other)
    }

    fn scripts(&self, directory: &Path) -> (Vec<(EcoString, PathBuf)>, Vec<Note>) {
        ask("scripts of mold", directory, || self.0.scripts(directory))
    }

    fn script(&self, path: &Path) -> Result<Option<EcoString>, EcoString> {
        ask("script of mold", path, || self.0.script(path))
    }

    fn metadata(&self, script: &Path) -> Result<Option<(PathBuf, EcoString)>, Note> {
        ask("metadata of mold", script, || self.0.metadata(script))
    }

    fn exists(&self, path: &Path) -> bool {
        ask("exists", path, || self.0.exists(path))
    }
}

fn ask<T: recording::Recordable>(what: &'static str, path: &Path, live: impl FnOnce() -> T) -> T {
    recording::record_or_replay(what, || path.to_string_lossy().into(), live)
}

fn log(path: &Path) -> Result<RawLog, Exit> {
    let shown = path.display();
    RawLog::open(path).map_err(|error| output::fail(format!("cannot open the log of channel 3 {shown}: {error}")))
}

fn tell(note: &Note, verbose: bool) {
    match note.level {
        Level::Warning => output::warning(note),
        _ if verbose => output::line(note),
        _ => {}
    }
}

/// Returns the directory, if given on the command line.
pub(crate) fn given() -> Option<&'static Mold> {
    OPENED.get().map(|opened| &opened.mold)
}

/// Returns the facts of its fact scripts by name. The scripts run once.
pub(crate) fn facts() -> Hash {
    let Some(opened) = OPENED.get() else { return Hash::default() };
    let gather = || {
        let (facts, notes) = opened.mold.facts(&context());
        notes.iter().for_each(|note| tell(note, false));
        facts
    };
    opened.facts.get_or_init(gather).clone()
}

/// Returns the context of its scripts about no resource.
pub(crate) fn context() -> Context<'static> {
    let cx = Context::empty().with_hostname(world::host()).with_interrupt(Interrupt::new(signals::raised(), None));
    match OPENED.get() {
        Some(opened) => cx.with_log(&opened.lines),
        None => cx,
    }
}

/// Reports a failure of the log.
pub(crate) fn close() {
    if let Some(error) = LOG.get().and_then(|log| log.failure()) {
        output::warning(format_args!("the log of channel 3 is not whole: {error}"));
    }
}
