//! Values of attributes from words of the command line.

use std::fmt;

use kilter_model::foreign_words::{attribute_hint, value_hint};
use kilter_model::suggest::nearest;
use kilter_model::{AttributeName, AttributeSchema, DataType, TitleError, TypeSchema, Value};

use crate::exit::Exit;
use crate::output;

/// Error for words that are no value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WordError {
    attribute: AttributeName,
    /// Given words; none if they are secret.
    given: Option<String>,
    expected: DataType,
}

impl WordError {
    /// Returns a hint for a value of a type: for words of other tools, kilter's word. Otherwise the same as
    /// [`WordError::hint`].
    pub(crate) fn hint_of(&self, type_name: &str) -> Option<String> {
        let allowed = self.expected.allowed();
        let given = self.given.as_deref().unwrap_or_default();
        match value_hint(type_name, self.attribute.as_str(), given, &allowed) {
            Some(hint) => Some(hint.into()),
            None => self.hint(),
        }
    }

    /// Returns a hint, if any.
    pub(crate) fn hint(&self) -> Option<String> {
        let allowed = self.expected.allowed();
        let given = self.given.as_deref().unwrap_or_default();
        if let Some(meant) = nearest(given, allowed.iter().copied()) {
            return Some(format!("did you mean `{meant}`? Allowed are {}", allowed.join(", ")));
        }
        match &*self.expected.open() {
            _ if !allowed.is_empty() => Some(format!("allowed are {}", allowed.join(", "))),
            DataType::Boolean(_) => Some("allowed are true, false".to_owned()),
            DataType::Hash(..) | DataType::Struct(_) | DataType::Tuple(..) => Some("it is written as JSON".to_owned()),
            DataType::Array(..) => Some(format!("a list is written {0}=a,b or {0}=a {0}=b", self.attribute)),
            _ => None,
        }
    }
}

impl fmt::Display for WordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the attribute `{}` takes {}, ", self.attribute, self.expected)?;
        match &self.given {
            Some(given) => write!(f, "not `{given}`"),
            None => f.write_str("which the secret that was given is not"),
        }
    }
}

/// Returns the value of words, by the type of the attribute. Several words are the elements of a list; one word is
/// a list separated by commas.
///
/// # Errors
/// If they are no value of the attribute.
pub(crate) fn value_of(attribute: &AttributeSchema, words: &[&str]) -> Result<Value, WordError> {
    attribute.data_type.parse_words(words).map_err(|_| WordError {
        attribute: attribute.name.clone(),
        given: (!attribute.data_type.may_hold_secrets()).then(|| words.join(" ")),
        expected: attribute.data_type.clone(),
    })
}

/// Returns the value of a text from another source: without commas and JSON, as bytes if the type permits them.
///
/// # Errors
/// If it is no value of the attribute.
pub(crate) fn value_of_bytes(attribute: &AttributeSchema, bytes: &[u8]) -> Result<Value, WordError> {
    let data_type = &attribute.data_type;
    let given = Value::from_bytes(bytes);
    if data_type.check(&given).is_ok() {
        return Ok(data_type.sealed(given));
    }
    let binary = Value::Binary(bytes.into());
    if data_type.check(&binary).is_ok() {
        return Ok(data_type.sealed(binary));
    }
    value_of(attribute, &[&String::from_utf8_lossy(bytes)])
}

/// Reports that a type has no such attribute.
pub(crate) fn no_attribute(schema: &TypeSchema, name: &str) -> Exit {
    let type_name = &schema.name;
    let known = schema.attributes.iter().map(|attribute| attribute.name.as_str());
    let has = |word: &str| schema.find(word).is_some();
    let foreign = attribute_hint(type_name.as_str(), name, &has);
    let hint = match (foreign, nearest(name, known)) {
        (Some(hint), _) => hint.into(),
        (None, Some(meant)) => format!("did you mean `{meant}`?"),
        (None, None) => format!("`kilter types {type_name}` lists them"),
    };
    output::fail_with(format_args!("the type {type_name} has no attribute `{name}`"), [hint])
}

