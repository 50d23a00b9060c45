//! `kilter explain`, and layered data in the command.

use serde_json::Value as Json;

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

/// A site with layers, a template, a loop and a composite type.
fn site() -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("hosts")).unwrap();
    place.file("hosts/web1.yaml", "servers: [h]\nport: 8080\nusers: { bob: { uid: 2 } }\n");
    place.file("common.yaml", "servers: [c]\nport: 80\nusers: { alice: { uid: 1 } }\npw: { sensitive: hunter2 }\n");
    place.file("app.j2", "listen {{ vars.port }} {{ vars.pw }}\n");
    place.file(
        "site.yaml",
        "vars:\n  port: 1\n  dir: /srv\n  name: ${vars.dir}/app\ndata:\n  hierarchy:\n    - \
         \"hosts/${vars.host}.yaml\"\n    - role/none.yaml\n    - common.yaml\n  merge:\n    servers: unique\n    \
         users: hash\ndefaults:\n  file: { mode: \"0640\" }\ntypes:\n  app:\n    attributes: { port: { type: Integer, \
         default: 7, desc: p } }\n    resources:\n      file[/app/${self.name}]: { content: \"${string(self.port)}\" \
         }\nresources:\n  file[/conf]:\n    content: { template: app.j2 }\n  file[/users/${each.key}]:\n    for_each: \
         ${vars.users}\n    content: ${string(each.value.uid)}\n    mode: \"0600\"\n  exec[x]: { command: x }\n  \
         file[/out]: { content: \"${exec[x].stdout}\", mode: null }\n  file[${vars.name}]: { ensure: directory, when: \
         vars.port > 9000 }\n  app[a]: {}\n  app[b]: { port: \"${vars.port}\" }\n",
    );
    place
}

fn explained(place: &Place, words: &[&str]) -> String {
    let ended = place.run(&[&["explain"], words, &["site.yaml", "--var", "host=web1"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{words:?}");
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    ended.stdout
}

#[test]
fn explanations_match_snapshot() {
    let place = site();
    let mut all = String::new();
    for words in [
        &["vars.port"][..],
        &["vars.servers"],
        &["vars.users"],
        &["vars.name"],
        &["vars.host"],
        &["vars.pw"],
        &["file[/conf]"],
        &["file[/users/alice]", "content"],
        &["file[/users/bob]", "mode"],
        &["file[/out]", "mode"],
        &["file[/out]", "content"],
        &["file[/srv/app]", "when"],
        &["file[/app/a]", "content"],
        &["file[/app/b]", "content"],
        &["app[b]"],
        &["exec[x]", "creates"],
    ] {
        all += &format!("$ kilter explain {}\n{}\n", words.join(" "), explained(&place, words));
    }
    snapshot("explain.txt", &all);
    snapshot("explain.json", &explained(&place, &["file[/conf]", "content", "--format", "json"]));
}

#[test]
fn unknown_subjects_are_refused_with_a_hint() {
    let place = site();
    for (words, expected) in [
        (&["vars.prot", "site.yaml"][..], "did you mean `port`?"),
        (&["file[/cnf]", "site.yaml"], "did you mean `file[/conf]`?"),
        (&["file[/conf]", "mdoe", "site.yaml"], "did you mean `mode`?"),
        (&["port", "site.yaml"], "neither a variable nor a resource"),
        (&["vars.port"], "there is no manifest"),
    ] {
        let ended = place.run(&[&["explain"], words, &["--var", "host=web1"]].concat());
        assert!(ended.code == 1 && ended.stderr.contains(expected), "{words:?} {ended:?}");
    }
    place.file("common.yaml", "pw: x\nextra: ${vars.none}\n");
    let ended = place.run(&["explain", "vars.port", "site.yaml", "--var", "host=web1", "--format", "json"]);
    let document: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert!(ended.code == 1 && document["problems"][0]["file"] == "common.yaml", "{ended:?}");
}

#[test]
fn explanation_starts_no_command_for_a_value_without_effect() {
    let place = Place::new();
    place.file("low.yaml", "pw: { sensitive: { command: [touch, ran] } }\n");
    place.file("high.yaml", "pw: { sensitive: two }\n");
    place.file("site.yaml", "data: { hierarchy: [high.yaml, low.yaml] }\n");
    let ended = place.run(&["explain", "vars.pw", "site.yaml"]);
    assert!(ended.code == 0 && ended.stdout.contains("low.yaml:1:5  overridden"), "{ended:?}");
    assert!(!ended.stdout.contains("two") && !place.path().join("ran").exists(), "{ended:?}");
}

#[test]
fn run_reloads_when_a_data_file_appears_changes_and_disappears() {
    let place = Place::new();
    place.file("common.yaml", "text: common\n");
    let path = manifest(
        &place,
        "data: { hierarchy: [hosts/a.yaml, common.yaml] }\nresources:\n  file[DIR/a]: { content: \"${vars.text}\" }\n",
    );
    let running = Running::begin(&place, &[&path]);
    let made = place.path().join("a");
    wait("common", || content(&made) == "common");
    std::fs::create_dir(place.path().join("hosts")).unwrap();
    place.file("hosts/a.yaml", "text: host\n");
    wait("host", || content(&made) == "host");
    place.file("hosts/a.yaml", "text: edited\n");
    wait("edited", || content(&made) == "edited");
    place.file("hosts/a.yaml", "text: [\n");
    wait("the problem", || running.told("hosts/a.yaml:") >= 1);
    std::fs::remove_file(place.path().join("hosts/a.yaml")).unwrap();
    wait("common again", || content(&made) == "common");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn plan_contains_its_data_and_the_absence_of_others() {
    let place = Place::new();
    place.file("common.yaml", "text: common\n");
    let path = manifest(
        &place,
        "data: { hierarchy: [host.yaml, common.yaml] }\nresources:\n  file[DIR/a]: { content: \"${vars.text}\" }\n",
    );
    assert_eq!(place.run(&["plan", "-o", "plan", &path]).code, 2);
    place.file("host.yaml", "text: later\n");
    std::fs::remove_file(place.path().join("common.yaml")).unwrap();
    let applied = place.run(&["apply", "plan"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place.path().join("a")), "common");
}

#[test]
fn data_file_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    assert!(is_root(), "run this test as root: only root refuses files that others can write");
    let place = Place::new();
    place.file("common.yaml", "text: common\n");
    std::fs::set_permissions(place.path().join("common.yaml"), std::fs::Permissions::from_mode(0o666)).unwrap();
    place.file("site.yaml", "data: { hierarchy: [common.yaml] }\nresources: {}\n");
    let ended = place.run(&["plan", "site.yaml"]);
    assert!(ended.code == 1 && ended.stderr.contains("can be written by everybody"), "{ended:?}");
}
