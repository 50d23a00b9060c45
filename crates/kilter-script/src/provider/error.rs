//! What a script did wrong, in full.

use std::path::PathBuf;

use ecow::{EcoString, eco_format};
use kilter_process::{Finished, SpawnError};
use kilter_provider::ProviderError;

use crate::convention::{ConventionName, ProtocolError, Refusal, beginning};

/// How many characters of the last words of a script are shown.
const LAST_WORDS: usize = 400;

/// Says what a script was called for and what came of it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{action}{of} by the provider `{provider}` ({convention}, {}): {cause}{}",
    path.display(),
    self.circumstances()
)]
pub(super) struct ScriptError {
    /// The provider.
    pub(super) provider: EcoString,
    /// Its script.
    pub(super) path: PathBuf,
    /// How it is called.
    pub(super) convention: ConventionName,
    /// What it was called for: `list`, `find`, `update`.
    pub(super) action: &'static str,
    /// About which resources, with their type, as people read it: ` of package[bash]`.
    pub(super) of: EcoString,
    /// What went wrong.
    pub(super) cause: Cause,
    /// How it ended, if that is not the cause.
    pub(super) status: Option<EcoString>,
    /// The last it wrote on standard error.
    pub(super) last_words: EcoString,
}

/// What went wrong with a script.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    /// Its convention cannot carry the request.
    #[error(transparent)]
    Refused(Refusal),
    /// It could not be started.
    #[error("{}", .0.with_sources())]
    NotStarted(SpawnError),
    /// What it answered is no answer.
    #[error(transparent)]
    Answer(ProtocolError),
}

impl ScriptError {
    /// The status and the last words, in brackets.
    fn circumstances(&self) -> EcoString {
        circumstances(self.status.as_ref(), &self.last_words)
    }
}

/// How a script ended and what it said at last, in brackets.
pub(super) fn circumstances(status: Option<&EcoString>, last_words: &str) -> EcoString {
    let last = (!last_words.is_empty()).then(|| eco_format!("last on its standard error: {last_words}"));
    let parts: Vec<EcoString> = status.cloned().into_iter().chain(last).collect();
    match parts.is_empty() {
        true => EcoString::new(),
        false => eco_format!(" ({})", parts.join("; ")),
    }
}

impl From<Box<ScriptError>> for ProviderError {
    fn from(error: Box<ScriptError>) -> ProviderError {
        ProviderError::new(eco_format!("{error}"))
    }
}

/// How a process ended, unless the error says so itself.
pub(super) fn status(finished: &Finished, error: &ProtocolError) -> Option<EcoString> {
    match error {
        ProtocolError::Status(_) => None,
        _ => Some(eco_format!("{}", finished.status)),
    }
}

/// The last lines that a process wrote on standard error.
pub(crate) fn last_words(finished: &Finished) -> EcoString {
    let text = finished.stderr.text();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" / ");
    let from = last.chars().count().saturating_sub(LAST_WORDS);
    let shown: String = last.chars().skip(from).collect();
    let dots = if from > 0 { "…" } else { "" };
    eco_format!("{dots}{}", beginning(&shown, LAST_WORDS))
}
