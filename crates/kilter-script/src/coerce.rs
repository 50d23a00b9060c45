//! Converts values of a provider to and from the texts of a script.

use ecow::{EcoString, eco_format};
use kilter_model::{DataType, Value, to_json_clear};

use crate::convention::size::MemoryBudget;

/// Maximum size of a JSON list or table in a value, in bytes.
const MAX_JSON_BYTES: usize = 2 << 20;

/// Writes a value in the `simple` convention, with secrets in clear.
///
/// Texts, numbers and booleans are written as they are, and a list of plain words as `[a, b]`. All other values
/// are JSON.
pub(crate) fn written(value: &Value) -> Vec<u8> {
    match value.unwrap_sensitive() {
        Value::Undef => Vec::new(),
        Value::Binary(bytes) => bytes.to_vec(),
        Value::Array(values) => list(values).unwrap_or_else(|| to_json_clear(value).to_string()).into_bytes(),
        other => match other.to_text() {
            Some(text) => text.as_bytes().to_vec(),
            None => to_json_clear(other).to_string().into_bytes(),
        },
    }
}

/// Formats `[a, b]` if the elements are unambiguous.
fn list(values: &[Value]) -> Option<String> {
    let words: Option<Vec<EcoString>> =
        values.iter().map(|value| value.to_text().filter(|text| is_plain(text))).collect();
    Some(format!("[{}]", words?.join(", ")))
}

fn is_plain(text: &str) -> bool {
    let special = |c: char| c.is_control() || matches!(c, ',' | '[' | ']' | '{' | '}' | '"' | '\'');
    !text.is_empty() && text.trim() == text && !text.contains(special)
}

/// Converts the output of a script to a value of `data_type`. Returns none for an undefined value.
///
/// # Errors
/// The mismatch, if the value is not of that type.
pub(crate) fn typed(data_type: &DataType, raw: &Value) -> Result<Option<Value>, EcoString> {
    let value = match raw {
        Value::Undef => return Ok(None),
        Value::String(text) => match read(data_type, text) {
            // Scripts print an empty value for unknown attributes.
            Err(_) if text.is_empty() => return Ok(None),
            read => read?,
        },
        other => checked(data_type, other.clone())?,
    };
    Ok(Some(data_type.sealed(value)))
}

/// Number of parts above which a value is large.
const LARGE_VALUE_PARTS: usize = 1000;

fn is_large(value: &Value) -> bool {
    fn count(value: &Value, left: &mut usize) {
        *left = left.saturating_sub(1);
        match value {
            _ if *left == 0 => {}
            Value::Array(values) => values.iter().for_each(|value| count(value, left)),
            Value::Hash(entries) => entries.values().for_each(|value| count(value, left)),
            Value::Sensitive(inner) => count(inner, left),
            _ => {}
        }
    }
    let mut left = LARGE_VALUE_PARTS;
    count(value, &mut left);
    left == 0
}

fn checked(data_type: &DataType, value: Value) -> Result<Value, EcoString> {
    if is_large(&value) {
        // A description of each mismatch would take several times the memory of the value.
        return match data_type.accepts(&value) {
            true => Ok(value),
            false => Err(eco_format!("is a large {}, and not of its type", value.kind())),
        };
    }
    match data_type.check(&value) {
        Ok(()) => Ok(value),
        Err(_) if data_type.is_sensitive() => Err("the secret is not of its type".into()),
        Err(_) if is_beyond(data_type, &value) => {
            Err(eco_format!("is too large: an integer is from {} to {}", i64::MIN, i64::MAX))
        }
        Err(mismatch) => Err(eco_format!("{mismatch}")),
    }
}

/// Returns true if a value is not an integer only because it is too large. It is a text in the `simple`
/// convention, and a float in JSON.
fn is_beyond(data_type: &DataType, value: &Value) -> bool {
    let is_large = match value {
        Value::String(text) => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_err()
        }
        Value::Float(number) => number.abs() >= -(i64::MIN as f64),
        _ => false,
    };
    is_large && matches!(&*data_type.open(), DataType::Integer(..))
}

