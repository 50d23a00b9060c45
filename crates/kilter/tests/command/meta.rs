//! Metaparameters: how the engine treats resources.

use std::time::{Duration, Instant};

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

#[test]
fn a_timeout_ends_one_call_and_no_other() {
    let place = Place::new();
    let path = manifest(
        &place,
        "resources:\n  exec[slow]: {command: sleep 60, meta: {timeout: 200}}\n  \
         exec[guarded]: {command: touch DIR/guarded, unless: sleep 60, meta: {timeout: 200}}\n  \
         exec[patient]: {command: \"sleep 1 && touch DIR/done\", shell: true, meta: {timeout: 60000}}\n  \
         exec[free]: {command: \"sleep 1 && touch DIR/free\", shell: true}\n  \
         file[DIR/after]: {content: x, require: \"exec[slow]\"}\n  file[DIR/timed]: {content: x, meta: {timeout: \
         5000}}\n",
    );
    let begun = Instant::now();
    // One worker: what waits for it has not begun, and is not too late.
    let ended = place.run(&["apply", &path, "--jobs", "1"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{ended:?}");
    assert_eq!(ended.code, 4, "{ended:?}");
    assert_eq!(ended.stdout.matches("timeout after 200 ms (its `timeout`)").count(), 2, "{ended:?}");
    assert!(ended.stdout.contains("6 resources: 3 changed, 2 failed, 1 skipped"), "{ended:?}");
    assert!(["done", "free", "timed"].iter().all(|name| place.path().join(name).exists()));
    assert!(["guarded", "after"].iter().all(|name| !place.path().join(name).exists()));
}

#[test]
fn timeout_of_200_ms_ends_call() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  exec[slow]: {command: sleep 10000, meta: {timeout: 200}}\n");
    let ended = place.run(&["apply", &path]);
    assert!(ended.code == 4 && ended.stdout.contains("timeout after 200 ms"), "{ended:?}");
}

#[test]
fn retry_waits_for_its_delay() {
    let place = Place::new();
    let path = manifest(
        &place,
        "resources:\n  exec[slow]: {command: \"date +%s%N >> DIR/begun; sleep 0.48; date +%s%N >> DIR/ended; false\", \
         shell: true, meta: {retry: 2, delay: 400}}\n",
    );
    let times = |name: &str| instants(&place.path().join(name));
    let running = Running::begin(&place, &[&path]);
    wait("three tries", || times("ended").len() == 3);
    running.end();
    let gaps = times("begun").into_iter().skip(1).zip(times("ended")).map(|(begun, ended)| begun - ended);
    let gaps: Vec<Duration> = gaps.collect();
    // kilter counts whole milliseconds.
    assert!(gaps.len() == 2 && gaps.iter().all(|gap| *gap >= Duration::from_millis(399)), "{gaps:?}");
}

/// The times that a command has written, since 1970. One that was ended may have written a half of the last.
fn instants(path: &std::path::Path) -> Vec<Duration> {
    let whole = content(path);
    let whole = whole.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| Duration::from_nanos(line.parse().unwrap())).collect()
}

