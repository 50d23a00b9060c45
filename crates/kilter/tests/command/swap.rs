//! Edits of a manifest during a run: unchanged resources continue.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::run::{Running, content, manifest, rest, wait};
use crate::support::*;

fn status(place: &Place, args: &[&str]) -> Json {
    let ended = place.run(&[&["status", "--format", "json"], args].concat());
    serde_json::from_str(&ended.stdout).unwrap_or(Json::Null)
}

/// Number of settled resources.
fn settled(place: &Place) -> u64 {
    let status = status(place, &[]);
    let settled = status["settled"].as_object().map(|settled| settled.values().filter_map(Json::as_u64).sum());
    settled.unwrap_or(0)
}

const FIRST: &str = "resources:\n  file[DIR/a]: {content: a}\n  file[DIR/b]: {content: b}\n  file[DIR/c]: {content: \
                     c}\n  \
                     exec[guarded]: {command: \"false\", unless: \"sh -c 'echo x >> DIR/checks'\"}\n";

#[test]
fn edit_checks_only_changed_resources() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let running = Running::begin(&place, &[&manifest(&place, FIRST)]);
    wait("the first", || settled(&place) >= 4 && content(&file("c")) == "c" && content(&file("checks")) == "x\n");
    rest(&place);
    let before = settled(&place);
    manifest(
        &place,
        &FIRST
            .replace("content: b", "content: other")
            .replace("file[DIR/c]: {content: c}", "file[DIR/d]: {content: d}"),
    );
    wait("what is new", || content(&file("b")) == "other" && content(&file("d")) == "d");
    rest(&place);
    // Each that was changed is looked at once more, since its own change was seen.
    let looked = settled(&place) - before;
    assert!((2..=4).contains(&looked), "two resources are declared in another way, and {looked} were looked at");
    assert_eq!(content(&file("checks")), "x\n", "what is declared as before is not asked again");
    assert_eq!(running.told("the manifest has changed"), 1);

    // What is kept is watched still, what is gone no longer, what is new now.
    for name in ["a", "b", "c", "d"] {
        std::fs::write(file(name), "changed").unwrap();
    }
    wait("what is declared", || ["a", "b", "d"].iter().all(|name| content(&file(name)) != "changed"));
    assert_eq!(content(&file("c")), "changed");
    let a = format!("file[{}]", file("a").display());
    assert_eq!(status(&place, &[&a])["resources"][0]["changes"], 2, "what was done to it is known still");

    manifest(&place, &FIRST.replace("command: \"false\"", "command: \"true\""));
    wait("the command, which is another one", || content(&file("checks")) == "x\nx\n");
    wait("the file that is declared again", || content(&file("c")) == "c");
    running.end();
}

