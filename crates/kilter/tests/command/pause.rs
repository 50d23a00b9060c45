//! `kilter pause` and `kilter resume`.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::mold;
use crate::ralsh::ralsh;
use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const MANIFEST: &str = "resources:\n  file[DIR/a]: {content: declared}\n  file[DIR/b]: {content: declared}\n";

fn status(place: &Place) -> Json {
    let ended = place.run(&["status", "--format", "json"]);
    serde_json::from_str(&ended.stdout).unwrap_or(Json::Null)
}

fn done(place: &Place, args: &[&str]) -> Ended {
    let ended = place.run(args);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

fn holding(place: &Place, text: &str) -> Running {
    let running = Running::begin(place, &[&manifest(place, text)]);
    wait("the first", || status(place)["quiet_for_ms"].is_u64());
    running
}

#[test]
fn pause_delays_all_calls() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let running = holding(&place, MANIFEST);
    done(&place, &["pause", "disk is being copied"]);
    std::fs::write(file("a"), "changed").unwrap();
    wait("the event", || status(&place)["counts"]["under_way"] == 1);
    assert_eq!(content(&file("a")), "changed");
    let told = status(&place);
    assert_eq!((&told["paused"]["why"], &told["in_flight"]), (&"disk is being copied".into(), &0.into()), "{told}");
    assert!(told["quiet_for_ms"].is_null() && told["paused"]["left_ms"].is_null(), "{told}");
    let Ended { code, stdout: told, .. } = place.run(&["status"]);
    assert_eq!(code, 2, "what is paused is not held: {told}");
    assert!(told.contains("(disk is being copied): nothing new starts until `kilter resume`"), "{told}");
    assert!(told.contains("] ready\n"), "{told}");
    // What is declared in another way is read, and waits.
    manifest(&place, &MANIFEST.replace("file[DIR/b]: {content: declared}", "file[DIR/b]: {content: other}"));
    wait("the edit", || running.told("the manifest has changed") == 1);
    wait("what is declared now", || status(&place)["counts"]["under_way"] == 2);
    std::fs::write(file("a"), "changed again").unwrap();
    assert_eq!(status(&place)["in_flight"], 0);
    assert_eq!((content(&file("a")).as_str(), content(&file("b")).as_str()), ("changed again", "declared"));
    assert_eq!(status(&place)["paused"]["why"], "disk is being copied");

    done(&place, &["resume"]);
    wait("what was held back", || content(&file("a")) == "declared" && content(&file("b")) == "other");
    assert!(status(&place)["paused"].is_null());
    let again = done(&place, &["resume"]);
    assert!(again.stderr.contains("it was not paused"), "{again:?}");
    assert_eq!((running.told("paused until"), running.told("resumed")), (1, 1));
    running.end();
}

#[test]
fn pause_with_duration_ends_by_itself() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    let begun = Instant::now();
    done(&place, &["pause", "--for", "2"]);
    std::fs::write(place.path().join("a"), "changed").unwrap();
    assert!(status(&place)["paused"]["left_ms"].as_u64().is_some_and(|left| left <= 2000));
    wait("the end of the pause", || content(&place.path().join("a")) == "declared");
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    running.end();
}

#[test]
fn pause_waits_for_running_calls_and_holds_queued_ones() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let slow = "  exec[NAME]: {command: [sh, -c, \"touch DIR/NAME; while [ ! -e DIR/go ]; do sleep 0.05; done; touch \
                DIR/NAME-end\"]}\n";
    let text = ["one", "two", "three"].map(|name| slow.replace("NAME", name)).concat();
    let running = Running::begin(&place, &[&manifest(&place, &format!("resources:\n{text}")), "-j", "1"]);
    wait("the first", || file("one").exists());
    done(&place, &["pause", "--no-wait"]);
    let told = status(&place);
    assert_eq!(told["in_flight"], 1, "{told}");
    let mut waiting = place.command(&["pause"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(waiting.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("waiting for running calls: exec[one]"), "{said}");
    assert!(waiting.try_wait().unwrap().is_none() && !file("one-end").exists());
    std::fs::write(file("go"), "").unwrap();
    assert!(waiting.wait().unwrap().success());
    assert!(file("one-end").exists());
    wait("the end of the first", || status(&place)["counts"]["under_way"] == 2);
    assert!(!file("two").exists() && !file("three").exists());
    done(&place, &["resume"]);
    wait("the others", || file("two-end").exists() && file("three-end").exists());
    running.end();
}

#[test]
fn paused_run_stops_and_reports_unreached_resources() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    done(&place, &["pause"]);
    std::fs::write(place.path().join("a"), "changed").unwrap();
    wait("the event", || status(&place)["counts"]["under_way"] == 1);
    running.end();
    assert_eq!(content(&place.path().join("a")), "changed");
    let ended = place.run(&["pause"]);
    assert_eq!(ended.code, 0, "a state directory without a run can be paused: {ended:?}");
    assert!(ended.stderr.contains("no `kilter run` is active: changes by commands are refused"), "{ended:?}");
    assert_eq!(place.run(&["resume", "2"]).code, 0);
    assert_eq!(place.run(&["resume"]).code, 0, "the pause outlives the run");
    assert_eq!(place.run(&["resume"]).code, 1);
    assert_eq!(place.run(&["pause", "--for", "0"]).code, 1);
}

