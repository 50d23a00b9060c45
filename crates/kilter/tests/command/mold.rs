//! Scripts of mold, from the shell and in manifests.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Ended, Place};

/// Keeps services as files beside itself, and notes what it is called for.
pub(crate) const SERVICE: &str = r#"#!/bin/bash
state=$(dirname "$0")/../state-sshd
document=$(cat)
[ "$1" = inspect ] || echo "$1 $document" >>"$state.calls"
case "$1" in
inspect) printf '{"kind": "service", "name": "sshd", "running": %s}\n' "$([ -e "$state" ] && echo true || echo false)";;
conform) case "$document" in *'"running":true'*) : >"$state";; *) rm "$state";; esac;;
restart) echo "restarted sshd";;
*) echo "there is no action $1" >&2; exit 3;;
esac
"#;

const FACT: &str = "#!/bin/sh\necho '{\"cats\": 10, \"dogs\": 20, \"gorillas\": \"no gorillas\"}'\n";

pub(crate) fn script(place: &Place, name: &str, content: &str) {
    let path = place.path().join("minion").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn minion() -> Place {
    let place = Place::new();
    script(&place, "resources/service", SERVICE);
    script(&place, "facts/foo", FACT);
    place
}

pub(crate) fn run(place: &Place, args: &[&str]) -> Ended {
    place.run(&[args, &["--mold", "minion"]].concat())
}

fn calls(place: &Place) -> String {
    let calls = std::fs::read_to_string(place.path().join("minion/state-sshd.calls")).unwrap_or_default();
    let _ = std::fs::remove_file(place.path().join("minion/state-sshd.calls"));
    calls
}

#[test]
fn a_service_of_a_script_is_read_set_and_restarted() {
    let place = minion();
    let ended = run(&place, &["get", "service", "sshd"]);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("service[sshd]\n  exists   true\n  running  false\n", "")
    );
    let ended = run(&place, &["set", "service", "sshd", "running=true"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("running: false → true"), "{}", ended.stdout);
    assert_eq!(calls(&place), "conform {\"kind\":\"service\",\"name\":\"sshd\",\"running\":true}\n");
    let ended = run(&place, &["act", "service[sshd]", "restart"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "service[sshd] restart: done\n  restarted sshd\n"));
    assert_eq!(calls(&place), "restart {\"kind\":\"service\",\"name\":\"sshd\"}\n");
    let ended = run(&place, &["act", "service", "sshd", "restart", "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["status"], &told["notes"][0]), (&"done".into(), &"restarted sshd".into()));
}

#[test]
fn invalid_action_is_refused_and_failed_action_exits_with_4() {
    let place = minion();
    let ended = run(&place, &["act", "service[sshd]", "explode"]);
    assert_eq!(ended.code, 4);
    let expected = "explode of service[sshd] by the provider `mold` (mold, DIR/minion/resources/service): it failed \
                    with exit code 3 \
                    (last on its standard error: there is no action explode)\n";
    assert_eq!(ended.stdout, format!("service[sshd] explode: failed\n  {expected}"));
    std::fs::write(place.path().join("minion/resources/service.yaml"), "actions: [restart]\n").unwrap();
    let _ = calls(&place);
    for (args, said) in [
        (["act", "service[sshd]", "explode"], "error: service has no action `explode`\n  hint: its actions: restart\n"),
        (["act", "service[sshd]", "inspect"], "error: `inspect` cannot be a one-time action\n"),
        (["act", "file[/etc/motd]", "touch"], "error: file has no one-time actions\n"),
        (["act", "nosuch[x]", "restart"], "error: there is no type `nosuch`\n"),
        (["act", "service", "restart"], "error: a resource and an action are given: kilter act TYPE[NAME] ACTION\n"),
    ] {
        let ended = run(&place, &args);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{args:?}");
        assert!(ended.stderr.starts_with(said), "{args:?}: {}", ended.stderr);
    }
    assert_eq!(calls(&place), "");
}

#[test]
fn facts_are_merged_and_a_manifest_uses_them_and_notifies() {
    let place = minion();
    std::fs::write(place.path().join("minion/resources/service.yaml"), "actions: [restart]\nrefresh: restart\n")
        .unwrap();
    assert_eq!(run(&place, &["facts", "foo.gorillas"]).stdout, "no gorillas\n");
    let target = place.path().join("sshd_config").display().to_string();
    let manifest = place.file(
        "m.yaml",
        format!(
            "resources:\n  file[{target}]:\n    content: \"cats ${{facts.foo.cats}}\\n\"\n    notify: service[sshd]\n  \
             service[sshd]:\n    running: true\n"
        ),
    );
    let ended = run(&place, &["apply", &manifest]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "cats 10\n");
    let called = calls(&place);
    assert!(
        called.starts_with("conform ") && called.lines().nth(1).is_some_and(|line| line.starts_with("restart ")),
        "{called}"
    );
    assert_eq!(run(&place, &["apply", &manifest]).code, 0);
    assert_eq!(calls(&place), "", "nothing changed, so nothing is called");
}

#[test]
fn type_without_metadata_accepts_any_attribute_with_warning() {
    let place = minion();
    assert!(run(&place, &["types", "service"]).stdout.contains("Any other attribute is accepted too."));
    let described = run(&place, &["types", "service", "--format", "json"]).stdout;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&described).unwrap()["takes_others"], true);
    assert!(run(&place, &["types", "service", "--format", "markdown"]).stdout.contains("Any other attribute"));
    let manifest = place.file("m.yaml", "resources:\n  service[sshd]: { running: true, colour: red }\n");
    let ended = run(&place, &["plan", &manifest]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("`inspect` does not return colour"), "{}", ended.stderr);
    std::fs::write(place.path().join("minion/resources/service.yaml"), "attributes: {running: {type: Boolean}}\n")
        .unwrap();
    let ended = run(&place, &["plan", &manifest]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("`service` has no attribute `colour`"), "{}", ended.stderr);
}

#[test]
fn options_may_come_before_the_command() {
    let place = minion();
    assert_eq!(place.run(&["--mold", "minion", "facts", "foo.cats"]).stdout, "10\n");
    assert_eq!(place.run(&["--mold", "minion", "--channel3", "log", "get", "service", "sshd"]).code, 0);
    let ended = place.run(&["--mold", "minion", "apply"]);
    assert!(ended.stderr.contains("there is no script DIR/minion/actors/prescribe"), "{}", ended.stderr);
    let ended = place.run(&["apply"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (1, "error: name a manifest, or a directory with --mold\n"));
}

#[test]
fn script_without_effect_fails() {
    let place = minion();
    script(&place, "resources/service", "#!/bin/sh\n[ $1 = conform ] || echo '{\"running\": false}'\n");
    let ended = run(&place, &["set", "service", "sshd", "running=true"]);
    assert_eq!(ended.code, 4, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("running"), "{}", ended.stdout);
}

#[test]
fn script_calls_are_logged() {
    let place = minion();
    let ended = place.run(&["act", "service[sshd]", "restart", "--mold", "minion", "--channel3", "log"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let log = std::fs::read_to_string(place.path().join("log")).unwrap();
    assert!(log.contains("63:[\"resources/service#1\", \"stdout\", {\"line\": \"restarted sshd\\n\"}],"), "{log}");
    assert!(log.ends_with("38:[\"resources/service#1\", \"exitcode\", 0],"), "{log}");
}

#[test]
fn missing_mold_directory_is_reported_first() {
    let place = Place::new();
    let ended = run(&place, &["types"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert_eq!(
        ended.stderr,
        "error: cannot use the directory of mold minion: No such file or directory (os error 2)\n"
    );
}

#[test]
fn a_script_for_a_type_that_kilter_has_is_named() {
    let place = minion();
    script(&place, "resources/file", "#!/bin/sh\necho '{\"kind\": \"file\", \"exists\": true, \"sha1\": \"x\"}'\n");
    let ended = run(&place, &["get", "file::mold", "/etc/motd"]);
    assert_eq!(ended.stdout, "file[/etc/motd]\n  exists  true\n  sha1    x\n", "{}", ended.stderr);
    assert!(!run(&place, &["get", "file", "/"]).stdout.contains("sha1"));
    std::fs::write(place.path().join("minion/resources/file.yaml"), "default: true\n").unwrap();
    assert!(run(&place, &["get", "file", "/"]).stdout.contains("sha1"));
}

#[test]
fn stderr_of_facts_and_actors_is_shown_by_level() {
    let place = minion();
    script(&place, "facts/foo", "#!/bin/sh\necho looking >&2\necho 'warn: old' >&2\necho '{\"cats\": 10}'\n");
    script(&place, "actors/prescribe", "#!/bin/sh\necho thinking >&2\necho '[]'\n");
    let ended = run(&place, &["facts", "foo"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "warning: facts[foo]: old\n"));
    let ended = run(&place, &["facts", "foo", "-v"]);
    assert_eq!(ended.stderr, "info: facts[foo]: looking\nwarning: facts[foo]: old\n");
    let ended = run(&place, &["plan", "-v"]);
    assert!(ended.stderr.contains("info: actors[prescribe]: thinking\n"), "{}", ended.stderr);
}
