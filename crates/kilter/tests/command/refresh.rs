//! Refreshes of resources whose providers are scripts, and relations that can refresh nothing.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::support::{Ended, Place};

const METADATA: &str = "provider:
  type: daemon
  invoke: INVOKE
  actions: ACTIONS
  suitable: true
  attributes:
    name: {desc: Its name.}
    ensure: {type: \"enum[running, stopped]\"}
    speed: {type: string, kind: w}
";

/// Keeps the activity of one daemon in the file `is`, and writes each update and refresh to `log`.
const SIMPLE: &str = r##"#!/bin/bash
eval "$@"
cd DIR || exit 9
echo '# simple'
case $ral_action in
find) printf 'name: %s\nensure: %s\n' "$name" "$(cat is)" ;;
update) echo "$ral_action $name $ensure $speed" >>log; echo "$ensure" >is; echo 'ral_derive: true' ;;
refresh)
  echo "$ral_action $name $ensure $speed" >>log
  if [ -e broken ]; then echo stopped >is; echo 'ral_error: it does not come up'; echo ral_eom; else echo running >is; fi ;;
esac
"##;

const JSON: &str = r##"#!/usr/bin/python3 -IS
import json, os, sys
os.chdir("DIR")
asked = json.load(sys.stdin)
state = open("is").read().strip()
def log(entry):
    should = entry["should"]
    open("log", "a").write(" ".join([action, entry["name"], should.get("ensure", ""), should.get("speed", "")]) + "\n")
action = sys.argv[1].removeprefix("ral_action=")
if action == "get":
    print(json.dumps({"resources": [{"name": name, "ensure": state} for name in asked["names"]]}))
elif action == "set":
    action = "update"
    for entry in asked["updates"]:
        log(entry)
        open("is", "w").write(entry["should"]["ensure"])
    print(json.dumps({"derive": True}))
else:
    [entry] = asked["refreshes"]
    log(entry)
    errors = [{"name": entry["name"], "error": {"message": "it does not come up"}}]
    open("is", "w").write("stopped" if os.path.exists("broken") else "running")
    print(json.dumps({"changes": errors if os.path.exists("broken") else []}))
"##;

const MOLD: &str = r##"#!/usr/bin/python3 -IS
import json, os, sys
os.chdir("DIR")
asked = json.load(sys.stdin)
action = sys.argv[1]
if action == "inspect":
    print(json.dumps({"kind": "daemon", "name": asked["name"], "exists": True, "ensure": open("is").read().strip()}))
else:
    action = "update" if action == "conform" else action
    open("log", "a").write(" ".join([action, asked["name"], asked.get("ensure", ""), asked.get("speed", "")]) + "\n")
    is_broken = action == "refresh" and os.path.exists("broken")
    open("is", "w").write("stopped" if is_broken else asked.get("ensure", "running"))
    if is_broken:
        sys.exit("it does not come up")
"##;

