//! What is wrong with a definition, and where.

use std::fmt;
use std::ops::Range;

use ecow::EcoString;

/// The way to a part of a definition: `attributes.id.type`, `title_patterns[0].pattern`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

/// One step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the value of a key.
    Key(EcoString),
    /// To an element of a list, counted from 0.
    Index(usize),
}

impl Path {
    /// The definition itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// The value of a key in what this leads to.
    #[must_use]
    pub fn key(&self, key: impl Into<EcoString>) -> Path {
        self.step(Step::Key(key.into()))
    }

    /// An element of the list that this leads to.
    #[must_use]
    pub fn index(&self, index: usize) -> Path {
        self.step(Step::Index(index))
    }

    fn step(&self, step: Step) -> Path {
        Path(self.0.iter().cloned().chain([step]).collect())
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
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
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Which part of an entry something is said of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its key.
    Key,
    /// Its value.
    Value,
    /// These bytes of its value, which is a text.
    Within(Range<u32>),
}

/// Something that is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: the part itself, or what it is missing from.
    pub path: Path,
    /// Which part of the entry there.
    pub place: Place,
    /// What is wrong, and what was expected.
    pub message: EcoString,
    /// How to mend it.
    pub hint: Option<EcoString>,
    tolerated: bool,
}

impl Fault {
    pub(super) fn new(path: Path, message: impl Into<EcoString>) -> Fault {
        Fault { path, place: Place::Value, message: message.into(), hint: None, tolerated: false }
    }

    pub(super) fn at(self, place: Place) -> Fault {
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

    /// Whether Puppet's library takes a definition that is wrong in this way, so that there are
    /// modules with it; the schema can be used then.
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

/// Something in a definition that is allowed, but hardly meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub path: Path,
    /// Which part of the entry there.
    pub place: Place,
    /// What is odd.
    pub message: EcoString,
    /// How to mend it.
    pub hint: Option<EcoString>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}
