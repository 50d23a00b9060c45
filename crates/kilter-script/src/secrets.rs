//! Secrets in the answer of a script, which are known only after it is parsed.

use std::cell::RefCell;

use ecow::EcoString;
use kilter_model::{DataType, REDACTED, TypeSchema, Value, from_json};
use kilter_provider::{Level, Redactor};
use serde_json::Value as Json;

use crate::coerce::typed;
use crate::convention::{AttributeChange, Record, Reply};

/// Maximum search effort: number of bytes times number of secrets.
const SEARCHED: usize = 1 << 30;

/// Returns true if resources of a type have secrets.
pub(crate) fn has_secrets(schema: &TypeSchema) -> bool {
    let outputs = schema.outputs.iter().map(|output| &output.data_type);
    schema.attributes.iter().map(|attribute| &attribute.data_type).chain(outputs).any(DataType::may_hold_secrets)
}

/// Returns the secrets in a reply.
pub(crate) fn of_reply(schema: &TypeSchema, reply: &Reply) -> Redactor {
    match reply {
        Reply::Resources(records) => {
            Redactor::of_values(&records.iter().flat_map(|one| within(schema, one)).collect::<Vec<_>>())
        }
        Reply::Changed(report) => of_changes(schema, &report.changes),
        Reply::Described(_) | Reply::Watched => Redactor::default(),
    }
}

/// Returns the secrets in reported changes.
fn of_changes<'a>(schema: &TypeSchema, changes: impl IntoIterator<Item = &'a AttributeChange>) -> Redactor {
    let values = |one: &'a AttributeChange| [(one.attribute.as_str(), &one.was), (one.attribute.as_str(), &one.is)];
    let told = changes.into_iter().flat_map(values).flat_map(|(name, value)| secret(schema, name, value));
    Redactor::of_values(&told.collect::<Vec<_>>())
}

fn within<'a>(schema: &'a TypeSchema, record: &'a Record) -> impl Iterator<Item = Value> + 'a {
    record.attributes.iter().flat_map(|(name, value)| secret(schema, name.as_str(), value))
}

/// Returns the secrets in a document: the values of sensitive attributes at any depth.
pub(crate) fn of_document(schemas: &[&TypeSchema], document: &Json) -> Redactor {
    let mut found = Vec::new();
    below(schemas, document, &mut found);
    written(Redactor::of_values(&found))
}

/// Adds the JSON notations of secrets.
pub(crate) fn written(seal: Redactor) -> Redactor {
    let escaped: Vec<Value> = seal.texts().iter().flat_map(|text| escaped(text)).collect();
    seal.and(Redactor::of_values(&escaped))
}

/// Returns the notations of a text in JSON: the usual one, and the ASCII-only one.
fn escaped(text: &str) -> [Value; 2] {
    let json = Json::from(text).to_string();
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json);
    let mut units = [0; 2];
    let ascii = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    let ascii: String = json.chars().map(ascii).collect();
    [Value::sensitive(json.into()), Value::sensitive(ascii.into())]
}

fn below(schemas: &[&TypeSchema], json: &Json, found: &mut Vec<Value>) {
    match json {
        Json::Array(values) => values.iter().for_each(|value| below(schemas, value, found)),
        Json::Object(entries) => {
            for (key, value) in entries {
                let is_secret = schemas.iter().any(|schema| of_secret(schema, key).is_some());
                found.extend(is_secret.then(|| Value::sensitive(from_json(value))));
                below(schemas, value, found);
            }
        }
        _ => {}
    }
}

/// Returns the secrets in an invalid answer of the `simple` convention, as far as it can be parsed: lines with
/// a key. `ral_was` refers to the key of the previous line.
pub(crate) fn of_lines(schema: &TypeSchema, text: &str) -> Redactor {
    let (mut found, mut last) = (Vec::new(), "");
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        last = if key.trim() == "ral_was" { last } else { key.trim() };
        found.extend(secret(schema, last, &Value::from(value.trim())));
    }
    Redactor::of_values(&found)
}

/// Returns the raw and the converted value of an attribute or output if it may contain a secret.
fn secret(schema: &TypeSchema, name: &str, raw: &Value) -> Vec<Value> {
    let Some(known) = of_secret(schema, name) else { return Vec::new() };
    let meant = typed(known, raw).ok().flatten().map(Value::sensitive);
    std::iter::once(Value::sensitive(raw.clone())).chain(meant).collect()
}

/// Returns the type of an attribute or output if its values may contain secrets.
fn of_secret<'a>(schema: &'a TypeSchema, name: &str) -> Option<&'a DataType> {
    let output = || schema.find_output(name).map(|output| &output.data_type);
    let known = schema.find(name).map(|attribute| &attribute.data_type).or_else(output);
    known.filter(|known| known.may_hold_secrets())
}