#[test]
fn resources_are_checked_again_after_pause() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  exec[one]: {command: [sh, -c, \"touch DIR/one; while [ ! -e DIR/go ]; do sleep 0.05; \
                done\"], creates: DIR/one}\n  \
                exec[two]: {command: \"sh -c 'echo x >> DIR/runs'\", creates: DIR/two}\n  \
                exec[job]: {command: \"sh -c 'echo x >> DIR/runs'\", unless: [[sh, -c, \"touch DIR/asked; sleep 1; \
                test -e DIR/job\"]]}\n";
    let running = Running::begin(&place, &[&manifest(&place, text), "-j", "2"]);
    wait("what is under way", || file("one").exists() && file("asked").exists());
    done(&place, &["pause", "--no-wait"]);
    std::fs::write(file("go"), "").unwrap();
    // Somebody does by hand what was about to be done.
    std::fs::write(file("two"), "").unwrap();
    wait("the end of what was under way", || status(&place)["in_flight"] == 0);
    std::fs::write(file("job"), "").unwrap();
    done(&place, &["pause"]);
    done(&place, &["resume"]);
    wait("all of it", || status(&place)["quiet_for_ms"].is_u64());
    assert_eq!(content(&file("runs")), "");
    running.end();
}

#[test]
fn pause_does_not_count_as_converged() {
    let place = Place::new();
    let converged = place.path().join("converged");
    let file = converged.display().to_string();
    let text = manifest(&place, MANIFEST);
    let running = Running::begin(&place, &[&text, "--converged-timeout", "3", "--converged-status-file", &file]);
    wait("the first", || status(&place)["quiet_for_ms"].is_u64());
    done(&place, &["pause"]);
    wait("the time", || status(&place)["paused"]["for_ms"].as_u64().is_some_and(|paused| paused > 3000));
    assert_ne!(content(&converged), "true\n");
    let resumed = Instant::now();
    done(&place, &["resume"]);
    wait("three quiet seconds", || content(&converged).ends_with("true\n"));
    assert!(resumed.elapsed() >= Duration::from_millis(2500), "{:?}", resumed.elapsed());
    running.end();
}

#[test]
fn edit_during_pause_replaces_unreached_resource() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  exec[first]: {command: [sh, -c, \"touch DIR/first; sleep 1\"]}\n  \
                exec[bad]: {command: \"touch DIR/bad\", require: \"exec[first]\", meta: {realize: true}}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the first", || file("first").exists());
    done(&place, &["pause"]);
    manifest(&place, &text.replace("touch DIR/bad", "touch DIR/good"));
    wait("the edit", || running.told("the manifest has changed") == 1);
    done(&place, &["resume"]);
    wait("what is declared now", || file("good").exists());
    assert!(!file("bad").exists());
    running.end();
}

#[test]
fn pause_survives_the_removal_of_the_state_directory() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    done(&place, &["pause", "backup"]);
    let pauses = place.path().join("state/pauses");
    std::fs::remove_file(&pauses).unwrap();
    // The run makes it again while it is removed.
    let _ = std::fs::remove_dir_all(place.path().join("state"));
    wait("the pauses", || content(&pauses).contains("backup"));
    drop(running);
    let refused = place.run(&["apply", &manifest(&place, MANIFEST)]);
    assert!(refused.code == 1 && refused.stderr.contains("backup"), "{refused:?}");
}

