//! Problems of inventories, with their places.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::EcoString;
use kilter_script::{Fault, TextPosition};

/// Maximum number of problems of one inventory.
const MAX_PROBLEMS: usize = 100;

/// A problem in an inventory: the place, the value with the expectation, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File or program.
    pub file: PathBuf,
    /// Position in the file, if it has one.
    pub at: Option<TextPosition>,
    /// The value, and what is expected instead.
    pub message: EcoString,
    /// Suggested correction.
    pub hint: Option<EcoString>,
}

/// Prints one line: `FILE:LINE:COLUMN: MESSAGE`, without the suggestion.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(TextPosition { line, column }) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A place in an inventory.
#[derive(Clone, Debug)]
pub(crate) struct ProblemPlace {
    pub(crate) file: Arc<Path>,
    pub(crate) at: Option<TextPosition>,
}

impl ProblemPlace {
    pub(crate) fn of(file: &Arc<Path>) -> ProblemPlace {
        ProblemPlace { file: Arc::clone(file), at: None }
    }

    pub(crate) fn at(&self, at: TextPosition) -> ProblemPlace {
        // Programs print JSON, whose nodes have no position.
        ProblemPlace { file: Arc::clone(&self.file), at: (at.line > 0).then_some(at) }
    }

    pub(crate) fn line(&self, line: usize) -> ProblemPlace {
        self.at(TextPosition { line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 })
    }
}

/// Collector of problems and warnings.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) errors: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Problems {
    pub(crate) fn error(&mut self, place: &ProblemPlace, message: impl Into<EcoString>, hint: impl Into<EcoString>) {
        add(&mut self.errors, place, message.into(), hint.into());
    }

    pub(crate) fn warning(&mut self, place: &ProblemPlace, message: impl Into<EcoString>, hint: impl Into<EcoString>) {
        add(&mut self.warnings, place, message.into(), hint.into());
    }

    pub(crate) fn fault(&mut self, place: &ProblemPlace, fault: Fault) {
        self.error(&place.at(fault.at), fault.message, fault.hint.unwrap_or_default());
    }
}

/// Adds a problem. An empty hint is none.
fn add(to: &mut Vec<Problem>, place: &ProblemPlace, message: EcoString, hint: EcoString) {
    if to.len() < MAX_PROBLEMS {
        let hint = Some(hint).filter(|hint| !hint.is_empty());
        to.push(Problem { file: place.file.to_path_buf(), at: place.at, message, hint });
    }
}
