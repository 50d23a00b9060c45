//! The JSON Schema of mold's documents takes what kilter takes, and refuses what it refuses.

use serde_json::{Value, json};

use crate::json_schema::holds;
use crate::support::Place;

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/mold.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
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
