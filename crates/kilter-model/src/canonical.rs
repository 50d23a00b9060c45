//! Lossless conversion of values to and from JSON.
//!
//! JSON's own kinds of values stay as they are. Other kinds use Puppet's rich data format: an object with the
//! keys `__ptype` and `__pvalue`. A hash that itself has the key `__ptype` is also written as such an object.

use std::sync::Arc;

use ecow::EcoString;
use serde_json::{Value as Json, json};

use crate::bytes::{base64, from_base64};
use crate::data_type::DataType;
use crate::pattern::Regexp;
use crate::value::{Hash, Value};

const TYPE: &str = "__ptype";
const VALUE: &str = "__pvalue";

/// Maximum nesting depth of a value.
const DEEPEST: usize = 128;

/// Reason why JSON is not a canonical value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// An integer does not fit into 64 bits.
    #[error("{0} is beyond whole numbers, which have 64 bits")]
    Integer(String),
    /// The kind of value is unknown.
    #[error("unknown type of values `{0}`")]
    Kind(String),
    /// The content does not match its declared kind.
    #[error("{given} is not {kind}")]
    Content {
        /// The declared kind, with an article.
        kind: &'static str,
        /// The content as JSON.
        given: String,
    },
    /// The content of the secret was redacted.
    #[error("the secret was redacted when it was written")]
    Redacted,
    /// A tagged object has another key in addition to `__pvalue`.
    #[error("an object with `__ptype` has no other key than `__pvalue`, and not `{0}`")]
    Key(String),
    /// The value is nested too deeply.
    #[error("values are nested more than 128 deep")]
    Depth,
}

/// Converts a value to JSON. [`from_canonical_json`] restores the same value, except secrets: they are
/// redacted, and reading them is an error.
pub fn to_canonical_json(value: &Value) -> Json {
    write(value, false)
}

/// Converts a value to JSON with secrets in clear. Use it only for a process or a file that is meant to receive
/// them.
pub fn to_canonical_json_clear(value: &Value) -> Json {
    write(value, true)
}

fn tagged(kind: &str, value: impl Into<Json>) -> Json {
    json!({ TYPE: kind, VALUE: value.into() })
}

fn write(value: &Value, clear: bool) -> Json {
    match value {
        Value::Undef => Json::Null,
        Value::Boolean(truth) => Json::Bool(*truth),
        Value::Integer(number) => Json::from(*number),
        Value::Float(number) => match serde_json::Number::from_f64(*number) {
            Some(number) => Json::Number(number),
            None => tagged("Float", number.to_string()),
        },
        Value::String(text) => Json::String(text.as_str().into()),
        Value::Array(values) => values.iter().map(|value| write(value, clear)).collect(),
        Value::Hash(entries) if entries.contains_key(TYPE) => {
            let pairs = entries.iter().flat_map(|(key, value)| [Json::from(key.as_str()), write(value, clear)]);
            tagged("Hash", pairs.collect::<Json>())
        }
        Value::Hash(entries) => {
            Json::Object(entries.iter().map(|(key, value)| (key.to_string(), write(value, clear))).collect())
        }
        Value::Binary(bytes) => tagged("Binary", base64(bytes)),
        Value::Sensitive(inner) if clear => tagged("Sensitive", write(inner, clear)),
        Value::Sensitive(_) => json!({ TYPE: "Sensitive" }),
        Value::Default => json!({ TYPE: "Default" }),
        Value::Regexp(regexp) => tagged("Regexp", regexp.source().as_str()),
        Value::Timestamp(_) | Value::Timespan(_) | Value::SemVer(_) | Value::SemVerRange(_) | Value::Type(_) => {
            tagged(value.kind(), value.to_string())
        }
    }
}

/// Reads a value from canonical JSON.
///
/// # Errors
/// If [`to_canonical_json_clear`] could not have written the JSON.
pub fn from_canonical_json(json: &Json) -> Result<Value, CanonicalError> {
    read(json, 0)
}