#[test]
fn edit_keeps_timers() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  exec[late]: {command: [sh, -c, \"echo x >> DIR/tries; [ -e DIR/may ]\"], meta: {retry: \
                -1, delay: 300}}\n  \
                file[DIR/behind]: {content: x, require: \"exec[late]\"}\n  file[DIR/a]: {content: one}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("tries", || content(&file("tries")).len() >= 4);
    manifest(&place, &text.replace("content: one", "content: two"));
    wait("the edit", || content(&file("a")) == "two");
    let tries = content(&file("tries")).len();
    wait("more tries", || content(&file("tries")).len() > tries + 2);
    assert!(!file("behind").exists());
    std::fs::write(file("may"), "").unwrap();
    wait("what waited for it", || content(&file("behind")) == "x");
    running.end();
}

#[test]
fn edit_keeps_remaining_retries_unless_reset() {
    let place = Place::new();
    let tries = || content(&place.path().join("tries")).lines().count();
    let with = |meta: &str| {
        let text = "resources:\n  exec[late]: {command: [sh, -c, \"echo x >> DIR/tries; false\"], meta: {META}}\n";
        manifest(&place, &text.replace("META", meta))
    };
    let is_failed = || status(&place, &["exec[late]"])["resources"][0]["state"] == "failed";
    let running = Running::begin(&place, &[&with("retry: 3, delay: 3000")]);
    wait("a second try", || tries() == 2);
    // The third comes soon, behind the edit or before it: it is one of four.
    with("retry: 3, delay: 100");
    wait("the end of its tries", || tries() >= 4 && is_failed());
    assert_eq!(tries(), 4, "they are not given back by another `delay`");
    with("retry: 3, delay: 100, reset: true");
    wait("the end of those that were given back", || tries() >= 8 && is_failed());
    assert_eq!(tries(), 8);
    running.end();
}

#[test]
fn receiver_of_an_edited_sender_has_all_its_retries_again() {
    let place = Place::new();
    let tries = || content(&place.path().join("tries")).lines().count();
    let text = "resources:\n  exec[from]: {command: \"echo COMMAND\"}\n  \
                exec[late]: {command: [sh, -c, \"echo ${exec[from].stdout} >> DIR/tries; false\"], meta: {retry: 1, \
                delay: 2000}}\n";
    let running = Running::begin(&place, &[&manifest(&place, &text.replace("COMMAND", "one"))]);
    wait("a first try", || tries() == 1);
    manifest(&place, &text.replace("COMMAND", "two"));
    // The retry for the former value may have come before the edit.
    wait("both tries of the new value", || content(&place.path().join("tries")).matches("two").count() == 2);
    wait("the end of its tries", || status(&place, &["exec[late]"])["resources"][0]["state"] == "failed");
    running.end();
}

#[test]
fn edit_checks_failed_resources() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let tries = || content(&file("tries")).lines().count();
    let state = || status(&place, &["exec[late]"])["resources"][0]["state"].clone();
    let text = "resources:\n  exec[late]: {command: [sh, -c, \"date +%s%N >> DIR/tries; [ -e DIR/may ]\"]}\n  \
                file[DIR/behind]: {content: x, require: \"exec[late]\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("several failures", || tries() == 4 && state() == "failed");
    std::fs::write(file("may"), "").unwrap();
    manifest(&place, &format!("{text}  file[DIR/other]: {{content: x}}\n"));
    wait("what was behind it", || content(&file("behind")) == "x");
    wait("its state", || state() == "in_sync");
    let at: Vec<u64> = content(&file("tries")).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(at.len(), 5);
    // By itself the run would have tried it again after eight seconds.
    assert!(at[4] - at[3] < 8_000_000_000, "it was left alone: {at:?}");
    running.end();
}

#[test]
fn edit_keeps_pending_refresh() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  file[DIR/a]: {content: one, notify: \"exec[note]\"}\n  \
                exec[note]: {command: [sh, -c, \"echo x >> DIR/tries; [ -e DIR/may ] && echo noted >> DIR/log\"], \
                refreshonly: true}\n  file[DIR/b]: {content: one}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the failure", || content(&file("tries")).len() >= 4);
    manifest(&place, &text.replace("file[DIR/b]: {content: one}", "file[DIR/b]: {content: two}"));
    wait("the edit", || content(&file("b")) == "two");
    std::fs::write(file("may"), "").unwrap();
    wait("the refresh", || content(&file("log")) == "noted\n");
    rest(&place);
    assert_eq!(content(&file("log")), "noted\n");
    running.end();
}

#[test]
fn new_resource_receives_existing_outputs() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  exec[token]: {command: [sh, -c, \"echo x >> DIR/runs; echo secret-$$\"]}\n  \
                file[DIR/one]: {content: \"${exec[token].stdout}\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the value", || content(&file("one")).starts_with("secret-"));
    manifest(&place, &format!("{text}  file[DIR/two]: {{content: \"${{exec[token].stdout}}\"}}\n"));
    wait("the value for another", || content(&file("two")).starts_with("secret-"));
    assert_eq!(content(&file("one")), content(&file("two")));
    assert_eq!(content(&file("runs")), "x\n", "it has run once");
    // One whose values nobody took was not kept.
    manifest(&place, &format!("{text}  exec[other]: {{command: echo other}}\n"));
    wait("the edit", || status(&place, &["exec[other]"])["resources"][0]["state"] == "in_sync");
    manifest(
        &place,
        &format!(
            "{text}  exec[other]: {{command: echo other}}\n  file[DIR/three]: {{content: \
             \"${{exec[other].stdout}}\"}}\n"
        ),
    );
    wait("its value", || content(&file("three")) == "other");
    running.end();
}

