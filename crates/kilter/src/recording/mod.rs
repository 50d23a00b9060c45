//! Recordings: all external queries of a command, with the answers.
//!
//! A command makes queries through [`ask`], and runs scripts through [`exchanges()`]. A recording writes every
//! query with its answer. In a replay, the answers come from the recording: kilter then reads no state of the
//! machine, starts no program and changes nothing.
//!
//! The recording contains placeholders for secrets ([`Veil`](kilter_script::recorded::Veil)). The secrets are only
//! known when manifests are compiled and words are compared with a type. [`settle`] marks this point; earlier lines
//! are held back until then.

mod exchanges;
mod file;
mod kept;
mod player;
mod recorder;
mod subject;
mod witness;

use std::sync::{Arc, OnceLock};

use kilter_model::Value;
use kilter_provider::{Provider, Registry};
use kilter_script::{Exchanges, Live};
use serde_json::Value as Json;

pub(crate) use file::{Recording, VERSION};
pub(crate) use kept::Kept;
pub(crate) use player::Player;
pub(crate) use recorder::Recorder;

use exchanges::{Played, Recorded};
use witness::Witness;

static TAPE: OnceLock<Tape> = OnceLock::new();

/// Destination of queries.
enum Tape {
    Recording(Arc<Recorder>),
    Replaying(Arc<Player>),
}

/// Records all queries from now on.
pub(crate) fn record(recorder: Arc<Recorder>) {
    // The command runs once.
    let _ = TAPE.set(Tape::Recording(recorder));
}

/// Answers all queries from a recording from now on.
pub(crate) fn replay(player: Arc<Player>) {
    let _ = TAPE.set(Tape::Replaying(player));
}

/// Returns true during a recording or replay.
pub(crate) fn is_recorded() -> bool {
    TAPE.get().is_some()
}

/// Returns true during a replay.
pub(crate) fn is_replay() -> bool {
    matches!(TAPE.get(), Some(Tape::Replaying(_)))
}

/// Makes an external query: `what` is its kind, `of` its subject.
pub(crate) fn ask<T: Kept>(what: &'static str, of: impl FnOnce() -> Json, live: impl FnOnce() -> T) -> T {
    match TAPE.get() {
        None => live(),
        Some(Tape::Recording(recorder)) => {
            let answer = live();
            recorder.asked(what, of(), answer.keep());
            answer
        }
        Some(Tape::Replaying(player)) => player.answer(what, &of()),
    }
}

/// Registers the sensitive values among these as secrets.
pub(crate) fn learn<'a>(values: impl IntoIterator<Item = &'a Value>) {
    if let Some(Tape::Recording(recorder)) = TAPE.get() {
        recorder.learn(|veil| values.into_iter().for_each(|value| veil.learn_value(value)));
    }
}

/// Registers texts as secrets.
pub(crate) fn learn_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) {
    if let Some(Tape::Recording(recorder)) = TAPE.get() {
        recorder.learn(|veil| texts.into_iter().for_each(|text| veil.learn(text.as_ref())));
    }
}

/// Marks the point at which all secrets of the earlier queries are known.
pub(crate) fn settle() {
    if let Some(Tape::Recording(recorder)) = TAPE.get() {
        recorder.settle();
    }
}

/// Returns the runner of scripts.
pub(crate) fn exchanges() -> Arc<dyn Exchanges> {
    match TAPE.get() {
        None => Arc::new(Live),
        Some(Tape::Recording(recorder)) => Arc::new(Recorded(Arc::clone(recorder))),
        Some(Tape::Replaying(player)) => Arc::new(Played(Arc::clone(player))),
    }
}

/// Wraps providers for a recording or replay: native ones become queries, and secrets from scripts are registered.
pub(crate) fn witnessed(registry: Registry) -> Registry {
    match TAPE.get() {
        None => registry,
        Some(tape) => {
            if let Tape::Recording(recorder) = tape {
                recorder.know(&registry);
            }
            Registry::new(registry.iter().cloned().map(|inner| Arc::new(Witness { inner }) as Arc<dyn Provider>))
        }
    }
}
