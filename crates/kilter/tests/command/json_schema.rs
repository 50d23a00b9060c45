//! A validator for the keywords of JSON Schema that kilter's schemas use.

use serde_json::Value;

/// Returns true if a document is valid.
pub(crate) fn holds(root: &Value, schema: &Value, document: &Value) -> bool {
    let Some(words) = schema.as_object() else { return schema.as_bool().unwrap() };
    words.iter().all(|(word, said)| match word.as_str() {
        "description" | "$schema" | "title" | "$defs" => true,
        "$ref" => holds(root, target(root, said), document),
        "type" => match said {
            Value::Array(types) => types.iter().any(|one| is_of(one, document)),
            one => is_of(one, document),
        },
        // These apply to objects only.
        "required" => {
            !document.is_object()
                || said.as_array().unwrap().iter().all(|key| document.get(key.as_str().unwrap()).is_some())
        }
        "properties" => said.as_object().unwrap().iter().all(|(key, schema)| match document.get(key) {
            Some(value) => holds(root, schema, value),
            None => true,
        }),
        "additionalProperties" => document.as_object().unwrap().values().all(|value| holds(root, said, value)),
        "items" => document.as_array().is_none_or(|all| all.iter().all(|value| holds(root, said, value))),
        "prefixItems" => {
            let pairs = said.as_array().unwrap().iter().zip(document.as_array().unwrap());
            pairs.into_iter().all(|(schema, value)| holds(root, schema, value))
        }
        "anyOf" => said.as_array().unwrap().iter().any(|schema| holds(root, schema, document)),
        "not" => !holds(root, said, document),
        "allOf" => said.as_array().unwrap().iter().all(|schema| holds(root, schema, document)),
        "if" => !holds(root, said, document) || holds(root, &schema["then"], document),
        "then" => true,
        "const" => said == document,
        "enum" => said.as_array().unwrap().contains(document),
        "minLength" => document.as_str().unwrap().len() as u64 >= said.as_u64().unwrap(),
        "minItems" => document.as_array().unwrap().len() as u64 >= said.as_u64().unwrap(),
        "maxItems" => document.as_array().unwrap().len() as u64 <= said.as_u64().unwrap(),
        "minimum" => document.as_i64().is_none_or(|number| number >= said.as_i64().unwrap()),
        "pattern" => {
            assert_eq!(said, "^[A-Za-z0-9][A-Za-z0-9_-]*$");
            let text = document.as_str().unwrap();
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
        }
        other => panic!("the schema uses `{other}`"),
    })
}

fn target<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    root.pointer(reference.as_str().unwrap().strip_prefix('#').unwrap()).unwrap()
}

fn is_of(word: &Value, document: &Value) -> bool {
    match word.as_str().unwrap() {
        "object" => document.is_object(),
        "array" => document.is_array(),
        "string" => document.is_string(),
        "boolean" => document.is_boolean(),
        "integer" => document.is_i64(),
        "null" => document.is_null(),
        other => panic!("the schema uses the type `{other}`"),
    }
}

/// Returns the paths of keys that the schema of their object does not describe.
pub(crate) fn undescribed(root: &Value, schema: &Value, document: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    walk(root, &[schema], document, "", &mut paths);
    paths
}

fn walk(root: &Value, schemas: &[&Value], document: &Value, path: &str, paths: &mut Vec<String>) {
    let mut flat = Vec::new();
    schemas.iter().for_each(|schema| flatten(root, schema, document, &mut flat));
    match document {
        Value::Object(entries) => {
            let described: Vec<&Value> = flat.iter().filter_map(|schema| schema.get("properties")).collect();
            if described.is_empty() {
                return;
            }
            for (key, value) in entries {
                let of_key: Vec<&Value> = described.iter().filter_map(|properties| properties.get(key)).collect();
                let path = format!("{path}.{key}");
                match of_key.is_empty() {
                    true => paths.push(path),
                    false => walk(root, &of_key, value, &path, paths),
                }
            }
        }
        Value::Array(elements) => {
            let items: Vec<&Value> = flat.iter().filter_map(|schema| schema.get("items")).collect();
            elements.iter().for_each(|element| walk(root, &items, element, path, paths));
        }
        _ => {}
    }
}

/// Adds the schemas that apply to a document: a schema itself, those that it refers to, and those of its conditions.
fn flatten<'a>(root: &'a Value, schema: &'a Value, document: &Value, flat: &mut Vec<&'a Value>) {
    flat.push(schema);
    if let Some(reference) = schema.get("$ref") {
        flatten(root, target(root, reference), document, flat);
    }
    for one in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        flatten(root, one, document, flat);
    }
    if let Some(condition) = schema.get("if")
        && holds(root, condition, document)
    {
        flatten(root, &schema["then"], document, flat);
    }
}