#[test]
fn catalog_dependent_resource_is_checked_after_edit() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  file[DIR/conf]: {ensure: directory, purge: true, recurse: true}\n  file[DIR/conf/a]: \
                {content: a}\n";
    let both = format!("{text}  file[DIR/conf/b]: {{content: b}}\n");
    let running = Running::begin(&place, &[&manifest(&place, &both)]);
    wait("both", || file("conf/a").exists() && file("conf/b").exists());
    manifest(&place, text);
    wait("what is not declared any more to be purged", || !file("conf/b").exists());
    assert!(file("conf/a").exists());
    running.end();
}

#[test]
fn contested_resource_is_repaired_again_after_an_edit() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  file[DIR/f]: {content: one, notify: \"exec[rival]\"}\n";
    let rival = "  exec[rival]: {command: [sh, -c, \"echo two > DIR/g; mv DIR/g DIR/f\"], refreshonly: true}\n";
    let running = Running::begin(&place, &["--quiet", &manifest(&place, &format!("{text}{rival}"))]);
    let f = format!("file[{}]", file("f").display());
    wait("the contest", || status(&place, &[&f])["resources"][0]["contested"]["repairs"].as_u64() >= Some(21));
    wait("both values", || running.told("-two") > 0 && running.told("+one") > 0);
    assert!(running.told("is contested") > 0);
    manifest(&place, &text.replace(", notify: \"exec[rival]\"", ""));
    wait("the file, without its rival", || content(&file("f")) == "one");
    running.end();
}

#[test]
fn call_not_started_at_edit_is_not_reported() {
    let place = Place::new();
    let text = "resources:\n  exec[first]: {command: sleep 3}\n  exec[second]: {command: \"touch DIR/second\"}\n";
    let running = Running::begin(&place, &["--jobs", "1", &manifest(&place, text)]);
    wait("the first", || status(&place, &["exec[first]"])["resources"][0]["state"] == "changing");
    manifest(&place, &format!("{text}  file[DIR/new]: {{content: x}}\n"));
    wait("the edit", || running.told("the manifest has changed") == 1);
    wait("what is new", || place.path().join("new").exists());
    let second = status(&place, &["exec[second]"]);
    assert_eq!(second["counts"]["under_way"], 2, "{second}");
    let (code, out, _) = running.end();
    assert!(code == Some(143) && out.contains("exec[second] not done: the run ended before that"), "{out}");
    assert!(!place.path().join("second").exists());
}

/// Runs until there is a file, and says then that it did.
const SLOW: &str = "resources:\n  exec[slow]: {command: \"until [ -e DIR/go ]; do sleep 0.02; done; echo ran >> \
                    DIR/log\", shell: true}\n  \
                    file[DIR/a]: {content: a}\n";

/// Starts a run with slow resources and independent ones.
fn slow(place: &Place) -> Running {
    let running = Running::begin(place, &[&manifest(place, SLOW)]);
    wait("the slow one", || {
        status(place, &["exec[slow]"])["resources"][0]["state"] == "changing" && place.path().join("a").exists()
    });
    running
}

