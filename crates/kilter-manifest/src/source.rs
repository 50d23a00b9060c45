//! Source texts of a compilation, and positions in them.

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{SourceId, Span};

/// A source text and its name in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path as the user wrote it.
    pub name: EcoString,
    /// The text, in YAML or JSON.
    pub text: Arc<String>,
    /// True if obsolete keys are accepted with a warning.
    lenient: bool,
    /// Its file when it was read, if that was in an earlier run or on another machine.
    pub origin: Option<Arc<SourceOrigin>>,
}

/// File of a text at the time at which it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOrigin {
    /// Absolute path. On another machine, its name and a colon come before.
    pub path: EcoString,
    /// Version of the file, such as its `commit`, by name.
    pub version: Vec<(EcoString, EcoString)>,
}

impl Source {
    /// Creates a source. Drops a byte order mark.
    pub fn new(name: impl Into<EcoString>, text: impl Into<String>) -> Source {
        let mut text = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        Source { name: name.into(), text: Arc::new(text), lenient: false, origin: None }
    }

    /// Sets the treatment of obsolete keys: if `lenient`, they only cause warnings.
    #[must_use]
    pub fn leniently(self, lenient: bool) -> Source {
        Source { lenient, ..self }
    }

    /// Sets the file from which the text was read earlier.
    #[must_use]
    pub fn read_from(self, origin: Option<SourceOrigin>) -> Source {
        Source { origin: origin.map(Arc::new), ..self }
    }

    /// Returns true if obsolete keys only cause warnings.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Returns true if the name ends in `.json`.
    pub(crate) fn is_json(&self) -> bool {
        self.name.ends_with(".json")
    }
}

/// A position in the form that people and editors use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the source.
    pub file: EcoString,
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Source texts of a compilation: the given ones and their includes.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    sources: Vec<Source>,
    /// Positions of literal secrets, which are never shown.
    pub(crate) secrets: Vec<Span>,
    /// True if a text of the compilation could not be read.
    pub(crate) is_incomplete: bool,
}

impl Sources {
    /// Creates an empty collection.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds a source.
    ///
    /// # Panics
    /// If there are more than 65,535 sources.
    pub fn add(&mut self, source: Source) -> SourceId {
        let id = u16::try_from(self.sources.len()).expect("a compilation has at most 65,535 sources");
        self.sources.push(source);
        SourceId(id)
    }

    /// Records that a text could not be read. Names that it may declare are then not reported as missing.
    pub fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Returns the source with this id.
    ///
    /// # Panics
    /// If the id belongs to another compilation.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.sources[usize::from(id.0)]
    }

    /// Returns the literal secrets as written. After a successful compilation these are the secrets that it
    /// evaluated, otherwise all possible ones.
    pub fn secret_texts(&self) -> Vec<&str> {
        let text = |span: &Span| {
            let text = &self.sources.get(usize::from(span.source.0))?.text;
            text.get(span.start as usize..span.end as usize)
        };
        self.secrets.iter().filter_map(text).collect()
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the ids of all sources, in order.
    pub fn ids(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..u16::try_from(self.sources.len()).unwrap_or(u16::MAX)).map(SourceId)
    }

    /// Returns the start of a span.
    pub fn locate(&self, span: Span) -> Location {
        let source = self.get(span.source);
        let (line_start, line) = line_of(&source.text, span.start as usize);
        let upto = floor(&source.text, span.start as usize);
        let column = source.text[line_start..upto].chars().count() + 1;
        Location { file: source.name.clone(), line: small(line), column: small(column) }
    }
}

/// Converts a number of bytes or resources. Texts are smaller than 4 GiB.
pub(crate) fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Returns the largest character boundary that is not beyond `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the start of the line at an offset, and its number from 1.
pub(crate) fn line_of(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |n| n + 1);
    (start, before.iter().filter(|byte| **byte == b'\n').count() + 1)
}
