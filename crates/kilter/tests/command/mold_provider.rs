//! Scripts of mold's convention that are files `*.prov` in a directory of providers.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::support::{Ended, Place};

/// Keeps the levels of tanks as files beside itself.
const TANK: &str = r#"#!/usr/bin/python3 -IS
import json, os, sys
os.chdir(os.path.dirname(os.path.realpath(sys.argv[0])))
asked = json.load(sys.stdin)
def observed(name):
    file = "tank-" + name
    if not os.path.exists(file):
        return {"kind": "tank", "name": name, "exists": False}
    return {"kind": "tank", "name": name, "exists": True, "level": int(open(file).read())}
match sys.argv[1]:
    case "list":
        print(json.dumps([observed(file[5:]) for file in sorted(os.listdir()) if file.startswith("tank-")]))
    case "inspect":
        print(json.dumps(observed(asked["name"])))
    case "conform":
        file = "tank-" + asked["name"]
        if asked.get("exists", True):
            open(file, "w").write(str(asked.get("level", 0)))
        else:
            os.remove(file)
    case "drain":
        print("drained " + asked["name"])
    case "measure":
        print(json.dumps({"kind": "tank", "name": asked["name"], "depth": 7, "parts": ["a", "b"], "note": "full"}))
"#;

const METADATA: &str = "provider:
  type: tank
  desc: Tanks.
  invoke: mold
  actions: [list, drain, measure]
  refresh: drain
  suitable: true
  attributes:
    name: {desc: Its name.}
    level: {type: \"Integer[0, 9]\", desc: How full it is.}
";

fn place() -> Place {
    let place = Place::new();
    let directory = place.path().join("providers");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("tank.prov"), TANK).unwrap();
    std::fs::write(directory.join("tank.yaml"), METADATA).unwrap();
    for path in [place.path(), &directory, &directory.join("tank.prov")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    place
}

fn run(place: &Place, args: &[&str]) -> Ended {
    place.run(&[args, &["-I", "providers"]].concat())
}

fn done(place: &Place, args: &[&str]) -> String {
    let ended = run(place, args);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{args:?}: {}", ended.stdout);
    ended.stdout
}

#[test]
fn mold_resources_are_set_listed_and_removed() {
    let place = place();
    let made = done(&place, &["set", "tank", "b", "level=3"]);
    assert!(made.contains("1 changed"), "{made}");
    done(&place, &["set", "tank", "a", "level=1"]);
    assert_eq!(done(&place, &["get", "tank", "b"]), "tank[b]\n  exists  true\n  level   3\n");
    let listed = done(&place, &["get", "tank", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["name"], &listed[1]["attributes"]["level"]), (&"a".into(), &3.into()));
    assert_eq!(done(&place, &["act", "tank[a]", "drain"]), "tank[a] drain: done\n  drained a\n");
    let ended = run(&place, &["act", "tank[a]", "fill"]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (1, "error: tank has no action `fill`\n  hint: its actions: drain, measure\n")
    );
    let ended = run(&place, &["set", "tank", "a", "level=10"]);
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    assert!(done(&place, &["set", "tank", "a", "exists=false"]).contains("1 changed"));
    assert_eq!(done(&place, &["get", "tank"]), "NAME  EXISTS  LEVEL\nb     true    3\n");
}

#[test]
fn document_of_action_is_shown_and_stored() {
    let place = place();
    let shown = done(&place, &["act", "tank[a]", "measure"]);
    let lines = "  kind: tank\n  name: a\n  depth: 7\n  parts: [\"a\",\"b\"]\n  note: full\n";
    assert_eq!(shown, format!("tank[a] measure: done\n{lines}"));
    let kept = done(&place, &["act", "tank[a]", "measure", "--format", "json"]);
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let document = serde_json::json!({"kind": "tank", "name": "a", "depth": 7, "parts": ["a", "b"], "note": "full"});
    assert_eq!((&kept["status"], &kept["document"]), (&"done".into(), &document));
    // A refresh by such an action has it in the report.
    let metadata = place.path().join("providers/tank.yaml");
    let text = std::fs::read_to_string(&metadata).unwrap().replace("refresh: drain", "refresh: measure");
    std::fs::write(metadata, text).unwrap();
    let manifest = place.file("m.yaml", "resources:\n  tank[a]: {level: 2, notify: 'tank[b]'}\n  tank[b]: {}\n");
    done(&place, &["set", "tank", "b", "level=0"]);
    let applied = done(&place, &["apply", &manifest]);
    assert!(applied.contains("depth: 7"), "{applied}");
}

#[test]
fn manifests_plan_apply_and_notify() {
    let place = place();
    let manifest = "resources:\n  tank[a]:\n    level: 2\n    notify: tank[b]\n  tank[b]:\n    level: 0\n";
    let manifest = place.file("m.yaml", manifest);
    done(&place, &["set", "tank", "b", "level=0"]);
    let plan = run(&place, &["plan", &manifest]);
    assert_eq!((plan.code, plan.stderr.as_str()), (2, ""), "{}", plan.stdout);
    let applied = done(&place, &["apply", &manifest]);
    assert!(applied.contains("1 changed") && applied.contains("1 refreshed"), "{applied}");
    assert!(done(&place, &["apply", &manifest]).contains("2 unchanged"));
}

#[test]
fn channel_log_works_without_mold_directory() {
    let place = place();
    done(&place, &["set", "tank", "a", "level=1", "--channel3", "log"]);
    let ended = place.run(&["history", "--channel3", "log", "--name", "providers/tank", "--key", "spawn"]);
    let spawned: Vec<&str> = ended.stdout.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(spawned, ["inspect", "conform", "inspect"], "{}", ended.stdout);
}

#[test]
fn mold_type_is_listed_with_others() {
    let place = place();
    let described = done(&place, &["types", "tank", "--format", "json"]);
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let names: Vec<&str> =
        described["attributes"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!((described["provider"].as_str(), names), (Some("tank"), vec!["name", "exists", "level"]));
    assert!(done(&place, &["types"]).contains("tank"));
}

#[test]
fn ralsh_lists_finds_and_updates_mold_resources() {
    let place = place();
    done(&place, &["set", "tank", "a", "level=4"]);
    let ralsh = |args: &[&str]| {
        let mut command = place.command(&[&["-I", "."], args].concat());
        let output = command.arg0("ralsh").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ralsh(&[]).contains("tank::tank"));
    assert!(ralsh(&["tank"]).contains("level") && ralsh(&["tank", "a"]).contains('4'));
    assert!(ralsh(&["tank", "a", "level=5"]).contains('5'));
    assert_eq!(std::fs::read_to_string(place.path().join("providers/tank-a")).unwrap(), "5");
}
