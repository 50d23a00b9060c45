//! Values of attributes, facts and variables.

use std::fmt;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;

use crate::data_type::DataType;
use crate::pattern::Regexp;
use crate::semver_range::SemVerRange;
use crate::time::{Timespan, Timestamp};

/// What is shown in the place of a sensitive value.
pub const REDACTED: &str = "[redacted]";

/// A hash that keeps the order of its keys.
pub type Hash = IndexMap<EcoString, Value, rustc_hash::FxBuildHasher>;

/// A value of an attribute, a fact or a variable.
///
/// Cloning is cheap: texts, arrays and bytes are shared.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value. In a `should`, an attribute that is left alone.
    #[default]
    Undef,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    String(EcoString),
    /// Bytes that need not be text.
    Binary(Arc<[u8]>),
    /// Values in order.
    Array(Arc<[Value]>),
    /// Values by key, in order.
    Hash(Arc<Hash>),
    /// A value that is never shown, logged or stored.
    Sensitive(Arc<Value>),
    /// What is meant when nothing is said.
    Default,
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time.
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
    /// An array of `values`.
    pub fn array(values: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(values.into_iter().collect())
    }

    /// An array of texts.
    pub fn strings<T: Into<EcoString>>(values: impl IntoIterator<Item = T>) -> Value {
        Value::Array(values.into_iter().map(|text| Value::String(text.into())).collect())
    }

    /// A hash of `entries`.
    pub fn hash<K: Into<EcoString>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Hash(Arc::new(entries.into_iter().map(|(k, v)| (k.into(), v)).collect()))
    }

    /// A sensitive value; wrapping twice is wrapping once.
    pub fn sensitive(value: Value) -> Value {
        match value {
            sealed @ Value::Sensitive(_) => sealed,
            open => Value::Sensitive(Arc::new(open)),
        }
    }

    /// A range of semantic versions.
    pub fn semver_range(range: SemVerRange) -> Value {
        Value::SemVerRange(Arc::new(range))
    }

    /// The text of bytes: a string if they are UTF-8, binary otherwise.
    pub fn from_bytes(bytes: &[u8]) -> Value {
        match std::str::from_utf8(bytes) {
            Ok(text) => Value::String(text.into()),
            Err(_) => Value::Binary(bytes.into()),
        }
    }

    /// The value inside of a sensitive one, or the value itself.
    pub fn unwrap_sensitive(&self) -> &Value {
        match self {
            Value::Sensitive(inner) => inner.unwrap_sensitive(),
            open => open,
        }
    }

    /// Whether the value is sensitive or holds one that is.
    pub fn holds_sensitive(&self) -> bool {
        match self {
            Value::Sensitive(_) => true,
            Value::Array(values) => values.iter().any(Value::holds_sensitive),
            Value::Hash(entries) => entries.values().any(Value::holds_sensitive),
            _ => false,
        }
    }

    /// The value without its seals, those inside of it included.
    pub fn clear(&self) -> Value {
        if !self.holds_sensitive() {
            return self.clone();
        }
        match self {
            Value::Sensitive(inner) => inner.clear(),
            Value::Array(values) => Value::Array(values.iter().map(Value::clear).collect()),
            Value::Hash(entries) => {
                Value::Hash(Arc::new(entries.iter().map(|(key, value)| (key.clone(), value.clear())).collect()))
            }
            other => other.clone(),
        }
    }

    /// Whether both are the same, whatever of them is sealed, at any depth. What is no number is the same
    /// as what is no number.
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

    /// Whether there is no value.
    pub fn is_undef(&self) -> bool {
        matches!(self, Value::Undef)
    }

    /// The text of a string; sensitive ones included.
    pub fn as_str(&self) -> Option<&str> {
        match self.unwrap_sensitive() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a string or a binary; sensitive ones included.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.unwrap_sensitive() {
            Value::String(text) => Some(text.as_bytes()),
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The truth of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.unwrap_sensitive() {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The number of an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self.unwrap_sensitive() {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The values of an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self.unwrap_sensitive() {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    /// The entries of a hash.
    pub fn as_hash(&self) -> Option<&Hash> {
        match self.unwrap_sensitive() {
            Value::Hash(entries) => Some(entries),
            _ => None,
        }
    }

    /// The values of an array, or the value as the only one; none for undef.
    pub fn as_list(&self) -> &[Value] {
        match self.unwrap_sensitive() {
            Value::Undef => &[],
            Value::Array(values) => values,
            single => std::slice::from_ref(single),
        }
    }

    /// The text of a scalar, sealed ones in clear: for a program that is to be given the value. What is
    /// shown to people is its [`Display`](fmt::Display).
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

    /// The name of the value's kind in Puppet's words: `String`, `Integer`, …
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

/// Shows the value for people: text as it is, secrets redacted.
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

/// As [`Display`](fmt::Display), with text quoted.
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
    fn a_secret_is_never_shown() {
        let secret = Value::sensitive(Value::from("hunter2"));
        let nested = Value::hash([("password", secret.clone())]);
        for text in [secret.to_string(), format!("{secret:?}"), nested.to_string(), format!("{nested:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert!(nested.holds_sensitive());
        assert_eq!(Value::sensitive(Value::Integer(7)).to_text().as_deref(), Some("7"));
    }
}
