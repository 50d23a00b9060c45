//! The JSON Schema of mold's documents takes what kilter takes, and refuses what it refuses.

use serde_json::{Value, json};

use crate::support::Place;

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/mold.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns true if a document is valid. Supports the keywords of JSON Schema that the schema uses.
fn holds(root: &Value, schema: &Value, document: &Value) -> bool {
    let Some(words) = schema.as_object() else { return schema.as_bool().unwrap() };
    words.iter().all(|(word, said)| match word.as_str() {
        "description" | "$schema" | "title" | "$defs" => true,
        "$ref" => holds(root, root.pointer(said.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(), document),
        "type" => match said {
            Value::Array(types) => types.iter().any(|one| is_of(one, document)),
            one => is_of(one, document),
        },
        "required" => said.as_array().unwrap().iter().all(|key| document.get(key.as_str().unwrap()).is_some()),
        "properties" => said.as_object().unwrap().iter().all(|(key, schema)| match document.get(key) {
            Some(value) => holds(root, schema, value),
            None => true,
        }),
        "additionalProperties" => document.as_object().unwrap().values().all(|value| holds(root, said, value)),
        "items" => document.as_array().unwrap().iter().all(|value| holds(root, said, value)),
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
        "pattern" => {
            assert_eq!(said, "^[A-Za-z0-9][A-Za-z0-9_-]*$");
            let text = document.as_str().unwrap();
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
        }
        other => panic!("the schema uses `{other}`"),
    })
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

#[test]
fn specification_documents_match_the_schema() {
    let root = schema();
    let file = json!({ "kind": "file", "path": "/tmp/foo", "exists": false });
    let joe = json!({ "kind": "file", "path": "/tmp/foo", "user": "joe", "src": "http://www.example.com/foo.png" });
    let restart = json!({ "kind": "service", "name": "sshd", "action": "restart" });
    for (name, valid, wrong) in [
        ("facts", json!({ "foo": { "cats": 10, "dogs": 20, "gorillas": "no gorillas" } }), json!([])),
        ("identity", json!({ "kind": "file", "name": "/tmp/foo", "path": "/tmp/foo" }), json!({ "kind": "file" })),
        ("observation", file.clone(), json!({ "exists": "no" })),
        ("resource", joe.clone(), json!({ "path": "/tmp/foo" })),
        (
            "performance",
            json!({ "changed": { "user": { "was": "jim", "is": "joe" } } }),
            json!({ "changed": ["user"] }),
        ),
        ("prescription", json!([joe]), json!([{ "kind": "" }])),
        ("choreography", json!({ "facts": {}, "prescription": [joe], "observations": [file] }), json!({ "facts": {} })),
        ("steps", json!([joe, restart]), json!([{ "kind": "service", "name": "sshd", "action": "list" }])),
        ("question", json!({ "kind": "file" }), json!({ "name": "/tmp/foo" })),
        ("list", json!([file]), file.clone()),
        ("message", json!(["jim", "stdout", { "line": "This is a line of stdout\n" }]), json!([1, "stdout", {}])),
        ("message", json!([null, "note", [1, 2]]), json!(["jim", "stdout", {}])),
        ("message", json!(["newchild", "exitcode", 3]), json!(["newchild", "exitcode", "3"])),
        (
            "message",
            json!(["newchild", "spawn", { "path": "/tmp/foo", "args": ["cat"] }]),
            json!(["newchild", "spawn", { "args": "cat" }]),
        ),
    ] {
        let schema = &root["$defs"][name];
        assert!(holds(&root, schema, &valid), "{name}: {valid}");
        assert!(!holds(&root, schema, &wrong), "{name}: {wrong}");
    }
}

#[test]
fn the_command_prints_the_schema_that_is_documented() {
    let place = Place::new();
    let ended = place.run(&["schema", "mold"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), schema());
    let (plain, named) = (place.run(&["schema"]), place.run(&["schema", "manifest"]));
    assert!(plain == named && plain.stdout.contains("\"resources\""));
    assert_eq!(place.run(&["schema", "soap"]).code, 1);
}
