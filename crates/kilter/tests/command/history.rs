//! History of mold scripts, from a raw log.

use serde_json::{Value, json};

use crate::mold::script;
use crate::support::{Ended, Place};

/// Restarts, by a child that tells of itself and of one of its own.
const SERVICE: &str = r#"#!/bin/bash
cat >/dev/null
printf '%s' '38:["child", "exit", {"code": 0, "x": 1}],38:["child.below", 1, {"line": "deep\n"}],' >&3
printf '%s' '20:[null, "step", "go"],' >&3
echo "restarted"
echo "a warning" >&2
"#;

fn logged(program: &str) -> Place {
    let place = Place::new();
    script(&place, "resources/service", program);
    let ended = place.run(&["act", "service[sshd]", "restart", "--mold", "minion", "--channel3", "log"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    place
}

fn history(place: &Place, args: &[&str]) -> Ended {
    place.run(&[&["history", "--channel3", "log"], args].concat())
}

fn objects(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn history_shows_events_in_order() {
    let ended = history(&logged(SERVICE), &[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[0], "resources/service#1       spawn     DIR/minion/resources/service restart");
    assert_eq!(lines.last(), Some(&"resources/service#1       exitcode  0"));
    // What goes through different pipes comes in any order.
    lines.sort_unstable();
    let expected = [
        "resources/service#1       exitcode  0",
        "resources/service#1       spawn     DIR/minion/resources/service restart",
        "resources/service#1       stderr    a warning",
        "resources/service#1       stdin     {\"kind\":\"service\",\"name\":\"sshd\"}",
        "resources/service#1       stdout    restarted",
        "resources/service#1       step      \"go\"",
        "resources/service#1.child  exit      0",
        "resources/service#1.child.below  stdout    deep",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_log_is_read_back_whole_as_an_object_a_line() {
    let place = logged(SERVICE);
    let told = objects(&history(&place, &["--format", "json"]));
    let log = std::fs::read(place.path().join("log")).unwrap();
    let mut written: Vec<Value> = Vec::new();
    let mut rest = log.as_slice();
    while !rest.is_empty() {
        let colon = rest.iter().position(|byte| *byte == b':').unwrap();
        let length: usize = std::str::from_utf8(&rest[..colon]).unwrap().parse().unwrap();
        written.push(serde_json::from_slice(&rest[colon + 1..colon + 1 + length]).unwrap());
        rest = &rest[colon + 2 + length..];
    }
    let text = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
    let written: Vec<Value> =
        written.iter().map(|one| json!({ "name": one[0], "key": text(&one[1]), "data": one[2] })).collect();
    assert_eq!(anonymous(&told), anonymous(&written));
    assert!(told.len() >= 8, "{told:?}");
}

/// Without the path of the place.
fn anonymous(objects: &[Value]) -> Vec<String> {
    let text = |object: &Value| {
        let text = object.to_string();
        match (text.find("/tmp/"), text.find("DIR/")) {
            (None, None) => text,
            _ => object["name"].to_string(),
        }
    };
    objects.iter().map(text).collect()
}

#[test]
fn history_filters_by_name_and_key() {
    let place = logged(SERVICE);
    let names = |args: &[&str]| -> Vec<String> {
        let told = objects(&history(&place, &[args, &["--format", "json"]].concat()));
        told.iter().map(|one| format!("{} {}", one["name"].as_str().unwrap(), one["key"].as_str().unwrap())).collect()
    };
    assert_eq!(
        names(&["--name", "resources/service#1.child"]),
        ["resources/service#1.child exit", "resources/service#1.child.below 1"]
    );
    let mut both = names(&["--key", "stdout", "--key", "step"]);
    both.sort_unstable();
    let expected = ["resources/service#1 stdout", "resources/service#1 step", "resources/service#1.child.below 1"];
    assert_eq!(both, expected, "a descriptor's number is its word");
    assert_eq!(names(&["--name", "resources/file"]), [""; 0]);
}

#[test]
fn damaged_entry_is_reported_with_place() {
    let place = Place::new();
    let message = "18:[\"a\", \"step\", \"1\"],";
    place.file("log", format!("{message}\ngarbage{message}9:[\"a\", \"st"));
    let ended = history(&place, &[]);
    let line = "a                         step      \"1\"\n";
    assert_eq!((ended.code, ended.stdout), (0, line.repeat(2)));
    assert_eq!(
        ended.stderr,
        "warning: log: at byte 23: 7 bytes that belong to no message were skipped: `garbage`\n\
         warning: log: at byte 52: 11 bytes that belong to no message were skipped: `9:[\"a\", \"st`\n"
    );
}

#[test]
fn history_escapes_control_characters() {
    let place = logged("#!/bin/sh\ncat >/dev/null\nprintf '\\033[2Jx\\n' >&2\nprintf '\\377\\n'\n");
    let ended = history(&place, &["--key", "stdout", "--key", "2"]);
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["resources/service#1       stderr    \\u{1b}[2Jx", "resources/service#1       stdout    2 bytes: \\xff\\n",]
    );
}

#[test]
fn history_reads_standard_input_without_writes() {
    let place = Place::new();
    let ended = place.run_with(&["history", "--channel3", "-"], b"19:[null, \"x\", [1, 2]],");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "-                         x         [1,2]\n"));
    assert!(!place.path().join("-").exists());
    let ended = history(&place, &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert_eq!(ended.stderr, "error: cannot open the log log: No such file or directory (os error 2)\n");
    assert!(!place.path().join("log").exists(), "it is not made");
    let ended = place.run(&["history"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.starts_with("error: there is no history in"), "{}", ended.stderr);
}

#[test]
fn a_long_log_is_read_in_constant_memory() {
    let place = Place::new();
    let content = format!("[\"a\", \"stdout\", {{\"line\": \"{}\"}}]", "x".repeat(900_000));
    let message = format!("{}:{content},", content.len());
    place.file("log", format!("{}18:[\"a\", \"last\", \"1\"],", message.repeat(120)));
    // The program alone takes half of that, and the log has more than all of it.
    let limited = format!("ulimit -v 100000; {} history --channel3 log --key last", env!("CARGO_BIN_EXE_kilter"));
    let output = std::process::Command::new("bash").args(["-c", &limited]).current_dir(place.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a                         last      \"1\"\n", "{output:?}");
}
