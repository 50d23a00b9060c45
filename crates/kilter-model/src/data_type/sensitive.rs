//! Marks the secret parts of a value as sensitive, according to its type.

use crate::data_type::DataType;
use crate::value::Value;

/// Maximum number of visited parts. The remaining parts become sensitive as a whole, because a type with two
/// recursive branches takes exponential time.
const STEPS: u32 = 200_000;

impl DataType {
    /// Returns the value with all secret parts made sensitive: the elements of an `Array[Sensitive[String]]`,
    /// or one entry of a `Struct[{user => String, pin => Sensitive[String]}]`.
    ///
    /// Each type of a variant marks its secrets. Keys cannot be sensitive, so a hash with secret keys becomes
    /// sensitive as a whole. Parts that do not match the type stay as they are, as far as this is known.
    pub fn sealed(&self, value: Value) -> Value {
        Sealing { left: STEPS }.seal(self, value)
    }
}

struct Sealing {
    /// Number of parts that may still be visited.
    left: u32,
}

impl Sealing {
    fn seal(&mut self, data_type: &DataType, value: Value) -> Value {
        match (data_type, value) {
            (_, value @ (Value::Undef | Value::Sensitive(_))) => value,
            (DataType::Sensitive(_), value) => Value::sensitive(value),
            (DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Init(inner), value) => {
                self.seal(inner, value)
            }
            (DataType::Variant(types), value) => types.iter().fold(value, |value, one| self.seal(one, value)),
            (DataType::Alias(alias), value) => self.seal(&alias.definition(), value),
            (_, value @ (Value::Array(_) | Value::Hash(_))) if data_type.may_hold_secrets() => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 { Value::sensitive(value) } else { self.within(data_type, value) }
            }
            (_, value) => value,
        }
    }

    fn within(&mut self, data_type: &DataType, value: Value) -> Value {
        match (data_type, &value) {
            (DataType::Hash(keys, ..), Value::Hash(_)) if keys.may_hold_secrets() => Value::sensitive(value),
            // Iteration returns pairs that include the keys.
            (DataType::Iterable(_), Value::Hash(_)) => Value::sensitive(value),
            (DataType::Array(of, ..) | DataType::Iterable(of), Value::Array(values)) => {
                Value::array(values.iter().map(|value| self.seal(of, value.clone())))
            }
            (DataType::Tuple(types, ..), Value::Array(values)) => {
                let of = |at: usize| types.get(at).or(types.last());
                let sealed = values.iter().enumerate().map(|(at, value)| match of(at) {
                    Some(of) => self.seal(of, value.clone()),
                    None => value.clone(),
                });
                Value::array(sealed)
            }
            (DataType::Hash(_, of, ..), Value::Hash(entries)) => {
                Value::hash(entries.iter().map(|(key, value)| (key.clone(), self.seal(of, value.clone()))))
            }
            (DataType::Struct(fields), Value::Hash(entries)) => {
                let of = |key: &str| fields.iter().find(|field| field.name == key);
                let sealed = entries.iter().map(|(key, value)| match of(key) {
                    Some(field) => (key.clone(), self.seal(&field.data_type, value.clone())),
                    None => (key.clone(), value.clone()),
                });
                Value::hash(sealed)
            }
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::data_type::Aliases;
    use crate::json::{from_json, to_json};
    use crate::value::REDACTED;

    /// Returns the value as shown, with `#` for secrets.
    fn shown(data_type: &DataType, json: &str) -> String {
        let value = from_json(&serde_json::from_str(json).unwrap());
        let sealed = data_type.sealed(value.clone());
        assert!(sealed.is_same(&value), "{sealed:?}");
        assert_eq!(data_type.sealed(sealed.clone()), sealed);
        to_json(&sealed).to_string().replace(&format!("\"{REDACTED}\""), "#")
    }

    #[test]
    fn only_sensitive_parts_become_sensitive() {
        for (data_type, json, sealed) in [
            ("Sensitive[String]", r#""a""#, "#"),
            ("Optional[Sensitive[String]]", "null", "null"),
            ("Array[Sensitive[String]]", r#"["a","b"]"#, "[#,#]"),
            ("Array[String]", r#"["a"]"#, r#"["a"]"#),
            ("Iterable[Sensitive[String]]", r#"["a"]"#, "[#]"),
            ("Iterable[Tuple[String, Sensitive[String]]]", r#"{"a":"b"}"#, "#"),
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

    #[test]
    fn doubly_recursive_type_marks_whole_value_sensitive() {
        let body = "Variant[String, Array[Tree], Array[Tree, 0, 5], Struct[{pin => Sensitive[String]}]]";
        let aliases = Aliases::new([("Tree".into(), body.parse().unwrap())]).unwrap();
        let tree = "Tree".parse::<DataType>().unwrap().resolve(&aliases);
        let secret = Value::hash([("pin", Value::from("1"))]);
        // Tried twice at each level it would not end within years.
        let deep = (0..60).fold(secret, |value, _| Value::array([value]));
        let sealed = tree.sealed(deep.clone());
        assert!(sealed.is_same(&deep) && sealed.holds_sensitive() && !format!("{sealed}").contains('1'));
    }
}
