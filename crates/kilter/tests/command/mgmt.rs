//! Graphs of mgmt, run as they are.

use std::path::Path;

use crate::run::{Running, content, wait};
use crate::support::*;

fn graph(place: &Place, text: &str) -> String {
    place.file("graph.yaml", text.replace("DIR", &place.path().display().to_string()))
}

/// The words of a run that has come to rest: its report lines.
fn run(place: &Place, text: &str, args: &[&str]) -> Ended {
    let path = graph(place, text);
    place.run(&[&["run", "--converged-timeout", "0", "--converged-exit"], args, &[&path]].concat())
}

const HELLO: &str = "graph: mygraph\ncomment: hello\nresources:\n  noop:\n  - name: noop1\n  file:\n  - name: \
                     file1\n    \
                     path: DIR/hello\n    content: |\n      hello world\n    state: exists\nedges:\n- name: e1\n  \
                     from:\n    \
                     kind: noop\n    name: noop1\n  to:\n    kind: file\n    name: file1\n";

#[test]
fn a_graph_is_planned_applied_and_drawn_like_a_manifest() {
    let place = Place::new();
    let path = graph(&place, HELLO);
    let plan = place.run(&["plan", &path, "-o", "hello.plan"]);
    assert_eq!(plan.code, 2, "{}", plan.stderr);
    assert!(plan.stdout.contains("file[file1]"), "{}", plan.stdout);
    assert_eq!(place.run(&["apply", "hello.plan"]).code, 0);
    assert_eq!(content(&place.path().join("hello")), "hello world\n");
    let again = place.run(&["apply", &path]);
    assert!(again.stdout.contains("2 unchanged"), "{}", again.stdout);
    let drawn = place.run(&["graph", &path]);
    assert!(drawn.stdout.contains("noop[noop1]") && drawn.stdout.contains("file[file1]"), "{}", drawn.stdout);
}

#[test]
fn graph_problems_have_lines_of_the_graph() {
    let place = Place::new();
    let path = graph(
        &place,
        "graph: g\nresources:\n  file:\n  - name: a\n    path: relative\n    state: exists\n    mode: rwx\n",
    );
    let ended = place.run(&["apply", &path]);
    assert_eq!(ended.code, 1);
    for place in ["graph.yaml:5:11", "graph.yaml:7:11"] {
        assert!(ended.stderr.contains(place), "{}", ended.stderr);
    }
}

#[test]
fn graph_metaparameters_are_applied() {
    let place = Place::new();
    let text = "graph: g\nresources:\n  file:\n  - name: a\n    path: DIR/a\n    content: x\n    state: exists\n    \
                meta:\n      noop: true\n  \
                exec:\n  - name: b\n    cmd: touch DIR/b\n    meta: {noop: true}\n";
    assert_eq!(run(&place, text, &[]).code, 2);
    assert!(!place.path().join("a").exists() && !place.path().join("b").exists());
}

#[test]
fn a_plan_of_a_lenient_graph_is_applied_leniently() {
    let place = Place::new();
    let text =
        "graph: g\nresources:\n  exec:\n  - name: touch DIR/a\n    timeout: 5\n    pollint: 0\n    state: present\n";
    let path = graph(&place, text);
    let strict = place.run(&["plan", &path]);
    assert_eq!(strict.code, 1);
    assert!(strict.stderr.contains("give --lenient"), "{}", strict.stderr);
    let lenient = place.run(&["plan", "--lenient", &path, "-o", "p"]);
    assert_eq!(lenient.code, 2);
    assert_eq!(lenient.stderr.matches("no longer has an effect").count(), 3, "{}", lenient.stderr);
    assert_eq!(place.run(&["apply", "p"]).code, 0);
    assert!(place.path().join("a").exists());
}

#[test]
fn graph_commands_run_once_in_order() {
    let place = Place::new();
    let text = "graph: g\nresources:\n  exec:\n  - {name: a, cmd: 'echo a >> DIR/log', shell: /bin/sh, ifcmd: \
                'true'}\n  \
                - {name: b, cmd: 'echo b >> DIR/log', shell: /bin/sh}\nedges:\n\
                - {name: e1, from: {kind: exec, name: a}, to: {kind: exec, name: b}}\n";
    let ended = run(&place, text, &[]);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(content(&place.path().join("log")), "a\nb\n");
}

