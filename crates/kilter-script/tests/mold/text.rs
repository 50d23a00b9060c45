//! The text of mold, example by example.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use kilter_model::{Value, to_json};
use kilter_provider::{Actions, Context, Provider, Wanted, check_one};
use kilter_script::ScriptEnvironment;
use kilter_script::mold::Mold;
use serde_json::json;

use crate::harness::{MoldDir, MoldTestLog, act, attributes, conform, inspect, short};

/// The script `resources/file` of the text, in the shell: it keeps `user` beside the file.
const FILE: &str = r#"#!/bin/bash
document=$(cat)
path=$(sed -n 's/.*"path": *"\([^"]*\)".*/\1/p' <<<"$document")
case "$1" in
inspect)
  if [ -e "$path" ]
  then printf '{"kind": "file", "path": "%s", "exists": true, "user": "%s"}\n' "$path" "$(cat "$path")"
  else printf '{"kind": "file", "path": "%s", "exists": false}\n' "$path"
  fi;;
conform)
  echo "$document" >"$path.asked"
  sed -n 's/.*"user": *"\([^"]*\)".*/\1/p' <<<"$document" | tr -d '\n' >"$path";;
*) echo "there is no action $1" >&2; exit 3;;
esac
"#;

const SERVICE: &str =
    "#!/bin/sh\ncase $1 in restart) cat >\"$0.restarted\";; inspect) echo '{\"exists\": true}';; *) exit 1;; esac\n";

/// Runs a script as people do from a shell.
fn by_hand(place: &MoldDir, script: &str, args: &[&str], input: &str) -> String {
    let mut command = Command::new(place.path().join(script));
    let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn facts_are_merged_under_the_names_of_their_scripts() {
    let place = MoldDir::new();
    place.script("facts/foo", "#!/bin/sh\necho '{\"cats\": 10, \"dogs\": 20, \"gorillas\": \"no gorillas\"}'\n");
    place.script("facts/os", "#!/bin/sh\n[ $# = 0 ] && [ -z \"$(cat)\" ] && echo '{\"name\": \"plan9\"}'\n");
    place.file("facts/README", "no script");
    place.script("facts/broken", "#!/bin/sh\necho '{\"cats\": '\n");
    place.script("facts/list", "#!/bin/sh\necho '[1]'\n");
    let (facts, notes) = place.mold().facts(&Context::empty());
    let expected = json!({
        "foo": { "cats": 10, "dogs": 20, "gorillas": "no gorillas" },
        "os": { "name": "plan9" },
    });
    assert_eq!(to_json(&Value::hash(facts)), expected);
    let notes: Vec<String> = notes.iter().map(|note| place.plain(note)).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes[0], "DIR/facts/README: not used: it is not executable (correct it with chmod +x)");
    assert!(
        notes[1].starts_with("DIR/facts/broken: its facts are missing: the fact script `broken` (mold, "),
        "{}",
        notes[1]
    );
    assert!(notes[2].contains("facts are an object"), "{}", notes[2]);
}

#[test]
fn the_state_of_a_file_is_inspected() {
    let place = MoldDir::new();
    place.script("resources/file", FILE);
    let path = place.path().join("foo").display().to_string();
    let state = inspect(&place.provider("file"), &path).unwrap();
    assert_eq!((state.exists, short(&state)), (false, format!("exists=false path={path}")));
    let printed = by_hand(&place, "resources/file", &["inspect"], &format!("{{\"path\":\"{path}\"}}"));
    let observed = place.provider("file").observe(&Context::empty(), &path.as_str().into()).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), observed, "the same as by hand");
}

#[test]
fn a_file_is_made_to_conform() {
    let place = MoldDir::new();
    place.script("resources/file", FILE);
    let provider = place.provider("file");
    let path = place.path().join("foo").display().to_string();
    let should = [("user", Value::from("joe")), ("src", Value::from("http://www.example.com/foo.png"))];
    let outcome = conform(&provider, &path, &should);
    assert!(outcome.is_done(), "{outcome:?}");
    assert_eq!(inspect(&provider, &path).unwrap().attributes.get("user"), Some(&Value::from("joe")));
    let asked = std::fs::read_to_string(format!("{path}.asked")).unwrap();
    let expected =
        json!({"kind": "file", "name": path, "path": path, "user": "joe", "src": "http://www.example.com/foo.png"});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&asked).unwrap(), expected);
}

#[test]
fn a_service_is_restarted_by_an_action_of_its_own() {
    let place = MoldDir::new();
    let script = place.script("resources/service", SERVICE);
    assert!(act(&place.provider("service"), "sshd", "restart").is_done());
    let read = std::fs::read_to_string(format!("{}.restarted", script.display())).unwrap();
    assert_eq!(read, "{\"kind\":\"service\",\"name\":\"sshd\"}\n");
    let failed = act(&place.provider("service"), "sshd", "stop").failure.unwrap();
    assert!(failed.starts_with("stop of service[sshd] by the provider `mold` (mold, "), "{failed}");
    for action in ["inspect", "conform", "-x", "a b", ""] {
        assert!(place.provider("service").check_action(action).is_err(), "{action}");
    }
}

