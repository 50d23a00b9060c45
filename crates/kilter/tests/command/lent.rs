//! Commands that make changes while `kilter run` holds their state directory.

use std::path::Path;

use serde_json::Value as Json;

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const HELD: &str = "resources:\n  file[DIR/a]: {content: declared}\n";

/// Applies `exec[slow]`, which waits for the file `go`. The command outlives a killed apply, but not the directory.
const SLOW: &str = "resources:\n  exec[slow]: {command: 'touch DIR/begun; until [ -e DIR/go ] || ! [ -e DIR/begun ]; do \
                    sleep 0.05; done; touch DIR/done', shell: true, creates: DIR/done}\n";

fn status(place: &Place) -> Json {
    let ended = place.run(&["status", "--format", "json"]);
    serde_json::from_str(&ended.stdout).unwrap_or(Json::Null)
}

fn holding(place: &Place) -> Running {
    let running = Running::begin(place, &[&manifest(place, HELD)]);
    wait("the first check", || status(place)["quiet_for_ms"].is_u64());
    running
}

fn other(place: &Place, text: &str) -> String {
    place.file("other.yaml", text.replace("DIR", &place.path().display().to_string()))
}

/// Damages the held file, and waits for the repair.
fn is_repaired(place: &Place) {
    let path = place.path().join("a");
    std::fs::write(&path, "damaged").unwrap();
    wait("the repair", || content(&path) == "declared");
}

fn exists(place: &Place, name: &str) -> bool {
    Path::new(&place.path().join(name)).exists()
}

