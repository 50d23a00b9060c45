//! Errors of the command.

use super::Ended;

/// Error of the command.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Message; empty if it was reported already.
    pub(super) message: String,
    /// Advice.
    pub(super) hint: Option<String>,
    /// Result of the command.
    pub(super) ends_with: Ended,
}

impl Trouble {
    /// Creates an error for an invalid request.
    pub(super) fn new(message: impl Into<String>) -> Trouble {
        Trouble { message: message.into(), hint: None, ends_with: Ended::Wrong }
    }

    /// Creates an error for a failed operation.
    pub(super) fn failed(why: impl std::fmt::Display) -> Trouble {
        Trouble::new(format!("failed: {why}"))
    }

    /// Creates an error that was reported already.
    pub(super) fn said() -> Trouble {
        Trouble::new("")
    }

    /// Adds advice.
    pub(super) fn hint(self, hint: impl Into<String>) -> Trouble {
        Trouble { hint: Some(hint.into()), ..self }
    }
}
