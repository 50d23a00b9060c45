//! `kilter check`: all problems and warnings of manifests, without access to resources.

use serde_json::Value as Json;

use crate::support::*;

fn document(ended: &Ended) -> Json {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn messages(document: &Json, key: &str) -> Vec<String> {
    let list = document[key].as_array().unwrap_or_else(|| panic!("{document}"));
    list.iter().map(|one| format!("{}: {}", one["line"], one["message"].as_str().unwrap_or_default())).collect()
}

#[test]
fn valid_manifest_has_no_problems_and_nothing_is_touched() {
    let place = Place::new();
    place.file(
        "m.yaml",
        "resources:\n  file[/nonexistent/kilter/a]: { content: x }\n  exec[e]: { command: touch ran, unless: touch \
         guard }\n",
    );
    let ended = place.run(&["check", "m.yaml"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "2 resources: 0 problems, 0 warnings\n", "")
    );
    for name in ["ran", "guard"] {
        assert!(!place.path().join(name).exists(), "{name}");
    }
}

#[test]
fn all_problems_and_warnings_are_printed_at_once() {
    let place = Place::new();
    place.file(
        "m.yaml",
        "resources:\n  file[/a]: { mdoe: x }\n  file[/b]: { mode: \"9\", require: \"user[*]\" }\n  exec[one]: { \
         command: \"true\", require: \"exec[two]\" }\n  exec[two]: { command: \"true\", require: \"exec[one]\" }\n",
    );
    let ended = place.run(&["check", "m.yaml", "--format", "json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let document = document(&ended);
    assert_eq!(
        messages(&document, "problems"),
        [
            "2: `file` has no attribute `mdoe`",
            "3: file[/b]: mode: `9` is not a mode",
            "5: resources wait for each other: exec[one] → exec[two] → exec[one]"
        ]
    );
    assert_eq!(
        messages(&document, "warnings"),
        ["3: `user[*]` matches no resource: the manifest declares no other user"]
    );
    let human = place.run(&["check", "m.yaml"]);
    assert_eq!((human.code, human.stdout.as_str()), (1, "4 resources: 3 problems, 1 warning\n"));
    for text in ["error: `file` has no attribute", "m.yaml:2:15", "warning: `user[*]` matches"] {
        assert!(human.stderr.contains(text), "{text}: {human:?}");
    }
}

#[test]
fn warnings_are_errors_if_strict() {
    let place = Place::new();
    place.file("common.yaml", "vars: { other: 1 }\n");
    place.file(
        "m.yaml",
        "include: common.yaml\nvars:\n  used: a\n  indexed: b\n  idle: c\n  anchored: &a { when: false }\n  alias: *a\n\
         resources:\n  notify[n]: { <<: *a, message: \"${vars.used}${vars['indexed']}\" }\n  file[/a]: { notify: \"file[/b]\" }\n  file[/b]: {}\n",
    );
    let ended = place.run(&["check", "m.yaml", "--format", "json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let warnings = messages(&document(&ended), "warnings");
    assert_eq!(warnings[0], "5: no manifest uses the variable `idle`");
    assert_eq!(warnings[1], "7: no manifest uses the variable `alias`");
    assert!(warnings[2].starts_with("10: file[/b] cannot be refreshed"), "{warnings:?}");
    assert_eq!(warnings.len(), 3, "a variable of an included file may serve others: {warnings:?}");
    assert_eq!(place.run(&["check", "m.yaml", "--strict", "error"]).code, 1);
}

#[test]
fn unreadable_manifests_are_errors() {
    let place = Place::new();
    let none = place.run(&["check"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("there is no manifest to check"), "{none:?}");
    place.file("m.yaml", "resources:\n  file[/a]: { mdoe: x }\n");
    let ended = place.run(&["check", "m.yaml", "missing.yaml"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("missing.yaml: No such file") && ended.stderr.contains("`mdoe`"), "{ended:?}");
}
