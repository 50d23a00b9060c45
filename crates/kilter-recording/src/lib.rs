//! Recordings: all external queries of a command, with the answers.
//!
//! A command makes queries through [`RecordMode::record_or_replay`], and runs scripts through
//! [`RecordMode::exchanges`]. A recording writes every query with its answer. In a replay, the answers come from the
//! recording: kilter then reads no state of the machine, starts no program and changes nothing.
//!
//! The recording contains placeholders for secrets ([`SecretMasker`](kilter_script::recorded::SecretMasker)). The
//! secrets are only known when manifests are compiled and words are compared with a type. [`RecordMode::settle`] marks
//! this point; earlier lines are held back until then.

mod answers;
mod exchanges;
mod file;
mod player;
mod provider;
mod recordable;
mod recorder;
mod subject;

use std::sync::Arc;

use kilter_model::Value;
use kilter_provider::{Provider, Registry};
use kilter_script::{ProcessRunner, ScriptRunner};
use serde_json::Value as Json;

pub use file::{Recording, Unreadable, VERSION};
pub use player::Player;
pub use recordable::Recordable;
pub use recorder::{Recorder, RecordingSummary};

use exchanges::{Played, Recorded};
use provider::RecordingProvider;

/// Destination of queries.
#[derive(Clone)]
pub enum RecordMode {
    /// Queries go to the machine.
    Live,
    /// Queries go to the machine, and the recorder writes the answers.
    Recording(Arc<Recorder>),
    /// The answers come from a recording.
    Replaying(Arc<Player>),
}

impl RecordMode {
    /// Returns true during a recording or replay.
    pub fn is_recorded(&self) -> bool {
        !matches!(self, RecordMode::Live)
    }

    /// Returns true during a replay.
    pub fn is_replay(&self) -> bool {
        matches!(self, RecordMode::Replaying(_))
    }

    /// Makes an external query: `what` is its kind, `of` its subject.
    pub fn record_or_replay<T: Recordable>(
        &self,
        what: &'static str,
        of: impl FnOnce() -> Json,
        live: impl FnOnce() -> T,
    ) -> T {
        match self {
            RecordMode::Live => live(),
            RecordMode::Recording(recorder) => {
                let answer = live();
                recorder.asked(what, of(), answer.to_json());
                answer
            }
            RecordMode::Replaying(player) => player.answer(what, &of()),
        }
    }

    /// Registers the sensitive values among these as secrets.
    pub fn register_secrets<'a>(&self, values: impl IntoIterator<Item = &'a Value>) {
        if let RecordMode::Recording(recorder) = self {
            recorder.register_secrets(|masker| values.into_iter().for_each(|value| masker.learn_value(value)));
        }
    }

    /// Registers texts as secrets.
    pub fn learn_texts<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) {
        if let RecordMode::Recording(recorder) = self {
            recorder
                .register_secrets(|masker| texts.into_iter().for_each(|text| masker.register_secrets(text.as_ref())));
        }
    }

    /// Marks the point at which all secrets of the earlier queries are known.
    pub fn settle(&self) {
        if let RecordMode::Recording(recorder) = self {
            recorder.settle();
        }
    }

    /// Returns the runner of scripts.
    pub fn exchanges(&self) -> Arc<dyn ScriptRunner> {
        match self {
            RecordMode::Live => Arc::new(ProcessRunner),
            RecordMode::Recording(recorder) => Arc::new(Recorded(Arc::clone(recorder))),
            RecordMode::Replaying(player) => Arc::new(Played(Arc::clone(player))),
        }
    }

    /// Wraps providers for a recording or replay: native ones become queries, and secrets from scripts are registered.
    pub fn decorate(&self, registry: Registry) -> Registry {
        if !self.is_recorded() {
            return registry;
        }
        if let RecordMode::Recording(recorder) = self {
            recorder.know(&registry);
        }
        let wrap =
            |inner: Arc<dyn Provider>| Arc::new(RecordingProvider { inner, mode: self.clone() }) as Arc<dyn Provider>;
        Registry::new(registry.iter().cloned().map(wrap)).expect("the wrapped providers were registered before")
    }
}
