//! The routine of mold: facts, prescription, then observe, choreograph and perform until no steps are left.

use crate::mold::{run, script};
use crate::support::Place;

/// Keeps counters as files; `level` is raised by one with each `conform`.
const COUNTER: &str = r#"#!/bin/bash
document=$(cat)
name=$(sed -n 's/.*"name": *"\([^"]*\)".*/\1/p' <<<"$document")
file=$(dirname "$0")/../counter-$name
level=$(cat "$file" 2>/dev/null || echo 0)
case "$1" in
inspect) printf '{"kind": "counter", "name": "%s", "level": %s}\n' "$name" "$level";;
conform) echo $((level + 1)) >"$file";;
reset) rm -f "$file"; echo "it was at $level";;
*) exit 3;;
esac
"#;

/// Prescribes two counters, as high as the facts say.
const PRESCRIBE: &str = r#"#!/usr/bin/env python3
import json, sys
facts = json.load(sys.stdin)
assert facts["os"]
print(json.dumps([{"kind": "counter", "name": name, "level": facts["want"]["level"]} for name in ("a", "b")]))
"#;

/// Raises the counters that are too low, and resets those that are too high.
const CHOREOGRAPH: &str = r#"#!/usr/bin/env python3
import json, sys
given = json.load(sys.stdin)
assert sorted(given) == ["facts", "observations", "prescription"], given
steps = []
for want, found in zip(given["prescription"], given["observations"]):
    assert want["name"] == found["name"]
    if found["level"] < want["level"]:
        steps.append(want)
    elif found["level"] > want["level"]:
        steps.append({"kind": "counter", "name": want["name"], "action": "reset"})
print(json.dumps(steps))
"#;

fn place() -> Place {
    let place = Place::new();
    script(&place, "facts/want", "#!/bin/sh\necho '{\"level\": 2}'\n");
    script(&place, "resources/counter", COUNTER);
    script(&place, "actors/prescribe", PRESCRIBE);
    place
}

fn choreographed() -> Place {
    let place = place();
    script(&place, "actors/choreograph", CHOREOGRAPH);
    place
}

fn level(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path().join("minion").join(format!("counter-{name}"))).unwrap_or_default()
}

