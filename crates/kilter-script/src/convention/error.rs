//! Errors between a convention and a script.

use std::fmt;

use ecow::EcoString;
use kilter_process::{Output, Status, Termination};

use super::ErrorKind;

/// Reason why a convention cannot represent a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A command-line argument cannot contain a NUL byte.
    #[error("{0} holds a NUL byte, which the convention simple cannot carry")]
    Nul(EcoString),
    /// A command-line argument is too long for the system.
    #[error("{what} takes {bytes} bytes on the command line; the system permits {most}")]
    TooLong {
        /// Description of the value.
        what: EcoString,
        /// Length of the argument in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        most: usize,
    },
    /// A call can handle only one resource.
    #[error("the convention simple handles one resource at a time, not {0}")]
    Several(usize),
}

/// Hint on raising the output limit of a script.
const ADVICE: &str = " (`output` in its metadata allows more)";

/// Reason why a finished process gave no valid reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The call timed out.
    #[error("it did not reply in time and was ended")]
    TimedOut,
    /// The call was cancelled.
    #[error("it was ended because the run was interrupted")]
    Interrupted,
    /// The output exceeded the limit.
    #[error("it was ended because it exceeded the output limit: {}{ADVICE}", Size(*.most))]
    Flooded {
        /// Maximum size of the output, in bytes.
        most: usize,
    },
    /// The output has too many values, which would take too much memory.
    #[error(
        "it replied with too many values, which would need more than {} of memory{ADVICE}",
        Size(*.room)
    )]
    TooMuch {
        /// Maximum memory for the answer, in bytes.
        room: usize,
    },
    /// The process failed without a message in its convention.
    #[error("it failed with {0}")]
    Status(Status),
    /// The provider reported a failure.
    #[error("{message}")]
    Reported {
        /// Kind of the failure.
        kind: ErrorKind,
        /// Message of the provider.
        message: EcoString,
    },
    /// The output is not UTF-8.
    #[error("line {line} of its output is not UTF-8 (byte 0x{byte:02x})")]
    NotText {
        /// Line number, counted from 1.
        line: usize,
        /// The invalid byte.
        byte: u8,
    },
    /// The output starts with the invisible character U+FEFF (byte order mark).
    #[error("its output begins with a byte order mark")]
    ByteOrderMark,
    /// The output contains a NUL byte.
    #[error("line {line} of its output holds a NUL byte")]
    Nul {
        /// Line number, counted from 1.
        line: usize,
    },
    /// The output is empty.
    #[error("it printed nothing, where {expected} is expected")]
    Nothing {
        /// The expected output.
        expected: &'static str,
    },
    /// A line of the output is invalid.
    #[error("line {line} of its output is `{text}`: {expected}")]
    Line {
        /// Line number, counted from 1.
        line: usize,
        /// The line, truncated if it is long.
        text: EcoString,
        /// The expectation.
        expected: EcoString,
    },
    /// The answer is for another resource.
    #[error("it returned `{told}` for the request for `{asked}`")]
    OtherName {
        /// Name in the answer.
        told: EcoString,
        /// Name in the request.
        asked: EcoString,
    },
    /// Two different resources have the same name.
    #[error("it gave two different resources the name `{0}`")]
    NamedTwice(EcoString),
    /// The output is not valid JSON.
    #[error("its output is not JSON: {why}")]
    NotJson {
        /// The syntax error.
        why: EcoString,
    },
    /// The output is JSON of the wrong structure.
    #[error("its output does not follow the convention json: {at}: {why}")]
    Shape {
        /// Path to the error: `resources[3].name`.
        at: EcoString,
        /// Description of the error.
        why: EcoString,
    },
}

impl ProtocolError {
    /// Returns an error if the process did not exit by itself.
    pub(crate) fn of_ending(finished: &Output) -> Result<(), ProtocolError> {
        match finished.ending {
            Termination::Exited => Ok(()),
            Termination::Deadline => Err(ProtocolError::TimedOut),
            Termination::Cancelled => Err(ProtocolError::Interrupted),
            // The captured output has the maximum size.
            Termination::OutputLimit => Err(ProtocolError::Flooded { most: finished.stdout.bytes.len() }),
        }
    }