fn read(json: &Json, depth: usize) -> Result<Value, CanonicalError> {
    if depth > DEEPEST {
        return Err(CanonicalError::Depth);
    }
    Ok(match json {
        Json::Null => Value::Undef,
        Json::Bool(truth) => Value::Boolean(*truth),
        Json::Number(number) => match (number.as_i64(), number.is_f64()) {
            (Some(whole), _) => Value::Integer(whole),
            (None, true) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            (None, false) => return Err(CanonicalError::Integer(number.to_string())),
        },
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(values) => {
            let values: Result<Vec<Value>, _> = values.iter().map(|value| read(value, depth + 1)).collect();
            Value::Array(values?.into())
        }
        Json::Object(entries) => match entries.get(TYPE) {
            Some(kind) => {
                if let Some(key) = entries.keys().find(|key| ![TYPE, VALUE].contains(&key.as_str())) {
                    return Err(CanonicalError::Key(key.clone()));
                }
                rich(kind, entries.get(VALUE), depth)?
            }
            None => {
                let entries = entries.iter().map(|(key, value)| Ok((EcoString::from(key), read(value, depth + 1)?)));
                Value::Hash(Arc::new(entries.collect::<Result<Hash, CanonicalError>>()?))
            }
        },
    })
}

/// Returns the value of a tagged object.
fn rich(kind: &Json, content: Option<&Json>, depth: usize) -> Result<Value, CanonicalError> {
    let unknown = || CanonicalError::Kind(kind.as_str().map_or_else(|| kind.to_string(), str::to_owned));
    let wrong = |kind| CanonicalError::Content { kind, given: content.unwrap_or(&Json::Null).to_string() };
    let text = content.and_then(Json::as_str);
    let parsed = |value: Option<Value>, kind| value.ok_or_else(|| wrong(kind));
    match kind.as_str().ok_or_else(unknown)? {
        "Default" if content.is_none() => Ok(Value::Default),
        "Default" => Err(wrong("a Default, which has no content")),
        "Sensitive" => match content {
            Some(content) => read(content, depth + 1).map(Value::sensitive),
            None => Err(CanonicalError::Redacted),
        },
        "Binary" => {
            let bytes = text.and_then(from_base64);
            parsed(bytes.map(|bytes| Value::Binary(bytes.into())), "base64")
        }
        "Float" => {
            let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| !number.is_finite());
            parsed(number.map(Value::Float), "NaN, inf or -inf")
        }
        "Regexp" => parsed(text.map(|text| Value::Regexp(Regexp::new(text))), "a regular expression"),
        "Timestamp" => parsed(text.and_then(|text| text.parse().ok()).map(Value::Timestamp), "a point in time"),
        "Timespan" => parsed(text.and_then(|text| text.parse().ok()).map(Value::Timespan), "a span of time"),
        "SemVer" => {
            parsed(text.and_then(|text| text.parse::<semver::Version>().ok()).map(Value::from), "a semantic version")
        }
        "SemVerRange" => {
            parsed(text.and_then(|text| text.parse().ok()).map(Value::semver_range), "a range of semantic versions")
        }
        "Type" => parsed(text.and_then(|text| text.parse::<DataType>().ok()).map(Value::from), "a data type"),
        "Hash" => {
            let pairs = content.and_then(Json::as_array).filter(|pairs| pairs.len() % 2 == 0);
            let mut entries = Hash::default();
            for pair in pairs.ok_or_else(|| wrong("a list of keys and values"))?.chunks(2) {
                let key = pair[0].as_str().ok_or_else(|| wrong("a list of keys and values"))?;
                entries.insert(key.into(), read(&pair[1], depth + 1)?);
            }
            Ok(Value::Hash(Arc::new(entries)))
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_round_trip_keeps_values() {
        let tagged = Value::hash([("__ptype", Value::from("Sensitive")), ("x", Value::Undef)]);
        for value in [
            Value::Undef,
            Value::Default,
            Value::Boolean(true),
            Value::Integer(i64::MIN),
            Value::Integer(1),
            Value::Float(1.0),
            Value::Float(-0.1),
            Value::Float(f64::INFINITY),
            Value::from("x\u{0}é"),
            Value::Binary(b"\xff\x00x".as_slice().into()),
            Value::array([Value::Integer(1), Value::array([])]),
            Value::hash([("b", Value::Integer(1)), ("a", Value::hash([("", Value::Float(2.0))]))]),
            tagged.clone(),
            Value::array([tagged]),
            Value::sensitive(Value::Binary(b"\xff".as_slice().into())),
            Value::Timestamp("2026-01-31T12:00:00.123456789".parse().unwrap()),
            Value::Timespan("-1-02:03:04.5".parse().unwrap()),
            Value::Regexp(Regexp::new(r"\Aa/b\z")),
            Value::from(semver::Version::parse("1.2.3-rc.1+b").unwrap()),
            Value::semver_range(">=1.0.0 <2.0.0".parse().unwrap()),
            Value::from("Struct[{a => Integer[1, 2]}]".parse::<DataType>().unwrap()),
        ] {
            let json = to_canonical_json_clear(&value).to_string();
            let back = from_canonical_json(&serde_json::from_str(&json).unwrap()).unwrap();
            assert_eq!(back, value, "{json}");
            assert_eq!(back.kind(), value.kind());
        }
    }

    #[test]
    fn rich_data_is_written_as_puppet_writes_it() {
        let time = Value::Timestamp("2026-01-31".parse().unwrap());
        let expected = json!({ "__ptype": "Timestamp", "__pvalue": "2026-01-31T00:00:00.000000000 UTC" });
        assert_eq!(to_canonical_json(&time), expected);
        let bytes = Value::Binary(b"\xff\xfe".as_slice().into());
        assert_eq!(to_canonical_json(&bytes), json!({ "__ptype": "Binary", "__pvalue": "//4=" }));
        let tagged = Value::hash([("__ptype", Value::from("x"))]);
        assert_eq!(to_canonical_json(&tagged), json!({ "__ptype": "Hash", "__pvalue": ["__ptype", "x"] }));
        assert_eq!(to_canonical_json(&Value::Float(1.0)).to_string(), "1.0");
    }

    #[test]
    fn secrets_are_redacted_unless_requested() {
        let secret = Value::array([Value::sensitive(Value::from("hunter2"))]);
        let json = to_canonical_json(&secret);
        assert!(!json.to_string().contains("hunter2"));
        assert_eq!(from_canonical_json(&json), Err(CanonicalError::Redacted));
        assert!(to_canonical_json_clear(&secret).to_string().contains("hunter2"));
    }

    #[test]
    fn invalid_canonical_json_is_refused() {
        for (text, message) in [
            ("18446744073709551615", "18446744073709551615 is beyond whole numbers, which have 64 bits"),
            (r#"{"__ptype":"Wibble"}"#, "unknown type of values `Wibble`"),
            (r#"{"__ptype":1}"#, "unknown type of values `1`"),
            (r#"{"__ptype":"Binary","__pvalue":"!"}"#, "\"!\" is not base64"),
            (r#"{"__ptype":"Timestamp"}"#, "null is not a point in time"),
            (r#"{"__ptype":"Hash","__pvalue":["a"]}"#, "[\"a\"] is not a list of keys and values"),
            (
                r#"{"__ptype":"Default","x":1}"#,
                "an object with `__ptype` has no other key than `__pvalue`, and not `x`",
            ),
        ] {
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!(from_canonical_json(&json).unwrap_err().to_string(), message);
        }
        let mut deep = Json::Null;
        for _ in 0..1000 {
            deep = Json::Array(vec![deep]);
        }
        assert_eq!(from_canonical_json(&deep), Err(CanonicalError::Depth));
    }
}