#[test]
fn steps_are_performed_until_none_are_left() {
    let place = choreographed();
    std::fs::write(place.path().join("minion/counter-b"), "3\n").unwrap();
    let ended = run(&place, &["plan"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let expected = "  counter[a] conform: would be performed\n  counter[b] reset: would be performed\n2 resources: 2 \
                    steps pending\n";
    assert_eq!((ended.stdout.as_str(), level(&place, "a").as_str()), (expected, ""));
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let expected = "\
round 1
  counter[a] conform: done
  counter[b] reset: done
    it was at 3
round 2
  counter[a] conform: done
  counter[b] conform: done
round 3
  counter[b] conform: done
2 resources: 5 steps in 3 rounds, none left
";
    assert_eq!(ended.stdout, expected);
    assert_eq!((level(&place, "a").trim(), level(&place, "b").trim()), ("2", "2"));
    let ended = run(&place, &["apply", "--format", "json"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "{\n  \"noop\": false,\n  \"rounds\": [],\n  \"failure\": null\n}\n")
    );
    assert_eq!(run(&place, &["apply", "--noop"]).code, 0);
}

#[test]
fn repeating_choreographer_is_stopped_after_three_rounds() {
    let place = choreographed();
    script(
        &place,
        "actors/choreograph",
        "#!/bin/sh\necho '[{\"kind\": \"counter\", \"name\": \"a\", \"action\": \"reset\"}]'\n",
    );
    let ended = run(&place, &["apply", "-q"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (4, ""));
    assert_eq!(
        ended.stderr,
        "error: actors/choreograph repeats itself: 3 rounds performed the same steps, and it asks for them again: \
         counter[a] reset; \
         what it observes does not change with them, or it does not compare it\n"
    );
    let rounds = run(&place, &["apply", "--format", "json"]);
    let rounds: serde_json::Value = serde_json::from_str(&rounds.stdout).unwrap();
    assert_eq!(rounds["rounds"].as_array().unwrap().len(), 3, "{rounds}");
}

#[test]
fn endless_choreography_is_ended() {
    let place = choreographed();
    // The steps are others in each round.
    script(
        &place,
        "actors/choreograph",
        "#!/usr/bin/python3 -IS\nimport json, random\n\
         print(json.dumps([{\"kind\": \"counter\", \"name\": \"a\", \"level\": random.randrange(10**9)}]))\n",
    );
    let ended = run(&place, &["apply", "-q"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (4, ""));
    assert_eq!(
        ended.stderr,
        "error: the choreography does not end: after 25 rounds there are steps left: counter[a] conform\n"
    );
}

#[test]
fn a_step_that_fails_ends_the_routine() {
    let place = choreographed();
    script(
        &place,
        "actors/choreograph",
        "#!/bin/sh\necho '[{\"kind\": \"counter\", \"name\": \"a\", \"action\": \"explode\"}]'\n",
    );
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 4);
    assert!(
        ended.stdout.contains("explode of counter[a] by the provider `mold` (mold, DIR/minion/resources/counter)"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stderr, "error: counter[a] explode failed\n");
}

#[test]
fn engine_orders_prescriptions_without_choreographer() {
    let place = place();
    let target = place.path().join("motd").display().to_string();
    script(&place, "resources/counter", &COUNTER.replace("$((level + 1))", "2"));
    let prescribe = format!(
        "#!/bin/sh\ncat <<'END'\n[{{\"kind\": \"counter\", \"name\": \"a\", \"level\": 2}},\n {{\"kind\": \"file\", \
         \"name\": \"{target}\", \
         \"content\": \"costs ${{5}}\"}}]\nEND\n"
    );
    script(&place, "actors/prescribe", &prescribe);
    assert_eq!(run(&place, &["plan"]).code, 2);
    assert!(run(&place, &["graph"]).stdout.contains("counter[a]"));
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "costs ${5}", "texts mean themselves");
    assert_eq!(level(&place, "a"), "2\n");
    let ended = run(&place, &["apply"]);
    assert!(ended.stdout.starts_with("2 resources: 2 unchanged"), "{}", ended.stdout);
}

#[test]
fn kinds_without_script_are_kilter_types() {
    let place = choreographed();
    let target = place.path().join("motd").display().to_string();
    let document = format!("{{\"kind\": \"file\", \"name\": \"{target}\", \"content\": \"hello\"}}");
    script(&place, "actors/prescribe", &format!("#!/bin/sh\necho '[{document}]'\n"));
    let choreograph = "#!/usr/bin/env python3\nimport json, sys\ngiven = json.load(sys.stdin)\n\
                       print(json.dumps([] if given['observations'][0]['exists'] else given['prescription']))\n";
    script(&place, "actors/choreograph", choreograph);
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "hello");
}

#[test]
fn actor_error_is_reported_without_changes() {
    let place = choreographed();
    let refused = |name: &str, body: &str, expected: &str, code: i32| {
        script(&place, name, &format!("#!/bin/sh\n{body}\n"));
        let ended = run(&place, &["apply"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{body}");
        assert!(ended.stderr.contains(expected), "{body}: {}", ended.stderr);
    };
    for (body, expected) in [
        ("echo '{}'", "a list is expected, not `{}`"),
        ("echo '[{\"name\": \"a\"}]'", "[0]: its `kind` is missing"),
        ("echo '[{\"kind\": \"counter\"}]'", "[0]: its `name` is missing"),
        (
            "echo '[{\"kind\": \"counter\", \"name\": \"a\"}, {\"kind\": \"counter\", \"name\": \"a\"}]'",
            "[1]: counter[a] is prescribed twice",
        ),
        (
            "echo oops >&2; exit 1",
            "the actor `prescribe` (mold, DIR/minion/actors/prescribe): it failed with exit code 1 (last on its",
        ),
        ("echo '['", "its output is not JSON"),
    ] {
        refused("actors/prescribe", body, expected, 1);
    }
    script(&place, "actors/prescribe", PRESCRIBE);
    refused(
        "actors/choreograph",
        "echo '[{\"kind\": \"counter\", \"name\": \"a\", \"action\": \"inspect\"}]'",
        "is not a one-time action",
        4,
    );
    refused("actors/choreograph", "exit 0", "it printed nothing, where a list of steps is expected", 4);
    assert_eq!((level(&place, "a"), level(&place, "b")), (String::new(), String::new()));
    std::fs::remove_file(place.path().join("minion/actors/prescribe")).unwrap();
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .stderr
            .ends_with("there is no script DIR/minion/actors/prescribe\n  hint: without one, name a manifest\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.run(&["apply"]).code, 1);
}

/// Takes the lock of the state directory, or tells that it is taken.
const TAKER: &str = r#"#!/usr/bin/env python3
import fcntl, json, sys
asked = json.load(sys.stdin)
if sys.argv[1] == "inspect":
    print(json.dumps({"exists": True}))
else:
    try:
        fcntl.lockf(open("STATE/lock", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("free")
    except OSError:
        print("taken")
"#;

#[test]
fn steps_hold_the_lock() {
    let place = Place::new();
    let state = place.path().join("state");
    let target = place.path().join("target").display().to_string();
    script(&place, "resources/taker", &TAKER.replace("STATE", &state.display().to_string()));
    script(&place, "actors/prescribe", "#!/bin/sh\necho '[]'\n");
    // A step of a type of kilter's own is a run within the run, and lets the lock go for nobody.
    let steps = format!(
        "[{{\"kind\": \"file\", \"name\": \"{target}\", \"content\": \"x\"}}, {{\"kind\": \"taker\", \"name\": \"a\", \
         \"action\": \"try\"}}]"
    );
    script(
        &place,
        "actors/choreograph",
        &format!("#!/bin/sh\ncat >/dev/null\n[ -e {target} ] && echo '[]' || echo '{steps}'\n"),
    );
    let ended = run(&place, &["apply"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    assert!(ended.stdout.contains("  taker[a] try: done\n    taken\n"), "{}", ended.stdout);
    assert!(run(&place, &["act", "taker[a]", "try"]).stdout.contains("free"), "it is free when the run has ended");

    let lock = std::fs::OpenOptions::new().write(true).open(state.join("lock")).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let ended = run(&place, &["apply"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.starts_with("error: another run holds the lock on DIR/state (process "), "{}", ended.stderr);
    assert_eq!(run(&place, &["plan"]).code, 0, "a plan changes nothing");
    let ended = run(&place, &["act", "taker[a]", "try"]);
    assert!(ended.code == 0 && ended.stdout.contains("taken"), "an action runs beside another run: {ended:?}");
}

#[test]
fn pause_between_two_steps_prevents_the_second() {
    let place = choreographed();
    std::fs::create_dir(place.path().join("state")).unwrap();
    std::fs::set_permissions(place.path().join("state"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let pauses = concat!(
        r#"{"last_id": 1, "pauses": [{"id": 1, "by": "root", "session": "", "unix_ms": 0, "#,
        r#""until_unix_ms": null, "why": "backup"}]}"#
    );
    let path = place.path().join("state/pauses").display().to_string();
    script(&place, "resources/counter", &COUNTER.replace("conform) ", &format!("conform) echo '{pauses}' >{path};")));
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 4, "{}{}", ended.stdout, ended.stderr);
    let expected = "round 1\n  counter[a] conform: done\n  counter[b] conform: failed\n    it was not started\n";
    assert_eq!(ended.stdout, expected);
    assert!(ended.stderr.contains("is paused: pause 1 by root"), "{}", ended.stderr);
    assert_eq!((level(&place, "a").as_str(), level(&place, "b").as_str()), ("1\n", ""));
    let ended = run(&place, &["apply", "--even-if-paused"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!((level(&place, "a").trim(), level(&place, "b").trim()), ("2", "2"));
}

#[test]
fn step_delivers_the_refresh_that_an_earlier_run_owes() {
    let place = choreographed();
    let journal = place.path().join("state/journal");
    std::fs::write(
        place.path().join("minion/resources/counter.yaml"),
        "attributes:\n  level: {type: Integer, desc: its height}\nactions: [reload]\nrefresh: reload\n",
    )
    .unwrap();
    let reloading = |body: &str| {
        script(&place, "resources/counter", &COUNTER.replace("reset) ", &format!("reload) {body};;\nreset) ")));
    };
    reloading("echo no reload >&2; exit 1");
    let changing = "resources:\n  counter[a]: {level: 1, notify: 'counter[b]'}\n  counter[b]: {level: 0}\n";
    let manifest = place.file("m.yaml", changing);
    let ended = run(&place, &["apply", &manifest]);
    assert_eq!(ended.code, 4, "{}{}", ended.stdout, ended.stderr);
    let owed = std::fs::read_to_string(&journal).unwrap();
    assert!(owed.contains(r#"["counter[a]","counter[b]"]"#), "{owed}");

    reloading("echo reloaded $name; echo $name >>$(dirname $0)/../reloads");
    let ended = run(&place, &["apply"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("  counter[b] conform: done\n    reloaded b\n"), "{}", ended.stdout);
    let reloads = std::fs::read_to_string(place.path().join("minion/reloads")).unwrap();
    assert_eq!(reloads, "b\n", "the refresh is delivered once");
    let last = std::fs::read_to_string(&journal).unwrap().lines().last().unwrap().to_owned();
    assert!(last.contains("paid") && last.contains(r#"["counter[a]","counter[b]"]"#), "{last}");
}

#[test]
fn interrupt_lets_the_running_step_finish_and_starts_no_other() {
    let place = choreographed();
    let fifo = |name: &str| {
        let path = place.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        path
    };
    let (begun, go) = (fifo("begun"), fifo("go"));
    let wait = format!("conform) echo >'{}'; read line <'{}';", begun.display(), go.display());
    script(&place, "resources/counter", &COUNTER.replace("conform) ", &wait));
    let mut command = place.command(&["apply", "--mold", "minion"]);
    let piped = std::process::Stdio::piped;
    let child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    std::fs::read(&begun).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    std::fs::write(&go, "\n").unwrap();
    let ended = place.ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("  counter[a] conform: done\n"), "{}{}", ended.stdout, ended.stderr);
    assert_eq!((level(&place, "a").as_str(), level(&place, "b").as_str()), ("1\n", ""));
}
