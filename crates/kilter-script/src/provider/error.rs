//! What a script did wrong, in full.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::REDACTED;
use kilter_process::{Captured, Finished, SpawnError};
use kilter_provider::{ProviderError, Seal};

use crate::convention::{ConventionName, ProtocolError, Refusal, beginning};

/// How many characters of the last words of a script are shown.
const LAST_WORDS: usize = 400;

/// Says what a script was called for and what came of it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{action}{of} by the provider `{provider}` ({convention}, {}): {}{}",
    path.display(),
    self.cause(),
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
    /// What is secret in the call and its answer; none where nobody can tell that.
    pub(super) seal: Option<Seal>,
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
    /// What went wrong, without secrets.
    fn cause(&self) -> EcoString {
        match (&self.seal, &self.cause) {
            (None, Cause::Answer(error)) if error.quotes() => REDACTED.into(),
            (seal, cause) => seal.iter().fold(eco_format!("{cause}"), |text, seal| seal.hide(text)),
        }
    }

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

/// How a process ended, unless the error says so itself, or it ended well. A timeout shows its limit, too.
pub(crate) fn status(finished: &Finished, error: &ProtocolError, limit: Option<Duration>) -> Option<EcoString> {
    match (error, limit) {
        (ProtocolError::Status(_), _) => None,
        (ProtocolError::TimedOut, Some(limit)) => {
            Some(eco_format!("its limit is {} s; {}", limit.as_secs_f64(), finished.status))
        }
        _ if finished.status.is_success() => None,
        _ => Some(eco_format!("{}", finished.status)),
    }
}

/// The last lines that a process wrote on standard error, without secrets. They are looked for in all of it that was
/// kept, before anything is cut off. Where nobody can tell which they are, nothing of the lines is told.
pub(crate) fn last_words(finished: &Finished, seal: Option<&Seal>) -> EcoString {
    let text = kept(&finished.stderr);
    let text = match seal {
        Some(seal) => seal.hide(text),
        None if text.trim().is_empty() => return EcoString::new(),
        None => return REDACTED.into(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" / ");
    let from = last.chars().count().saturating_sub(LAST_WORDS);
    let shown: String = last.chars().skip(from).collect();
    let dots = if from > 0 { "…" } else { "" };
    eco_format!("{dots}{}", beginning(&shown, LAST_WORDS))
}

/// What was kept of a stream; it tells where its beginning is missing.
fn kept(stream: &Captured) -> EcoString {
    if !stream.is_truncated() {
        return stream.text().as_ref().into();
    }
    let amid = stream.bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    eco_format!("…{}", String::from_utf8_lossy(&stream.bytes[amid..]))
}

#[cfg(test)]
mod tests {
    use kilter_model::Value;
    use kilter_process::Status;

    use super::*;

    #[test]
    fn a_secret_is_hidden_in_last_words_wherever_they_are_cut() {
        let seal = Seal::of_values([&Value::sensitive("ünter2secret".into())]);
        for behind in LAST_WORDS - 20..LAST_WORDS + 4 {
            for cut in 0..14 {
                for dropped in [0, 1] {
                    let text = format!("ünter2secret{}", ".".repeat(behind));
                    let bytes = if dropped == 0 { text.into_bytes() } else { text.as_bytes()[cut..].to_vec() };
                    let stderr = Captured { bytes, dropped };
                    let words = last_words(&Finished { stderr, ..Finished::of(Status::Code(1)) }, Some(&seal));
                    let left = words.as_str().replace("[redacted]", "").replace(['…', '.', ']'], "");
                    // What marks the place of a secret may be cut itself.
                    assert!("[redacted".ends_with(left.as_str()) || left.is_empty(), "{behind}, {cut}: {words}");
                }
            }
        }
    }
}