#[test]
fn resource_in_sync_is_not_changed() {
    let place = MoldDir::new();
    place.script("resources/file", FILE);
    let (provider, log) = (place.provider("file"), MoldTestLog::default());
    let path = place.path().join("foo").display().to_string();
    let should = attributes(&[("user", Value::from("joe")), ("src", Value::from("x"))]);
    let cx = Context::empty().with_log(&log);
    let check = || check_one(provider.as_ref(), &cx, Wanted::new(&path.as_str().into(), Some(&should))).unwrap();
    let names =
        |found: kilter_provider::Found| found.differences.iter().map(|d| d.attribute.to_string()).collect::<Vec<_>>();
    assert_eq!(names(check()), ["user", "src"], "of what is not there all differs");
    place.file("foo", "jim");
    assert_eq!(names(check()), ["user"]);
    place.file("foo", "joe");
    assert_eq!(names(check()), [""; 0]);
    let lines = log.0.lock().unwrap();
    assert!(lines[0].starts_with("warning file[") && lines[0].contains("`inspect` does not return src"), "{lines:?}");
}

#[test]
fn absent_resource_compares_only_ensure() {
    let place = MoldDir::new();
    place.script("resources/file", FILE);
    let provider = place.provider("file");
    let path = place.path().join("foo").display().to_string();
    let should = attributes(&[("exists", Value::Boolean(false)), ("user", Value::from("joe"))]);
    let count = || {
        let found = check_one(provider.as_ref(), &Context::empty(), Wanted::new(&path.as_str().into(), Some(&should)));
        found.unwrap().differences.len()
    };
    assert_eq!(count(), 0);
    place.file("foo", "jim");
    assert_eq!(count(), 1);
}

#[test]
fn metadata_gives_a_script_a_type() {
    let place = MoldDir::new();
    place.script("resources/job", "#!/bin/sh\necho '{\"id\": \"a\", \"every\": 5, \"other\": 1}'\n");
    place.file(
        "resources/job.yaml",
        "desc: Jobs.\nkey: id\nactions: [start]\nattributes:\n  every: {type: Integer, desc: Minutes.}\n",
    );
    let provider = place.provider("job");
    assert_eq!(short(&inspect(&provider, "a").unwrap()), "exists=true id=a every=5");
    assert_eq!(provider.schema().desc, "Jobs.");
    let problems = provider.validate("a", &attributes(&[("evry", Value::from(1)), ("every", Value::from("x"))]), &[]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    let refused = provider.check_action("stop").unwrap_err();
    assert_eq!(refused.to_string(), "job has no action `stop` (its actions: start)");
    place.file("resources/job.yaml", "actions: restart\n");
    let mold = place.mold();
    assert!(mold.providers().is_empty());
    assert!(mold.notes()[0].to_string().contains("`actions` is a list of words"), "{:?}", mold.notes());
}

#[test]
fn reads_are_confined_unless_metadata_permits_writes() {
    let place = MoldDir::new();
    let touch = "#!/bin/sh\n: >\"$0.touched\" && echo '{\"exists\": true}'\n";
    let (job, fact) = (place.script("resources/job", touch), place.script("facts/it", touch));
    let is_touched = |path: &std::path::Path| std::path::PathBuf::from(format!("{}.touched", path.display())).exists();
    let confined = kilter_process::can_confine(kilter_process::Confinement::ReadOnly);
    assert!(!matches!(confined, kilter_process::Confined::No { .. }), "these tests need Landlock: {confined}");
    let refused = inspect(&place.provider("job"), "a").unwrap_err();
    assert!(refused.contains("`confine: false` lifts that"), "{refused}");
    assert!(place.mold().facts(&Context::empty()).0.is_empty() && !is_touched(&job) && !is_touched(&fact));
    place.file("resources/job.yaml", "confine: false\n");
    place.file("facts/it.yaml", "confine: false\n");
    assert!(inspect(&place.provider("job"), "a").unwrap().exists && is_touched(&job));
    assert_eq!(place.mold().facts(&Context::empty()).0.len(), 1);
    assert!(is_touched(&fact));
}

#[test]
fn facts_and_actors_have_directories_of_their_own() {
    let place = MoldDir::new();
    let said = "#!/bin/sh\ntouch \"$KILTER_VAR_DIR/probe\" 2>/dev/null\n";
    place.script("facts/it", format!("{said}echo \"{{\\\"at\\\": \\\"$KILTER_VAR_DIR\\\"}}\"\n"));
    let prescribe = "echo \"[{\\\"kind\\\": \\\"file\\\", \\\"name\\\": \\\"$KILTER_VAR_DIR\\\"}]\"\n";
    place.script("actors/prescribe", format!("{said}{prescribe}"));
    place.script("resources/file", "#!/bin/sh\n");
    place.file("actors/prescribe.yaml", "confine: false\n");
    let state = place.path().join("state");
    let surroundings = ScriptEnvironment { state_dir: Some(state.clone()), ..place.surroundings() };
    let mold = Mold::open(place.path(), Arc::new(surroundings)).unwrap();
    let (facts, _) = mold.facts(&Context::empty());
    let at = state.join("scripts/facts/it");
    assert_eq!(to_json(&Value::hash(facts)), json!({ "it": { "at": at.display().to_string() } }));
    assert!(!at.exists(), "it is confined, so nothing is made for it");
    let prescribed = mold.prescribe(&Context::empty(), &Value::Undef).unwrap();
    let at = state.join("scripts/actors/prescribe");
    assert_eq!(prescribed[0].name, at.display().to_string());
    assert!(at.join("probe").exists());
}