#[test]
fn slow_call_delays_neither_edit_nor_repair() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let running = slow(&place);
    manifest(&place, &format!("{SLOW}  file[DIR/b]: {{content: b}}\n"));
    wait("what is new", || content(&file("b")) == "b");
    std::fs::write(file("a"), "changed").unwrap();
    wait("the repair", || content(&file("a")) == "a");
    manifest(
        &place,
        &format!("{SLOW}  file[DIR/c]: {{content: c, require: \"exec[slow]\"}}\n  file[DIR/d]: {{content: d}}\n"),
    );
    wait("what another edit brings", || content(&file("d")) == "d");
    let slow = status(&place, &["exec[slow]"]);
    assert_eq!(slow["resources"][0]["state"], "changing", "{slow}");
    assert!(!file("c").exists(), "what requires it waits for it");
    std::fs::write(file("go"), "").unwrap();
    wait("what requires it", || content(&file("c")) == "c");
    manifest(&place, &format!("{SLOW}  file[DIR/e]: {{content: e}}\n"));
    wait("the last edit", || content(&file("e")) == "e");
    let slow = status(&place, &["exec[slow]"]);
    assert_eq!((&slow["resources"][0]["changes"], &*content(&file("log"))), (&1.into(), "ran\n"), "{slow}");
    running.end();
}

#[test]
fn replacement_waits_for_running_call() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let running = slow(&place);
    let other = SLOW.replace("echo ran", "echo other");
    manifest(&place, &other);
    wait("the edit", || running.told("the manifest has changed") == 1);
    manifest(&place, &format!("{other}  file[DIR/b]: {{content: b}}\n"));
    wait("another edit", || content(&file("b")) == "b");
    let told = status(&place, &["exec[slow]"]);
    let (slow, begun) = (&told["resources"][0], &told["superseded_calls"]);
    assert_eq!((&slow["state"], &slow["awaits"]["resource"]), (&"waiting".into(), &"exec[slow]".into()), "{told}");
    assert_eq!((&slow["awaits"]["doing"], begun.as_array().unwrap().len()), (&"changing".into(), 1), "{told}");
    assert!(slow["awaits"]["for_ms"].as_u64().unwrap() > 200 && slow["because_of"].is_null(), "{told}");
    let text = place.run(&["status"]).stdout;
    assert!(
        text.contains("exec[slow] waiting for calls that started before an edit: changing exec[slow], for "),
        "{text}"
    );
    assert!(text.contains("started before an edit and still running: changing exec[slow], for "), "{text}");
    std::fs::write(file("go"), "").unwrap();
    wait("the one behind the other", || content(&file("log")) == "ran\nother\n");
    assert_eq!(running.told("a call from before the edit of the manifest has ended"), 1);
    wait("nothing to be awaited", || status(&place, &[])["superseded_calls"] == serde_json::json!([]));
    assert!(status(&place, &["exec[slow]"])["resources"][0]["awaits"].is_null());
    running.end();
}

#[test]
fn call_of_removed_resource_ends_before_run() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let running = slow(&place);
    manifest(&place, "resources:\n  file[DIR/b]: {content: b}\n");
    wait("the edit", || content(&file("b")) == "b");
    let (going, told) = (file("go"), file("errors"));
    let writer = std::thread::spawn(move || {
        wait("the first request", || content(&told).contains("1 in flight will be finished"));
        std::fs::write(going, "").unwrap();
    });
    let (code, out, errors) = running.end();
    assert_eq!(code, Some(143), "{out}{errors}");
    assert_eq!(content(&file("log")), "ran\n", "what was begun is finished: {errors}");
    assert!(errors.contains("1 in flight will be finished"), "{errors}");
    writer.join().unwrap();
}

