//! `kilter run`: what somebody else changes is brought back, until it is stopped.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;

/// How long is waited for something that has to happen.
const SOON: Duration = Duration::from_secs(30);

/// A run that goes on, until it is dropped at the latest.
struct Running(Child);

impl Running {
    fn begin(place: &Place, args: &[&str]) -> Running {
        let mut command = place.command(&[&["run"], args].concat());
        Running(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Ends it by SIGTERM: its exit code, its output and its errors.
    fn end(mut self) -> (Option<i32>, String, String) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.0.wait().unwrap().code(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn content(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn manifest(place: &Place, text: &str) -> String {
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()))
}

const TREE: &str = "resources:\n  file[DIR/a]: {content: \"as declared\\n\", mode: \"0644\"}\n  file[DIR/d]: {ensure: directory}\n  \
                    file[DIR/d/b]: {content: \"below\\n\", notify: \"exec[note]\"}\n  \
                    exec[note]: {command: \"echo noted >> DIR/log\", shell: true, refreshonly: true}\n";

#[test]
fn what_somebody_else_changes_is_brought_back() {
    let place = Place::new();
    let (a, b) = (place.path().join("a"), place.path().join("d/b"));
    let running = Running::begin(&place, &[&manifest(&place, TREE)]);
    wait("everything as declared", || content(&a) == "as declared\n" && content(&b) == "below\n");
    wait("the refresh", || content(&place.path().join("log")) == "noted\n");

    std::fs::write(&a, "changed").unwrap();
    wait("a written file", || content(&a) == "as declared\n");
    std::fs::remove_file(&a).unwrap();
    wait("a removed file", || content(&a) == "as declared\n");
    std::fs::write(place.path().join("other"), "other").unwrap();
    std::fs::rename(place.path().join("other"), &a).unwrap();
    wait("a file in its place", || content(&a) == "as declared\n");
    std::fs::rename(place.path().join("d"), place.path().join("moved")).unwrap();
    wait("a directory moved away", || content(&b) == "below\n");
    wait("the refresh by what was made anew", || content(&place.path().join("log")) == "noted\nnoted\n");

    let (code, out, err) = running.end();
    assert_eq!((code, err.as_str()), (Some(143), "interrupted\n"));
    assert!(out.lines().any(|line| line.starts_with("4 resources: 4 unchanged")), "{out}");
}

#[test]
fn an_edited_manifest_is_read_anew_and_a_wrong_one_changes_nothing() {
    let place = Place::new();
    let a = place.path().join("a");
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: one}\n");
    let running = Running::begin(&place, &[&path]);
    wait("the first", || content(&a) == "one");
    manifest(&place, "resources:\n  file[DIR/a]: {content: two}\n");
    wait("the second", || content(&a) == "two");
    manifest(&place, "resources:\n  file[DIR/a]: {content: [}\n");
    std::fs::write(&a, "changed").unwrap();
    wait("the second, in spite of a wrong one", || content(&a) == "two");
    manifest(&place, "resources:\n  file[DIR/a]: {content: three}\n");
    wait("the third", || content(&a) == "three");
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143));
    assert!(err.contains("what was declared before is held until this is mended"), "{err}");
    assert_eq!(err.matches("what is declared has changed: it is read anew").count(), 2, "{err}");
}

#[test]
fn it_ends_when_converged_if_that_was_asked_for() {
    let place = Place::new();
    let status = place.path().join("status").display().to_string();
    let args = ["--converged-exit", "--converged-timeout", "1", "--converged-status-file", &status];
    let path = manifest(&place, TREE);
    let ended = place.run(&[&["run", &path], &args[..]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "converged: everything is settled\n"));
    assert_eq!(content(Path::new(&status)), "true\n");

    // What failed counts as settled, and is told.
    let path = manifest(&place, "resources:\n  file[DIR/no/such/a]: {content: a}\n  file[DIR/b]: {content: b}\n");
    let ended = place.run(&[&["run", &path], &args[..]].concat());
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stdout.contains("2 resources: 1 failed, 1 unchanged"), "{ended:?}");
    assert_eq!(content(&place.path().join("b")), "b");
}

#[test]
fn with_noop_it_only_tells_what_differs() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let ended = place.run(&["run", &path, "--noop", "--max-runtime", "1"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stdout.contains("file[DIR/a]") && !place.path().join("a").exists(), "{ended:?}");
}

#[test]
fn a_failed_resource_is_tried_again_when_what_it_needs_has_come() {
    let place = Place::new();
    let a = place.path().join("later/a");
    let running = Running::begin(&place, &[&manifest(&place, "resources:\n  file[DIR/later/a]: {content: a}\n")]);
    let state = place.path().join("state");
    wait("the run", || state.exists());
    std::thread::sleep(Duration::from_millis(300));
    std::fs::create_dir(place.path().join("later")).unwrap();
    wait("the file in the directory", || content(&a) == "a");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn two_runs_exclude_each_other() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let running = Running::begin(&place, &[&path]);
    wait("the first run", || place.path().join("a").exists());
    let ended = place.run(&["apply", &path]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("another run holds the lock"), "{ended:?}");
    assert_eq!(running.end().0, Some(143));
}