/// Returns the maximum number of concurrent commands. Each logs its start and its end.
fn at_once(place: &Place, meta: &str) -> usize {
    let log = place.path().join("log");
    std::fs::write(&log, "").unwrap();
    let one = |number: u32| {
        format!(
            "  exec[{number}]: {{command: \"echo + >> DIR/log; sleep 0.3; echo - >> DIR/log\", shell: true{meta}}}\n"
        )
    };
    let path = manifest(place, &format!("resources:\n{}", (0..4).map(one).collect::<String>()));
    assert_eq!(place.run(&["apply", &path, "--jobs", "4"]).code, 0);
    let (mut now, mut most) = (0, 0);
    for line in content(&log).lines() {
        now = if line == "+" { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

#[test]
fn semaphores_limit_concurrency() {
    let place = Place::new();
    assert_eq!(at_once(&place, ", meta: {sema: [one]}"), 1);
    assert_eq!(at_once(&place, ", meta: {sema: [\"two:2\", \"many:9\"]}"), 2);
    assert!(at_once(&place, "") > 2);
}

#[test]
fn policy_observe_and_warn_change_nothing() {
    let place = Place::new();
    let path = manifest(
        &place,
        "defaults:\n  file: {meta: {policy: observe}}\nresources:\n  file[DIR/a]: {content: a}\n  \
         file[DIR/b]: {content: b, meta: {policy: warn}}\n  file[DIR/c]: {content: c, meta: {policy: repair}}\n",
    );
    let ended = place.run(&["apply", &path]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("3 resources: 1 changed, 2 left out of sync"), "{ended:?}");
    let warning = "warning: file[DIR/b]: it is not in its state, and not repaired: its policy is `warn`\n";
    assert_eq!(ended.stderr, warning);
    let exists = |name: &str| place.path().join(name).exists();
    assert_eq!([exists("a"), exists("b"), exists("c")], [false, false, true]);
}

#[test]
fn poll_sets_check_interval() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let path = manifest(
        &place,
        "resources:\n  file[DIR/watched]: {content: x}\n  file[DIR/polled]: {content: x, meta: {poll: 3}}\n  \
         file[DIR/once]: {content: x, meta: {poll: -1}}\n",
    );
    let running = Running::begin(&place, &[&path]);
    // What is changed before it was looked at behind its repair has failed, and comes back.
    wait("everything", || place.run(&["status"]).stdout.contains(": 3 in their state; quiet"));
    for name in ["once", "polled", "watched"] {
        std::fs::write(file(name), "other").unwrap();
    }
    wait("what is watched", || content(&file("watched")) == "x");
    wait("what is polled", || content(&file("polled")) == "x");
    // It has just been looked at. What is watched comes back twice before it is again.
    std::fs::write(file("polled"), "other").unwrap();
    for _ in 0..2 {
        std::fs::write(file("watched"), "other").unwrap();
        wait("what is watched", || content(&file("watched")) == "x");
    }
    assert_eq!(content(&file("polled")), "other", "it is polled, not watched");
    wait("what is polled, once more", || content(&file("polled")) == "x");
    assert_eq!(content(&file("once")), "other");
    let (code, ..) = running.end();
    assert_eq!(code, Some(143));
}

#[test]
fn limit_delays_excess_events() {
    let place = Place::new();
    let (free, limited) = (place.path().join("free"), place.path().join("limited"));
    let path = manifest(
        &place,
        "resources:\n  file[DIR/free]: {content: x}\n  file[DIR/limited]: {content: x, meta: {limit: 0.4, burst: 1}}\n",
    );
    let running = Running::begin(&place, &[&path]);
    wait("everything", || content(&free) == "x" && content(&limited) == "x");
    // Its own change is an event too. After this one, no token is left for two and a half seconds.
    std::fs::write(&limited, "once").unwrap();
    wait("the first event", || content(&limited) == "x");
    let begun = Instant::now();
    std::fs::write(&limited, "twice").unwrap();
    std::fs::write(&free, "other").unwrap();
    wait("what has no limit", || content(&free) == "x");
    assert_eq!(content(&limited), "twice");
    wait("the next token", || content(&limited) == "x");
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    let (code, ..) = running.end();
    assert_eq!(code, Some(143));
}

#[test]
fn timeout_of_one_resource_does_not_affect_others() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("scripts")).unwrap();
    let script = "#!/bin/sh\nname=\neval \"$@\"\n[ \"$name\" = slow ] && sleep 60\n[ \"$name\" = slower ] && sleep 60\n\
                  printf '# simple\\nname: %s\\nensure: present\\n' \"$name\"\n";
    let path = place.file("scripts/t.prov", script);
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let metadata = "provider:\n  type: tt\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  \
                    attributes:\n    \
                    name:\n    ensure: {type: \"enum[present, absent]\"}\n";
    place.file("scripts/t.yaml", metadata);
    let path = manifest(
        &place,
        "resources:\n  tt[slow]: {meta: {timeout: 300}}\n  tt[slower]: {meta: {timeout: 300}}\n  tt[a]: {}\n  tt[b]: \
         {}\n  \
         tt[c]: {meta: {timeout: 30000}}\n",
    );
    let begun = Instant::now();
    let ended = place.run(&["-I", "scripts", "apply", &path]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{ended:?}");
    assert_eq!(ended.stdout.matches("timeout after 300 ms (its `timeout`)").count(), 2, "{ended:?}");
    assert!(ended.code == 4 && ended.stdout.contains("5 resources: 2 failed, 3 unchanged"), "{ended:?}");
}

#[test]
fn membership_without_resource_is_a_difference() {
    let place = Place::new();
    let members = |meta: &str| {
        let text = format!(
            "resources:\n  user[kt-adam]: {{groups: [daemon]{meta}}}\n  \
             group[daemon]: {{members: [kt-adam], auth_membership: false}}\n"
        );
        place.run(&["plan", &manifest(&place, &text)])
    };
    let planned = members("");
    assert!(planned.code == 2 && !planned.stdout.contains("group[daemon]"), "{planned:?}");
    for meta in [", meta: {noop: true}", ", meta: {policy: observe}", ", meta: {policy: warn}"] {
        let planned = members(meta);
        assert!(planned.stdout.contains("group[daemon]\n    members: "), "{meta}: {planned:?}");
    }
}
