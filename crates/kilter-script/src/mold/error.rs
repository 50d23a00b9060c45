//! What a script of mold did wrong, in full.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Finished, SpawnError};
use kilter_provider::{ProviderError, Seal};
use serde_json::Value as Json;

use crate::confined::{Lifted, tried};
use crate::convention::size::Room;
use crate::convention::{ProtocolError, text};
use crate::provider::{last_words, status};

/// Says what a script was called for and what came of it.
#[derive(Debug, thiserror::Error)]
#[error("{task} (mold, {}): {cause}{}", path.display(), self.circumstances())]
pub struct MoldError {
    /// What it was called for: ``inspect of file[/tmp/foo] by the provider `mold` ``.
    pub task: EcoString,
    /// The script.
    pub path: PathBuf,
    /// What went wrong.
    pub cause: MoldCause,
    /// How it ended, what it said at last, and what it was kept from.
    pub details: Vec<EcoString>,
}

/// What went wrong with a script.
#[derive(Debug, thiserror::Error)]
pub enum MoldCause {
    /// It could not be started.
    #[error("{}", .0.with_sources())]
    NotStarted(SpawnError),
    /// What it answered is no answer.
    #[error(transparent)]
    Answer(ProtocolError),
    /// Its document is of another form.
    #[error("its document is not as it should be: {0}")]
    Document(EcoString),
    /// It says that it failed.
    #[error("it says: {0}")]
    Told(EcoString),
    /// It watches no longer.
    #[error("it has ended")]
    Ended,
}

impl MoldCause {
    /// The same in other words, where it repeats what a document says.
    pub(super) fn reworded(self, reword: impl Fn(EcoString) -> EcoString) -> MoldCause {
        match self {
            MoldCause::Document(why) => MoldCause::Document(reword(why)),
            MoldCause::Told(why) => MoldCause::Told(reword(why)),
            other => other,
        }
    }
}

impl From<EcoString> for MoldCause {
    /// What is wrong with a document.
    fn from(why: EcoString) -> MoldCause {
        MoldCause::Document(why)
    }
}

impl MoldError {
    fn circumstances(&self) -> EcoString {
        if self.details.is_empty() { EcoString::new() } else { eco_format!(" ({})", self.details.join("; ")) }
    }

    /// What is known of a process that has ended.
    pub(super) fn details_of(
        cause: &MoldCause,
        finished: &Finished,
        seal: Option<&Seal>,
        (lifted, limit): (Lifted, Option<Duration>),
    ) -> Vec<EcoString> {
        let mut details = Vec::new();
        match cause {
            MoldCause::Answer(error) => details.extend(status(finished, error, limit)),
            _ if finished.status.is_success() => {}
            _ => details.push(eco_format!("{}", finished.status)),
        }
        let words = last_words(finished, seal);
        if !words.is_empty() {
            details.push(eco_format!("last on its standard error: {words}"));
        }
        let attempts = &finished.attempts;
        if finished.refusal_hint.is_some() || !attempts.is_empty() {
            let tried = if attempts.is_empty() { String::new() } else { format!("it tried to {}; ", tried(attempts)) };
            let way = if lifted == Lifted::ByMetadata { "; `confine: false` lifts that" } else { "" };
            details.push(eco_format!("{tried}it is confined to reading, which may be why{way}"));
        }
        details
    }
}

impl From<MoldError> for ProviderError {
    fn from(error: MoldError) -> ProviderError {
        ProviderError::new(eco_format!("{error}"))
    }
}

/// Whether a process ended well.
pub(super) fn ended(finished: &Finished) -> Result<(), MoldCause> {
    ProtocolError::of_ending(finished).map_err(MoldCause::Answer)?;
    match finished.status.is_success() {
        true => Ok(()),
        false => Err(MoldCause::Answer(ProtocolError::Status(finished.status))),
    }
}

/// The document that a process printed, which ended well and might print so many bytes.
pub(super) fn document(finished: &Finished, expected: &'static str, most: usize) -> Result<Json, MoldCause> {
    ended(finished)?;
    let text = text(&finished.stdout.bytes).map_err(MoldCause::Answer)?;
    if text.trim().is_empty() {
        return Err(MoldCause::Answer(ProtocolError::Nothing { expected }));
    }
    Room::of(most).holds_tree(text).map_err(MoldCause::Answer)?;
    let not_json = |error: serde_json::Error| ProtocolError::NotJson { why: eco_format!("{error}") };
    serde_json::from_str(text).map_err(|error| MoldCause::Answer(not_json(error)))
}