fn read(data_type: &DataType, text: &EcoString) -> Result<Value, EcoString> {
    match &*data_type.open() {
        DataType::String(None, None) => Ok(Value::String(text.clone())),
        DataType::Boolean(_) => match text.to_lowercase().parse::<bool>() {
            Ok(truth) => checked(data_type, Value::Boolean(truth)),
            Err(_) => checked(data_type, Value::String(text.clone())),
        },
        DataType::Array(of, ..) => {
            let elements = elements(text).ok_or_else(|| eco_format!("it is no list: [a, b], or an array of JSON"))?;
            let typed = elements.into_iter().map(|element| match element {
                Element::Text(text) => read(of, &text),
                Element::Json(value) => checked(of, value),
            });
            checked(data_type, Value::array(typed.collect::<Result<Vec<_>, _>>()?))
        }
        _ => match data_type.parse_word(text) {
            Ok(value) => Ok(value),
            Err(_) => checked(data_type, Value::String(text.clone())),
        },
    }
}

enum Element {
    Text(EcoString),
    Json(Value),
}

/// Parses a list: `a, b`, `[a, b]`, `['a', 'b']` or JSON.
fn elements(text: &str) -> Option<Vec<Element>> {
    let inner = match text.strip_prefix('[') {
        None => text,
        Some(_) if text.contains(['"', '{']) => return from_json(text),
        Some(rest) => rest.strip_suffix(']')?,
    };
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    if inner.contains('\'') {
        return quoted(inner);
    }
    if inner.starts_with('[') {
        return from_json(text);
    }
    Some(inner.split(',').map(|element| Element::Text(element.trim().into())).collect())
}

fn from_json(text: &str) -> Option<Vec<Element>> {
    // A text that expands to much more memory than its size is not a legitimate list.
    MemoryBudget::of(MAX_JSON_BYTES).holds_tree(text).ok()?;
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let values = kilter_model::from_json(&json);
    let element = |value: &Value| match value {
        Value::String(text) => Element::Text(text.clone()),
        other => Element::Json(other.clone()),
    };
    Some(values.as_array()?.iter().map(element).collect())
}

