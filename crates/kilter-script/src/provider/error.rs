//! Errors of scripts, with their context.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Outcome, REDACTED};
use kilter_process::{Captured, Output, SpawnError};
use kilter_provider::{ProviderError, Redactor};

use crate::convention::{ConventionName, ProtocolError, Refusal, beginning};

/// Maximum length of the last stderr lines in a message, in characters.
const LAST_WORDS: usize = 400;

/// Error of a call of a script.
#[derive(Debug, thiserror::Error)]
#[error(
    "{action}{of} by the provider `{provider}` ({convention}, {}): {}{}",
    path.display(),
    self.cause(),
    self.circumstances()
)]
pub(super) struct ScriptError {
    /// Name of the provider.
    pub(super) provider: EcoString,
    /// Path of the script.
    pub(super) path: PathBuf,
    /// Calling convention.
    pub(super) convention: ConventionName,
    /// Action: `list`, `find`, `update`.
    pub(super) action: &'static str,
    /// Resources of the call with their type, for messages: ` of package[bash]`.
    pub(super) of: EcoString,
    /// Cause of the error.
    pub(super) cause: Cause,
    /// Exit status, if it is not the cause.
    pub(super) status: Option<EcoString>,
    /// Last lines of stderr.
    pub(super) last_words: EcoString,
    /// Secrets in the call and its answer. None if they cannot be determined.
    pub(super) seal: Option<Redactor>,
}

/// Cause of an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    /// The convention cannot represent the request.
    #[error(transparent)]
    Refused(Refusal),
    /// There is no connection to the device.
    #[error("{0}")]
    NoTransport(EcoString),
    /// The script could not be started.
    #[error("{}", .0.with_sources())]
    NotStarted(SpawnError),
    /// The answer is invalid.
    #[error(transparent)]
    Answer(ProtocolError),
}

impl ScriptError {
    /// Returns the outcome of a change that this error ended.
    pub(super) fn outcome(&self) -> Outcome {
        let crashed = matches!(&self.cause, Cause::Answer(error) if error.is_crash());
        Outcome { crashed, ..Outcome::failed(eco_format!("{self}")) }
    }

    /// Returns the cause with secrets redacted.
    fn cause(&self) -> EcoString {
        match (&self.seal, &self.cause) {
            (None, Cause::Answer(error)) if error.quotes() => REDACTED.into(),
            (seal, cause) => seal.iter().fold(eco_format!("{cause}"), |text, seal| seal.redact(text)),
        }
    }

    /// Returns the status and the last stderr lines in parentheses.
    fn circumstances(&self) -> EcoString {
        circumstances(self.status.as_ref(), &self.last_words)
    }
}

/// Returns the exit status and the last stderr lines of a script in parentheses.
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

/// Returns the exit status, unless the process succeeded or the error contains it. For a timeout, includes the
/// limit.
pub(crate) fn status(finished: &Output, error: &ProtocolError, limit: Option<Duration>) -> Option<EcoString> {
    match (error, limit) {
        (ProtocolError::Status(_), _) => None,
        (ProtocolError::TimedOut, Some(limit)) => {
            Some(eco_format!("its limit is {} s; {}", limit.as_secs_f64(), finished.status))
        }
        _ if finished.status.is_success() => None,
        _ => Some(eco_format!("{}", finished.status)),
    }
}

/// Returns the last stderr lines of a process with secrets redacted. Searches all captured output before
/// truncation. If the secrets are unknown, redacts all lines.
pub(crate) fn last_words(finished: &Output, seal: Option<&Redactor>) -> EcoString {
    let text = kept(&finished.stderr);
    let text = match seal {
        Some(seal) => seal.redact(text),
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

/// Returns the captured part of a stream. Marks a missing start with `…`.
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
    fn truncated_stderr_redacts_partial_secret() {
        let seal = Redactor::of_values([&Value::sensitive("ünter2secret".into())]);
        for behind in LAST_WORDS - 20..LAST_WORDS + 4 {
            for cut in 0..14 {
                for dropped in [0, 1] {
                    let text = format!("ünter2secret{}", ".".repeat(behind));
                    let bytes = if dropped == 0 { text.into_bytes() } else { text.as_bytes()[cut..].to_vec() };
                    let stderr = Captured { bytes, dropped };
                    let words = last_words(&Output { stderr, ..Output::of(Status::Code(1)) }, Some(&seal));
                    let left = words.as_str().replace("[redacted]", "").replace(['…', '.', ']'], "");
                    // The redaction marker itself may be truncated.
                    assert!("[redacted".ends_with(left.as_str()) || left.is_empty(), "{behind}, {cut}: {words}");
                }
            }
        }
    }
}