#[test]
fn command_runs_until_its_guard_prints_the_required_text() {
    let place = Place::new();
    place.file("version", "1\n");
    let text = "graph: g\nresources:\n  exec:\n  - name: a\n    cmd: echo 2 > version; echo ran >> log\n    shell: \
                /bin/sh\n    \
                cwd: DIR\n    ifcmd: cat version\n    ifcwd: DIR\n    ifequals: \"2\\n\"\n    \
                donecmd: touch done\n    donecwd: DIR/sub\n";
    std::fs::create_dir(place.path().join("sub")).unwrap();
    let path = graph(&place, text);
    let plan = place.run(&["plan", &path]);
    assert!(
        plan.stdout.contains("`cat version` (onlyif) prints `1\\n`, not `2\\n`"),
        "{} {}",
        plan.stdout,
        plan.stderr
    );
    for _ in 0..2 {
        assert_eq!(place.run(&["apply", &path]).code, 0);
        assert_eq!(content(&place.path().join("log")), "ran\n");
    }
    assert!(place.path().join("sub/done").exists());
    // To the last line break, and not where the guard fails.
    place.file("version", "2");
    assert!(place.run(&["apply", &path]).stdout.contains("1 changed"));
    std::fs::remove_file(place.path().join("version")).unwrap();
    assert!(place.run(&["apply", &path]).stdout.contains("1 unchanged"));
}

#[test]
fn graph_fallback_is_output_of_skipped_command() {
    let place = Place::new();
    graph(
        &place,
        "graph: g\nresources:\n  exec:\n  - {name: a, cmd: echo made, creates: DIR/made, send_stdout: none, \
         send_output: ''}\n",
    );
    let text = "include: [graph.yaml]\nresources:\n  file[DIR/said]: { content: \"<${exec[a].stdout}> \
                <${exec[a].output}>\" }\n";
    let path = place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let said = |expected: &str| {
        let ended = place.run(&["apply", &path]);
        assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
        assert_eq!(content(&place.path().join("said")), expected);
    };
    let made = place.file("made", "");
    said("<none> <>");
    std::fs::remove_file(&made).unwrap();
    said("<made> <made>");
    place.file("made", "");
    said("<made> <made>");
}

/// Writes to the file `in` until the command, which has run once, has run because of it.
fn a_line_runs_it_again(place: &Place, log: &Path) {
    let mut ran = 1;
    wait("the watch that tells", || {
        place.file("in", format!("{}x\n", content(&place.path().join("in"))));
        let now = content(log).lines().count();
        std::mem::replace(&mut ran, now) < now
    });
}

#[test]
fn the_lines_of_a_watch_command_run_its_command_again() {
    let place = Place::new();
    place.file("in", "");
    let text = "graph: g\nresources:\n  exec:\n  - name: a\n    cmd: echo ran >> DIR/log\n    shell: /bin/sh\n    \
                watchcmd: tail -n 0 -F DIR/in\n";
    let running = Running::begin(&place, &["--quiet", &graph(&place, text)]);
    let log = place.path().join("log");
    wait("the first time", || content(&log) == "ran\n");
    a_line_runs_it_again(&place, &log);
    running.end();
}

#[test]
fn ended_watch_command_is_reported_without_run() {
    let place = Place::new();
    let text = "graph: g\nresources:\n  exec:\n  - name: a\n    cmd: echo ran >> DIR/log\n    shell: /bin/sh\n    \
                watchcmd: 'false'\n";
    let running = Running::begin(&place, &["--quiet", &graph(&place, text)]);
    wait("the end of the watch", || running.told("`false` has ended (exit code 1); kilter restarts it in 2 s") > 0);
    assert_eq!(content(&place.path().join("log")), "ran\n");
    running.end();
}

