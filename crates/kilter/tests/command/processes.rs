//! Processes in the history: commands, guards, validators and scripts, with their outputs and messages.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value as Json, json};

use crate::support::{Ended, Place};

/// Provider of mold's convention. A change writes messages about two nested processes on channel 3.
const DISK: &str = r#"#!/bin/bash
read -r document
state=$(dirname "$0")/../disk
case "$1" in
inspect)
    echo "looks" >&2
    echo "{\"kind\": \"disk\", \"name\": \"a\", \"exists\": true, \"size\": $(cat "$state" 2>/dev/null || echo 0)}" ;;
conform)
    echo 4 >"$state"
    printf '%s' '37:["mkfs", "spawn", {"args": ["mkfs"]}],' '36:["mkfs.sync", 1, {"line": "done\n"}],' >&3
    printf '%s' '20:[null, "step", "go"],' >&3
    echo "a warning" >&2
    echo "grown" ;;
esac
"#;

const METADATA: &str = "provider:
  type: disk
  desc: Disks.
  invoke: mold
  suitable: true
  attributes:
    name: {desc: Its name.}
    size: {type: \"Integer[0, 9]\", desc: Its size.}
";

fn lines(ended: &Ended) -> Vec<Json> {
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the events of the last run that are processes of a resource.
fn processes(place: &Place, resource: &str) -> Vec<Json> {
    let events = lines(&place.run(&["history", "show", "last", "--format", "json"]));
    events.into_iter().filter(|event| event["kind"] == "process" && event["resource"] == resource).collect()
}

fn apply(place: &Place, manifest: &str, code: i32) -> Ended {
    let manifest = place.file("site.yaml", manifest.replace("DIR", &place.path().display().to_string()));
    let ended = place.run(&["apply", &manifest, "-I", "providers"]);
    assert_eq!(ended.code, code, "{}{}", ended.stdout, ended.stderr);
    ended
}

/// Returns the messages as they are: the lengths of netstrings are those of real paths.
fn exported(place: &Place) -> String {
    let output = place.command(&["history", "export", "--format", "netstrings"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_and_guards_of_changed_and_failed_resources_are_recorded() {
    let place = Place::new();
    let manifest = r#"
resources:
  exec[build]:
    command: 'echo built; echo careful >&2; touch DIR/built'
    shell: true
    unless: test -e DIR/built
  exec[broken]:
    command: [/bin/sh, -c, "echo half; exit 7"]
  exec[killed]:
    command: [/bin/sh, -c, "kill -9 $$"]
  exec[slow]:
    command: [sleep, "100"]
    timeout: 0.2
  exec[missing]:
    command: [/nonexistent/program, x]
  exec[quiet]:
    command: 'echo a; touch DIR/quiet'
    shell: true
    logoutput: false
    creates: DIR/quiet
  exec[in sync]:
    command: "false"
    onlyif: test -e /nonexistent
"#;
    apply(&place, manifest, 4);
    let built = processes(&place, "exec[build]");
    let ends: Vec<&Json> = built.iter().map(|one| &one["exit"]).collect();
    assert_eq!(ends, [&json!(1), &json!(0), &json!(0)], "guard, command, guard: {built:?}");
    assert_eq!((&built[1]["stdout"], &built[1]["stderr"]), (&json!("built\n"), &json!("careful\n")));
    let guard = built[0]["argv"].to_string();
    assert!(guard.starts_with("[\"/bin/sh\",\"-c\",\"test -e ") && guard.ends_with("/built\"]"), "{guard}");
    let only = |resource: &str| {
        let all = processes(&place, resource);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    };
    let broken = only("exec[broken]");
    assert_eq!((&broken["exit"], &broken["stdout"]), (&json!(7), &json!("half\n")));
    assert_eq!(only("exec[killed]")["signal"], 9);
    assert_eq!((&only("exec[slow]")["signal"], &only("exec[slow]")["cut_short"]), (&json!(15), &json!("deadline")));
    assert!(only("exec[missing]")["error"].as_str().unwrap().contains("/nonexistent/program"));
    let quiet = only("exec[quiet]");
    assert_eq!((&quiet["exit"], &quiet["stdout"]), (&json!(0), &Json::Null));
    assert!(processes(&place, "exec[in sync]").is_empty());
    // Failed resources show their processes, others only on request.
    let shown = place.run(&["history", "show", "last"]).stdout;
    assert!(shown.contains("ran /bin/sh -c \"echo half; exit 7\": exit code 7"), "{shown}");
    assert!(shown.contains("      stdout | half\n") && shown.contains("signal 15, ended at its timeout"), "{shown}");
    assert!(!shown.contains("stdout | built"), "{shown}");
    let shown = place.run(&["history", "show", "last", "--processes"]).stdout;
    assert!(shown.contains("      stdout | built\n      stderr | careful\n"), "{shown}");
    assert!(!place.run(&["history", "exec[build]"]).stdout.contains("stdout"));
    // The outcome has the numbers of its processes.
    let events = lines(&place.run(&["history", "show", "last", "--format", "json"]));
    let outcome = events.iter().find(|one| one["kind"] == "outcome" && one["resource"] == "exec[build]").unwrap();
    let numbers: Vec<&Json> = built.iter().map(|one| &one["number"]).collect();
    assert_eq!(outcome["processes"].as_array().unwrap().iter().collect::<Vec<_>>(), numbers);
    assert_eq!(place.run(&["history", "verify"]).code, 0);
}

#[test]
fn run_without_changes_records_no_process() {
    let place = Place::new();
    let manifest = "resources:\n  exec[a]:\n    command: touch DIR/a\n    unless: test -e DIR/a\n";
    apply(&place, manifest, 0);
    assert_eq!(processes(&place, "exec[a]").len(), 3);
    let before = lines(&place.run(&["history", "export"])).len();
    apply(&place, manifest, 0);
    assert_eq!(lines(&place.run(&["history", "export"])).len(), before);
}

#[test]
fn validator_belongs_to_its_file() {
    let place = Place::new();
    let file = |name: &str| format!("  file[DIR/{name}]: {{content: x, validate_cmd: \"grep -q x %\"}}\n");
    apply(&place, &format!("resources:\n{}{}", file("one"), file("two")), 0);
    for name in ["one", "two"] {
        // The output has DIR in place of the path.
        let own = processes(&place, &format!("file[DIR/{name}]"));
        assert_eq!((own.len(), &own[0]["argv"][0], &own[0]["exit"]), (1, &json!("grep"), &json!(0)), "{own:?}");
    }
}

#[test]
fn messages_of_scripts_are_exported_and_imported_with_their_nesting() {
    let place = Place::new();
    let directory = place.path().join("providers");
    std::fs::create_dir(&directory).unwrap();
    for (name, text) in [("disk.prov", DISK), ("disk.yaml", METADATA)] {
        std::fs::write(directory.join(name), text).unwrap();
        std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    apply(&place, "resources:\n  disk[a]:\n    size: 4\n", 0);
    let change: Vec<Json> =
        processes(&place, "disk[a]").into_iter().filter(|one| one["argv"][1] == "conform").collect();
    assert_eq!(change.len(), 1, "{change:?}");
    let messages = json!([
        ["mkfs", "spawn", { "args": ["mkfs"] }],
        ["mkfs.sync", 1, { "line": "done\n" }],
        [null, "step", "go"],
    ]);
    assert_eq!((&change[0]["messages"], &change[0]["stderr"]), (&messages, &json!("a warning\n")));
    assert_eq!(change[0]["stdout"], "grown\n");
    // The answer of a query is no part of the record.
    let queries = processes(&place, "disk[a]").into_iter().filter(|one| one["argv"][1] == "inspect");
    assert!(queries.clone().count() > 0 && queries.clone().all(|one| one["stdout"].is_null()), "{queries:?}");
    let shown = place.run(&["history", "show", "last", "--processes"]).stdout;
    assert!(shown.contains("mkfs.sync") && shown.contains("stderr | a warning"), "{shown}");
    let exported = exported(&place);
    let name = format!("disk[a]#{}", change[0]["number"]);
    place.file("log", &exported);
    let imported = place.run(&["history", "import", "log"]);
    assert_eq!(imported.code, 0, "{}{}", imported.stdout, imported.stderr);
    let told: Vec<Json> = lines(&place.run(&["history", "show", "last", "--format", "json"]));
    let of_change: Vec<(&str, String)> = told
        .iter()
        .filter(|one| one["kind"] == "process" && one["name"].as_str().unwrap().starts_with(&name))
        .map(|one| {
            (one["name"].as_str().unwrap(), one["key"].as_str().map_or_else(|| one["key"].to_string(), Into::into))
        })
        .collect();
    let (child, below) = (format!("{name}.mkfs"), format!("{name}.mkfs.sync"));
    let expected = [
        (name.as_str(), "spawn"),
        (&name, "stdout"),
        (&name, "stderr"),
        (&child, "spawn"),
        (&below, "1"),
        (&name, "step"),
        (&name, "exitcode"),
    ];
    let expected: Vec<(&str, String)> = expected.iter().map(|(name, key)| (*name, (*key).to_owned())).collect();
    assert_eq!(of_change, expected);
    // The import is a run of its own, so that an export has the messages twice.
    assert_eq!(self::exported(&place), format!("{exported}{exported}"));
}

#[test]
fn secrets_of_processes_are_redacted() {
    const SECRETS: [&str; 4] = ["planted-in-argv", "planted-in-environment", "planted-command", "planted-content"];
    let place = Place::new();
    let manifest = r#"
resources:
  exec[argv]:
    command: [/bin/sh, -c, 'echo "got $1"; echo "err $1" >&2', x, {sensitive: planted-in-argv}]
  exec[environment]:
    command: 'echo "env $TOKEN"; echo "$TOKEN" >&2; exit 1'
    shell: true
    environment: [{sensitive: "TOKEN=planted-in-environment"}]
  exec[whole]:
    command: {sensitive: "echo planted-command; exit 2"}
    shell: true
  file[DIR/private]:
    content: {sensitive: "planted-content"}
    validate_cmd: cat %
  exec[short]:
    command: 'echo "pin $PIN"; exit 3'
    shell: true
    environment: {PIN: {sensitive: "47"}}
"#;
    let text = manifest.replace("DIR", &place.path().display().to_string());
    let manifest = place.file("site.yaml", text);
    let ended = place.run(&["apply", &manifest]);
    assert_eq!(ended.code, 4, "{}{}", ended.stdout, ended.stderr);
    std::fs::remove_file(&manifest).unwrap();
    let argv = processes(&place, "exec[argv]");
    assert_eq!(argv[0]["argv"][4], "[redacted]");
    assert_eq!((&argv[0]["stdout"], &argv[0]["stderr"]), (&json!("got [redacted]\n"), &json!("err [redacted]\n")));
    assert_eq!(processes(&place, "exec[whole]")[0]["argv"], json!(["[redacted]"]));
    assert_eq!(processes(&place, "exec[environment]")[0]["stderr"], "[redacted]\n");
    let pin = processes(&place, "exec[short]").remove(0).to_string();
    assert!(!pin.contains("pin 47"), "{pin}");
    for words in [
        &["history", "show", "last", "--processes"][..],
        &["history", "export"],
        &["history", "export", "--format", "netstrings"],
    ] {
        let shown = place.run(words).stdout;
        assert!(SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
    }
    for name in ["history.db", "history.db-wal"] {
        let Ok(bytes) = std::fs::read(place.path().join("state/history").join(name)) else { continue };
        let has = |secret: &&str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!SECRETS.iter().any(has), "{name}");
    }
}

#[test]
fn shared_call_of_a_script_shows_secrets_of_no_resource() {
    let place = Place::new();
    let directory = place.path().join("providers");
    std::fs::create_dir(&directory).unwrap();
    // It prints its whole input, with the values of both resources.
    let script = r#"#!/usr/bin/python3
import json, sys, os
asked = json.load(sys.stdin)
file = os.path.join(os.path.dirname(sys.argv[0]), "done")
if sys.argv[1] == "ral_action=set":
    open(file, "w").close()
    print(json.dumps(asked))
    sys.exit("failed for " + json.dumps(asked))
else:
    print(json.dumps({"resources": [{"name": name} for name in asked["names"]]}))
"#;
    let metadata = "provider:\n  type: word\n  desc: Words.\n  invoke: json\n  suitable: true\n  actions: [set, \
                    get]\n  attributes:\n    name: {desc: Its name.}\n    word: {type: \"String\", desc: Its word.}\n";
    for (name, text) in [("word.prov", script), ("word.yaml", metadata)] {
        std::fs::write(directory.join(name), text).unwrap();
        std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let manifest = "resources:\n  word[a]: {word: {sensitive: planted-a}}\n  word[b]: {word: {sensitive: planted-b}}\n";
    let manifest = place.file("site.yaml", manifest);
    let ended = place.run(&["apply", &manifest, "-I", "providers"]);
    let events = place.run(&["history", "show", "last", "--format", "json"]).stdout;
    assert!(events.contains("\"argv\""), "{}{}{events}", ended.stdout, ended.stderr);
    assert!(!events.contains("planted-"), "{events}");
    // Both results name the process, which is on record once.
    let numbers: Vec<Json> = (events.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()))
        .filter_map(|event| event.get("processes").cloned())
        .collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{numbers:?}");
    let shown = place.run(&["history", "show", "last"]).stdout;
    assert!(shown.contains("    processes: see word[a]\n"), "{shown}");
}

#[test]
fn programs_before_the_first_resource_are_recorded_with_the_first_change() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("facts")).unwrap();
    let manifest = "#!/bin/sh\necho 'resources: {file: {DIR/a: {content: {sensitive: \
         {command: [echo, planted-secret]}}, mode: \"0600\"}, DIR/b: {content: \"${facts.cats}\"}}}'\n";
    let manifest = manifest.replace("DIR", &place.path().display().to_string());
    for (name, text) in [("site", manifest.as_str()), ("facts/pets", "#!/bin/sh\necho cats=3\n")] {
        place.file(name, text);
        std::fs::set_permissions(place.path().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let early = || {
        let events = lines(&place.run(&["history", "show", "last", "--format", "json"]));
        assert!(events.iter().all(|event| !event.to_string().contains("planted-secret\\n")), "{events:?}");
        let early = events.into_iter().filter(|event| event["kind"] == "process" && event["resource"].is_null());
        let mut all: Vec<(String, Json, Json)> =
            early.map(|one| (one["for"].to_string(), one["argv"][0].clone(), one["exit"].clone())).collect();
        all.sort_by_key(|one| one.0.clone());
        all
    };
    let apply = || place.run(&["apply", "site", "--facts-dir", "facts"]);
    let ended = apply();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let expected = [("\"fact\"", "DIR/facts/pets"), ("\"manifest\"", "DIR/site"), ("\"secret\"", "echo")]
        .map(|(purpose, program)| (purpose.to_owned(), json!(program), json!(0)));
    assert_eq!(early(), expected);
    let runs = lines(&place.run(&["history", "--format", "json"])).len();
    assert_eq!((apply().code, lines(&place.run(&["history", "--format", "json"])).len()), (0, runs));
    std::fs::remove_file(place.path().join("b")).unwrap();
    assert_eq!((apply().code, early().len()), (0, 3));
    let shown = place.run(&["history", "show", "last", "--processes"]).stdout;
    assert!(shown.contains("    ran DIR/site for a manifest: exit code 0 ("), "{shown}");
    assert!(!place.run(&["history", "show", "last"]).stdout.contains("for a manifest"));
}
