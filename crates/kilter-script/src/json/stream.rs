//! Parses resources in JSON without an intermediate tree.

use std::fmt;

use ecow::EcoString;
use kilter_model::{Attributes, Hash, Value};
use serde_core::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::convention::{Keys, Record};

/// Maximum number of attributes of a resource that is parsed without a tree.
const MOST: usize = 1000;

/// Parses the resources of a valid reply without errors. Returns none for any other reply.
pub(super) fn resources(text: &str) -> Option<Vec<Record>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let records = deserializer.deserialize_map(Reply).ok()?;
    deserializer.end().ok()?;
    records
}

/// Aborts the parser. The error is never shown.
fn other<E: Error>() -> E {
    E::custom("of another shape")
}

struct Reply;

impl<'de> Visitor<'de> for Reply {
    type Value = Option<Vec<Record>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut records = None;
        while let Some(key) = map.next_key_seed(Text)? {
            match key.as_str() {
                "resources" => records = Some(map.next_value_seed(Records)?),
                "error" => return Err(other()),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(records)
    }
}

struct Records;

impl<'de> DeserializeSeed<'de> for Records {
    type Value = Vec<Record>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Record>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Records {
    type Value = Vec<Record>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Record>, A::Error> {
        let mut records: Vec<Record> = Vec::new();
        let mut keys = Keys::default();
        while let Some(record) =
            seq.next_element_seed(One(&mut keys, records.last().map_or(4, |one| one.attributes.len())))?
        {
            records.push(record);
        }
        Ok(records)
    }
}

/// Parser for a resource with the expected number of attributes.
struct One<'k>(&'k mut Keys, usize);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Record;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Record, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let (mut name, mut repeated) = (None, Vec::new());
        let mut attributes = Attributes::with_capacity(map.size_hint().unwrap_or(self.1));
        self.0.begin();
        while let Some(key) = map.next_key_seed(Text)? {
            match key.as_str() {
                "name" => {
                    if name.replace(map.next_value_seed(Text)?).is_some() {
                        repeated.push(key);
                    }
                }
                "error" => return Err(other()),
                // Each key is compared with all earlier keys, so a tree is faster for more attributes.
                _ if attributes.len() >= MOST => return Err(other()),
                key => {
                    let (key, value) = (self.0.get(key), map.next_value_seed(Any)?);
                    let is_again = attributes.iter().any(|(known, _)| *known == key);
                    if is_again {
                        repeated.push(key.text().clone());
                        attributes.set(key, value);
                    } else {
                        attributes.push(key, value);
                    }
                }
            }
        }
        let name = name.filter(|name| !name.is_empty()).ok_or_else(other)?;
        Ok(Record { name, attributes, repeated, ..Record::default() })
    }
}

/// Parser for a text.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = EcoString;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EcoString, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Text {
    type Value = EcoString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<EcoString, E> {
        Ok(text.into())
    }
}

/// Parser for any value, with the result of [`kilter_model::from_json`].
struct Any;

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Undef)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Boolean(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Integer))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(Any)? {
            values.push(value);
        }
        Ok(Value::array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Hash::default();
        while let Some(key) = map.next_key_seed(Text)? {
            entries.insert(key, map.next_value_seed(Any)?);
        }
        Ok(Value::hash(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::decode;

    #[test]
    fn stream_reader_equals_tree_reader() {
        for text in [
            r#"{"resources":[]}"#,
            r#"{"x":[1,{"y":2}],"resources":[{"name":"a","v":"1"},{"v":"2","w":null,"name":"b"}],"z":null}"#,
            r#"{"resources":[{"name":"\u00e9\n","a":[1,-2,1.5,true,null,"x",{"k":{}}],"big":18446744073709551615,"huge":1e400}]}"#,
            r#"{"resources":[{"name":"a","v":1,"v":2,"name":"b"}]}"#,
            r#"{"resources":[{"name":"a"}],"resources":[{"name":"b"}]}"#,
            r#" {"resources" : [ {"name" : "a" } ] } "#,
        ] {
            let tree = serde_json::from_str(text).ok().and_then(|json| decode::resources(&json).ok());
            let seen = resources(text).map(|records| {
                // A tree contains each key once.
                let once = |record| Record { repeated: Vec::new(), ..record };
                records.into_iter().map(once).collect::<Vec<_>>()
            });
            assert_eq!(seen, tree, "{text}");
        }
    }

    #[test]
    fn duplicate_key_keeps_last_value_with_warning() {
        let records = resources(r#"{"resources":[{"name":"a","v":1,"v":2,"name":"b"}]}"#).unwrap();
        assert_eq!((records[0].name.as_str(), records[0].attributes.get("v")), ("b", Some(&Value::Integer(2))));
        assert_eq!(records[0].repeated, ["v", "name"]);
    }

    #[test]
    fn stream_reader_declines_unusual_json() {
        for text in [
            "",
            "[]",
            "{}",
            "{\"resources\":{}}",
            r#"{"resources":[{"v":1}]}"#,
            r#"{"resources":[{"name":5}]}"#,
            r#"{"resources":[{"name":""}]}"#,
            r#"{"resources":[],"error":{}}"#,
            r#"{"resources":[{"name":"a","error":{}}]}"#,
            r#"{"resources":[]} x"#,
            r#"{"resources":["a"]}"#,
        ] {
            assert_eq!(resources(text), None, "{text}");
        }
    }
}
