//! Secrets that are parts of a value.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Ended, Place};

const METADATA: &str = "provider:
  type: door
  desc: Doors, and who may open them.
  invoke: simple
  actions: [list, find, update]
  suitable: true
  attributes:
    name:
    keys: {type: \"Array[Struct[{user => String, pin => Sensitive[String]}]]\"}
    codes: {type: \"Array[Sensitive[String]]\"}
    size: {type: string}
";

/// Keeps one door in a file of `key: value` lines.
const DOOR: &str = r##"#!/bin/bash
eval "$@"
cd DIR
echo '# simple'
case $ral_action in
list|find) echo 'name: front'; cat door ;;
update) printf 'keys: %s\ncodes: %s\nsize: %s\n' "$keys" "$codes" "$size" > door; echo 'ral_derive: true' ;;
esac
"##;

const FOUND: &str =
    "keys: [{\"user\": \"ann\", \"pin\": \"found-4711\"}]\ncodes: [found-one, found-two]\nsize: small\n";

struct Door(Place);

impl Door {
    fn new() -> Door {
        let place = Place::new();
        std::fs::create_dir_all(place.path().join("providers")).unwrap();
        place.file("providers/door.yaml", METADATA);
        let path = place.file("providers/door.prov", DOOR.replace("DIR", &place.path().display().to_string()));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        place.file("door", FOUND);
        place.file(
            "m.yaml",
            "resources:\n  door[front]:\n    keys: [{user: bob, pin: wanted-4712}]\n    codes: [wanted-one]\n    \
             size: large\n",
        );
        Door(place)
    }

    fn run(&self, args: &[&str]) -> Ended {
        self.0.run(&[&["-I", "."], args].concat())
    }

    /// Returns the output, after a check that it has no secret.
    fn discreet(&self, code: i32, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.code, code, "{ended:?}");
        let told = format!("{}{}", ended.stdout, ended.stderr);
        for secret in ["4711", "4712", "found-one", "found-two", "wanted-one"] {
            assert!(!told.contains(secret), "{args:?}: {told}");
        }
        told
    }
}

#[test]
fn found_state_omits_sensitive_parts() {
    let door = Door::new();
    let told = door.discreet(0, &["get", "door[front]"]);
    assert!(told.contains("ann") && told.contains("[redacted]"), "{told}");
    let told = door.discreet(0, &["get", "door", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(json[0]["attributes"]["keys"][0], serde_json::json!({"user": "ann", "pin": "[redacted]"}));
    assert_eq!(json[0]["attributes"]["codes"], serde_json::json!(["[redacted]", "[redacted]"]));
    for format in ["yaml", "puppet"] {
        let told = door.discreet(0, &["get", "door", "--format", format]);
        assert!(told.contains("keys, codes are secret"), "{told}");
    }
    door.discreet(0, &["get", "door"]);
}

#[test]
fn show_secrets_export_round_trips() {
    let door = Door::new();
    for args in
        [&["get", "door[front]"][..], &["get", "door", "--format", "json"], &["get", "door", "--format", "puppet"]]
    {
        let told = door.run(&[args, &["--show-sensitive"]].concat()).stdout;
        assert!(told.contains("found-4711") && told.contains("found-two") && !told.contains("redacted"), "{told}");
    }
    let export = door.run(&["get", "door", "--format", "yaml", "--show-sensitive"]).stdout;
    let path = door.0.file("export.yaml", export);
    assert!(door.discreet(0, &["plan", &path]).contains("1 unchanged"));
}

#[test]
fn change_report_redacts_sensitive_parts() {
    let door = Door::new();
    let told = door.discreet(2, &["plan", "m.yaml"]);
    assert!(told.contains("keys") && told.contains("small → large"), "{told}");
    door.discreet(0, &["apply", "m.yaml", "--format", "json"]);
    let kept = std::fs::read_to_string(door.0.path().join("door")).unwrap();
    assert!(kept.contains("wanted-4712") && kept.contains("wanted-one") && kept.contains("large"), "{kept}");
    door.discreet(0, &["apply", "m.yaml"]);
    let told = door.discreet(0, &["set", "door", "front", "codes=found-one,found-two", "size=tiny"]);
    assert!(told.contains("codes"), "{told}");
}

#[test]
fn error_redacts_sensitive_parts() {
    let door = Door::new();
    door.0
        .file("m.yaml", "resources:\n  door[front]: {codes: [{a: wanted-one}], keys: [{user: x, pim: wanted-4712}]}\n");
    let told = door.discreet(1, &["plan", "m.yaml"]);
    assert!(told.contains("codes") && told.contains("keys"), "{told}");
    door.0.file("door", "keys: [{\"user\": \"ann\", \"pim\": \"found-4711\"}]\ncodes: [found-one]\n");
    door.discreet(4, &["get", "door[front]"]);
    door.discreet(1, &["set", "door", "front", "keys=found-4711"]);
}

#[test]
fn output_for_sensitive_part_is_sensitive() {
    let door = Door::new();
    door.0.file(
        "m.yaml",
        "resources:\n  value[v]: {any: [wanted-one]}\n  door[front]: {codes: \"${value[v].any}\", size: large}\n",
    );
    let applied = door.run(&["apply", "m.yaml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&applied.stdout).unwrap();
    // What sends it was told in clear what it is.
    let told = json["resources"].as_array().unwrap().iter().find(|one| one["resource"] == "door[front]").unwrap();
    assert_eq!(told["status"], "changed");
    assert!(!told.to_string().contains("wanted-one"), "{told}");
    let kept = std::fs::read_to_string(door.0.path().join("door")).unwrap();
    assert!(kept.contains("codes: [wanted-one]"), "{kept}");
    let outputs = std::fs::read_dir(door.0.path().join("state/outputs")).unwrap();
    let outputs: Vec<Vec<u8>> = outputs.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(!outputs.is_empty());
    assert!(!outputs.iter().any(|kept| String::from_utf8_lossy(kept).contains("wanted-one")), "{outputs:?}");
    door.0.file(
        "m.yaml",
        "resources:\n  value[v]: {any: [wanted-one]}\n  \
         door[front]: {codes: \"${value[v].any}\", meta: {export: [web2]}}\n",
    );
    let refused = door.discreet(1, &["apply", "m.yaml"]);
    assert!(refused.contains("export"), "{refused}");
}

#[test]
fn export_without_sensitive_parts_does_not_set_them() {
    let door = Door::new();
    let export = door.discreet(0, &["get", "door", "--format", "json"]);
    let path = door.0.file("export.json", export);
    assert!(door.discreet(0, &["apply", &path]).contains("1 unchanged"));
    let kept = std::fs::read_to_string(door.0.path().join("door")).unwrap();
    assert_eq!(kept, FOUND);
}