#[test]
fn call_of_removed_resource_keeps_its_semaphore() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let slow = SLOW.replace("shell: true}", "shell: true, meta: {sema: [one, two]}}");
    let running = Running::begin(&place, &[&manifest(&place, &slow)]);
    wait("the slow one", || status(&place, &["exec[slow]"])["resources"][0]["state"] == "changing");
    let other = "resources:\n  exec[other]: {command: \"echo other >> DIR/log\", shell: true, meta: {sema: [three, \
                 two]}}\n  \
                 file[DIR/b]: {content: b}\n";
    manifest(&place, other);
    wait("the edit", || content(&file("b")) == "b");
    manifest(&place, &other.replace("content: b", "content: c").replace("[three, two]", "[two]"));
    wait("another edit", || content(&file("b")) == "c");
    assert_eq!(content(&file("log")), "");
    let other = status(&place, &["exec[other]"])["resources"][0].clone();
    assert_eq!((&other["state"], &other["semaphore"]), (&"waiting".into(), &"two".into()), "{other}");
    assert_eq!(other["awaits"]["resource"], "exec[slow]", "{other}");
    std::fs::write(file("go"), "").unwrap();
    wait("one after the other", || content(&file("log")) == "ran\nother\n");
    running.end();
}

#[test]
fn call_across_edit_keeps_its_timeout() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let timed = "resources:\n  exec[slow]: {command: \"sleep 60\", meta: {timeout: 5000}}\n  \
                 exec[other]: {command: \"sleep 61\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, timed)]);
    wait("the slow one", || status(&place, &["exec[other]"])["resources"][0]["state"] == "changing");
    let text = timed.replace("  exec[other]: {command: \"sleep 61\"}\n", "  file[DIR/b]: {content: b}\n");
    manifest(&place, &text);
    wait("the edit", || content(&file("b")) == "b");
    wait("its time", || status(&place, &["exec[slow]"])["resources"][0]["state"] == "failed");
    running.terminate();
    wait("the first request", || running.told("in flight will be finished") == 1);
    // The second one ends what is declared no longer, too.
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(143), "{errors}");
    assert!(errors.contains("a call from before the edit of the manifest has failed"), "{errors}");
}

#[test]
fn edit_checks_noop_resources_again() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/f]: {content: x, owner: kilter-nobody-has-this}\n";
    let status = place.path().join("converged");
    let converged = || content(&status).matches("true\n").count();
    let options = ["--noop", "--converged-timeout", "1", "--converged-status-file", &status.display().to_string()];
    let running = Running::begin(&place, &[&options[..], &[&manifest(&place, text)]].concat());
    wait("the failure", || converged() > 0);
    manifest(&place, &format!("{text}  user[kilter-nobody-has-this]: {{}}\n"));
    wait("the edit", || running.told("the manifest has changed") == 1);
    let before = converged();
    wait("what is looked at", || converged() > before);
    let (_, out, _) = running.end();
    assert!(out.contains("2 to change") && !out.contains("failed\n2 resources"), "{out}");
}

#[test]
fn edit_restarts_converged_timeout() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let converged = file("converged").display().to_string();
    let text = "resources:\n  file[DIR/a]: {content: a}\n";
    let options = ["--converged-timeout", "1", "--converged-status-file", &converged];
    let running = Running::begin(&place, &[&options[..], &[&manifest(&place, text)]].concat());
    wait("the first time", || content(&file("converged")) == "true\n");
    manifest(&place, &format!("{text}  file[DIR/b]: {{content: b}}\n"));
    wait("the second time", || content(&file("converged")) == "true\nfalse\ntrue\n");
    running.end();
}

#[test]
fn edited_comment_reruns_nothing() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  exec[token]: {command: echo hi}\n  exec[deploy]: {command: [sh, -c, \"echo \
                ${exec[token].stdout} >> DIR/deployed\"]}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the first time", || content(&file("deployed")) == "hi\n");
    manifest(&place, &format!("# a comment\n{text}"));
    wait("the edit", || running.told("the manifest has changed") == 1);
    rest(&place);
    assert_eq!(content(&file("deployed")), "hi\n");
    running.end();
}