#[test]
fn timer_event_refreshes_only_notified_resources() {
    let place = Place::new();
    let text = "resources:\n  timer[t]: {interval: 1, before: \"exec[once]\", notify: \"exec[often]\"}\n  \
                exec[once]: {command: \"echo once >> DIR/once\", shell: true}\n  \
                exec[often]: {command: \"echo often >> DIR/often\", shell: true, refreshonly: true}\n";
    let path = place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let running = Running::begin(&place, &["--quiet", &path]);
    wait("three ticks", || content(&place.path().join("often")).lines().count() >= 3);
    assert_eq!(content(&place.path().join("once")), "once\n");
    running.end();
}

#[test]
fn values_are_kept_from_one_run_to_the_next() {
    let place = Place::new();
    let stage = |value: u32| {
        format!("graph: g\nresources:\n  kv:\n  - {{name: kv1, key: stage, value: '{value}', skiplessthan: true}}\n")
    };
    for (value, expected) in [(1, "1"), (5, "5"), (3, "5")] {
        assert_eq!(run(&place, &stage(value), &[]).code, 0);
        let kept = place.run(&["get", "kv", "stage", "--format", "json"]);
        assert!(kept.stdout.contains(&format!("\"value\": \"{expected}\"")), "{}", kept.stdout);
    }
    assert_eq!(run(&place, "graph: g\nresources:\n  kv:\n  - {name: kv2, key: stage}\n", &[]).code, 0);
    assert_eq!(place.run(&["get", "kv"]).stdout.lines().filter(|line| line.contains("stage")).count(), 0);
}

#[test]
fn value_changed_by_another_program_is_restored() {
    let place = Place::new();
    let path = place.file("m.yaml", "resources:\n  kv[colour]: {value: blue}\n");
    let running = Running::begin(&place, &[&path]);
    let kept = place.path().join("state/kept/kv/colour");
    wait("the value", || content(&kept) == "blue");
    std::fs::write(&kept, "red").unwrap();
    wait("the value again", || content(&kept) == "blue");
    running.end();
}

#[test]
fn password_is_generated_once_for_all_references() {
    let place = Place::new();
    let text = "resources:\n  password[db]: {length: 24}\n  file[DIR/secret]: {content: \
                \"${password[db].password}\\n\", mode: \"0600\"}\n";
    let path = place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let first = place.run(&["apply", &path]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let secret = content(&place.path().join("secret"));
    assert_eq!(secret.len(), 25);
    assert!(!first.stdout.contains(secret.trim()) && !first.stderr.contains(secret.trim()));
    std::fs::remove_file(place.path().join("secret")).unwrap();
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&place.path().join("secret")), secret);
    let mut kept = Vec::new();
    for entry in walk(&place.path().join("state")) {
        kept.extend(std::fs::read(entry).unwrap());
    }
    assert!(!String::from_utf8_lossy(&kept).contains(secret.trim()), "it is stored in clear text");
}

/// All files below a directory.
fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: std::path::PathBuf| if path.is_dir() { walk(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

#[test]
fn unrelated_edit_does_not_rerun_watched_command() {
    let place = Place::new();
    let text = |content: &str| {
        format!(
            "resources:\n  exec[a]: {{command: echo ran >> DIR/log, shell: true, watch: tail -n 0 -F DIR/in}}\n  \
             file[DIR/other]: {{content: {content}}}\n"
        )
        .replace("DIR", &place.path().display().to_string())
    };
    place.file("in", "");
    let path = place.file("m.yaml", text("one"));
    let running = Running::begin(&place, &["--quiet", &path]);
    let (log, other) = (place.path().join("log"), place.path().join("other"));
    wait("the first time", || content(&log) == "ran\n" && content(&other) == "one");
    for edit in ["two", "three"] {
        place.file("m.yaml", text(edit));
        wait("the edit", || content(&other) == edit);
    }
    assert_eq!(content(&log).lines().count(), 1);
    a_line_runs_it_again(&place, &log);
    running.end();
}

#[test]
fn unreferenced_password_is_available_later() {
    let place = Place::new();
    let path = place.file("m.yaml", "resources:\n  password[db]: {length: 24}\n");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    let text =
        "resources:\n  password[db]: {length: 24}\n  file[DIR/secret]: {content: \"${password[db].password}\"}\n";
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let ended = place.run(&["apply", &path]);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(content(&place.path().join("secret")).len(), 24);
}
