//! The JSON Schemas of plans, reports and events describe the documents that kilter prints.

use serde_json::{Value, json};

use crate::json_schema::{holds, undescribed};
use crate::support::Place;

/// A manifest with many kinds of results.
const MANIFEST: &str = "resources:
  file[DIR/changed]: { content: two, mode: \"0600\" }
  file[DIR/tree]: { ensure: directory, notify: \"exec[told]\" }
  exec[told]: { command: \"echo told\", refreshonly: true }
  exec[makes]: { command: \"touch DIR/made; echo made\", shell: true, creates: DIR/made }
  file[DIR/sent]: { content: \"${exec[makes].stdout}\" }
  file[DIR/left]: { content: ours, meta: { policy: warn } }
  file[DIR/out]: { content: x, when: false }
  file[DIR/hidden]: { content: x, meta: { hidden: true } }
";

const FAILING: &str = "  exec[fails]: { command: \"echo no >&2; exit 3\", shell: true, meta: { retry: 1, delay: 1 } }
  exec[after]: { command: \"true\", require: \"exec[fails]\" }
";

fn place(manifest: &str) -> Place {
    let place = Place::new();
    place.file("m.yaml", manifest.replace("DIR", &place.path().display().to_string()));
    place.file("changed", "one");
    place.file("left", "theirs");
    place
}

/// Returns a schema that the command prints.
fn schema(name: &str) -> Value {
    let ended = Place::new().run(&["schema", name]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    serde_json::from_str(&ended.stdout).unwrap()
}

#[track_caller]
fn is_described(schema: &Value, document: &Value) {
    assert!(holds(schema, schema, document), "{document:#}");
    assert_eq!(undescribed(schema, schema, document), Vec::<String>::new(), "{document:#}");
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn reports_match_their_schema() {
    let schema = schema("report");
    let place = place(&[MANIFEST, FAILING].concat());
    let file = place.path().join("changed").display().to_string();
    let mut statuses = std::collections::BTreeSet::new();
    for args in [
        &["plan", "m.yaml", "--format", "json", "--report", "r.json"][..],
        &["apply", "m.yaml", "--format", "json", "--report", "r.json"],
        &["set", "file", &file, "mode=0640", "--format", "json"],
    ] {
        let report = document(&place.run(args).stdout);
        is_described(&schema, &report);
        let of = report["resources"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap().to_owned());
        statuses.extend(of);
        if args.contains(&"--report") {
            let of_file = document(&std::fs::read_to_string(place.path().join("r.json")).unwrap());
            is_described(&schema, &of_file);
        }
    }
    let seen: Vec<&str> = statuses.iter().map(String::as_str).collect();
    assert_eq!(seen, ["changed", "failed", "refreshed", "skipped", "unknown", "would_change", "would_refresh"]);
    let valid = document(&place.run(&["plan", "m.yaml", "--format", "json"]).stdout);
    for (pointer, wrong) in [
        ("/counts/total", json!("1")),
        ("/counts/in_sync", json!(-1)),
        ("/resources/0/status", json!("broken")),
        ("/resources/0", json!({})),
        ("/noop", json!(null)),
    ] {
        let mut document = valid.clone();
        *document.pointer_mut(pointer).unwrap() = wrong;
        assert!(!holds(&schema, &schema, &document), "{pointer}");
    }
}

#[test]
fn plans_match_their_schema() {
    let schema = schema("plan");
    let secret = "  file[DIR/left2]: { content: { sensitive: { file: DIR/changed } } }\n";
    let place = place(&[MANIFEST, secret].concat());
    for sealed in [true, false] {
        let ended = place.run(&["plan", "m.yaml", "-o", "p.json", "--var", "port=80"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        let plan = document(&std::fs::read_to_string(place.path().join("p.json")).unwrap());
        is_described(&schema, &plan);
        assert_eq!(plan.get("sealed").is_some(), sealed, "{plan:#}");
        for key in ["steps", "kilter_plan", "integrity"] {
            let mut wrong = plan.clone();
            wrong.as_object_mut().unwrap().remove(key);
            assert!(!holds(&schema, &schema, &wrong), "{key}");
        }
        place.file("m.yaml", MANIFEST.replace("DIR", &place.path().display().to_string()));
    }
}

#[test]
fn events_match_their_schema() {
    let schema = schema("events");
    let place = place(&[MANIFEST, FAILING].concat());
    let ended = place.run(&[
        "run",
        "m.yaml",
        "--format",
        "json",
        "--converged-exit",
        "--converged-timeout",
        "1",
        "--max-runtime",
        "60",
    ]);
    let events: Vec<Value> = ended.stdout.lines().map(document).collect();
    events.iter().for_each(|event| is_described(&schema, event));
    let has = |name: &str| events.iter().any(|event| event["event"] == name);
    for name in ["started", "settled", "retrying", "log", "quiet", "converged", "ended"] {
        assert!(has(name), "{name}: {}", ended.stdout);
    }
    for wrong in [
        json!({}),
        json!({ "event": "settled", "resource": "file[/a]" }),
        json!({ "event": "started", "resource": "file[/a]", "doing": "flying" }),
        json!({ "event": "ended", "report": {} }),
    ] {
        assert!(!holds(&schema, &schema, &wrong), "{wrong}");
    }
}

#[test]
fn schemas_are_those_that_are_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/run.schema.json");
    let documented = document(&std::fs::read_to_string(path).unwrap());
    for (name, reference) in [("plan", "#/$defs/plan"), ("report", "#/$defs/report"), ("events", "#/$defs/event")] {
        let mut printed = schema(name);
        assert_eq!(printed["$ref"], reference);
        printed.as_object_mut().unwrap().remove("$ref");
        assert_eq!(printed, documented, "{name}");
    }
}
