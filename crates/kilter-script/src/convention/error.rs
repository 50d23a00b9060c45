//! What can go wrong between a convention and a script.

use std::fmt;

use ecow::EcoString;
use kilter_process::{Ending, Finished, Status};

use super::ErrorKind;

/// Says why a convention cannot carry a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A command line ends at a NUL byte.
    #[error("{0} holds a NUL byte, which the convention simple cannot carry")]
    Nul(EcoString),
    /// A word of a command line is too long for the system.
    #[error("{what} takes {bytes} bytes on the command line, and the system allows {most}")]
    TooLong {
        /// Which value.
        what: EcoString,
        /// How long its word would be.
        bytes: usize,
        /// How long a word may be.
        most: usize,
    },
    /// One call is about one resource.
    #[error("the convention simple asks for one resource at a time, not for {0}")]
    Several(usize),
}

/// What is to be done where a script may write no more.
const ADVICE: &str = " (`output` in its metadata allows more)";

/// Says why the end of a process is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// It took too long.
    #[error("it gave no answer in time and was ended")]
    TimedOut,
    /// Somebody interrupted.
    #[error("it was ended because the run was interrupted")]
    Interrupted,
    /// It wrote more than was allowed.
    #[error("it was ended because it wrote more than is taken: {}{ADVICE}", Size(*.most))]
    Flooded {
        /// How many bytes are taken.
        most: usize,
    },
    /// It wrote no more than was allowed, but so many values that they would take too much memory.
    #[error(
        "it answered with more values than are taken, which would need more than {} of memory{ADVICE}",
        Size(*.room)
    )]
    TooMuch {
        /// How many bytes of memory there are for an answer.
        room: usize,
    },
    /// It failed, and did not say why in the words of its convention.
    #[error("it failed with {0}")]
    Status(Status),
    /// It says that it failed.
    #[error("{message}")]
    Told {
        /// Of which kind the failure is.
        kind: ErrorKind,
        /// What it says.
        message: EcoString,
    },
    /// Its output is not UTF-8.
    #[error("line {line} of its output is not UTF-8 (byte 0x{byte:02x})")]
    NotText {
        /// The line, counted from 1.
        line: usize,
        /// The byte.
        byte: u8,
    },
    /// Its output begins with U+FEFF, which nobody sees and which is no part of any answer.
    #[error("its output begins with a byte order mark, which does not belong there")]
    ByteOrderMark,
    /// Its output holds a NUL byte.
    #[error("line {line} of its output holds a NUL byte")]
    Nul {
        /// The line, counted from 1.
        line: usize,
    },
    /// It wrote nothing.
    #[error("it printed nothing, where {expected} is expected")]
    Nothing {
        /// What should have been there.
        expected: &'static str,
    },
    /// A line of its output is not as the convention wants it.
    #[error("line {line} of its output is `{text}`: {expected}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is written there, the beginning of it if it is long.
        text: EcoString,
        /// What is wrong with it.
        expected: EcoString,
    },
    /// It answers for another resource than it was asked for.
    #[error("it answered for `{told}` when it was asked for `{asked}`")]
    OtherName {
        /// The name that it gave.
        told: EcoString,
        /// The name that it was given.
        asked: EcoString,
    },
    /// Two different resources have one name.
    #[error("it gave two different resources the name `{0}`")]
    NamedTwice(EcoString),
    /// Its output is no JSON.
    #[error("its output is not JSON: {why}")]
    NotJson {
        /// What is wrong with it.
        why: EcoString,
    },
    /// Its output is JSON of another shape.
    #[error("its output is not as the convention json wants it: {at}: {why}")]
    Shape {
        /// The way to what is wrong: `resources[3].name`.
        at: EcoString,
        /// What is wrong there.
        why: EcoString,
    },
}

impl ProtocolError {
    /// Why a process that did not end by itself gave no reply; none for one that did.
    pub(crate) fn of_ending(finished: &Finished) -> Result<(), ProtocolError> {
        match finished.ending {
            Ending::Exited => Ok(()),
            Ending::Deadline => Err(ProtocolError::TimedOut),
            Ending::Cancelled => Err(ProtocolError::Interrupted),
            // What was allowed is what was kept.
            Ending::Flooded => Err(ProtocolError::Flooded { most: finished.stdout.bytes.len() }),
        }
    }

    /// What went wrong with a script that has no metadata yet.
    pub(crate) fn without_advice(&self) -> EcoString {
        let text = self.to_string();
        text.strip_suffix(ADVICE).unwrap_or(&text).into()
    }

    /// Whether it repeats something of the output.
    pub(crate) fn quotes(&self) -> bool {
        match self {
            ProtocolError::Told { .. }
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
            // A place in the text, and what is wrong there with its form.
            | ProtocolError::NotJson { .. } => false,
        }
    }

    pub(crate) fn line(line: usize, text: &str, expected: impl Into<EcoString>) -> ProtocolError {
        ProtocolError::Line { line, text: beginning(text, 80), expected: expected.into() }
    }
}

/// The output of a process as text.
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

/// The first characters of a text, without those that move a cursor.
pub(crate) fn beginning(text: &str, count: usize) -> EcoString {
    cut(text, count, |c| c.is_control())
}

/// A text as a line, without what moves a cursor.
pub(crate) fn line(text: &str) -> EcoString {
    beginning(text, usize::MAX)
}

/// How many characters are taken of what a script says of a failure.
const SAID: usize = 800;

/// What a script says, the beginning of it if it is long, without what moves a cursor; lines stay lines.
pub(crate) fn said(text: &str) -> EcoString {
    cut(text, SAID, |c| c.is_control() && c != '\n')
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

/// Whether a character changes the direction in which others are shown: what follows it can look like something else.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A number of bytes, for people.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{} MiB", (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// The longest name of an attribute that a script can make up, in bytes.
const LONGEST_NAME: usize = 200;

/// Whether a word can be the name of an attribute, of one at least that nobody has declared.
///
/// # Errors
/// Why it cannot.
pub(crate) fn attribute_name(word: &str) -> Result<&str, EcoString> {
    match word {
        "" => Err("an attribute has no name".into()),
        _ if word.len() > LONGEST_NAME || word.chars().any(|c| c.is_control() || turns(c)) => {
            Err(ecow::eco_format!("`{}` cannot be the name of an attribute", beginning(word, 60)))
        }
        _ => Ok(word),
    }
}