#[test]
fn resources_of_no_run_are_applied_and_the_run_goes_on() {
    let place = Place::new();
    let running = holding(&place);
    let both = "resources:\n  file[DIR/a]: {content: declared, mode: '0640'}\n  file[DIR/b]: {content: b}\n";
    let applied = place.run(&["apply", &other(&place, both)]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(applied.stdout.contains("2 resources: 2 changed"), "{applied:?}");
    assert_eq!(content(&place.path().join("b")), "b");
    assert!(status(&place)["paused"].is_null());
    is_repaired(&place);
    let undone = place.run(&["undo", &format!("file[{}/b]", place.path().display())]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(!exists(&place, "b"));
    is_repaired(&place);
    running.end();
}

#[test]
fn change_that_the_run_would_undo_is_refused_unless_it_is_paused() {
    let place = Place::new();
    let running = holding(&place);
    let path = other(&place, "resources:\n  file[DIR/b]: {content: b}\n  file[DIR/a]: {content: other}\n");
    let refused = place.run(&["apply", &path]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let named = "declares other values and would undo the changes: file[DIR/a]\n";
    assert!(refused.stderr.contains(named), "{refused:?}");
    assert!(!exists(&place, "b") && content(&place.path().join("a")) == "declared");
    assert_eq!(place.run(&["pause", "by hand"]).code, 0);
    let applied = place.run(&["apply", "--even-if-paused", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place.path().join("a")), "other");
    assert_eq!(status(&place)["paused"]["why"], "by hand");
    assert_eq!(place.run(&["resume"]).code, 0);
    wait("the declaration of the run", || content(&place.path().join("a")) == "declared");
    running.end();
}

#[test]
fn saved_plan_is_applied_once() {
    let place = Place::new();
    let running = holding(&place);
    let path = other(&place, "resources:\n  file[DIR/b]: {content: b}\n");
    let plan = place.path().join("a.plan").display().to_string();
    assert_eq!(place.run(&["plan", &path, "-o", &plan]).code, 2);
    let applied = place.run(&["apply", &plan]);
    assert_eq!((applied.code, applied.stderr.contains("applied before")), (0, false), "{applied:?}");
    let again = place.run(&["apply", &plan]);
    assert!(format!("{again:?}").contains("was carried out already"), "{again:?}");
    is_repaired(&place);
    running.end();
}

#[test]
fn run_waits_for_the_command_and_survives_its_death() {
    let place = Place::new();
    let running = holding(&place);
    let first = Running::of(&place, &["apply", &other(&place, SLOW)]);
    wait("the command", || exists(&place, "begun"));
    std::fs::write(place.path().join("a"), "damaged").unwrap();
    wait("the event", || status(&place)["counts"]["under_way"] == 1);
    let paused = status(&place)["paused"]["why"].clone();
    assert!(paused.as_str().is_some_and(|why| why.starts_with("kilter apply by ")), "{paused}");
    let told = place.run(&["status"]).stdout;
    assert!(told.contains("lent to kilter apply by ") && told.contains("nothing new starts until it ends"), "{told}");
    assert_eq!(running.told("lent to kilter apply by "), 1);
    // A resume ends pauses, but not the loan.
    assert_eq!(place.run(&["resume", "--all"]).code, 0);
    assert!(status(&place)["paused"].is_object());
    assert_eq!(content(&place.path().join("a")), "damaged");
    // The next command waits for its turn.
    let text = "resources:\n  file[DIR/c]: {content: c}\n".replace("DIR", &place.path().display().to_string());
    let mut second = Running::of(&place, &["apply", &place.file("second.yaml", text)]);
    // The first command holds the lock, and the message names the run.
    let told = format!("waiting until `kilter run` (process {})", running.id());
    wait("the second command", || second.told(&told) == 1);
    assert!(!second.has_ended() && !exists(&place, "c"));
    drop(first);
    wait("the repair", || content(&place.path().join("a")) == "declared");
    wait("the second command", || second.has_ended());
    assert_eq!(second.end().0, Some(0));
    assert!(exists(&place, "c"));
    assert_eq!(place.run(&["history", "verify"]).code, 0);
    running.end();
}

#[test]
fn refreshes_that_a_command_leaves_are_delivered_by_the_run() {
    let place = Place::new();
    let act = "  exec[act]: {command: 'test -e DIR/ok && touch DIR/acted', shell: true, refreshonly: true}\n";
    let held = format!("{HELD}{act}");
    let running = Running::begin(&place, &[&manifest(&place, &held)]);
    wait("the first check", || status(&place)["quiet_for_ms"].is_u64());
    let text = format!("resources:\n  file[DIR/b]: {{content: b, notify: 'exec[act]'}}\n{act}");
    let applied = place.run(&["apply", &other(&place, &text)]);
    assert_eq!(applied.code, 4, "{applied:?}");
    std::fs::write(place.path().join("ok"), "").unwrap();
    wait("the refresh", || exists(&place, "acted"));
    running.end();
}

#[test]
fn command_waits_for_another_one_if_it_may() {
    let place = Place::new();
    let mut first = Running::of(&place, &["apply", &other(&place, SLOW)]);
    wait("the command", || exists(&place, "begun"));
    let text = "resources:\n  file[DIR/c]: {content: c}\n".replace("DIR", &place.path().display().to_string());
    let second = place.file("second.yaml", text);
    let refused = place.run(&["apply", &second]);
    assert!(refused.code == 1 && refused.stderr.contains("--lock-timeout 5m waits for it"), "{refused:?}");
    let mut second = Running::of(&place, &["apply", "--lock-timeout", "10m", &second]);
    wait("the message", || second.told("waiting for the end of another command") == 1);
    assert!(!second.has_ended() && !exists(&place, "c"));
    std::fs::write(place.path().join("go"), "").unwrap();
    wait("both", || first.has_ended() && second.has_ended());
    assert_eq!((first.end().0, second.end().0), (Some(0), Some(0)));
    assert!(exists(&place, "c"));
}

#[test]
fn run_that_ends_meanwhile_leaves_the_command_alone() {
    let place = Place::new();
    let running = holding(&place);
    let mut command = Running::of(&place, &["apply", &other(&place, SLOW)]);
    wait("the command", || exists(&place, "begun"));
    running.end();
    assert!(!command.has_ended());
    // A new run does not start beside it.
    let refused = place.run(&["run", &manifest(&place, HELD)]);
    assert_eq!(refused.code, 1, "{refused:?}");
    std::fs::write(place.path().join("go"), "").unwrap();
    wait("its end", || command.has_ended());
    assert_eq!(command.end().0, Some(0));
    assert!(exists(&place, "done"));
}
