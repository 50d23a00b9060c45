//! Resources as JSON (docs/reference/json.md).

use kilter_model::{State, TypeSchema, to_json, to_json_clear};
use serde_json::{Map, Value as Json, json};

use super::{SecretHandling, missing};

/// Returns the resources as an array of objects, in parts, because the complete text is several times as large as
/// the states. Each part frees its state.
pub(crate) fn json(schema: &TypeSchema, states: Vec<State>, secrets: SecretHandling) -> impl Iterator<Item = String> {
    let end = if states.is_empty() { "]" } else { "\n]" };
    let part = move |(at, state): (usize, State)| {
        let before = if at == 0 { "\n  " } else { ",\n  " };
        // Strings of JSON contain no line breaks.
        before.to_owned() + &format!("{:#}", resource(schema, &state, secrets)).replace('\n', "\n  ")
    };
    let parts = states.into_iter().enumerate().map(part);
    std::iter::once("[".to_owned()).chain(parts).chain(std::iter::once(end.to_owned()))
}

fn resource(schema: &TypeSchema, state: &State, secrets: SecretHandling) -> Json {
    let mut attributes = Map::new();
    for attribute in &schema.attributes {
        if let Some(value) = state.attributes.get(attribute.name.as_str()) {
            let shown = match secrets {
                SecretHandling::Hidden => to_json(&attribute.data_type.sealed(value.clone())),
                SecretHandling::Shown => to_json_clear(value),
            };
            attributes.insert(attribute.name.to_string(), shown);
        }
    }
    if !state.exists && missing(schema, state).is_none() {
        attributes.insert("ensure".to_owned(), "absent".into());
    }
    let mut resource = json!({
        "resource": format!("{}[{}]", schema.name, state.label()),
        "type": schema.name.as_str(),
        "name": state.name.as_str(),
        "exists": state.exists,
        "attributes": attributes,
    });
    if state.is_unknown {
        resource["unknown"] = true.into();
    }
    resource
}
