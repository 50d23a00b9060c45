//! Which parts of a value are secrets, by its type.

use crate::data_type::DataType;
use crate::value::Value;

impl DataType {
    /// The value with every part sealed that is a secret by the type: the elements of an `Array[Sensitive[String]]`,
    /// one entry of a `Struct[{user => String, pin => Sensitive[String]}]`.
    ///
    /// Of several types that a value may have, each seals what it would be a secret of. A key cannot be sealed: a hash
    /// whose keys are secrets is one as a whole. What does not fit the type is left as it is.
    pub fn sealed(&self, value: Value) -> Value {
        match (self, value) {
            (_, value @ (Value::Undef | Value::Sensitive(_))) => value,
            (DataType::Sensitive(_), value) => Value::sensitive(value),
            (DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Init(inner), value) => {
                inner.sealed(value)
            }
            (DataType::Variant(types), value) => types.iter().fold(value, |value, one| one.sealed(value)),
            (DataType::Alias(alias), value) => alias.definition().sealed(value),
            (_, value @ (Value::Array(_) | Value::Hash(_))) if self.may_hold_secrets() => self.sealed_within(value),
            (_, value) => value,
        }
    }

    fn sealed_within(&self, value: Value) -> Value {
        match (self, &value) {
            (DataType::Hash(keys, ..), Value::Hash(_)) if keys.may_hold_secrets() => Value::sensitive(value),
            (DataType::Array(of, ..) | DataType::Iterable(of), Value::Array(values)) => {
                Value::array(values.iter().map(|value| of.sealed(value.clone())))
            }
            (DataType::Tuple(types, ..), Value::Array(values)) => {
                let of = |at: usize| types.get(at).or(types.last());
                let sealed = |(at, value): (usize, &Value)| of(at).map_or(value.clone(), |of| of.sealed(value.clone()));
                Value::array(values.iter().enumerate().map(sealed))
            }
            (DataType::Hash(_, of, ..) | DataType::Iterable(of), Value::Hash(entries)) => {
                Value::hash(entries.iter().map(|(key, value)| (key.clone(), of.sealed(value.clone()))))
            }
            (DataType::Struct(fields), Value::Hash(entries)) => {
                let of = |key: &str| fields.iter().find(|field| field.name == key);
                Value::hash(entries.iter().map(|(key, value)| {
                    let sealed = of(key).map_or(value.clone(), |field| field.data_type.sealed(value.clone()));
                    (key.clone(), sealed)
                }))
            }
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{from_json, to_json};
    use crate::value::REDACTED;

    /// As it is shown, a secret as `#`.
    fn shown(data_type: &DataType, json: &str) -> String {
        let value = from_json(&serde_json::from_str(json).unwrap());
        let sealed = data_type.sealed(value.clone());
        assert!(sealed.is_same(&value), "{sealed:?}");
        assert_eq!(data_type.sealed(sealed.clone()), sealed);
        to_json(&sealed).to_string().replace(&format!("\"{REDACTED}\""), "#")
    }

    #[test]
    fn every_part_that_is_a_secret_is_sealed_and_no_other() {
        for (data_type, json, sealed) in [
            ("Sensitive[String]", r#""a""#, "#"),
            ("Optional[Sensitive[String]]", "null", "null"),
            ("Array[Sensitive[String]]", r#"["a","b"]"#, "[#,#]"),
            ("Array[String]", r#"["a"]"#, r#"["a"]"#),
            ("Iterable[Sensitive[String]]", r#"{"a":"b"}"#, r#"{"a":#}"#),
            ("Hash[String, Array[Sensitive[Integer]]]", r#"{"a":[1]}"#, r#"{"a":[#]}"#),
            ("Hash[Sensitive[String], Integer]", r#"{"a":1}"#, "#"),
            (
                "Struct[{user => String, pin => Sensitive[String]}]",
                r#"{"pin":"1","user":"a"}"#,
                r#"{"pin":#,"user":"a"}"#,
            ),
            ("Tuple[String, Sensitive[String], 2, 4]", r#"["a","b","c"]"#, r#"["a",#,#]"#),
            ("Variant[String, Array[Sensitive[String]]]", r#""a""#, r#""a""#),
            ("Variant[String, Array[Sensitive[String]]]", r#"["a"]"#, "[#]"),
            ("Array[Sensitive[String]]", r#"{"a":"b"}"#, r#"{"a":"b"}"#),
        ] {
            assert_eq!(shown(&data_type.parse().unwrap(), json), sealed, "{data_type}");
        }
    }
}
