//! Type mismatches and their messages, in Puppet's wording.

use std::fmt;

use ecow::EcoString;

use super::DataType;
use super::assign::Seals;

/// Maximum number of characters of a text in a message.
const MAX_SHOWN_CHARS: usize = 200;

/// List of the parts of a value that are not of the expected type, in Puppet's wording: `index 2 expects an
/// Integer value, got String`.
///
/// [`fmt::Display`] writes one line. [`of`](Mismatch::of) adds the name of the value. Messages never contain
/// secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    faults: Box<[MismatchFault]>,
}

/// A part of a value with a wrong type.
#[derive(Clone, Debug, PartialEq)]
pub struct MismatchFault {
    /// Path to the part.
    pub path: Vec<Step>,
    /// The mismatch.
    pub problem: Problem,
}

/// A step from a value to one of its parts, or from a variant to one of its types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Element at an index.
    Index(usize),
    /// Value of a key.
    Entry(EcoString),
    /// A key itself.
    Key(EcoString),
    /// Type at an index of a variant.
    Variant(usize),
}

/// Kind of mismatch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The value is of another type.
    Type {
        /// Expected type.
        expected: DataType,
        /// Actual type.
        actual: DataType,
    },
    /// The text is not in the list of words or does not match the patterns.
    Pattern {
        /// Expected type.
        expected: DataType,
        /// Actual type.
        actual: DataType,
    },
    /// The collection has too few or too many elements.
    Size {
        /// Minimum and maximum number of elements.
        expected: (u64, Option<u64>),
        /// Actual number of elements.
        actual: (u64, Option<u64>),
    },
    /// A required key is missing.
    Missing(EcoString),
    /// The value has an unknown key.
    Unknown(EcoString),
    /// The type refers to an unknown type.
    Unresolved(EcoString),
    /// The type is recursive in so many ways that the check gave up.
    Endless(DataType),
    /// Matching a regular expression failed.
    Unmatchable {
        /// The expression.
        pattern: EcoString,
        /// Reason of the failure.
        reason: EcoString,
    },
}

/// A mismatch with the name of the value: `file.mode expects …`. Several faults take one line each.
#[derive(Clone, Copy, Debug)]
pub struct NamedMismatch<'a> {
    name: &'a str,
    mismatch: &'a Mismatch,
}

impl Mismatch {
    pub(super) fn new(faults: Vec<MismatchFault>) -> Mismatch {
        Mismatch { faults: faults.into() }
    }

    /// Creates the mismatch of a check that gave up.
    pub(super) fn endless(data_type: &DataType) -> Mismatch {
        Mismatch::new(vec![MismatchFault { path: Vec::new(), problem: Problem::Endless(data_type.clone()) }])
    }

    /// Returns the mismatching parts, at least one.
    pub fn faults(&self) -> &[MismatchFault] {
        &self.faults
    }

    /// Returns the message with the name of the value in front, exactly as Puppet shows it.
    pub fn of<'a>(&'a self, name: &'a str) -> NamedMismatch<'a> {
        NamedMismatch { name, mismatch: self }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            fault.way(f)?;
            match &fault.problem {
                // The number itself is clearer than Puppet's one-element range.
                Problem::Type { expected, actual } => f.write_str(&kinds(expected, actual, number))?,
                problem => problem.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}

impl fmt::Display for NamedMismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &*self.mismatch.faults {
            [fault] => write!(f, "{name} {fault}"),
            faults => faults.iter().enumerate().try_for_each(|(index, fault)| {
                let lead = if index == 0 { " " } else { "\n  " };
                write!(f, "{lead}{name} {fault}")
            }),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Index(index) => write!(f, "index {index}"),
            Step::Entry(key) => write!(f, "entry '{key}'"),
            Step::Key(key) => write!(f, "key of entry '{key}'"),
            Step::Variant(index) => write!(f, "variant {index}"),
        }
    }
}

impl MismatchFault {
    /// Writes the path to the part.
    fn way(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.iter().try_for_each(|step| write!(f, "{step} "))
    }

    /// Returns the path without variant steps.
    pub(super) fn place(&self) -> impl Iterator<Item = &Step> {
        self.path.iter().filter(|step| !matches!(step, Step::Variant(_)))
    }
}

impl fmt::Display for MismatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.way(f)?;
        self.problem.fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Type { expected, actual } => f.write_str(&kinds(expected, actual, |_| None)),
            Problem::Pattern { expected, actual } => {
                let (or, expected) = match expected {
                    DataType::Optional(inner) => ("an undef value or ", &**inner),
                    other => ("", other),
                };
                write!(f, "expects {or}a match for {}, got {}", expected.expanded(), shown(actual))
            }
            Problem::Size { expected, actual } => {
                write!(f, "expects size to be {}, got {}", size(*expected), size(*actual))
            }
            Problem::Missing(key) => write!(f, "expects a value for key '{key}'"),
            Problem::Unknown(key) => write!(f, "unrecognized key '{key}'"),
            Problem::Unresolved(name) => write!(f, "references an unresolved type '{name}'"),
            Problem::Endless(data_type) => {
                write!(f, "cannot be checked against {data_type}: the type is recursive in too many ways")
            }
            Problem::Unmatchable { pattern, reason } => {
                write!(f, "cannot be checked against the pattern /{pattern}/: {reason}")
            }
        }
    }
}