/// Runs the command in a session of its own.
fn elsewhere(place: &Place, args: &[&str]) -> Ended {
    let kilter = place.command(args);
    let mut command = std::process::Command::new("setsid");
    command.arg("--wait").arg(kilter.get_program()).args(args).env_clear().current_dir(place.path());
    command.envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?))));
    place.ended(command.output().unwrap())
}

#[test]
fn pauses_of_two_sessions_are_ended_one_by_one() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    let backup = elsewhere(&place, &["pause", "backup"]);
    assert!(backup.code == 0 && backup.stderr.contains("pause 1: "), "{backup:?}");
    done(&place, &["pause", "by hand"]);
    let told = status(&place);
    assert_eq!(told["paused"]["pauses"].as_array().map(Vec::len), Some(2), "{told}");
    assert!(told["paused"]["pauses"][0]["by"].as_str().is_some_and(|by| by.contains("(process ")), "{told}");
    let shown = place.run(&["status"]).stdout;
    assert!(shown.contains("    pause 1 by ") && shown.contains(": backup\n"), "{shown}");
    let resumed = done(&place, &["resume"]);
    assert!(resumed.stderr.contains("still paused: pause 1 by "), "{resumed:?}");
    let refused = place.run(&["resume"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("this session has paused nothing; still paused: "),
        "{refused:?}"
    );
    std::fs::write(place.path().join("a"), "changed").unwrap();
    wait("the event", || status(&place)["counts"]["under_way"] == 1);
    assert_eq!(content(&place.path().join("a")), "changed");
    done(&place, &["resume", "1"]);
    wait("the repair", || content(&place.path().join("a")) == "declared");
    running.end();
}

#[test]
fn process_of_a_session_outside_of_its_pid_namespace_ends_no_pause_without_its_number() {
    assert!(is_root(), "run this test as root: it makes a PID namespace");
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    let kilter = place.command(&[]);
    let script = "$0 pause backup; $0 resume";
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script]).arg(kilter.get_program()).env_clear();
    command.envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(place.path());
    let ended = place.ended(command.output().unwrap());
    assert!(ended.code == 1 && ended.stderr.contains("pause 1: `kilter resume 1` ends it\n"), "{ended:?}");
    assert!(ended.stderr.contains("name a pause by its number; still paused: pause 1 by "), "{ended:?}");
    done(&place, &["resume", "1"]);
    running.end();
}

#[test]
fn resume_ends_the_pause_of_its_session_after_the_leader_has_ended() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    let kilter = place.command(&[]);
    let script = "l=$$; (\"$0\" pause; touch paused; while [ -e /proc/$l ]; do sleep 0.05; done; \"$0\" resume; echo \
                  $? > code) &\n\
                  while [ ! -e paused ]; do sleep 0.05; done";
    let mut command = std::process::Command::new("setsid");
    command.args(["--fork", "--wait", "sh", "-c", script]).arg(kilter.get_program()).env_clear();
    command.envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(place.path());
    let ended = place.ended(command.output().unwrap());
    assert_eq!(content(&place.path().join("code")), "0\n", "{ended:?}");
    assert!(status(&place)["paused"].is_null());
    running.end();
}

#[test]
fn empty_file_of_pauses_refuses_changes() {
    let place = Place::new();
    let path = manifest(&place, MANIFEST);
    done(&place, &["apply", &path]);
    std::fs::write(place.path().join("state/pauses"), "").unwrap();
    let refused = place.run(&["apply", &path]);
    assert!(refused.code == 1 && refused.stderr.contains("state/pauses: it is empty"), "{refused:?}");
}

