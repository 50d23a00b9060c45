//! What is wrong with metadata, and where.

use std::fmt;

use ecow::EcoString;

use crate::convention::line;

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The character in it.
    pub column: u32,
}

impl Place {
    pub(crate) fn new(line: usize, column: usize) -> Place {
        let clip = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: clip(line), column: clip(column) }
    }
}

/// Something that is wrong, or odd, in the metadata of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// Where.
    pub at: Place,
    /// What is wrong.
    pub message: EcoString,
    /// How to mend it.
    pub hint: Option<EcoString>,
}

impl Fault {
    pub(crate) fn new(at: Place, message: impl Into<EcoString>) -> Fault {
        Fault { at, message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<EcoString>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn hint_if(self, hint: Option<EcoString>) -> Fault {
        Fault { hint: hint.or(self.hint), ..self }
    }
}

/// `3:9: there is no type `…` (did you mean …?)`: a line, whatever was written that it quotes.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.at.line, self.at.column, line(&self.message))?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({})", line(hint)))
    }
}