/// Reports that a title is not valid for a type.
pub(crate) fn misnamed(schema: &TypeSchema, title: &str, error: &TitleError) -> Exit {
    let type_name = &schema.name;
    let patterns = schema.title_patterns.iter().map(|pattern| pattern.desc.as_str()).filter(|desc| !desc.is_empty());
    let forms: Vec<&str> = patterns.collect();
    match error {
        TitleError::Value { attribute, mismatch, .. } => {
            output::fail(format_args!("{type_name}[{title}]: `{attribute}` {mismatch}"))
        }
        error if forms.is_empty() => output::fail(format_args!("{type_name}[{title}]: {error}")),
        error => {
            let hint = format!("names have these forms: {}", forms.join("; "));
            output::fail_with(format_args!("{type_name}[{title}]: {error}"), [hint])
        }
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::{Behaviour, TypeSchema};

    use super::*;

    fn attribute(data_type: &str) -> AttributeSchema {
        let schema = TypeSchema::new("t", "").attribute("a", data_type, Behaviour::Property, "");
        schema.find("a").unwrap().clone()
    }

    fn value(data_type: &str, words: &[&str]) -> Value {
        value_of(&attribute(data_type), words).unwrap()
    }

    fn refused(data_type: &str, words: &[&str]) -> (String, Option<String>) {
        let error = value_of(&attribute(data_type), words).unwrap_err();
        (error.to_string(), error.hint())
    }

    #[test]
    fn word_is_converted_to_type_of_attribute() {
        assert_eq!(value("Boolean", &["true"]), Value::Boolean(true));
        assert_eq!(value("Integer", &["-7"]), Value::Integer(-7));
        assert_eq!(value("Float", &["7"]), Value::Float(7.0));
        assert_eq!(value("String", &["true"]), Value::from("true"));
        assert_eq!(value("Optional[Integer]", &["7"]), Value::Integer(7));
        assert_eq!(value("Hash[String, Integer]", &[r#"{"a": 1}"#]), Value::hash([("a", Value::Integer(1))]));
        assert_eq!(value("Data", &["[1]"]), Value::array([Value::Integer(1)]));
        assert_eq!(value("Data", &["[1"]), Value::from("[1"));
    }

    #[test]
    fn secret_word_stays_sensitive() {
        let secret = value("Sensitive[String]", &["x"]);
        assert!(secret.holds_sensitive());
        let (error, _) = refused("Sensitive[Integer]", &["hunter2"]);
        assert_eq!(error, "the attribute `a` takes Sensitive[Integer], which the secret that was given is not");
    }

    #[test]
    fn a_list_is_written_with_commas_or_word_by_word() {
        assert_eq!(value("Array[String]", &["a,b"]), Value::strings(["a", "b"]));
        assert_eq!(value("Array[String]", &["a,b", "c"]), Value::strings(["a,b", "c"]));
        assert_eq!(value("Array[String]", &[""]), Value::array([]));
        assert_eq!(value("Array[Integer]", &["1,2"]), Value::array([Value::Integer(1), Value::Integer(2)]));
        assert_eq!(value("Array[Array[Integer]]", &["[[1]]"]), Value::array([Value::array([Value::Integer(1)])]));
    }

    #[test]
    fn narrowest_matching_type_is_used() {
        let owner = "Variant[String[1], Integer[0]]";
        assert_eq!(value(owner, &["33"]), Value::Integer(33));
        assert_eq!(value(owner, &["www-data"]), Value::from("www-data"));
        assert_eq!(value("Variant[String, Array[String]]", &["a,b"]), Value::from("a,b"));
        assert_eq!(value("Variant[String, Array[String]]", &["a", "b"]), Value::strings(["a", "b"]));
        assert_eq!(value("Variant[Enum[any], Array[String]]", &["a,b"]), Value::strings(["a", "b"]));
        assert_eq!(value("Variant[Boolean, String]", &["yes"]), Value::from("yes"));
    }

    #[test]
    fn mismatching_word_is_refused_with_expected_type() {
        let (error, hint) = refused("Boolean", &["yes"]);
        assert_eq!(error, "the attribute `a` takes Boolean, not `yes`");
        assert_eq!(hint.as_deref(), Some("allowed are true, false"));
        let (error, hint) = refused("Enum[present, absent]", &["abesnt"]);
        assert_eq!(error, "the attribute `a` takes Enum['present', 'absent'], not `abesnt`");
        assert_eq!(hint.as_deref(), Some("did you mean `absent`? Allowed are present, absent"));
        assert_eq!(refused("Integer[0, 10]", &["11"]).0, "the attribute `a` takes Integer[0, 10], not `11`");
        assert_eq!(refused("Integer", &["0644"]).0, "the attribute `a` takes Integer, not `0644`");
        assert_eq!(refused("String", &["a", "b"]).0, "the attribute `a` takes String, not `a b`");
    }

    #[test]
    fn text_from_file_is_not_converted() {
        let content = attribute("Variant[String, Binary]");
        assert_eq!(value_of_bytes(&content, b"1,2\n"), Ok(Value::from("1,2\n")));
        assert_eq!(value_of_bytes(&content, b"\xff"), Ok(Value::Binary(b"\xff".as_slice().into())));
        assert_eq!(value_of_bytes(&attribute("Integer"), b"7"), Ok(Value::Integer(7)));
    }
}
