//! Values of attributes, facts and variables.

use std::fmt;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;

use crate::data_type::DataType;
use crate::pattern::Regexp;
use crate::semver_range::SemVerRange;
use crate::time::{Timespan, Timestamp};

/// Text shown instead of a sensitive value.
pub const REDACTED: &str = "[redacted]";

/// A hash that keeps the order of its keys.
pub type Hash = IndexMap<EcoString, Value, rustc_hash::FxBuildHasher>;

/// A value of an attribute, a fact or a variable.
///
/// Cloning is cheap: texts, arrays and bytes are shared.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value. As a desired value, the attribute is not managed.
    #[default]
    Undef,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    String(EcoString),
    /// Bytes that may not be valid text.
    Binary(Arc<[u8]>),
    /// An ordered list of values.
    Array(Arc<[Value]>),
    /// An ordered map of keys to values.
    Hash(Arc<Hash>),
    /// A value that is never shown, logged or stored.
    Sensitive(Arc<Value>),
    /// Puppet's `default`: the value used if none is given.
    Default,
    /// A point in time.
    Timestamp(Timestamp),
    /// A duration.
    Timespan(Timespan),
    /// A regular expression.
    Regexp(Regexp),
    /// A semantic version.
    SemVer(Arc<semver::Version>),
    /// A range of semantic versions.
    SemVerRange(Arc<SemVerRange>),
    /// A data type.
    Type(Arc<DataType>),
}

impl Value {
    /// Creates an array of `values`.
    pub fn array(values: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(values.into_iter().collect())
    }

    /// Creates an array of texts.
    pub fn strings<T: Into<EcoString>>(values: impl IntoIterator<Item = T>) -> Value {
        Value::Array(values.into_iter().map(|text| Value::String(text.into())).collect())
    }

