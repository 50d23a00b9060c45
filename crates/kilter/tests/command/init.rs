//! `kilter init`: a first manifest from the state of the machine.

use crate::support::*;

#[test]
fn manifest_of_accounts_plans_no_change() {
    let place = Place::new();
    let ended = place.run(&["init", "user", "group", "host", "--all", "-o", "site.yaml"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""), "{ended:?}");
    assert!(ended.stderr.contains(" user") && ended.stderr.contains("kilter plan site.yaml"), "{ended:?}");
    let text = std::fs::read_to_string(place.path().join("site.yaml")).unwrap();
    assert!(text.contains("\n  user[root]:\n") && !text.contains("    password:"), "{text}");
    let planned = place.run(&["plan", "site.yaml"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let again = place.run(&["init", "user", "-o", "site.yaml"]);
    assert!(again.code == 1 && again.stderr.contains("overwrites no file"), "{again:?}");
    assert_eq!(std::fs::read_to_string(place.path().join("site.yaml")).unwrap(), text);
}

#[test]
fn defaults_are_left_out_and_every_manifest_is_valid() {
    let place = Place::new();
    let ended = place.run(&["init", "user", "host"]);
    assert!(
        ended.code == 0 && !ended.stdout.contains("user[root]") && !ended.stdout.contains("host[localhost]"),
        "{ended:?}"
    );
    place.file("site.yaml", &ended.stdout);
    let checked = place.run(&["check", "site.yaml"]);
    assert_eq!(checked.code, 0, "{checked:?} {}", ended.stdout);
    let ended = place.run(&["init", "usr"]);
    assert!(ended.code == 1 && ended.stderr.contains("did you mean") && ended.stdout.is_empty(), "{ended:?}");
}
