//! Conversion of command-line words to values.
//!
//! If Puppet converts a word, kilter returns the same value. If Puppet rejects a word, kilter accepts it if it
//! has only one possible meaning:
//!
//! - lists are written with commas
//! - hashes are written as JSON
//! - times and versions are written as texts
//! - a `Sensitive` type makes its word sensitive

use super::DataType;
use super::mismatch::Mismatch;
use super::parse::{Parameter, number};
use crate::json::from_json;
use crate::value::Value;

impl DataType {
    /// Converts a word to a value of this type.
    ///
    /// # Errors
    /// If the word is not a value of this type.
    pub fn parse_word(&self, word: &str) -> Result<Value, Mismatch> {
        self.parse_words(&[word])
    }

    /// Converts words to a value of this type. Several words are the elements of a list. A single word is a
    /// list with commas.
    ///
    /// # Errors
    /// If the words are not a value of this type.
    pub fn parse_words(&self, words: &[&str]) -> Result<Value, Mismatch> {
        let value = self.sealed(read(self, words));
        self.check(&value)?;
        Ok(value)
    }
}

/// Returns the most likely meaning of words for a type. The result may not be of that type.
fn read(data_type: &DataType, words: &[&str]) -> Value {
    match (data_type, words) {
        (DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Init(inner), words) => read(inner, words),
        (DataType::Sensitive(inner), words) => Value::sensitive(read(inner, words)),
        (DataType::Alias(alias), words) => read(&alias.definition(), words),
        (DataType::Variant(types), words) => read_variant(types, words),
        (DataType::Array(of, ..), words) => read_array(of, words),
        (_, [word]) => read_one(data_type, word),
        (_, words) => Value::strings(words.iter().copied()),
    }
}

fn read_one(data_type: &DataType, word: &str) -> Value {
    let text = || Value::from(word);
    match data_type {
        DataType::Boolean(_) => word.parse().map_or_else(|_| text(), Value::Boolean),
        DataType::Integer(..) | DataType::Numeric => numeric(word).unwrap_or_else(text),
        DataType::Float(..) => float(word).unwrap_or_else(text),
        DataType::Binary => Value::Binary(word.as_bytes().into()),
        DataType::Timestamp(..) => word.parse().map_or_else(|_| text(), Value::Timestamp),
        DataType::Timespan(..) => word.parse().map_or_else(|_| text(), Value::Timespan),
        DataType::SemVer(_) => word.parse::<semver::Version>().map_or_else(|_| text(), Value::from),
        DataType::SemVerRange => word.parse().map_or_else(|_| text(), Value::semver_range),
        DataType::Regexp(_) => {
            let source = word.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
            source.map_or_else(text, |source| Value::Regexp(crate::pattern::Regexp::new(source)))
        }
        DataType::Type(_) => word.parse::<DataType>().map_or_else(|_| text(), Value::from),
        DataType::Default if word == "default" => Value::Default,
        DataType::Hash(..)
        | DataType::Struct(_)
        | DataType::Tuple(..)
        | DataType::Collection(..)
        | DataType::Iterable(_)
        | DataType::Any
        | DataType::Data
        | DataType::RichData => json(word).unwrap_or_else(text),
        _ => text(),
    }
}

/// Parses a number in Puppet's notation: `7`, `-7`, `+7`, `0x1f`, `1.5`, `1e3`. Rejects leading zeros, because
/// `0644` could be octal. `0o644` is unambiguous.
fn numeric(word: &str) -> Option<Value> {
    let word = word.trim();
    let (sign, digits) = match word.strip_prefix(['-', '+']) {
        Some(digits) => (if word.starts_with('-') { "-" } else { "" }, digits.trim_start()),
        None => ("", word),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    if let Some(octal) = digits.strip_prefix("0o") {
        let plain = octal.bytes().all(|b| b.is_ascii_digit());
        return plain.then(|| i64::from_str_radix(&format!("{sign}{octal}"), 8).ok()).flatten().map(Value::Integer);
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match number(&format!("{sign}{digits}")).ok()? {
        Parameter::Integer(number) => Some(Value::Integer(number)),
        Parameter::Float(number) => Some(Value::Float(number)),
        _ => None,
    }
}

/// Parses a float. Unlike Puppet, accepts numbers without a fraction.
fn float(word: &str) -> Option<Value> {
    let number: f64 = word.trim().parse().ok()?;
    number.is_finite().then_some(Value::Float(number))
}

/// Parses a JSON array, object or text. Other words are plain texts: if any type is accepted, `1` is not a
/// number.
fn json(word: &str) -> Option<Value> {
    let composed = word.trim_start().starts_with(['[', '{', '"']);
    composed.then(|| serde_json::from_str(word).ok()).flatten().as_ref().map(from_json)
}

fn read_array(of: &DataType, words: &[&str]) -> Value {
    let composed = |data_type: &DataType| {
        matches!(data_type, DataType::Array(..) | DataType::Hash(..) | DataType::Struct(_) | DataType::Tuple(..))
    };
    let elements: Vec<&str> = match words {
        [word] if composed(&of.open()) => return json(word).unwrap_or_else(|| Value::from(*word)),
        [""] => Vec::new(),
        [word] => word.split(',').collect(),
        words => words.to_vec(),
    };
    Value::array(elements.iter().map(|element| read(of, &[element])))
}

/// Returns the value for the first type that accepts the words, with narrow types before wide ones. Puppet
/// rejects a word that is a value of several types.
fn read_variant(types: &[DataType], words: &[&str]) -> Value {
    let mut types: Vec<&DataType> = types.iter().collect();
    types.sort_by_key(|data_type| breadth(data_type));
    let fitting = types.iter().find_map(|data_type| {
        let value = read(data_type, words);
        data_type.check(&value).is_ok().then_some(value)
    });
    fitting.unwrap_or_else(|| match words {
        [word] => Value::from(*word),
        words => Value::strings(words.iter().copied()),
    })
}

fn breadth(data_type: &DataType) -> u8 {
    match *data_type.open() {
        DataType::Boolean(_) => 0,
        DataType::Integer(..) => 1,
        DataType::Float(..) | DataType::Numeric => 2,
        DataType::Enum(_) | DataType::EnumAnyCase(_) | DataType::Literal(_) => 3,
        DataType::Timestamp(..) | DataType::Timespan(..) | DataType::SemVer(_) | DataType::SemVerRange => 4,
        DataType::Pattern(_) => 4,
        DataType::String(..) => 5,
        DataType::Binary => 6,
        DataType::Array(..) => 7,
        _ => 8,
    }
}