    /// Returns true if the script ended without an answer: neither an error that it reports nor a limit or interrupt
    /// ended it.
    pub(crate) fn is_crash(&self) -> bool {
        !matches!(self, ProtocolError::Reported { .. } | ProtocolError::TimedOut | ProtocolError::Interrupted)
    }

    /// Returns the message for a script without metadata, so without the hint on `output`.
    pub(crate) fn without_advice(&self) -> EcoString {
        let text = self.to_string();
        text.strip_suffix(ADVICE).unwrap_or(&text).into()
    }

    /// Returns true if the message contains a part of the output.
    pub(crate) fn quotes(&self) -> bool {
        match self {
            ProtocolError::Reported { .. }
            | ProtocolError::Line { .. }
            | ProtocolError::OtherName { .. }
            | ProtocolError::NamedTwice(_)
            | ProtocolError::Shape { .. } => true,
            ProtocolError::TimedOut
            | ProtocolError::Interrupted
            | ProtocolError::Flooded { .. }
            | ProtocolError::TooMuch { .. }
            | ProtocolError::Status(_)
            | ProtocolError::NotText { .. }
            | ProtocolError::ByteOrderMark
            | ProtocolError::Nul { .. }
            | ProtocolError::Nothing { .. }
            // Contains only a position and the syntax error.
            | ProtocolError::NotJson { .. } => false,
        }
    }

    pub(crate) fn line(line: usize, text: &str, expected: impl Into<EcoString>) -> ProtocolError {
        ProtocolError::Line { line, text: beginning(text, 80), expected: expected.into() }
    }
}

/// Converts the output of a process to text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, ProtocolError> {
    let line_of = |at: usize| 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        ProtocolError::NotText { line: line_of(at), byte: bytes[at] }
    })?;
    if text.starts_with('\u{feff}') {
        return Err(ProtocolError::ByteOrderMark);
    }
    match bytes.contains(&0).then(|| bytes.iter().position(|byte| *byte == 0)).flatten() {
        Some(at) => Err(ProtocolError::Nul { line: line_of(at) }),
        None => Ok(text),
    }
}

/// Returns the first characters of a text. Replaces control characters.
pub(crate) fn beginning(text: &str, count: usize) -> EcoString {
    cut(text, count, |c| c.is_control())
}

/// Returns a text as a single line. Replaces control characters.
pub(crate) fn line(text: &str) -> EcoString {
    beginning(text, usize::MAX)
}

/// Maximum length of a failure message of a script, in characters.
const MAX_MESSAGE_CHARS: usize = 800;

/// Returns a message of a script, truncated if it is long. Replaces control characters except line breaks.
pub(crate) fn message_text(text: &str) -> EcoString {
    cut(text, MAX_MESSAGE_CHARS, |c| c.is_control() && c != '\n')
}

fn cut(text: &str, count: usize, is_hidden: impl Fn(char) -> bool) -> EcoString {
    let shown = |c| if is_hidden(c) || turns(c) { '\u{fffd}' } else { c };
    let mut rest = text.chars();
    let mut shown: EcoString = rest.by_ref().map(shown).take(count).collect();
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Returns true if a character changes the text direction, which could disguise the following text.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A size in bytes, for messages.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{} MiB", (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Maximum length of an undeclared attribute name, in bytes.
const LONGEST_NAME: usize = 200;

/// Checks that a word is a valid attribute name, also if it is undeclared.
///
/// # Errors
/// The reason why it is invalid.
pub(crate) fn attribute_name(word: &str) -> Result<&str, EcoString> {
    match word {
        "" => Err("an attribute has no name".into()),
        _ if word.len() > LONGEST_NAME || word.chars().any(|c| c.is_control() || turns(c)) => {
            Err(ecow::eco_format!("`{}` cannot be the name of an attribute", beginning(word, 60)))
        }
        _ => Ok(word),
    }
}