/// Returns true if a text of this size can be searched for all secrets. Otherwise, it is redacted as a whole.
pub(crate) fn can_search(seal: &Redactor, bytes: usize) -> bool {
    seal.texts().len().saturating_mul(bytes) <= SEARCHED
}

/// Log lines held back until their secrets are known.
#[derive(Default)]
pub(crate) struct BufferedLines(RefCell<Vec<(Level, EcoString)>>);

impl BufferedLines {
    pub(crate) fn hold(&self, level: Level, line: EcoString) {
        self.0.borrow_mut().push((level, line));
    }

    /// Logs the lines with secrets redacted. If the secrets are unknown, redacts all lines.
    pub(crate) fn log(&self, seal: Option<&Redactor>, log: &dyn Fn(Level, &str)) {
        let lines = self.0.take();
        let bytes = lines.iter().map(|(_, line)| line.len()).sum();
        let seal = seal.filter(|seal| can_search(seal, bytes));
        for (level, line) in lines {
            log(level, &seal.map_or_else(|| REDACTED.into(), |seal| seal.redact(line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::Behaviour;

    use super::*;

    fn schema() -> TypeSchema {
        TypeSchema::new("t", "")
            .attribute("name", "String", Behaviour::Namevar, "")
            .attribute("key", "Optional[Sensitive[String]]", Behaviour::Property, "")
            .attribute("keys", "Sensitive[Array[String]]", Behaviour::Property, "")
            .attribute("either", "Variant[Sensitive[String], Undef]", Behaviour::Property, "")
            .attribute("parts", "Struct[{user => String, pin => Sensitive[String]}]", Behaviour::Property, "")
            .attribute("v", "String", Behaviour::Property, "")
            .output("token", "Sensitive[String]", "")
            .output("plain", "Any", "")
    }

    #[test]
    fn secrets_in_replies_are_found() {
        let document = serde_json::json!([
            { "name": "plain", "key": "secret1", "v": "plain", "changed": { "key": { "was": "secret2", "is": "secret3" } } },
            { "keys": ["secret4", "plain"] },
        ]);
        let seal = of_document(&[&schema()], &document);
        assert_eq!(seal.redact("secret1 secret2 secret3 secret4".into()), [REDACTED; 4].join(" "));
        let seal = of_document(&[&schema()], &serde_json::json!({ "key": "a\"ü\nsecret" }));
        for written in ["a\\\"ü\\nsecret", "a\\\"\\u00fc\\nsecret", "a\"ü\nsecret"] {
            assert_eq!(seal.redact(written.into()), REDACTED);
        }
        let seal = of_lines(
            &schema(),
            "name: plain\nkey: secret1\nral_was: secret2\nv: plain\nral_was: plain\nkeys: [secret3, secret4]\nno",
        );
        assert_eq!(
            seal.redact("secret1 secret2 secret3 secret4 plain".into()),
            format!("{} plain", [REDACTED; 4].join(" "))
        );
    }

    #[test]
    fn secrets_are_found_in_outputs_and_in_values_that_may_be_or_hold_one() {
        let document = serde_json::json!({
            "token": "secret1", "either": "secret2", "parts": {"user": "me", "pin": "secret3"}, "plain": "plain", "v": "plain",
        });
        let seal = of_document(&[&schema()], &document);
        let expected = format!("{} plain", [REDACTED; 3].join(" "));
        assert_eq!(seal.redact("secret1 secret2 secret3 plain".into()), expected);
        let of_json = |(name, value): (&String, &Json)| (name.clone(), from_json(value));
        let attributes = document.as_object().into_iter().flatten().map(of_json);
        let record = Record { attributes: attributes.collect(), ..Record::default() };
        assert_eq!(
            of_reply(&schema(), &Reply::Resources(vec![record])).redact("secret1 secret2 secret3 plain".into()),
            expected
        );
        let only_sends = TypeSchema::new("t", "").output("token", "Sensitive[String]", "");
        assert!(has_secrets(&only_sends) && !has_secrets(&TypeSchema::new("t", "").output("plain", "Any", "")));
    }

    #[test]
    fn lines_with_unfinished_secret_search_are_dropped() {
        let values: Vec<Value> = (0..2000).map(|number| Value::sensitive(format!("secret{number}").into())).collect();
        let seal = Redactor::of_values(&values);
        let (held, told) = (BufferedLines::default(), RefCell::new(Vec::new()));
        held.hold(Level::Info, "x".repeat(SEARCHED / 1000).into());
        held.log(Some(&seal), &|_, line: &str| told.borrow_mut().push(line.to_owned()));
        assert_eq!(told.into_inner(), [REDACTED]);
    }
}
