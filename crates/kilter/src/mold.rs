//! The directory of mold that was given, and the log of what scripts of mold do.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use kilter_model::Hash;
use kilter_provider::Level;
use kilter_script::Note;
use kilter_script::mold::{Historian, Mold, NoHistorian, RawLog};

use crate::cli::Global;
use crate::exit::Exit;
use crate::{providers, recording, say};

static LOG: OnceLock<Arc<RawLog>> = OnceLock::new();
static OPENED: OnceLock<Opened> = OnceLock::new();

struct Opened {
    mold: Mold,
    facts: OnceLock<Hash>,
}

/// Opens the directory and the log, if they were given.
///
/// # Errors
/// When one cannot be opened; it has been said.
pub(crate) fn open(global: &Global) -> Result<(), Exit> {
    // The command is parsed once, and nothing else opens them.
    if let Some(path) = &global.channel3 {
        let _ = LOG.set(Arc::new(log(path)?));
    }
    let Some(directory) = &global.mold else { return Ok(()) };
    if recording::is_replay() {
        return Err(say::fail("commands with --mold are recorded, but cannot be replayed yet"));
    }
    let mold = Mold::open(directory, Arc::new(providers::surroundings()))
        .map_err(|error| say::fail(format!("cannot use the directory of mold {}: {error}", directory.display())))?;
    mold.notes().iter().for_each(|note| tell(note, global.verbose));
    let _ = OPENED.set(Opened { mold, facts: OnceLock::new() });
    Ok(())
}

/// Who is told what scripts do.
pub(crate) fn historian() -> Arc<dyn Historian> {
    match LOG.get() {
        Some(log) => Arc::clone(log) as Arc<dyn Historian>,
        None => Arc::new(NoHistorian),
    }
}

fn log(path: &Path) -> Result<RawLog, Exit> {
    let shown = path.display();
    RawLog::open(path).map_err(|error| say::fail(format!("cannot open the log of channel 3 {shown}: {error}")))
}

fn tell(note: &Note, verbose: bool) {
    match note.level {
        Level::Warning => say::warning(note),
        _ if verbose => say::line(note),
        _ => {}
    }
}

/// The directory, if one was given.
pub(crate) fn given() -> Option<&'static Mold> {
    OPENED.get().map(|opened| &opened.mold)
}

/// What its fact scripts tell, each under its name. They run once.
pub(crate) fn facts() -> Hash {
    let Some(opened) = OPENED.get() else { return Hash::default() };
    let gather = || {
        let (facts, notes) = opened.mold.facts();
        notes.iter().for_each(|note| tell(note, false));
        facts
    };
    opened.facts.get_or_init(gather).clone()
}

/// Says what went wrong with the log.
pub(crate) fn close() {
    if let Some(error) = LOG.get().and_then(|log| log.failure()) {
        say::warning(format_args!("the log of channel 3 is not whole: {error}"));
    }
}
