//! Recordings: all external queries of a command, with the answers.
//!
//! A command makes queries through [`record_or_replay`], and runs scripts through [`exchanges()`]. A recording writes every
//! query with its answer. In a replay, the answers come from the recording: kilter then reads no state of the
//! machine, starts no program and changes nothing.
//!
//! The recording contains placeholders for secrets ([`SecretMasker`](kilter_script::recorded::SecretMasker)). The secrets are only
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
use kilter_script::{ProcessRunner, ScriptRunner};
use serde_json::Value as Json;

pub(crate) use file::{Recording, VERSION};
pub(crate) use kept::Recordable;
pub(crate) use player::Player;
pub(crate) use recorder::Recorder;

use exchanges::{Played, Recorded};
use witness::RecordingProvider;

static TAPE: OnceLock<RecordMode> = OnceLock::new();

/// Destination of queries.
enum RecordMode {
    Recording(Arc<Recorder>),
    Replaying(Arc<Player>),
}

/// Records all queries from now on.
pub(crate) fn record(recorder: Arc<Recorder>) {
    // The command runs once.
    let _ = TAPE.set(RecordMode::Recording(recorder));
}

/// Answers all queries from a recording from now on.
pub(crate) fn replay(player: Arc<Player>) {
    let _ = TAPE.set(RecordMode::Replaying(player));
}

/// Returns true during a recording or replay.
pub(crate) fn is_recorded() -> bool {
    TAPE.get().is_some()
}

/// Returns true during a replay.
pub(crate) fn is_replay() -> bool {
    matches!(TAPE.get(), Some(RecordMode::Replaying(_)))
}

/// Makes an external query: `what` is its kind, `of` its subject.
pub(crate) fn record_or_replay<T: Recordable>(
    what: &'static str,
    of: impl FnOnce() -> Json,
    live: impl FnOnce() -> T,
) -> T {
    match TAPE.get() {
        None => live(),
        Some(RecordMode::Recording(recorder)) => {
            let answer = live();
            recorder.asked(what, of(), answer.keep());
            answer
        }
        Some(RecordMode::Replaying(player)) => player.answer(what, &of()),
    }
}

/// Registers the sensitive values among these as secrets.
pub(crate) fn register_secrets<'a>(values: impl IntoIterator<Item = &'a Value>) {
    if let Some(RecordMode::Recording(recorder)) = TAPE.get() {
        recorder.learn(|veil| values.into_iter().for_each(|value| veil.learn_value(value)));
    }
}

/// Registers texts as secrets.
pub(crate) fn learn_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) {
    if let Some(RecordMode::Recording(recorder)) = TAPE.get() {
        recorder.learn(|veil| texts.into_iter().for_each(|text| veil.learn(text.as_ref())));
    }
}

/// Marks the point at which all secrets of the earlier queries are known.
pub(crate) fn settle() {
    if let Some(RecordMode::Recording(recorder)) = TAPE.get() {
        recorder.settle();
    }
}

/// Returns the runner of scripts.
pub(crate) fn exchanges() -> Arc<dyn ScriptRunner> {
    match TAPE.get() {
        None => Arc::new(ProcessRunner),
        Some(RecordMode::Recording(recorder)) => Arc::new(Recorded(Arc::clone(recorder))),
        Some(RecordMode::Replaying(player)) => Arc::new(Played(Arc::clone(player))),
    }
}

/// Wraps providers for a recording or replay: native ones become queries, and secrets from scripts are registered.
pub(crate) fn witnessed(registry: Registry) -> Registry {
    match TAPE.get() {
        None => registry,
        Some(tape) => {
            if let RecordMode::Recording(recorder) = tape {
                recorder.know(&registry);
            }
            Registry::new(
                registry.iter().cloned().map(|inner| Arc::new(RecordingProvider { inner }) as Arc<dyn Provider>),
            )
        }
    }
}
