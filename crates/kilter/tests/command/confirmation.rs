//! `apply --confirm-within` and `kilter confirm`.

use crate::run::{Running, content, wait};
use crate::support::*;

fn place() -> (Place, String) {
    let place = Place::new();
    std::fs::write(place.path().join("a"), "old\n").unwrap();
    let directory = place.path().display();
    let text =
        format!("resources: {{file: {{{directory}/a: {{content: \"new\\n\"}}, {directory}/b: {{content: b}}}}}}\n");
    let site = place.file("site.yaml", text);
    (place, site)
}

fn is_as_before(place: &Place) -> bool {
    content(&place.path().join("a")) == "old\n" && !place.path().join("b").exists()
}

/// Starts an apply, and returns when its changes are made.
fn begin(place: &Place, site: &str, within: &str) -> Running {
    let running = Running::of(place, &["apply", "--confirm-within", within, site]);
    wait("the changes", || running.told("the changes are undone in") > 0);
    assert_eq!(content(&place.path().join("a")), "new\n");
    running
}

/// Ends the time for the confirmation.
fn end_time(place: &Place) {
    let path = place.path().join("state/confirmation.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"within_ms\":600000"), "{text}");
    // The file keeps its size, as kilter writes it in place.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, text.replace(":600000", ":0     ").as_bytes(), 0).unwrap();
}

/// Returns the exit code of an apply that ends by itself.
fn code(mut running: Running) -> Option<i32> {
    wait("the end of the apply", || running.has_ended());
    running.end().0
}

#[test]
fn confirmed_changes_stay() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    let second = place.run(&["apply", "--confirm-within", "10m", &site]);
    assert!(second.code == 1 && second.stderr.contains("an earlier apply waits"), "{}", second.stderr);
    let confirmed = place.run(&["confirm"]);
    assert!(confirmed.code == 0 && confirmed.stderr.contains("the changes stay"), "{}", confirmed.stderr);
    assert_eq!(code(running), Some(0));
    assert_eq!(content(&place.path().join("a")), "new\n");
    assert_eq!(place.run(&["confirm"]).code, 1);
}

#[test]
fn changes_without_a_confirmation_are_undone_with_exit_code_5() {
    let (place, site) = place();
    let ended = place.run(&["apply", "--confirm-within", "1s", &site]);
    assert_eq!(ended.code, 5, "{} {}", ended.stdout, ended.stderr);
    assert!(is_as_before(&place));
    let late = place.run(&["confirm"]);
    assert!(late.code == 1 && late.stderr.contains("too late: the changes were undone at"), "{}", late.stderr);
}

#[test]
fn changes_are_undone_although_the_apply_was_killed() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    std::process::Command::new("kill").args(["-9", &running.id().to_string()]).status().unwrap();
    running.end();
    end_time(&place);
    wait("the undo", || is_as_before(&place));
    // The supervisor uses the state directory until its end.
    wait("the end of the supervisor", || place.run(&["confirm"]).stderr.contains("undone at"));
}

#[test]
fn supervisor_undoes_changes_of_included_scripts() {
    let (place, site) = place();
    let script = "#!/bin/sh\neval \"$@\"\ncase $ral_action in\nupdate) echo \"$ensure\" >>DIR/note;;\nesac\n\
                  ensure=absent\n[ \"$(tail -n 1 DIR/note 2>/dev/null)\" = present ] && ensure=present\n\
                  printf '# simple\\nname: %s\\nensure: %s\\n' \"$name\" \"$ensure\"\n";
    let metadata = "provider:\n  type: note\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  \
                    attributes:\n    name:\n    ensure: {type: \"enum[present, absent]\"}\n";
    std::fs::create_dir(place.path().join("scripts")).unwrap();
    let path = place.file("scripts/note.prov", script.replace("DIR", &place.path().display().to_string()));
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.file("scripts/note.yaml", metadata);
    let text = content(site.as_ref()).replace("resources: {", "resources: {note: {n: {ensure: present}}, ");
    place.file("site.yaml", text);
    // A relative path is relative to the directory of the apply.
    let running = Running::of(&place, &["-I", "scripts", "apply", "--confirm-within", "10m", &site]);
    wait("the changes", || running.told("the changes are undone in") > 0);
    assert_eq!(content(&place.path().join("note")), "present\n");
    std::process::Command::new("kill").args(["-9", &running.id().to_string()]).status().unwrap();
    running.end();
    end_time(&place);
    wait("the undo", || is_as_before(&place) && content(&place.path().join("note")) == "present\nabsent\n");
    wait("the end of the supervisor", || place.run(&["confirm"]).stderr.contains("undone at"));
}

