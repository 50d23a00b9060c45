//! Recordings: all that a command asks of the outside, with the answers.
//!
//! A command asks through [`ask`], and scripts are run through [`exchanges()`]. Usually that is all. In a recording every
//! question is written down with its answer, and in a replay the answers come from there: nothing is read of the
//! machine then, nothing is started and nothing changed.
//!
//! What is written has other texts in the place of secrets ([`Veil`](kilter_script::recorded::Veil)). Which texts those
//! are is only known when manifests are compiled and words are held against a type: [`settle`] says so, and
//! what was asked before is held back until then.

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

/// What becomes of questions.
enum Tape {
    Recording(Arc<Recorder>),
    Replaying(Arc<Player>),
}

/// Has everything recorded from now on.
pub(crate) fn record(recorder: Arc<Recorder>) {
    // The command is carried out once.
    let _ = TAPE.set(Tape::Recording(recorder));
}

/// Has everything answered from a recording from now on.
pub(crate) fn replay(player: Arc<Player>) {
    let _ = TAPE.set(Tape::Replaying(player));
}

/// Whether a recording is made, or answers come from one.
pub(crate) fn is_recorded() -> bool {
    TAPE.get().is_some()
}

/// Whether answers come from a recording.
pub(crate) fn is_replay() -> bool {
    matches!(TAPE.get(), Some(Tape::Replaying(_)))
}

/// Asks the outside: `what` is the kind of the question, `of` what it is about.
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

/// Tells which values are secrets, as far as they are sensitive.
pub(crate) fn learn<'a>(values: impl IntoIterator<Item = &'a Value>) {
    if let Some(Tape::Recording(recorder)) = TAPE.get() {
        recorder.learn(|veil| values.into_iter().for_each(|value| veil.learn_value(value)));
    }
}

/// Tells which texts are secrets.
pub(crate) fn learn_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) {
    if let Some(Tape::Recording(recorder)) = TAPE.get() {
        recorder.learn(|veil| texts.into_iter().for_each(|text| veil.learn(text.as_ref())));
    }
}

/// Says that all secrets are known that what was asked so far may hold.
pub(crate) fn settle() {
    if let Some(Tape::Recording(recorder)) = TAPE.get() {
        recorder.settle();
    }
}

/// What runs scripts.
pub(crate) fn exchanges() -> Arc<dyn Exchanges> {
    match TAPE.get() {
        None => Arc::new(Live),
        Some(Tape::Recording(recorder)) => Arc::new(Recorded(Arc::clone(recorder))),
        Some(Tape::Replaying(player)) => Arc::new(Played(Arc::clone(player))),
    }
}

/// The providers as a recording or a replay needs them: what kilter's own do is asked for, and what
/// scripts tell of secrets is noted.
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
