//! Why something was not done.

use super::Ended;

/// Why something was not done.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What is wrong; nothing if that has been said.
    pub(super) message: String,
    /// How to mend it.
    pub(super) hint: Option<String>,
    /// What the command ends with.
    pub(super) ends_with: Ended,
}

impl Trouble {
    /// Something that was asked for in a wrong way.
    pub(super) fn new(message: impl Into<String>) -> Trouble {
        Trouble { message: message.into(), hint: None, ends_with: Ended::Wrong }
    }

    /// Something that went wrong while it was done.
    pub(super) fn failed(why: impl std::fmt::Display) -> Trouble {
        Trouble::new(format!("failed: {why}"))
    }

    /// Something that has been said.
    pub(super) fn said() -> Trouble {
        Trouble::new("")
    }

    /// The same with how to mend it.
    pub(super) fn hint(self, hint: impl Into<String>) -> Trouble {
        Trouble { hint: Some(hint.into()), ..self }
    }
}
