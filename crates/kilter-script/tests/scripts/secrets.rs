//! Secrets that scripts tell.

use kilter_model::{Change, State, Value};
use kilter_provider::{Context, Mode, Wanted, get_one};

use crate::harness::*;

const TYPED: &str =
    "suitable: true\nattributes:\n  name:\n  v: {type: \"Integer\"}\n  password: {type: \"Sensitive[String]\"}";

/// Returns all output of a run in which a script prints a secret in every way and has this reply.
fn event(convention: &str, action: &str, answer: &str) -> String {
    let place = ScriptDir::new();
    let answer = format!("echo 'read Old-Secret-1' >&2\ncat <<'END'\n{answer}\nEND\n");
    place.script("t", &format!("#!/bin/bash\n{answer}"));
    let lines: String = TYPED.lines().map(|line| format!("  {line}\n")).collect();
    place.file("t.yaml", &format!("provider:\n  type: tt\n  invoke: {convention}\n{lines}"));
    let (provider, log, name) = (place.only("t"), ScriptTestLog::default(), "a".into());
    let cx = Context::empty().with_log(&log);
    let old = attributes(&[("password", Value::sensitive("Old-Secret-1".into()))]);
    let (is, should) = (State::present("a", old), attributes(&[("password", Value::sensitive("other".into()))]));
    let said = match action {
        "list" => format!("{:?}", all(&*provider, &log)),
        "find" => format!("{:?}", get_one(&*provider, &cx, Wanted::new(&name, None))),
        _ => format!("{:?}", provider.set(&cx, &[Change::new(&name, &is, Some(&should), &[])], Mode::Apply)),
    };
    format!("{said} {:?}", log.all())
}

#[test]
fn secrets_printed_by_script_are_redacted_in_logs_and_errors() {
    for (convention, action, answer) in [
        ("simple", "list", "# simple\nname: a\npassword: Old-Secret-1\nv: Old-Secret-1"),
        ("simple", "find", "# simple\nname: a\npassword: Old-Secret-1"),
        ("simple", "find", "# simple\nname: a\npassword: Old-Secret-1\nv: Old-Secret-1"),
        ("simple", "find", "# simple\nname: a\npassword: Old-Secret-1\nral_error: it is Old-Secret-1\nral_eom"),
        ("simple", "find", "# simple\nname: a\npassword: Old-Secret-1\nwhat is Old-Secret-1?"),
        ("simple", "update", "# simple\nname: a\nral_error: cannot replace Old-Secret-1\nral_eom"),
        ("simple", "update", "# simple\nname: a\npassword: other\nral_was: Old-Secret-1"),
        ("json", "list", r#"{"resources": [{"name": "a", "password": "Old-Secret-1", "v": "Old-Secret-1"}]}"#),
        (
            "json",
            "find",
            r#"{"resources": [{"name": "a", "password": "Old-Secret-1", "error": {"message": "Old-Secret-1"}}]}"#,
        ),
        (
            "json",
            "find",
            r#"{"resources": [{"name": "a", "password": "Old-Secret-1"}], "error": {"message": "Old-Secret-1"}}"#,
        ),
        ("json", "update", r#"{"error": {"message": "cannot replace Old-Secret-1"}}"#),
    ] {
        let said = event(convention, action, answer);
        assert!(
            !said.contains("Old-Sec") && said.contains("read [redacted]"),
            "{convention} {action} {answer}: {said}"
        );
    }
}

#[test]
fn script_output_is_dropped_if_secrets_are_unknown() {
    for (action, answer) in [
        ("list", "debug: starting\n{\"resources\": [{\"name\": \"a\", \"password\": \"Old-Secret-1\"}]}"),
        ("find", "{\"resources\": [{\"name\": \"a\", \"password\": \"Old-Secret-1\""),
        ("update", "\u{feff}{\"changes\": [], \"password\": \"Old-Secret-1\"}"),
        ("update", "replaced Old-Secret-1"),
    ] {
        let said = event("json", action, answer);
        assert!(!said.contains("Old-Sec") && said.contains("] [redacted]\""), "{action} {answer}: {said}");
        assert!(said.contains("(last on its standard error: [redacted])"), "{action} {answer}: {said}");
    }
}

#[test]
fn error_redacts_secrets_of_other_resources() {
    let place = ScriptDir::new();
    let answer = r#"{"resources": [
        {"name": "a", "error": {"message": "taken by Old-Secret-1"}},
        {"name": "b", "password": "Old-Secret-1"}], "changes": [
        {"name": "a", "error": {"message": "taken by Old-Secret-1"}},
        {"name": "b", "password": {"was": "Old-Secret-1", "is": "other"}}]}"#;
    place.script("t", &format!("#!/bin/bash\ncat <<'END'\n{answer}\nEND\n"));
    let lines: String = TYPED.lines().map(|line| format!("  {line}\n")).collect();
    place.file("t.yaml", &format!("provider:\n  type: tt\n  invoke: json\n{lines}"));
    let should = attributes(&[("password", Value::sensitive("other".into()))]);
    let states = ["a", "b"].map(|name| State::present(name, attributes(&[])));
    let changes = states.each_ref().map(|is| Change::new(&is.name, is, Some(&should), &[]));
    let provider = place.only("t");
    let outcomes = provider.set(&Context::empty(), &changes, Mode::Apply);
    for said in [format!("{outcomes:?}"), format!("{:?}", named(&*provider, &["a", "b"]))] {
        assert!(!said.contains("Old-Sec") && said.contains("taken by [redacted]"), "{said}");
    }
}