#[test]
fn edited_composite_checks_its_members() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "types:\n  site:\n    attributes:\n      port: {type: Integer, default: 80}\n      token: {type: \
                String}\n    resources:\n      \
                \"file[DIR/${self.name}]\": {content: \"${self.port} ${self.token}\"}\n      \
                \"file[DIR/${self.name}-still]\": {content: \"${self.token}\"}\nresources:\n  \
                exec[token]: {command: \"echo secret\"}\n  site[a]: {token: \"${exec[token].stdout}\"}\n  \
                site[b]: {port: 81, token: \"of ${exec[token].stdout}\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("both", || content(&file("a")) == "80 secret" && content(&file("b")) == "81 of secret");
    wait("all", || settled(&place) >= 5);
    rest(&place);
    let before = settled(&place);
    manifest(&place, &text.replace("port: 81", "port: 82"));
    wait("the edit", || content(&file("b")) == "82 of secret");
    rest(&place);
    let looked = settled(&place) - before;
    assert!((1..=2).contains(&looked), "one resource is declared in another way, and {looked} were looked at");
    std::fs::write(file("b-still"), "changed").unwrap();
    wait("what stayed is still watched", || content(&file("b-still")) == "of secret");
    running.end();
}

/// A manifest program that waits for a file at its second call.
fn program(place: &Place) -> String {
    let dir = place.path().display();
    let text = format!(
        "#!/bin/sh\nif [ -e {dir}/asked ]; then\n  touch {dir}/again\n  until [ -e {dir}/go ]; do sleep 0.02; done\n  \
         more='  file[{dir}/b]: {{content: b}}'\n\
         fi\ntouch {dir}/asked\nprintf 'resources:\\n  file[{dir}/a]: {{content: a}}\\n%s\\n' \"$more\"\n"
    );
    let path = place.file("m.sh", text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn repair_continues_during_reload() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let running = Running::begin(&place, &["--reread", "1", &program(&place)]);
    wait("the first", || content(&file("a")) == "a");
    wait("the reading", || file("again").exists());
    std::fs::write(file("a"), "changed").unwrap();
    wait("the repair", || content(&file("a")) == "a");
    assert_eq!(status(&place, &[])["counts"]["in_sync"], 1);
    std::fs::write(file("go"), "").unwrap();
    wait("what was read", || content(&file("b")) == "b");
    running.end();
}

#[test]
fn reload_is_cancelled_at_end_of_run() {
    let place = Place::new();
    // It would be waited for without end: the program prints nothing more.
    let ended = place.run(&["run", "--reread", "1", "--max-runtime", "3", &program(&place)]);
    assert!(place.path().join("again").exists(), "it was asked once more");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn refresh_from_removed_resource_follows_its_call() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let note = "  exec[note]: {command: \"echo noted >> DIR/log\", shell: true, refreshonly: true}\n";
    let notifying = SLOW.replace("shell: true}", "shell: true, notify: \"exec[note]\"}");
    let running = Running::begin(&place, &[&manifest(&place, &format!("{notifying}{note}"))]);
    wait("the slow one", || status(&place, &["exec[slow]"])["resources"][0]["state"] == "changing");
    manifest(&place, &format!("resources:\n  file[DIR/b]: {{content: b}}\n{note}"));
    wait("the edit", || content(&file("b")) == "b");
    std::fs::write(file("go"), "").unwrap();
    wait("the refresh", || content(&file("log")).contains("noted"));
    assert_eq!(content(&file("log")), "ran\nnoted\n");
    running.end();
}

#[test]
fn outputs_of_changed_resource_stay_available() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let text = "resources:\n  exec[slow]: {command: \"until [ -e DIR/go ]; do sleep 0.02; done; touch DIR/made; \
                printf sent\", shell: true, \
                creates: DIR/made}\n  file[DIR/out]: {content: \"${exec[slow].stdout}\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the slow one", || status(&place, &["exec[slow]"])["resources"][0]["state"] == "changing");
    manifest(&place, &text.replace("creates: DIR/made}", "creates: DIR/made, meta: {timeout: 60000}}"));
    wait("the edit", || status(&place, &["exec[slow]"])["resources"][0]["awaits"]["resource"] == "exec[slow]");
    std::fs::write(file("go"), "").unwrap();
    wait("what was sent", || content(&file("out")) == "sent");
    running.end();
}
