//! Faults of a definition and their locations.

use std::fmt;
use std::ops::Range;

use ecow::EcoString;

/// Path to a part of a definition: `attributes.id.type`, `title_patterns[0].pattern`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<PathSegment>);

/// A step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// The value of a key.
    Key(EcoString),
    /// An element of a list, counted from 0.
    Index(usize),
}

impl Path {
    /// Returns the path of the definition itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// Appends a key.
    #[must_use]
    pub fn key(&self, key: impl Into<EcoString>) -> Path {
        self.step(PathSegment::Key(key.into()))
    }

    /// Appends a list index.
    #[must_use]
    pub fn index(&self, index: usize) -> Path {
        self.step(PathSegment::Index(index))
    }

    fn step(&self, step: PathSegment) -> Path {
        Path(self.0.iter().cloned().chain([step]).collect())
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> &[PathSegment] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the definition");
        }
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathSegment::Key(key) if at == 0 => f.write_str(key)?,
                PathSegment::Key(key) => write!(f, ".{key}")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Part of an entry that a fault refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultPlace {
    /// The key.
    Key,
    /// The value.
    Value,
    /// A byte range of the value, which is a text.
    Within(Range<u32>),
}

/// A fault of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the faulty part, or of the part that lacks a key.
    pub path: Path,
    /// Part of the entry at that path.
    pub place: FaultPlace,
    /// Description of the fault, with the expectation.
    pub message: EcoString,
    /// Suggested correction.
    pub hint: Option<EcoString>,
    tolerated: bool,
}

impl Fault {
    pub(super) fn new(path: Path, message: impl Into<EcoString>) -> Fault {
        Fault { path, place: FaultPlace::Value, message: message.into(), hint: None, tolerated: false }
    }

    pub(super) fn at(self, place: FaultPlace) -> Fault {
        Fault { place, ..self }
    }

    pub(super) fn hint(self, hint: impl Into<EcoString>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }

    pub(super) fn hint_if(self, hint: Option<EcoString>) -> Fault {
        Fault { hint: hint.or(self.hint), ..self }
    }

    pub(super) fn tolerated(self) -> Fault {
        Fault { tolerated: true, ..self }
    }

    /// Returns true if Puppet's library accepts the fault, so that published modules may contain it. The schema
    /// is usable in that case.
    pub fn is_tolerated(&self) -> bool {
        self.tolerated
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}

impl std::error::Error for Fault {}

/// A valid construct of a definition that is probably unintended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Path of the part.
    pub path: Path,
    /// Part of the entry at that path.
    pub place: FaultPlace,
    /// Description of the construct.
    pub message: EcoString,
    /// Suggested correction.
    pub hint: Option<EcoString>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}