    /// Creates a hash of `entries`.
    pub fn hash<K: Into<EcoString>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Hash(Arc::new(entries.into_iter().map(|(k, v)| (k.into(), v)).collect()))
    }

    /// Makes a value sensitive. Has no effect on a sensitive value.
    pub fn sensitive(value: Value) -> Value {
        match value {
            sealed @ Value::Sensitive(_) => sealed,
            open => Value::Sensitive(Arc::new(open)),
        }
    }

    /// Creates a version range.
    pub fn semver_range(range: SemVerRange) -> Value {
        Value::SemVerRange(Arc::new(range))
    }

    /// Converts bytes to a string if they are UTF-8, otherwise to a binary.
    pub fn from_bytes(bytes: &[u8]) -> Value {
        match std::str::from_utf8(bytes) {
            Ok(text) => Value::String(text.into()),
            Err(_) => Value::Binary(bytes.into()),
        }
    }

    /// Returns the content of a sensitive value, or the value itself.
    pub fn unwrap_sensitive(&self) -> &Value {
        match self {
            Value::Sensitive(inner) => inner.unwrap_sensitive(),
            open => open,
        }
    }

    /// Returns true if the value is sensitive or contains a sensitive value.
    pub fn holds_sensitive(&self) -> bool {
        match self {
            Value::Sensitive(_) => true,
            Value::Array(values) => values.iter().any(Value::holds_sensitive),
            Value::Hash(entries) => entries.values().any(Value::holds_sensitive),
            _ => false,
        }
    }

    /// Returns the value with all secrets in clear, at any depth.
    pub fn expose(&self) -> Value {
        if !self.holds_sensitive() {
            return self.clone();
        }
        match self {
            Value::Sensitive(inner) => inner.expose(),
            Value::Array(values) => Value::Array(values.iter().map(Value::expose).collect()),
            Value::Hash(entries) => {
                Value::Hash(Arc::new(entries.iter().map(|(key, value)| (key.clone(), value.expose())).collect()))
            }
            other => other.clone(),
        }
    }

    /// Compares two values and ignores sensitivity, at any depth. NaN equals NaN.
    pub fn is_same(&self, other: &Value) -> bool {
        match (self.unwrap_sensitive(), other.unwrap_sensitive()) {
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| one.is_same(other))
            }
            (Value::Hash(one), Value::Hash(other)) => {
                let has = |(key, value): (&EcoString, &Value)| other.get(key).is_some_and(|other| value.is_same(other));
                one.len() == other.len() && one.iter().all(has)
            }
            (Value::Float(one), Value::Float(other)) => one == other || one.is_nan() && other.is_nan(),
            (one, other) => one == other,
        }
    }

    /// Returns true if the value is undef.
    pub fn is_undef(&self) -> bool {
        matches!(self, Value::Undef)
    }

    /// Returns the text of a string, also if it is sensitive.
    pub fn as_str(&self) -> Option<&str> {
        match self.unwrap_sensitive() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the bytes of a string or a binary, also if it is sensitive.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.unwrap_sensitive() {
            Value::String(text) => Some(text.as_bytes()),
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.unwrap_sensitive() {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the value of an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self.unwrap_sensitive() {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the elements of an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self.unwrap_sensitive() {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the entries of a hash.
    pub fn as_hash(&self) -> Option<&Hash> {
        match self.unwrap_sensitive() {
            Value::Hash(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the elements of an array, or a list with the value itself. Empty for undef.
    pub fn as_list(&self) -> &[Value] {
        match self.unwrap_sensitive() {
            Value::Undef => &[],
            Value::Array(values) => values,
            single => std::slice::from_ref(single),
        }
    }

    /// Returns the text of a scalar for a program, with secrets in clear. For people, use its
    /// [`Display`](fmt::Display).
    pub fn to_text(&self) -> Option<EcoString> {
        match self.unwrap_sensitive() {
            Value::String(text) => Some(text.clone()),
            scalar @ (Value::Boolean(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Timestamp(_)
            | Value::Timespan(_)
            | Value::SemVer(_)
            | Value::SemVerRange(_)) => Some(eco_format!("{scalar}")),
            _ => None,
        }
    }

    /// Returns the kind of the value in Puppet's words: `String`, `Integer`, …
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Undef => "Undef",
            Value::Boolean(_) => "Boolean",
            Value::Integer(_) => "Integer",
            Value::Float(_) => "Float",
            Value::String(_) => "String",
            Value::Binary(_) => "Binary",
            Value::Array(_) => "Array",
            Value::Hash(_) => "Hash",
            Value::Sensitive(_) => "Sensitive",
            Value::Default => "Default",
            Value::Timestamp(_) => "Timestamp",
            Value::Timespan(_) => "Timespan",
            Value::Regexp(_) => "Regexp",
            Value::SemVer(_) => "SemVer",
            Value::SemVerRange(_) => "SemVerRange",
            Value::Type(_) => "Type",
        }
    }
}

/// Formats the value for people: text as it is, secrets redacted.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Undef => f.write_str("undef"),
            Value::Boolean(truth) => write!(f, "{truth}"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number:?}"),
            Value::String(text) => f.write_str(text),
            Value::Binary(bytes) => write!(f, "<{} bytes>", bytes.len()),
            Value::Array(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("]")
            }
            Value::Hash(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{key}: {value}")?;
                }
                f.write_str("}")
            }
            Value::Sensitive(_) => f.write_str(REDACTED),
            Value::Default => f.write_str("default"),
            Value::Timestamp(time) => write!(f, "{time}"),
            Value::Timespan(span) => write!(f, "{span}"),
            Value::Regexp(regexp) => write!(f, "{regexp}"),
            Value::SemVer(version) => write!(f, "{version}"),
            Value::SemVerRange(range) => write!(f, "{range}"),
            Value::Type(data_type) => write!(f, "{data_type}"),
        }
    }
}

/// Like [`Display`](fmt::Display), with quoted text.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => write!(f, "{text:?}"),
            Value::Array(values) => f.debug_list().entries(values.iter()).finish(),
            Value::Hash(entries) => f.debug_map().entries(entries.iter()).finish(),
            other => write!(f, "{other}"),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text.into())
    }
}

impl From<EcoString> for Value {
    fn from(text: EcoString) -> Value {
        Value::String(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Boolean(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Float(number)
    }
}

impl From<semver::Version> for Value {
    fn from(version: semver::Version) -> Value {
        Value::SemVer(Arc::new(version))
    }
}

impl From<DataType> for Value {
    fn from(data_type: DataType) -> Value {
        Value::Type(Arc::new(data_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_at_most_24_bytes() {
        assert!(size_of::<Value>() <= 24, "{}", size_of::<Value>());
    }

    #[test]
    fn secret_is_redacted_in_debug_and_display() {
        let secret = Value::sensitive(Value::from("hunter2"));
        let nested = Value::hash([("password", secret.clone())]);
        for text in [secret.to_string(), format!("{secret:?}"), nested.to_string(), format!("{nested:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert!(nested.holds_sensitive());
        assert_eq!(Value::sensitive(Value::Integer(7)).to_text().as_deref(), Some("7"));
    }
}
