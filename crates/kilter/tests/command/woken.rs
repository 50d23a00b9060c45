//! Commands that run since a file was modified, or since they were woken to do a job.

use std::time::Instant;

use serde_json::Value as Json;

use crate::run::{Running, content, manifest, rest, wait};
use crate::support::*;

/// Runs when the file `in` is modified.
const HEEDS: &str =
    "resources:\n  exec[heed]: {command: \"echo x >> DIR/log\", shell: true, onlyif: \"false\", mtimes: [DIR/in]}\n";

/// Returns the path of the manifest, and the number of runs of its command.
fn jobs(text: &str) -> (Place, String, impl Fn() -> usize + use<>) {
    let place = Place::new();
    place.file("in", "0");
    let (path, log) = (manifest(&place, text), place.path().join("log"));
    (place, path, move || content(&log).lines().count())
}

#[test]
fn write_before_edit_runs_command_once() {
    let (place, _, runs) = jobs(HEEDS);
    for at in 1..=6 {
        let file = format!("  file[DIR/in]: {{content: \"{at}\", before: \"exec[heed]\"}}\n");
        let path = manifest(&place, &format!("{HEEDS}{file}"));
        let ended = place.run(&["apply", &path]);
        assert!(ended.code == 0 && ended.stdout.contains("2 resources: 2 changed"), "{ended:?}");
        assert_eq!(runs(), at, "{ended:?}");
        let ended = place.run(&["apply", &path]);
        assert!(ended.stdout.contains("2 resources: 2 unchanged"), "{ended:?}");
    }
}

#[test]
fn each_of_several_quick_edits_runs_the_command_once_and_succeeds() {
    let (place, path, runs) = jobs(HEEDS);
    let running = Running::begin(&place, &[&path]);
    wait("the first", || runs() == 1);
    for at in 2..=8 {
        std::fs::rename(place.file("new", at.to_string()), place.path().join("in")).unwrap();
        wait("the next", || runs() >= at);
        rest(&place);
        assert_eq!(runs(), at);
    }
    // As shells write: the former content is cut off first. The command runs twice if it sees the empty file.
    place.file("in", "9");
    wait("the last", || runs() >= 9);
    rest(&place);
    let all = runs();
    assert!(all <= 10, "{all}");
    let (code, out, err) = running.end();
    assert!(
        code == Some(143) && !out.contains("failed") && out.contains(&format!("{all} changes meanwhile")),
        "{code:?} {out} {err}"
    );
}

#[test]
fn edit_during_command_runs_it_again() {
    let waits = "echo x >> DIR/log; until [ -e DIR/go ]; do sleep 0.02; done";
    let (place, path, runs) = jobs(&HEEDS.replace("echo x >> DIR/log", waits));
    let running = Running::begin(&place, &[&path]);
    wait("the first", || runs() == 1);
    place.file("in", "1");
    place.file("go", "");
    wait("the second", || runs() == 2);
    rest(&place);
    assert_eq!(runs(), 2);
    let (_, out, _) = running.end();
    assert!(!out.contains("failed") && out.matches("was modified while the command ran").count() == 1, "{out}");
}

#[test]
fn woken_command_is_exempt_from_repair_budget() {
    let job = "command: \"rm DIR/job\", onlyif: \"test -e DIR/job\", verify: false, watchfiles: [DIR/job]";
    let text = &format!("resources:\n  exec[job]: {{{job}}}\n");
    let (place, path, _) = jobs(text);
    let status = || {
        let ended = place.run(&["status", "exec[job]", "--format", "json"]);
        serde_json::from_str::<Json>(&ended.stdout).unwrap_or_default()["resources"][0].clone()
    };
    let running = Running::begin(&place, &[&path]);
    for done in 0..=25 {
        wait("it to have done its jobs", || status()["changes"] == done && status()["state"] == "in_sync");
        place.file("job", "");
    }
    let (_, _, err) = running.end();
    assert!(!err.contains("contested"), "{err}");
}

#[test]
fn self_waking_commands_are_rate_limited() {
    let wakes = "echo x >> DIR/log; echo x >> DIR/in";
    let unguarded = format!("resources:\n  exec[self]: {{command: \"{wakes}\", shell: true, watchfiles: [DIR/in]}}\n");
    for text in [unguarded, HEEDS.replace("echo x >> DIR/log", wakes)] {
        let (place, path, runs) = jobs(&text);
        let begun = Instant::now();
        let running = Running::begin(&place, &[&path]);
        wait("more than its burst", || runs() > 110);
        // Each of the burst, and ten a second, however long it took.
        let most = 102 + begun.elapsed().as_millis() / 100;
        assert!(runs() as u128 <= most, "{} runs in {:?}", runs(), begun.elapsed());
        let (_, out, err) = running.end();
        assert!(!out.contains("failed") && !err.contains("tried again"), "{out} {err}");
    }
}
