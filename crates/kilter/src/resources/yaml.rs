//! Resources as a manifest.

use kilter_model::{State, TypeSchema, Value};

use super::{SecretHandling, declared, left_out, missing};
use crate::yaml::{Texts, Yaml};

/// Returns a manifest that declares the resources in their current state: its apply changes nothing.
pub(crate) fn yaml(schema: &TypeSchema, states: &[State], secrets: SecretHandling) -> String {
    let mut yaml = Yaml::new(Texts::Manifest);
    if states.is_empty() {
        yaml.entry(0, "resources", &Value::hash::<&str>([]));
        return yaml.finish();
    }
    yaml.open(0, "resources");
    entries(&mut yaml, schema, states, secrets);
    yaml.finish()
}

/// Writes resources below `resources`.
pub(crate) fn entries(yaml: &mut Yaml, schema: &TypeSchema, states: &[State], secrets: SecretHandling) {
    states.iter().for_each(|state| resource(yaml, schema, state, secrets));
}

fn resource(yaml: &mut Yaml, schema: &TypeSchema, state: &State, secrets: SecretHandling) {
    let reference = format!("{}[{}]", schema.name, state.label());
    if let Some(why) = missing(schema, state) {
        return yaml.comment(1, &format!("{reference} {why}"));
    }
    let declared = declared(schema, state, secrets);
    match (state.exists, declared.attributes.is_empty()) {
        (true, true) => yaml.entry(1, &reference, &Value::hash::<&str>([])),
        _ => yaml.open(1, &reference),
    }
    if !state.exists {
        yaml.entry(2, "ensure", &Value::from("absent"));
    }
    for (name, value) in &declared.attributes {
        // The type marks the values as sensitive; only a text can be written as a secret of its own.
        match (value, value.unwrap_sensitive()) {
            (Value::Sensitive(_), Value::String(_)) => yaml.entry(2, name.as_str(), value),
            _ => yaml.entry(2, name.as_str(), &value.expose()),
        }
    }
    if !declared.left_out.is_empty() {
        yaml.comment(2, &left_out(&declared.left_out));
    }
}
