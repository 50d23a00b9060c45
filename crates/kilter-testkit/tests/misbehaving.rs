//! Scripts that do wrong, in both conventions: each is a clear error, or does no harm.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_model::{Attributes, Change, Value};
use kilter_provider::{Context, Level, Log, Mode, Provider, Query, Wanted, check_one};
use kilter_script::{Limits, Script, Scripts, Surroundings};

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn log(&self, level: Level, _: &str, _: &str, message: &str) {
        self.0.lock().unwrap().push(format!("{} {message}", level.word()));
    }
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    fn provider(&self, convention: &str, scenario: &str) -> Arc<dyn Script> {
        let stem = self.directory.path().join(scenario);
        let script = format!("#!/bin/sh\nexec '{}' {convention} {scenario} \"$@\"\n", env!("CARGO_BIN_EXE_misbehave"));
        std::fs::write(stem.with_extension("prov"), script).unwrap();
        std::fs::set_permissions(stem.with_extension("prov"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let metadata = format!(
            "provider:\n  type: tt\n  invoke: {convention}\n  suitable: true\n  attributes:\n    name:\n    v: {{type: string}}\n    \
             n: {{type: Integer}}\n    list: {{type: \"Array[Array[String]]\"}}\n"
        );
        std::fs::write(stem.with_extension("yaml"), metadata).unwrap();
        let seconds = if scenario.contains("hang") || scenario.contains("trickle") { 1 } else { 30 };
        let (read, change) = (Duration::from_secs(seconds), Duration::from_secs(seconds));
        let limits = Limits { read, change, output: 20 << 20, ..Limits::default() };
        let surroundings = Arc::new(Surroundings { limits, ..Surroundings::new() });
        let found = Scripts::find(&[self.directory.path().to_owned()], None, &surroundings);
        let one = found.providers.into_iter().find(|provider| provider.name() == scenario);
        one.unwrap_or_else(|| panic!("{:?}", found.notes))
    }
}

/// What a read of `a` comes to: the names of what is there, or why it failed; and what was logged.
fn read(provider: &dyn Provider) -> (Result<String, String>, Vec<String>) {
    let (log, name) = (Lines::default(), EcoString::from("a"));
    let cx = Context::bare().with_log(&log);
    let result = check_one(provider, &cx, Wanted::new(&name, None)).map_err(|error| error.message.to_string());
    let result = result.map(|found| if found.state.exists { found.state.name.to_string() } else { String::new() });
    (result, log.0.into_inner().unwrap())
}

/// What an error has to name, beside what went wrong.
fn assert_full(why: &str, convention: &str, scenario: &str, action: &str, cause: &str, status: &str) {
    let head = format!("{action} of tt[a] by the provider `{scenario}` ({convention}, ");
    assert!(why.starts_with(&head), "{scenario}: {why}");
    for part in [cause, status, &format!("last on its standard error: last words of {scenario}")] {
        assert!(why.contains(part), "{scenario} in {convention}: {part:?} is not in {why:?}");
    }
    assert!(why.len() < 1500 && !why.contains(|c: char| c.is_control()), "{why:?}");
}

/// A scenario, what is said of it in each convention, and how the process ended.
type Row = (&'static str, &'static str, &'static str, &'static str);

const READING: [Row; 17] = [
    ("hang", "gave no answer in time", "gave no answer in time", "signal 15"),
    ("trickle", "gave no answer in time", "gave no answer in time", "signal 15"),
    ("flood", "wrote more than is taken", "wrote more than is taken", "signal 15"),
    ("half-a-line", "line 4 of its output is `na`: a line is `KEY: VALUE`", "is not JSON: EOF", "exit code 0"),
    ("bad-utf8", "line 2 of its output is not UTF-8 (byte 0xff)", "line 1 of its output is not UTF-8", "exit code 0"),
    ("nul", "line 3 of its output holds a NUL byte", "line 1 of its output holds a NUL byte", "exit code 0"),
    ("wrong-shape", "the first line must be `# simple`", "an object is expected, not an array", "exit code 0"),
    ("duplicates", "two different resources the name `a`", "two different resources the name `a`", "exit code 0"),
    ("dies-after-writing", "failed with exit code 3", "failed with exit code 3", ""),
    ("is-killed-after-writing", "failed with signal 9", "failed with signal 9", ""),
    ("nothing", "printed nothing, where `# simple` is expected", "printed nothing, where a JSON object", "exit code 0"),
    ("long-line", "xxx…`: the first line must be", "is not JSON: expected value", "exit code 0"),
    (
        "error-without-end",
        "half\u{a7}more (the message does not end with ral_eom)",
        "error: an object with `message`",
        "exit code 0",
    ),
    ("error-and-status", ": said", "failed with exit code 1", ""),
    ("moves-the-cursor", "failed with exit code 1", "failed with exit code 1", ""),
    ("deep", "", "recursion limit exceeded", "exit code 0"),
    ("wrong-name", "answered for `other` when it was asked for `a`", "", "exit code 0"),
];

#[test]
fn a_script_that_does_wrong_when_it_is_read_is_told_in_full() {
    for convention in ["simple", "json"] {
        let place = Place::new();
        for (scenario, simple, json, status) in READING {
            let (cause, action) = if convention == "json" { (json, "get") } else { (simple, "find") };
            if cause.is_empty() {
                continue;
            }
            let (result, _) = read(&*place.provider(convention, scenario));
            let why = result.expect_err(scenario).replace('\n', "\u{a7}");
            assert_full(&why, convention, scenario, action, cause, status);
        }
    }
}

#[test]
fn values_of_another_type_fail_the_resource_that_has_them() {
    for convention in ["simple", "json"] {
        let place = Place::new();
        for scenario in ["wrong-type", "huge-integer"] {
            let why = read(&*place.provider(convention, scenario)).0.unwrap_err();
            let head = format!("tt[a] by the provider `{scenario}` ({convention}, ");
            assert!(
                why.starts_with(&head) && why.contains("it returned what is not of its type: n expects an Integer"),
                "{why}"
            );
        }
    }
    let why = read(&*Place::new().provider("simple", "deep")).0.unwrap_err();
    assert!(why.contains("list it is no list") && why.len() < 500, "{why}");
}

#[test]
fn what_does_no_harm_is_warned_of_at_most() {
    for convention in ["simple", "json"] {
        let place = Place::new();
        for (scenario, warning) in [
            ("ignores-stdin", ""),
            ("unknown-keys", "the attribute `nosuch`, which its metadata does not declare"),
            ("flood-stderr", "bytes more than are kept on standard error"),
            ("forks-and-leaks", "left a process behind that keeps its output open"),
        ] {
            let begun = Instant::now();
            let (result, lines) = read(&*place.provider(convention, scenario));
            assert_eq!(result.as_deref(), Ok("a"), "{scenario} in {convention}");
            assert!(
                lines.iter().any(|line| line.starts_with("warning") && line.contains(warning)),
                "{scenario}: {lines:?}"
            );
            assert!(begun.elapsed() < Duration::from_secs(10), "{scenario}: nobody waits for what was left behind");
        }
    }
}

#[test]
fn a_script_that_never_reads_a_large_request_does_no_harm() {
    let place = Place::new();
    let provider = place.provider("json", "ignores-stdin");
    let names: Vec<EcoString> =
        (0..50_000).map(|number| EcoString::from(format!("resource number {number}"))).collect();
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, None)).collect();
    let states = provider.get(&Context::bare(), Query::Named(&wanted)).unwrap();
    assert!(states.len() == 50_000 && states.iter().all(|state| !state.exists));
}

