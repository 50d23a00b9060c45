//! Faults in metadata, and their locations.

use std::fmt;

use ecow::EcoString;

use crate::convention::line;

/// A position in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// Line number.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

impl TextPosition {
    pub(crate) fn new(line: usize, column: usize) -> TextPosition {
        let clip = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        TextPosition { line: clip(line), column: clip(column) }
    }
}

/// A fault or an oddity in the metadata of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// Location.
    pub at: TextPosition,
    /// Description of the fault.
    pub message: EcoString,
    /// Suggested correction.
    pub hint: Option<EcoString>,
}

impl Fault {
    /// Creates a fault without a suggestion.
    pub fn new(at: TextPosition, message: impl Into<EcoString>) -> Fault {
        Fault { at, message: message.into(), hint: None }
    }

    /// Adds a suggested correction.
    #[must_use]
    pub fn hint(self, hint: impl Into<EcoString>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }

    /// Adds a suggested correction, if there is one.
    #[must_use]
    pub fn hint_if(self, hint: Option<EcoString>) -> Fault {
        Fault { hint: hint.or(self.hint), ..self }
    }
}

/// Formats the fault as a single line, also if it quotes multi-line text: `3:9: there is no type `…` (did you
/// mean …?)`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.at.line, self.at.column, line(&self.message))?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({})", line(hint)))
    }
}