/// Returns the number if the type has exactly one number.
fn number(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Integer(Some(from), Some(to)) if from == to => Some(from.to_string()),
        DataType::Float(Some(from), Some(to)) if from == to => Some(format!("{from:?}")),
        _ => None,
    }
}

/// Returns `expects an Integer value, got String` or `expects a value of type Undef or String, got Float`.
/// `otherwise` can replace the actual type if its name alone is not enough.
fn kinds(expected: &DataType, actual: &DataType, otherwise: fn(&DataType) -> Option<String>) -> String {
    let (optional, expected) = match expected {
        DataType::Optional(inner) => (true, &**inner),
        other => (false, other),
    };
    let choices: &[DataType] = match expected {
        DataType::Variant(types) => types,
        single => std::slice::from_ref(single),
    };
    let detailed = in_detail(choices, actual);
    let mut words: Vec<String> = Vec::new();
    for choice in choices {
        let word = if detailed { choice.expanded() } else { short(choice) };
        if detailed || !words.contains(&word) {
            words.push(word);
        }
    }
    if optional {
        words.insert(0, "Undef".to_owned());
    }
    let got = if detailed { detail(choices, actual) } else { short(actual) };
    // If the type name alone is clear, the number adds no information.
    let got = otherwise(actual).filter(|_| got != actual.name()).unwrap_or(got);
    match words.as_slice() {
        [one] => format!("expects {} {one} value, got {got}", article(one)),
        [a, b] => format!("expects a value of type {a} or {b}, got {got}"),
        [] => format!("expects a Variant value, got {got}"),
        [first @ .., last] => format!("expects a value of type {}, or {last}, got {got}", first.join(", ")),
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Returns the name of a type, with the type that it wraps.
fn short(data_type: &DataType) -> String {
    match data_type {
        DataType::Optional(inner)
        | DataType::NotUndef(inner)
        | DataType::Sensitive(inner)
        | DataType::Iterable(inner)
        | DataType::Type(inner)
            if **inner != DataType::Any =>
        {
            format!("{}[{}]", data_type.name(), inner.name())
        }
        other => other.name().to_owned(),
    }
}

/// Returns true if the type names alone do not show the difference.
fn in_detail(choices: &[DataType], actual: &DataType) -> bool {
    choices.iter().any(|choice| alike(choice, actual) || takes_in_general(choice, actual))
}

/// Returns true if two types differ only in their parameters.
fn alike(expected: &DataType, actual: &DataType) -> bool {
    let same = expected.name_of_alias().is_some() || class(expected) == class(actual);
    let special = matches!(
        (expected, actual),
        (DataType::Struct(_), DataType::Hash(..)) | (DataType::Tuple(..), DataType::Array(..))
    );
    same || special
}

fn class(data_type: &DataType) -> std::mem::Discriminant<DataType> {
    match data_type {
        DataType::Literal(_) => std::mem::discriminant(&DataType::String(None, None)),
        DataType::EnumAnyCase(_) => std::mem::discriminant(&DataType::Enum(Vec::new())),
        other => std::mem::discriminant(other),
    }
}

/// Returns true if `expected` without its parameters would accept `actual`.
fn takes_in_general(expected: &DataType, actual: &DataType) -> bool {
    let any = || Box::new(DataType::Any);
    let general = match expected {
        DataType::Enum(_) | DataType::EnumAnyCase(_) | DataType::Pattern(_) => DataType::Pattern(Vec::new()),
        DataType::SemVer(_) => DataType::SemVer(Vec::new()),
        DataType::Regexp(_) => DataType::Regexp(None),
        DataType::Array(..) => DataType::Array(any(), None, None),
        DataType::Hash(..) => DataType::Hash(any(), any(), None, None),
        DataType::Tuple(..) => DataType::Tuple(Vec::new(), None, None),
        DataType::Struct(_) => DataType::Struct(Vec::new()),
        DataType::Variant(_) | DataType::Foreign(_) | DataType::TypeReference(_) => return false,
        DataType::NotUndef(_) => DataType::NotUndef(any()),
        DataType::Optional(_) => DataType::Optional(any()),
        DataType::Sensitive(_) => DataType::Sensitive(any()),
        DataType::Iterable(_) => DataType::Iterable(any()),
        DataType::Type(_) => DataType::Type(any()),
        DataType::Init(_) => return false,
        other => other.generalized(),
    };
    general.takes(actual, Seals::Exact)
}

/// Returns the actual type in as much detail as the message needs.
fn detail(choices: &[DataType], actual: &DataType) -> String {
    let unfolded: Vec<DataType> =
        choices.iter().map(|choice| choice.unfolded().unwrap_or_else(|| choice.clone())).collect();
    let general = actual.generalized();
    let told = unfolded.iter().any(|choice| alike(choice, actual))
        || unfolded.iter().any(|choice| choice.takes(&general, Seals::Exact));
    if told { actual.expanded() } else { actual.name().to_owned() }
}

fn shown(actual: &DataType) -> String {
    match actual {
        DataType::Literal(text) => match text.char_indices().nth(MAX_SHOWN_CHARS) {
            Some((end, _)) => format!("'{}…'", &text[..end]),
            None => format!("'{text}'"),
        },
        other => short(other),
    }
}

fn size((from, to): (u64, Option<u64>)) -> String {
    match (from, to) {
        (from, Some(to)) if from == to => from.to_string(),
        (0, None) => "unlimited".to_owned(),
        (0, Some(to)) => format!("at most {to}"),
        (from, None) => format!("at least {from}"),
        (from, Some(to)) => format!("between {from} and {to}"),
    }
}