fn kill_supervisor(place: &Place) {
    let directory = place.path().join("state").display().to_string();
    let killed =
        std::process::Command::new("pkill").args(["-9", "-f", &format!("{directory} confirm --supervise")]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn changes_are_undone_although_the_supervisor_was_killed() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    kill_supervisor(&place);
    end_time(&place);
    assert_eq!(code(running), Some(5));
    assert!(is_as_before(&place));
}

#[test]
fn undo_can_be_requested_at_once() {
    let (place, site) = place();
    let mut running = begin(&place, &site, "10m");
    assert_eq!(place.run(&["confirm", "--undo"]).code, 0);
    wait("the end of the apply", || running.has_ended());
    let (code, _, err) = running.end();
    assert_eq!(code, Some(5));
    assert!(err.contains("not confirmed: the changes were undone"), "it was not too late: {err}");
    assert!(is_as_before(&place));
    // The undo is a run like any other.
    assert_eq!(place.run(&["undo", "last"]).code, 0);
    assert_eq!(content(&place.path().join("a")), "new\n");
}

#[test]
fn apply_without_a_change_needs_no_confirmation() {
    let (place, site) = place();
    assert_eq!(place.run(&["apply", &site]).code, 0);
    let ended = place.run(&["apply", "--confirm-within", "10m", &site]);
    assert!(ended.code == 0 && !ended.stderr.contains("kilter confirm"), "{} {}", ended.stdout, ended.stderr);
    assert!(place.run(&["confirm"]).stderr.contains("no apply waits"));
}

#[test]
fn health_command_confirms() {
    let (place, site) = place();
    let healthy = format!("grep -q new {}/a", place.path().display());
    let ended = place.run(&["apply", "--health", &healthy, &site]);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(content(&place.path().join("a")), "new\n");
    std::fs::write(place.path().join("a"), "old\n").unwrap();
    let sick = place.run(&["apply", "--health", "false", "--confirm-within", "1s", &site]);
    assert_eq!(sick.code, 5, "{}", sick.stderr);
    assert_eq!(content(&place.path().join("a")), "old\n");
}

#[test]
fn changes_of_an_earlier_boot_are_undone_at_once() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    let directory = place.path().join("state").display().to_string();
    for signal in [format!("{directory} confirm --supervise"), site.clone()] {
        std::process::Command::new("pkill").args(["-9", "-f", &signal]).status().unwrap();
    }
    running.end();
    // After a reboot, the id of the boot is another one.
    let path = place.path().join("state/confirmation.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(&path, text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000")).unwrap();
    let supervised = place.run(&["confirm", "--supervise"]);
    assert_eq!(supervised.code, 0, "{} {}", supervised.stdout, supervised.stderr);
    assert!(is_as_before(&place));
}

#[test]
fn invalid_manifest_leaves_nothing_to_confirm() {
    let (place, _) = place();
    let wrong = place.file("wrong.yaml", "resources: {file: {/a: {mode: 9}}}\n");
    assert_eq!(place.run(&["apply", "--confirm-within", "10m", &wrong]).code, 1);
    assert!(place.run(&["confirm"]).stderr.contains("no apply waits"));
    let ended = place.run(&["apply", "--confirm-within", "60", &wrong]);
    assert!(ended.code == 1 && ended.stderr.contains("90s, 10m or 1h"), "{}", ended.stderr);
}

