//! The texts of a compilation, and places in them.

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{SourceId, Span};

/// A text and what it is called in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path shown, as the user wrote it.
    pub name: EcoString,
    /// The text, in YAML or JSON.
    pub text: Arc<String>,
    /// Whether what has no meaning any more is accepted in it, with a warning.
    lenient: bool,
}

impl Source {
    /// A text and what it is called; a byte order mark is dropped.
    pub fn new(name: impl Into<EcoString>, text: impl Into<String>) -> Source {
        let mut text = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        Source { name: name.into(), text: Arc::new(text), lenient: false }
    }

    /// The same text, in which what has no meaning any more is accepted if `lenient` says so, with a warning.
    #[must_use]
    pub fn leniently(self, lenient: bool) -> Source {
        Source { lenient, ..self }
    }

    /// Whether what has no meaning any more is accepted in it.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Whether the name says that the text is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.name.ends_with(".json")
    }
}

/// A place as people and editors count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the text.
    pub file: EcoString,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The texts of one compilation: those that were given and those that they include.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    sources: Vec<Source>,
    /// Where literal secrets stand; never shown.
    pub(crate) secrets: Vec<Span>,
    /// True if a text that belongs to the compilation could not be read.
    pub(crate) is_incomplete: bool,
}

impl Sources {
    /// No texts.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds a text.
    ///
    /// # Panics
    /// When there are more than 65,535.
    pub fn add(&mut self, source: Source) -> SourceId {
        let id = u16::try_from(self.sources.len()).expect("a compilation has at most 65,535 sources");
        self.sources.push(source);
        SourceId(id)
    }

    /// Notes that a text could not be read, so that names which it may declare are not reported as missing.
    pub fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// The text of an id.
    ///
    /// # Panics
    /// When the id belongs to another compilation.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.sources[usize::from(id.0)]
    }

    /// The texts of the scalars in which secrets are written, as they are written. After a compilation
    /// without problems those that it came upon, and otherwise rather too many than too few.
    pub fn secret_texts(&self) -> Vec<&str> {
        let text = |span: &Span| {
            let text = &self.sources.get(usize::from(span.source.0))?.text;
            text.get(span.start as usize..span.end as usize)
        };
        self.secrets.iter().filter_map(text).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The ids of all texts, in order.
    pub fn ids(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..u16::try_from(self.sources.len()).unwrap_or(u16::MAX)).map(SourceId)
    }

    /// Where a span starts.
    pub fn locate(&self, span: Span) -> Location {
        let source = self.get(span.source);
        let (line_start, line) = line_of(&source.text, span.start as usize);
        let upto = floor(&source.text, span.start as usize);
        let column = source.text[line_start..upto].chars().count() + 1;
        Location { file: source.name.clone(), line: small(line), column: small(column) }
    }
}

/// A number of bytes or resources as it is kept: texts have less than 4 GiB.
pub(crate) fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The largest boundary of characters that is not beyond `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Where the line of an offset starts, and its number from 1.
pub(crate) fn line_of(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |n| n + 1);
    (start, before.iter().filter(|byte| **byte == b'\n').count() + 1)
}
