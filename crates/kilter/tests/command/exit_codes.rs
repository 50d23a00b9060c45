//! The table of docs/reference/exit-codes.md.

use crate::support::{Ended, Place};

/// A directory with manifests that end in every way.
fn place() -> Place {
    let place = Place::new();
    place.file("changes.yaml", "resources:\n  file[DIR/a]: { content: a }\n".replace("DIR", &dir(&place)));
    place.file("fails.yaml", "resources:\n  exec[no]: { command: [/bin/false] }\n");
    place.file(
        "both.yaml",
        "resources:\n  file[DIR/b]: { content: b }\n  exec[no]: { command: [/bin/false], require: 'file[DIR/b]' }\n"
            .replace("DIR", &dir(&place)),
    );
    place.file(
        "unreadable.yaml",
        "resources:\n  file[DIR/loop/below]: { content: b }\n  exec[later]: { command: \
                                   [/bin/true], require: 'file[DIR/loop/below]' }\n"
            .replace("DIR", &dir(&place)),
    );
    place.file("wrong.yaml", "resources:\n  file[a]: {}\n");
    std::os::unix::fs::symlink("loop", place.path().join("loop")).unwrap();
    place.file("empty.yaml", "resources: {}\n");
    place
}

fn dir(place: &Place) -> String {
    place.path().display().to_string()
}

#[track_caller]
fn ends(place: &Place, code: i32, args: &[&str]) -> Ended {
    let ended = place.run(args);
    assert_eq!(ended.code, code, "{args:?} {ended:?}");
    ended
}

#[test]
fn apply_exit_codes_match_the_table() {
    let place = place();
    ends(&place, 0, &["apply", "empty.yaml"]);
    ends(&place, 2, &["apply", "changes.yaml", "--noop"]);
    assert!(!place.path().join("a").exists());
    ends(&place, 0, &["apply", "changes.yaml"]);
    ends(&place, 0, &["apply", "changes.yaml"]);
    ends(&place, 0, &["apply", "changes.yaml", "--noop"]);
    ends(&place, 4, &["apply", "fails.yaml"]);
    ends(&place, 1, &["apply", "wrong.yaml"]);
    ends(&place, 1, &["apply", "missing.yaml"]);
}

#[test]
fn detailed_exit_codes_distinguish_changes_and_failures() {
    let place = place();
    ends(&place, 0, &["apply", "empty.yaml", "--detailed-exitcodes"]);
    ends(&place, 2, &["apply", "changes.yaml", "--detailed-exitcodes"]);
    ends(&place, 0, &["apply", "changes.yaml", "--detailed-exitcodes"]);
    ends(&place, 4, &["apply", "fails.yaml", "--detailed-exitcodes"]);
    ends(&place, 6, &["apply", "both.yaml", "--detailed-exitcodes"]);
    ends(&place, 1, &["apply", "wrong.yaml", "--detailed-exitcodes"]);
}

#[test]
fn plan_exit_codes_match_the_table() {
    let place = place();
    ends(&place, 0, &["plan", "empty.yaml"]);
    ends(&place, 2, &["plan", "changes.yaml"]);
    ends(&place, 0, &["apply", "changes.yaml"]);
    ends(&place, 0, &["plan", "changes.yaml"]);
    ends(&place, 4, &["plan", "unreadable.yaml"]);
    ends(&place, 1, &["plan", "wrong.yaml"]);
}

#[test]
fn get_and_set_exit_codes_match_the_table() {
    let place = place();
    let file = place.path().join("c").display().to_string();
    ends(&place, 0, &["get", "file", &file]);
    ends(&place, 1, &["get", "fiel", &file]);
    ends(&place, 4, &["get", "file"]);
    ends(&place, 2, &["set", "file", &file, "content=x", "--noop"]);
    ends(&place, 0, &["set", "file", &file, "content=x"]);
    ends(&place, 0, &["set", "file", &file, "content=x", "--noop"]);
    ends(&place, 4, &["set", "file", &format!("{file}/below"), "content=x"]);
    ends(&place, 1, &["set", "file", &file, "mode"]);
}

#[test]
fn usage_errors_are_errors_before_the_start() {
    let place = place();
    for args in
        [&[][..], &["fly"], &["apply"], &["apply", "--fly"], &["plan", "a", "--jobs", "0"], &["completions", "tcsh"]]
    {
        let ended = ends(&place, 1, args);
        assert_eq!(ended.stdout, "");
        assert!(!ended.stderr.is_empty());
    }
    for args in [&["--help"][..], &["--version"], &["apply", "-h"]] {
        assert_eq!(ends(&place, 0, args).stderr, "");
    }
}