#[test]
fn undo_waits_for_another_run_that_holds_the_state_directory() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    let other = place.file("other.yaml", "resources: {}\n");
    let held = Running::of(&place, &["run", &other]);
    wait("the other run", || place.run(&["status"]).code == 0);
    end_time(&place);
    wait("the begin of the undo", || content(&place.path().join("state/confirmation.json")).contains("undoing"));
    assert_eq!(content(&place.path().join("a")), "new\n");
    held.end();
    assert_eq!(code(running), Some(5));
    assert!(is_as_before(&place));
}

#[test]
fn later_change_by_another_run_stays() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    let a = place.path().join("a");
    assert_eq!(place.run(&["set", "file", &a.display().to_string(), "content=third"]).code, 0);
    end_time(&place);
    assert_eq!(code(running), Some(4));
    assert_eq!(content(&a), "third");
    assert!(!place.path().join("b").exists());
}

#[test]
fn undo_of_a_killed_process_is_continued_by_another_one() {
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    // The supervisor was killed while it undid the changes.
    let directory = place.path().join("state").display().to_string();
    let pattern = format!("{directory} confirm --supervise");
    assert!(std::process::Command::new("pkill").args(["-9", "-f", &pattern]).status().unwrap().success());
    let path = place.path().join("state/confirmation.json");
    let text = content(&path).replace("\"waiting\"", "\"undoing\"");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, text.as_bytes(), 0).unwrap();
    assert_eq!(code(running), Some(5));
    assert!(is_as_before(&place));
}

#[test]
fn changes_are_undone_although_the_state_directory_is_full() {
    let (place, site) = place();
    std::fs::create_dir(place.path().join("state")).unwrap();
    // The file keeps its size, as kilter writes it in place.
    let script = "mount -t tmpfs -o size=1m,mode=0700 none state; \"$0\" \"$@\" >out 2>&1 & \
                  until grep -q 'the changes are undone in' out; do sleep 0.05; done; cat a; \
                  head -c 4M /dev/zero >state/fill 2>/dev/null; echo >state/more 2>/dev/null && cat state/more; \
                  sed 's/:600000/:0     /' state/confirmation.json | dd of=state/confirmation.json conv=notrunc \
                  status=none; wait $!; echo code $?; grep 'not confirmed' out";
    let ended = place.run_in_own_mounts(script, &["apply", "--confirm-within", "10m", &site]);
    assert_eq!(ended.stdout, "new\ncode 5\nnot confirmed: the changes were undone\n", "{}", ended.stderr);
    assert!(is_as_before(&place));
}

#[test]
fn stepped_clock_neither_ends_nor_extends_the_time_for_confirmation() {
    const MONTH: i64 = 30 * 24 * 60 * 60 * 1000;
    let (place, site) = place();
    let running = begin(&place, &site, "10m");
    kill_supervisor(&place);
    let library = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut library = library.map(|path| path.join("faketime/libfaketime.so.1")).filter(|path| path.exists());
    let clock = place.file("clock", "+0");
    let step = |by: &str| {
        place.file("new", by);
        std::fs::rename(place.path().join("new"), &clock).unwrap();
    };
    let mut supervisor = place.command(&["confirm", "--supervise"]);
    supervisor
        .env("LD_PRELOAD", library.next().expect("the package libfaketime is installed"))
        .envs([("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("FAKETIME_NO_CACHE", "1"), ("FAKETIME_TIMESTAMP_FILE", &clock)])
        .stdout(std::process::Stdio::piped());
    let mut supervisor = supervisor.spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(supervisor.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let waits = || {
        let status = content(format!("/proc/{}/status", supervisor.id()).as_ref());
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let state = || -> serde_json::Value {
        serde_json::from_str(&content(&place.path().join("state/confirmation.json"))).unwrap()
    };
    let begun = state()["at"].as_i64().unwrap();
    step("+30d");
    let before = waits();
    wait("the supervisor to look at its clock", || waits() > before + 5);
    assert_eq!(state()["stage"], "waiting");
    assert_eq!(content(&place.path().join("a")), "new\n");
    step("-30d");
    end_time(&place);
    assert_eq!(code(running), Some(5));
    assert!(is_as_before(&place));
    assert!(supervisor.wait().unwrap().success());
    // The supervisor had the other clock.
    assert!(state()["at"].as_i64().unwrap() < begun - MONTH / 2, "{}", state());
}
