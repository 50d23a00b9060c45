//! Errors of the command.

use super::RalshResult;

/// Error of the command.
#[derive(Debug)]
pub(super) struct Error {
    /// Message; empty if it was reported already.
    pub(super) message: String,
    /// Advice.
    pub(super) hint: Option<String>,
    /// Result of the command.
    pub(super) ends_with: RalshResult,
}

impl Error {
    /// Creates an error for an invalid request.
    pub(super) fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), hint: None, ends_with: RalshResult::Wrong }
    }

    /// Creates an error for a failed operation.
    pub(super) fn failed(why: impl std::fmt::Display) -> Error {
        Error::new(format!("failed: {why}"))
    }

    /// Creates an error that was reported already.
    pub(super) fn reported() -> Error {
        Error::new("")
    }

    /// Adds advice.
    pub(super) fn hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }
}