/// Places with a provider of the type `daemon`, one for each convention.
fn places() -> impl Iterator<Item = (&'static str, Place)> {
    let conventions = [
        ("simple", "[find, update, refresh]", SIMPLE),
        ("json", "[get, set, refresh]", JSON),
        ("mold", "[refresh]", MOLD),
    ];
    conventions.into_iter().map(|(invoke, actions, script)| {
        let place = Place::new();
        std::fs::create_dir(place.path().join("providers")).unwrap();
        place.file("providers/daemon.yaml", METADATA.replace("INVOKE", invoke).replace("ACTIONS", actions));
        let script = script.replace("DIR", &place.path().display().to_string());
        let path = place.file("providers/daemon.prov", script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        place.file("is", "running\n");
        (invoke, place)
    })
}

fn run(place: &Place, args: &[&str]) -> Ended {
    place.run(&[&["-I", "providers"], args].concat())
}

/// Applies a manifest whose file has this content and notifies a daemon that is declared so.
fn apply(place: &Place, content: &str, daemon: &str) -> Ended {
    declare(place, content, daemon);
    run(place, &["apply", "m.yaml"])
}

fn declare(place: &Place, content: &str, daemon: &str) {
    let conf = place.path().join("conf").display().to_string();
    let text =
        format!("resources:\n  file[{conf}]: {{content: {content}, notify: 'daemon[d]'}}\n  daemon[d]: {daemon}\n");
    place.file("m.yaml", text);
}

/// Returns the calls of the script since the last query, in the same words for every convention.
fn done(place: &Place) -> String {
    let text = std::fs::read_to_string(place.path().join("log")).unwrap_or_default();
    place.file("log", "");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("; ")
}

#[test]
fn running_daemon_is_refreshed_only_by_a_change() {
    for (convention, place) in places() {
        let wanted = "{ensure: running, speed: high}";
        let first = apply(&place, "one", wanted);
        assert_eq!((first.code, first.stderr.as_str()), (0, ""), "{convention}: {first:?}");
        assert!(first.stdout.contains("↻ daemon[d]\n    refreshed by file[DIR/conf]\n"), "{convention}: {first:?}");
        // A script of mold is told the name alone, as for any other action.
        let told = if convention == "mold" { "refresh d" } else { "refresh d running high" };
        assert_eq!(done(&place), told, "{convention}");
        let second = apply(&place, "one", wanted);
        assert!(second.stdout.contains("2 unchanged"), "{convention}: {second:?}");
        assert_eq!(done(&place), "", "{convention}");
    }
}

#[test]
fn stopped_daemon_is_not_started_by_a_refresh_and_the_plan_says_so() {
    for (convention, place) in places() {
        for wanted in ["{}", "{ensure: stopped}"] {
            place.file("is", "stopped\n");
            let content = if wanted == "{}" { "one" } else { "two" };
            declare(&place, content, wanted);
            let plan = run(&place, &["plan", "m.yaml", "--format", "json"]);
            let plan: Json = serde_json::from_str(&plan.stdout).unwrap();
            assert_eq!(
                (&plan["counts"]["would_refresh"], &plan["counts"]["refreshed"]),
                (&0.into(), &0.into()),
                "{plan}"
            );
            let applied = run(&place, &["apply", "m.yaml"]);
            assert_eq!(applied.code, 0, "{convention}: {applied:?}");
            assert!(!applied.stdout.contains("refreshed"), "{convention}: {applied:?}");
            assert_eq!(done(&place), "", "{convention}");
            let again = run(&place, &["apply", "m.yaml"]);
            assert!(again.stdout.contains("2 unchanged"), "{convention}: nothing is owed: {again:?}");
        }
        // One that is being stopped has nothing to refresh either.
        place.file("is", "running\n");
        declare(&place, "three", "{ensure: stopped}");
        let plan = run(&place, &["plan", "m.yaml"]);
        assert!(!plan.stdout.contains("refreshed"), "{convention}: {plan:?}");
        let applied = run(&place, &["apply", "m.yaml"]);
        assert!(!applied.stdout.contains("refreshed"), "{convention}: {applied:?}");
        assert_eq!(done(&place), "update d stopped", "{convention}");
    }
}

#[test]
fn started_daemon_is_not_refreshed_as_well() {
    for (convention, place) in places() {
        for is in ["stopped\n", "absent\n"] {
            place.file("is", is);
            declare(&place, is.trim(), "{ensure: running}");
            let line = "    refresh by file[DIR/conf] not needed after this change\n";
            let plan = run(&place, &["plan", "m.yaml", "-o", "p"]);
            assert!(plan.stdout.contains(line), "{convention}: {plan:?}");
            assert!(plan.stdout.contains("2 resources: 2 to change ("), "{convention}: {plan:?}");
            assert!(!plan.stdout.contains("refreshed"), "{convention}: {plan:?}");
            let applied = run(&place, &["apply", "p", "--format", "json"]);
            let json: Json = serde_json::from_str(&applied.stdout).unwrap();
            assert_eq!((applied.code, &json["counts"]["refreshed"]), (0, &0.into()), "{convention}: {applied:?}");
            let daemon = &json["resources"][1];
            assert_eq!(daemon["refresh_not_needed"].as_array().map(Vec::len), Some(1), "{convention}: {daemon}");
            assert_eq!(daemon["refreshed_by"], Json::Null, "{convention}: {daemon}");
            assert_eq!(done(&place), "update d running", "{convention}: the start makes a refresh superfluous");
            let again = run(&place, &["apply", "m.yaml"]);
            assert!(again.stdout.contains("2 unchanged"), "{convention}: {again:?}");
            assert_eq!(done(&place), "", "{convention}");
        }
    }
}

#[test]
fn daemon_that_runs_by_its_turn_is_refreshed_though_the_plan_was_to_start_it() {
    for (convention, place) in places() {
        place.file("is", "stopped\n");
        declare(&place, "one", "{ensure: running}");
        assert_eq!(run(&place, &["plan", "m.yaml", "-o", "p"]).code, 2, "{convention}");
        // As the installation of a package starts its service.
        place.file("is", "running\n");
        let applied = run(&place, &["apply", "p"]);
        assert_eq!(applied.code, 0, "{convention}: {applied:?}");
        assert!(applied.stdout.contains("refreshed by file[DIR/conf]"), "{convention}: {applied:?}");
        assert!(done(&place).starts_with("refresh d"), "{convention}");
    }
}

#[test]
fn plan_of_a_daemon_that_is_stopped_and_notified_is_carried_out() {
    for (convention, place) in places() {
        declare(&place, "one", "{ensure: stopped}");
        assert_eq!(run(&place, &["plan", "m.yaml", "-o", "p"]).code, 2, "{convention}");
        let applied = run(&place, &["apply", "p"]);
        assert_eq!(applied.code, 0, "{convention}: {applied:?}");
        assert_eq!(done(&place), "update d stopped", "{convention}");
    }
}

#[test]
fn running_command_is_not_refreshed_without_refresh_command() {
    let place = Place::new();
    let directory = place.path().display().to_string();
    for (content, refresh, counts) in [("a", "", [0, 0]), ("b", ", refresh: 'echo refresh >>DIR/log'", [1, 1])] {
        let text = format!(
            "resources:\n  file[DIR/conf]: {{content: {content}, notify: 'exec[x]'}}\n  \
             exec[x]: {{command: 'echo run >>DIR/log', shell: true{refresh}}}\n"
        );
        place.file("m.yaml", text.replace("DIR", &directory));
        for (command, at) in [("plan", "would_refresh"), ("apply", "refreshed")] {
            let ended = place.run(&[command, "m.yaml", "--format", "json"]);
            let json: Json = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(json["counts"][at], counts[usize::from(command == "apply")], "{command}{refresh}: {json}");
            let by = &json["resources"][1]["refresh_not_needed"];
            assert_eq!(by.is_array(), refresh.is_empty(), "{command}{refresh}: {json}");
        }
        let expected = if refresh.is_empty() { "run" } else { "run; refresh" };
        assert_eq!(done(&place), expected);
    }
}

const GUARDED: &str = "resources:
  file[DIR/a]: {content: a, notify: ['exec[there]', 'exec[missing]', 'exec[asked]', 'exec[state]']}
  exec[there]: {command: 'echo there >>DIR/log', shell: true, refreshonly: true, creates: DIR/is, notify: 'exec[next]'}
  exec[next]: {command: 'echo next >>DIR/log', shell: true, refreshonly: true}
  exec[missing]: {command: 'echo missing >>DIR/log', shell: true, refreshonly: true, creates: DIR/none}
  exec[asked]: {command: 'echo asked >>DIR/log', shell: true, refreshonly: true, onlyif: 'test -e DIR/none'}
  exec[state]: {command: 'echo state >>DIR/log', shell: true, creates: DIR/is}
";

#[test]
fn guards_decide_if_a_refresh_runs_the_command_and_notifies() {
    let place = Place::new();
    place.file("is", "");
    let manifest = place.file("m.yaml", GUARDED.replace("DIR", &place.path().display().to_string()));
    let statuses = |args: &[&str]| {
        let ended = place.run(&[args, &["--format", "json"]].concat());
        let json: Json = serde_json::from_str(&ended.stdout).unwrap();
        let listed = json["resources"].as_array().unwrap().iter().skip(1).filter(|one| one["status"] != "in_sync");
        let of = |one: &Json| format!("{} {}", one["resource"].as_str().unwrap(), one["status"].as_str().unwrap());
        listed.map(of).collect::<Vec<_>>()
    };
    let planned = statuses(&["plan", &manifest, "-o", &place.path().join("p").display().to_string()]);
    assert_eq!(planned, ["exec[missing] would_refresh", "exec[asked] unknown"]);
    assert_eq!(statuses(&["apply", &place.path().join("p").display().to_string()]), ["exec[missing] refreshed"]);
    assert_eq!(done(&place), "missing");
    assert_eq!(statuses(&["apply", &manifest]), [""; 0], "no refresh is pending");
}

#[test]
fn failed_refresh_stays_pending_until_success() {
    for (convention, place) in places() {
        place.file("broken", "");
        let failed = apply(&place, "one", "{}");
        assert_eq!(failed.code, 4, "{convention}: {failed:?}");
        assert_eq!(std::fs::read_to_string(place.path().join("is")).unwrap().trim(), "stopped", "it is down now");
        assert!(failed.stdout.contains("refresh failed: refresh of daemon[d]"), "{convention}: {failed:?}");
        assert!(failed.stdout.contains("it does not come up"), "{convention}: {failed:?}");
        assert!(failed.stdout.contains("daemon[d] is still to be refreshed because of file[DIR/conf]"), "{failed:?}");
        std::fs::remove_file(place.path().join("broken")).unwrap();
        done(&place);
        let plan = run(&place, &["plan", "m.yaml"]);
        assert_eq!(plan.code, 2, "{convention}: {plan:?}");
        let next = apply(&place, "one", "{}");
        assert_eq!(next.code, 0, "{convention}: {next:?}");
        assert!(next.stdout.contains("refreshed: pending since an earlier run"), "{convention}: {next:?}");
        let runs = run(&place, &["history", "--format", "json", "-n", "2"]).stdout;
        let cause = serde_json::from_str::<serde_json::Value>(runs.lines().nth(1).unwrap()).unwrap()["run"].clone();
        let shown = run(&place, &["history", "show", "last"]).stdout;
        assert!(shown.contains(&format!("refreshed by a change of run {cause}\n")), "{convention}: {shown} {runs}");
        assert!(done(&place).starts_with("refresh d"), "{convention}");
        assert!(apply(&place, "one", "{}").stdout.contains("2 unchanged"), "{convention}");
    }
}

const ORDERS: &str = "resources:
  file[DIR/a]: {content: a, notify: ['file[DIR/b]', 'exec[c]']}
  file[DIR/d]: {content: d, notify: 'file[DIR/b]'}
  file[DIR/b]: {content: b}
  exec[c]: {command: [/bin/true], refreshonly: true}
";

#[test]
fn notify_without_refresh_warns_once_and_is_drawn_as_order() {
    let place = Place::new();
    let manifest = place.file("m.yaml", ORDERS.replace("DIR", &place.path().display().to_string()));
    let warning =
        "file[DIR/b] cannot be refreshed: the provider `posix` of file has no refresh; `notify` only sets the order";
    for command in ["plan", "apply", "graph"] {
        let ended = place.run(&[command, &manifest]);
        assert_eq!(ended.stderr.matches(warning).count(), 1, "{command}: {ended:?}");
        assert_eq!(ended.stderr.matches("cannot be refreshed").count(), 1, "{command}: {ended:?}");
        assert!(ended.stderr.contains("write `before` if only the order is meant"), "{command}: {ended:?}");
    }
    let drawn = |format: &str| place.run(&["graph", &manifest, "--format", format]).stdout;
    let list = drawn("human");
    assert!(
        list.contains("    after file[DIR/a] (notify, order only)\n    after file[DIR/d] (notify, order only)\n"),
        "{list}"
    );
    assert!(list.contains("exec[c]\n    after file[DIR/a] (notify), refreshed by its changes\n"), "{list}");
    let json: Json = serde_json::from_str(&drawn("json")).unwrap();
    let edges = json["edges"].as_array().unwrap().iter();
    let notifying: Vec<&str> =
        edges.filter(|edge| edge["notify"] == true).filter_map(|edge| edge["second"].as_str()).collect();
    assert_eq!(notifying, ["exec[c]"]);
    for format in ["dot", "mermaid", "svg"] {
        let text = drawn(format);
        assert_eq!(text.matches("notify, order only").count(), 2, "{format}: {text}");
    }
    assert_eq!(drawn("dot").matches("dashed").count(), 1);
    assert_eq!(drawn("mermaid").matches("-. \"notify").count(), 1);
}

#[test]
fn notify_of_composite_warns_if_no_member_refreshes() {
    let place = Place::new();
    let directory = place.path().display().to_string();
    let types = "types:
  site:
    resources:
      file[DIR/${self.name}]: {content: x}
      exec[reload ${self.name}]: {command: [/bin/true], refreshonly: true}
  pair:
    resources:
      file[DIR/${self.name}.1]: {content: x}
      file[DIR/${self.name}.2]: {content: x}
resources:
  file[DIR/a]: {content: a, notify: ['site[s]', 'pair[p]']}
  site[s]: {}
  pair[p]: {}
";
    let manifest = place.file("m.yaml", types.replace("DIR", &directory));
    let plan = place.run(&["plan", &manifest]);
    assert_eq!(plan.stderr.matches("cannot be refreshed").count(), 1, "{plan:?}");
    assert!(plan.stderr.contains("file[DIR/p.1] cannot be refreshed"), "{plan:?}");
}