#[test]
fn pause_survives_a_restart_and_binds_apply() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    done(&place, &["pause", "disk is being copied"]);
    drop(running);
    std::fs::write(place.path().join("a"), "changed").unwrap();
    let path = manifest(&place, MANIFEST);
    let refused = place.run(&["apply", &path]);
    assert!(refused.code == 1 && refused.stderr.contains("disk is being copied"), "{refused:?}");
    assert_eq!(place.run(&["plan", &path]).code, 2);
    let a = place.path().join("a").display().to_string();
    let refused = place.run(&["set", "file", &a, "content=other"]);
    assert!(refused.code == 1 && refused.stderr.contains("or give --even-if-paused"), "{refused:?}");
    assert_eq!(place.run(&["set", "--noop", "file", &a, "content=other"]).code, 2);
    let refused = place.run(&["act", "file", &a, "remove"]);
    assert!(refused.code == 1 && refused.stderr.contains("disk is being copied"), "{refused:?}");
    let refused = ralsh(&place, &["file", &a, "content=other"]);
    assert!(refused.code == 2 && refused.stderr.contains("disk is being copied"), "{refused:?}");
    assert_eq!(content(&place.path().join("a")), "changed");
    let running = Running::begin(&place, &[&path]);
    wait("the pause", || status(&place)["paused"]["why"] == "disk is being copied");
    assert_eq!(
        (content(&place.path().join("a")).as_str(), status(&place)["counts"]["in_sync"].as_u64()),
        ("changed", Some(0))
    );
    running.end();
    done(&place, &["set", "--even-if-paused", "file", &a, "content=other"]);
    assert_eq!(content(&place.path().join("a")), "other");
    done(&place, &["apply", &path, "--even-if-paused"]);
    assert_eq!(content(&place.path().join("a")), "declared");
    done(&place, &["resume"]);
    done(&place, &["apply", &path]);
}

#[test]
fn paused_run_does_not_start_without_its_status_socket() {
    let place = Place::new();
    let path = manifest(&place, MANIFEST);
    let running = holding(&place, MANIFEST);
    done(&place, &["pause", "disk is being copied"]);
    drop(running);
    std::fs::write(place.path().join("a"), "changed").unwrap();
    let socket = place.path().join("state/status.sock");
    std::fs::remove_file(&socket).unwrap();
    std::fs::create_dir(&socket).unwrap();
    let refused = place.run(&["run", "--converged-exit", "--converged-timeout", "0", &path]);
    assert!(refused.code == 1 && refused.stderr.contains("this state directory is paused"), "{refused:?}");
    assert_eq!(content(&place.path().join("a")), "changed");
    done(&place, &["resume", "--all"]);
    done(&place, &["run", "--converged-exit", "--converged-timeout", "0", &path]);
    assert_eq!(content(&place.path().join("a")), "declared");
}

#[test]
fn pause_added_while_providers_start_binds_act() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    mold::script(&place, "resources/service", mold::SERVICE);
    let gate = place.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    // The description of another provider waits for the gate.
    std::fs::create_dir(place.path().join("providers")).unwrap();
    let slow = place.file("providers/slow.prov", format!("#!/bin/sh\nread line <'{}'\nexit 1\n", gate.display()));
    std::fs::set_permissions(slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["-I", ".", "act", "service[sshd]", "restart", "--mold", "minion"];
    let mut command = place.command(&args);
    let act = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The open returns when the description reads.
    let mut open = std::fs::OpenOptions::new().write(true).open(&gate).unwrap();
    done(&place, &["pause", "backup"]);
    open.write_all(b"go\n").unwrap();
    drop(open);
    let refused = place.ended(act.wait_with_output().unwrap());
    assert!(refused.code == 1 && refused.stderr.contains("is paused: pause 1 by "), "{refused:?}");
    assert!(!place.path().join("minion/state-sshd.calls").exists());
    running.end();
}

#[test]
fn pause_added_before_the_lock_was_taken_binds_apply() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    done(&place, &["pause", "backup"]);
    drop(running);
    let (pauses, saved) = (place.path().join("state/pauses"), place.path().join("saved"));
    std::fs::rename(&pauses, &saved).unwrap();
    let a = place.path().join("a").display().to_string();
    // A program that prints a manifest runs between the first check and the lock.
    let text = format!(
        "#!/bin/sh\ncp {} {}\necho 'resources: {{ \"file[{a}]\": {{content: x}} }}'\n",
        saved.display(),
        pauses.display()
    );
    let path = place.file("program", text);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refused = place.run(&["apply", &path]);
    assert!(refused.code == 1 && refused.stderr.contains("nothing is changed while"), "{refused:?}");
    assert_eq!(content(&place.path().join("a")), "declared");
    done(&place, &["apply", &path, "--even-if-paused"]);
    assert_eq!(content(&place.path().join("a")), "x");
}
