//! `kilter set`.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, snapshot};

#[test]
fn set_changes_resource_and_reports() {
    let place = Place::new();
    let file = place.path().join("a").display().to_string();
    let ended = place.run(&["set", "file", &file, "content=one", "mode=0640"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    snapshot("set-created.txt", &ended.stdout);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
    let again = place.run(&["set", &format!("file[{file}]"), "mode=0640"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "1 resource: 1 unchanged (N ms)\n"));
}

#[test]
fn set_noop_only_reports() {
    let place = Place::new();
    let file = place.file("a", "one\n");
    let ended = place.run(&["set", "file", &file, "content=two\n", "--noop"]);
    assert_eq!(ended.code, 2);
    snapshot("set-noop.txt", &ended.stdout);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
}

#[test]
fn a_value_is_read_from_the_standard_input() {
    let place = Place::new();
    let file = place.path().join("a").display().to_string();
    assert_eq!(place.run_with(&["set", "file", &file, "content=-"], b"a,b\n").code, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a,b\n");
    assert_eq!(place.run_with(&["set", "file", &file, "content=-"], b"\xff\x00").code, 0);
    assert_eq!(std::fs::read(&file).unwrap(), b"\xff\x00");
    let ended = place.run_with(&["set", "file", &file, "content=-", "mode=-"], b"x");
    assert_eq!(ended.stderr, "error: `content` and `mode` cannot both be read from the standard input\n");
}

#[test]
fn set_refuses_invalid_name_before_call() {
    let place = Place::new();
    let ended = place.run(&["set", "exec", "", "command=true"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert_eq!(ended.stderr, "error: exec[]: `name` expects a String[1] value, got String\n");
}

#[test]
fn set_redacts_secrets() {
    let place = Place::new();
    let ended = place.run_with(&["set", "user", "kilter-nobody", "password=-", "uid=x"], b"hunter2\n");
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[test]
fn set_reports_all_invalid_arguments() {
    let place = Place::new();
    let ended = place.run(&[
        "set",
        "file",
        "/tmp/x",
        "mod=0640",
        "ensure=fiel",
        "recurse=yes",
        "kind=file",
        "path=/y",
        "notify=exec[x]",
    ]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    snapshot("set-wrong.txt", &ended.stderr);
    let ended = place.run(&["set", "file", "/tmp/x"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("`kilter types file` lists the attributes"), "{}", ended.stderr);
    let ended = place.run(&["set", "file", "x", "mode=0640"]);
    assert!(ended.stderr.starts_with("error: file[x]: path: "), "{}", ended.stderr);
}

#[test]
fn set_report_is_available_as_json() {
    let place = Place::new();
    let file = place.path().join("a").display().to_string();
    let ended = place.run(&["set", "file", &file, "content=x", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["counts"]["changed"], 1);
    assert_eq!(report["resources"][0]["status"], "changed");
    assert_eq!(report["noop"], false);
}
