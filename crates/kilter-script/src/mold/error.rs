//! Errors of mold scripts, with their context.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Output, SpawnError};
use kilter_provider::{ProviderError, Redactor};
use serde_json::Value as Json;

use crate::confined::{ConfinementPolicy, tried};
use crate::convention::size::MemoryBudget;
use crate::convention::{ProtocolError, text};
use crate::provider::{last_words, status};

/// Error of a call of a mold script.
#[derive(Debug, thiserror::Error)]
#[error("{task} (mold, {}): {cause}{}", path.display(), self.circumstances())]
pub struct MoldError {
    /// Description of the call: ``inspect of file[/tmp/foo] by the provider `mold` ``.
    pub task: EcoString,
    /// The script.
    pub path: PathBuf,
    /// Cause of the error.
    pub cause: MoldCause,
    /// Exit status, last lines of stderr, and refused attempts.
    pub details: Vec<EcoString>,
}

/// Cause of an error.
#[derive(Debug, thiserror::Error)]
pub enum MoldCause {
    /// The script could not be started.
    #[error("{}", .0.with_sources())]
    NotStarted(SpawnError),
    /// The answer is invalid.
    #[error(transparent)]
    Answer(ProtocolError),
    /// The document has the wrong structure.
    #[error("its document is not as it should be: {0}")]
    Document(EcoString),
    /// The script reports a failure.
    #[error("it says: {0}")]
    Reported(EcoString),
    /// The watch has ended.
    #[error("it has ended")]
    Ended,
}

impl MoldCause {
    /// Applies `reword` to a cause that quotes a document.
    pub(super) fn reworded(self, reword: impl Fn(EcoString) -> EcoString) -> MoldCause {
        match self {
            MoldCause::Document(why) => MoldCause::Document(reword(why)),
            MoldCause::Reported(why) => MoldCause::Reported(reword(why)),
            other => other,
        }
    }
}

impl From<EcoString> for MoldCause {
    /// Creates the cause for an invalid document.
    fn from(why: EcoString) -> MoldCause {
        MoldCause::Document(why)
    }
}

impl MoldError {
    fn circumstances(&self) -> EcoString {
        if self.details.is_empty() { EcoString::new() } else { eco_format!(" ({})", self.details.join("; ")) }
    }

    /// Collects the details of a finished process.
    pub(super) fn details_of(
        cause: &MoldCause,
        finished: &Output,
        seal: Option<&Redactor>,
        (lifted, limit): (ConfinementPolicy, Option<Duration>),
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
            let way = if lifted == ConfinementPolicy::ByMetadata { "; `confine: false` lifts that" } else { "" };
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

/// Returns an error if a process failed.
pub(super) fn ended(finished: &Output) -> Result<(), MoldCause> {
    ProtocolError::of_ending(finished).map_err(MoldCause::Answer)?;
    match finished.status.is_success() {
        true => Ok(()),
        false => Err(MoldCause::Answer(ProtocolError::Status(finished.status))),
    }
}

/// Returns the document that a process printed, with at most `most` bytes, if the process succeeded.
pub(super) fn document(finished: &Output, expected: &'static str, most: usize) -> Result<Json, MoldCause> {
    ended(finished)?;
    let text = text(&finished.stdout.bytes).map_err(MoldCause::Answer)?;
    if text.trim().is_empty() {
        return Err(MoldCause::Answer(ProtocolError::Nothing { expected }));
    }
    MemoryBudget::of(most).holds_tree(text).map_err(MoldCause::Answer)?;
    let not_json = |error: serde_json::Error| ProtocolError::NotJson { why: eco_format!("{error}") };
    serde_json::from_str(text).map_err(|error| MoldCause::Answer(not_json(error)))
}