#[test]
fn in_json_more_may_be_returned_than_was_asked_for() {
    let (result, _) = read(&*Place::new().provider("json", "wrong-name"));
    assert_eq!(result.as_deref(), Ok(""), "what was asked for is not there");
}

fn change(provider: &dyn Provider) -> Result<usize, String> {
    let (name, cx) = (EcoString::from("a"), Context::bare());
    let should: Attributes = [("v".to_owned(), Value::from("2"))].into_iter().collect();
    let found = check_one(provider, &cx, Wanted::new(&name, Some(&should))).unwrap();
    let differences = &found.differences;
    let change = Change { name: &name, is: &found.state, should: Some(&should), differences, refresh: false };
    match provider.set(&cx, &[change], Mode::Apply).remove(0).failure {
        Some(why) => Err(why.into()),
        None => Ok(check_one(provider, &cx, Wanted::new(&name, Some(&should))).unwrap().differences.len()),
    }
}

#[test]
fn a_script_that_does_wrong_when_it_changes_something_is_told_in_full() {
    for convention in ["simple", "json"] {
        let place = Place::new();
        for (scenario, simple, json, status) in [
            ("update-hang", "gave no answer in time", "gave no answer in time", "signal 15"),
            ("update-flood", "wrote more than is taken", "wrote more than is taken", "signal 15"),
            ("update-dies-after-writing", "failed with exit code 3", "failed with exit code 3", ""),
            ("update-nothing", "printed nothing", "printed nothing", "exit code 0"),
            ("update-half-a-line", "line 4 of its output is `na`", "is not JSON", "exit code 0"),
            (
                "update-wrong-name-of-a-change",
                "answered for `other` when it was asked for `a`",
                "there is no `name`",
                "exit code 0",
            ),
            ("update-error-without-end", "half", "error: an object", "exit code 0"),
        ] {
            let (cause, action) = if convention == "json" { (json, "set") } else { (simple, "update") };
            let why = change(&*place.provider(convention, scenario)).expect_err(scenario).replace('\n', "\u{a7}");
            assert_full(&why, convention, scenario, action, cause, status);
        }
    }
}

#[test]
fn a_script_that_lies_about_its_changes_is_found_out_by_the_next_look() {
    for convention in ["simple", "json"] {
        assert_eq!(change(&*Place::new().provider(convention, "update-lies")), Ok(1), "the difference is still there");
    }
}