/// Parses elements separated by commas. Single quotes protect an element.
fn quoted(mut rest: &str) -> Option<Vec<Element>> {
    let mut elements = Vec::new();
    loop {
        rest = rest.trim_start();
        let end = match rest.strip_prefix('\'') {
            // A quote ends an element only before a comma or the end.
            Some(inner) => {
                let is_end = |at: &usize| matches!(inner[at + 1..].trim_start().chars().next(), None | Some(','));
                let end = inner.match_indices('\'').map(|(at, _)| at).find(is_end)?;
                elements.push(Element::Text(inner[..end].into()));
                end + 2
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                elements.push(Element::Text(rest[..end].trim().into()));
                end
            }
        };
        match rest[end..].trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some(elements),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(data_type: &str, text: &str) -> Result<Option<Value>, EcoString> {
        let data_type = DataType::parse_libral(data_type).unwrap_or_else(|_| data_type.parse().unwrap());
        typed(&data_type, &Value::from(text))
    }

    fn is(data_type: &str, text: &str) -> Value {
        of(data_type, text).unwrap().unwrap()
    }

    #[test]
    fn integer_above_64_bits_is_too_large() {
        let why = "is too large: an integer is from -9223372036854775808 to 9223372036854775807";
        assert_eq!(is("Integer", "9223372036854775807"), Value::Integer(i64::MAX));
        for text in ["9223372036854775808", "-9223372036854775809"] {
            assert_eq!(of("Optional[Integer]", text), Err(why.into()));
            assert_eq!(of("Array[Integer]", &format!("[{text}]")), Err(why.into()));
            let json = kilter_model::from_json(&serde_json::from_str(text).unwrap());
            assert_eq!(typed(&"Integer[0]".parse().unwrap(), &json), Err(why.into()), "{json:?}");
        }
        let mismatch = |text: &str| Err(eco_format!("expects an Integer value, got {text}"));
        assert_eq!(of("Integer", "99999999999999999999x"), mismatch("String"));
        assert_eq!(of("Integer", "-"), mismatch("String"));
        assert_eq!(typed(&"Integer".parse().unwrap(), &Value::Float(1.0)), mismatch("Float"));
        assert_eq!(of("Sensitive[Integer]", "99999999999999999999"), Err("the secret is not of its type".into()));
    }

    #[test]
    fn a_text_becomes_a_value_of_its_type() {
        assert_eq!(is("string", "True"), Value::from("True"));
        assert_eq!(is("string", ""), Value::from(""));
        assert_eq!(is("boolean", "True"), Value::Boolean(true));
        assert_eq!(is("boolean", "false"), Value::Boolean(false));
        assert_eq!(is("enum[true, false, mask]", "true"), Value::from("true"));
        assert_eq!(is("Integer[0, 10]", "7"), Value::Integer(7));
        assert_eq!(is("Optional[Float]", "1.5"), Value::Float(1.5));
        assert_eq!(is("Hash[String, Integer]", r#"{"a": 1}"#), Value::hash([("a", Value::Integer(1))]));
        assert!(is("Sensitive[String]", "x").holds_sensitive());
    }

    #[test]
    fn text_outside_of_its_type_is_refused() {
        assert!(of("boolean", "yes").unwrap_err().contains("Boolean"));
        assert!(of("enum[a, b]", "c").unwrap_err().contains("'a'"));
        assert!(of("Integer", "7x").is_err());
        assert!(of("Integer", "99999999999999999999").is_err());
        assert!(of("array[string]", "[a, b").is_err());
        assert!(!of("Sensitive[Integer]", "hunter2").unwrap_err().contains("hunter2"));
    }

    #[test]
    fn type_error_omits_large_value() {
        let list = |value: &str| format!("[{}]", vec![value; 5000].join(", "));
        assert_eq!(is("Array[Integer]", &list("1")).as_array().unwrap().len(), 5000);
        let why = typed(&"String".parse().unwrap(), &is("array[string]", &list("a"))).unwrap_err();
        assert!(why.contains("large") && why.len() < 100, "{why}");
    }

    #[test]
    fn empty_value_is_missing_except_for_texts() {
        assert_eq!(of("enum[a, b]", ""), Ok(None));
        assert_eq!(of("boolean", ""), Ok(None));
        assert_eq!(of("Integer", ""), Ok(None));
        assert_eq!(is("array[string]", ""), Value::array([]));
    }

    #[test]
    fn lists_are_read_in_every_form_that_scripts_print() {
        let list = |words: &[&str]| Value::strings(words.iter().copied());
        for (text, words) in [
            ("a,b", &["a", "b"][..]),
            ("a, b ", &["a", "b"]),
            ("[a, b]", &["a", "b"]),
            ("['a', 'b']", &["a", "b"]),
            ("['it's', 'a,b']", &["it's", "a,b"]),
            (r#"["a", "b\n]"]"#, &["a", "b\n]"]),
            ("[]", &[]),
            ("['']", &[""]),
            ("one", &["one"]),
            ("[1, 2.0, true, null]", &["1", "2.0", "true", "null"]),
        ] {
            assert_eq!(is("array[string]", text), list(words), "{text}");
        }
        assert_eq!(is("Array[Integer]", "[1, 2]"), Value::array([Value::Integer(1), Value::Integer(2)]));
        assert_eq!(
            is("Array[Array[Integer]]", "[[1], []]"),
            Value::array([Value::array([Value::Integer(1)]), Value::array([])])
        );
    }

    #[test]
    fn script_value_encoding_round_trips() {
        let data_type = DataType::parse_libral("array[string]").unwrap();
        for words in [
            &[][..],
            &["a"],
            &["a", "b c"],
            &[""],
            &[" a"],
            &["a,b", "c"],
            &["it's", "\"x\"", "[", "$(id)", "a\nb"],
            &["1", "true", "null", "01"],
        ] {
            let value = Value::strings(words.iter().copied());
            let text = String::from_utf8(written(&value)).unwrap();
            assert_eq!(typed(&data_type, &Value::from(text.as_str())), Ok(Some(value)), "{text}");
        }
        assert_eq!(written(&Value::strings(["a", "b"])), b"[a, b]");
        assert_eq!(written(&Value::Boolean(true)), b"true");
        assert_eq!(written(&Value::sensitive("s".into())), b"s");
        assert_eq!(written(&Value::hash([("a", Value::Integer(1))])), br#"{"a":1}"#);
    }

    #[test]
    fn json_values_are_checked_against_their_type() {
        let data_type = |text: &str| text.parse::<DataType>().unwrap();
        assert_eq!(typed(&data_type("Integer"), &Value::Integer(5)), Ok(Some(Value::Integer(5))));
        assert!(typed(&data_type("Boolean"), &Value::Integer(5)).is_err());
        assert!(typed(&data_type("String"), &Value::Integer(5)).is_err());
        assert_eq!(typed(&data_type("String"), &Value::Undef), Ok(None));
        assert_eq!(typed(&data_type("Integer"), &Value::from("5")), Ok(Some(Value::Integer(5))));
    }
}
