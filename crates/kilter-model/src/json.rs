//! Conversion of values to and from JSON.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::bytes::base64;
use crate::value::{Hash, REDACTED, Value};

/// Converts a JSON document to a value. Integers that do not fit into 64 bits become floats. Every object
/// becomes a hash.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Undef,
        Json::Bool(truth) => Value::Boolean(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Integer(whole),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(values) => Value::Array(values.iter().map(from_json).collect()),
        Json::Object(entries) => {
            let entries: Hash = entries.iter().map(|(k, v)| (k.as_str().into(), from_json(v))).collect();
            Value::Hash(Arc::new(entries))
        }
    }
}

/// Converts a value to JSON for people and logs. Sensitive values are redacted.
///
/// Bytes that are not text become `{"base64": "…"}`. Floats without a JSON number become texts, as do times,
/// versions, regular expressions and types. For a lossless conversion, use
/// [`to_canonical_json`](crate::to_canonical_json).
pub fn to_json(value: &Value) -> Json {
    convert(value, &|_| Json::String(REDACTED.into()))
}

/// Converts a value to JSON with secrets in clear. Use it only for a process or a file that is meant to receive
/// them.
pub fn to_json_clear(value: &Value) -> Json {
    convert(value, &to_json_clear)
}

fn convert(value: &Value, sealed: &dyn Fn(&Value) -> Json) -> Json {
    match value {
        Value::Undef => Json::Null,
        Value::Boolean(truth) => Json::Bool(*truth),
        Value::Integer(number) => Json::from(*number),
        Value::Float(number) => {
            serde_json::Number::from_f64(*number).map_or_else(|| Json::String(number.to_string()), Json::Number)
        }
        Value::String(text) => Json::String(text.as_str().into()),
        Value::Binary(bytes) => {
            Json::Object([("base64".to_owned(), Json::String(base64(bytes)))].into_iter().collect())
        }
        Value::Array(values) => values.iter().map(|v| convert(v, sealed)).collect(),
        Value::Hash(entries) => {
            Json::Object(entries.iter().map(|(k, v)| (k.to_string(), convert(v, sealed))).collect())
        }
        Value::Sensitive(inner) => sealed(inner),
        rich => Json::String(rich.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trip_keeps_values() {
        let json: Json = serde_json::from_str(r#"{"b":[1,2.5,null,true],"a":{"x":"y"}}"#).unwrap();
        assert_eq!(to_json(&from_json(&json)), json);
    }

    #[test]
    fn secrets_are_redacted_unless_requested() {
        let value = Value::sensitive(Value::from("s"));
        assert_eq!(to_json(&value), Json::String(REDACTED.into()));
        assert_eq!(to_json_clear(&value), Json::String("s".into()));
    }
}
