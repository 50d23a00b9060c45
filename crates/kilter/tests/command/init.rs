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

#[test]
fn manifest_is_not_written_through_a_link_of_another_user() {
    assert!(is_root(), "run this test as root: it makes a link of another user");
    let place = Place::new();
    std::fs::create_dir(place.path().join("target")).unwrap();
    std::os::unix::fs::symlink(place.path().join("target"), place.path().join("link")).unwrap();
    std::os::unix::fs::lchown(place.path().join("link"), Some(65534), Some(65534)).unwrap();
    let ended = place.run(&["init", "host", "-o", "link/site.yaml"]);
    let expected = "error: cannot write link/site.yaml: link is a symbolic link of the user with uid 65534";
    assert!(ended.code == 1 && ended.stderr.starts_with(expected), "{ended:?}");
    assert!(!place.path().join("target/site.yaml").exists());
}
