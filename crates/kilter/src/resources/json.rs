//! As JSON (docs/reference/json.md).

use kilter_model::{State, TypeSchema, Value, to_json, to_json_clear};
use serde_json::{Map, Value as Json, json};

use super::{Secrets, can_be_absent};

/// The resources as an array of objects. It is written object by object: a tree of all would be several times as large
/// as what is known of them.
pub(crate) fn json(schema: &TypeSchema, states: &[State], secrets: Secrets) -> String {
    let mut text = String::from("[");
    for (at, state) in states.iter().enumerate() {
        text.push_str(if at == 0 { "\n  " } else { ",\n  " });
        // No text of JSON holds a line break.
        text.push_str(&format!("{:#}", resource(schema, state, secrets)).replace('\n', "\n  "));
    }
    text.push_str(if states.is_empty() { "]" } else { "\n]" });
    text
}

fn resource(schema: &TypeSchema, state: &State, secrets: Secrets) -> Json {
    let mut attributes = Map::new();
    for attribute in &schema.attributes {
        if let Some(value) = state.attributes.get(attribute.name.as_str()) {
            let is_hidden = secrets == Secrets::Hidden && attribute.data_type.is_sensitive();
            let value = if is_hidden { &Value::sensitive(value.clone()) } else { value };
            let shown = if secrets == Secrets::Hidden { to_json(value) } else { to_json_clear(value) };
            attributes.insert(attribute.name.to_string(), shown);
        }
    }
    if !state.exists && can_be_absent(schema) {
        attributes.insert("ensure".to_owned(), "absent".into());
    }
    json!({
        "resource": format!("{}[{}]", schema.name, state.label()),
        "type": schema.name.as_str(),
        "name": state.name.as_str(),
        "exists": state.exists,
        "attributes": attributes,
    })
}
