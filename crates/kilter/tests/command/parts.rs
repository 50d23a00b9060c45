//! Parts of files that other programs own too: `line`, `block`, `ini` and `structured`.

use std::path::PathBuf;

use crate::run::{Running, content, manifest, rest, wait};
use crate::support::*;

const CONF: &str = "# by hand\nPort 22\nPermitRootLogin yes\n";

/// Two lines of a file, one of which replaces another.
const LINES: &str = "resources:\n  line[root]: {path: DIR/conf, line: PermitRootLogin no, match: ^PermitRootLogin}\n  \
                     line[users]: {path: DIR/conf, line: AllowUsers a}\n";

const DONE: &str = "# by hand\nPort 22\nPermitRootLogin no\nAllowUsers a\n";

fn conf(place: &Place) -> PathBuf {
    place.path().join("conf")
}

#[test]
fn lines_are_planned_applied_and_kept() {
    let place = Place::new();
    place.file("conf", CONF);
    let path = manifest(&place, LINES);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    for shown in ["-PermitRootLogin yes", "+PermitRootLogin no", "+AllowUsers a", "--- DIR/conf (is)"] {
        assert!(plan.stdout.contains(shown), "{shown}: {}", plan.stdout);
    }
    assert_eq!(place.run(&["apply", "--noop", &path]).code, 2);
    assert_eq!(content(&conf(&place)), CONF, "a plan changes nothing");
    let applied = place.run(&["apply", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&conf(&place)), DONE);
    let again = place.run(&["plan", &path]);
    assert_eq!(again.code, 0, "{again:?}");
    std::fs::write(conf(&place), DONE.replace("Login no", "Login yes")).unwrap();
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&conf(&place)), DONE, "the damage is repaired");
    let gone = manifest(&place, &LINES.replace("a}", "a, ensure: absent}"));
    assert_eq!(place.run(&["apply", &gone]).code, 0);
    assert_eq!(content(&conf(&place)), DONE.replace("AllowUsers a\n", ""));
}

#[test]
fn damage_is_repaired_by_run() {
    let place = Place::new();
    place.file("conf", CONF);
    let running = Running::begin(&place, &[&manifest(&place, LINES)]);
    wait("the lines", || content(&conf(&place)) == DONE);
    rest(&place);
    std::fs::write(conf(&place), DONE.replace("AllowUsers a\n", "# theirs\n")).unwrap();
    wait("the repair", || content(&conf(&place)) == DONE.replace("AllowUsers a\n", "# theirs\nAllowUsers a\n"));
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}

#[test]
fn line_comes_after_its_file() {
    let place = Place::new();
    let text = "resources:\n  line[a]: {path: DIR/conf, line: a}\n  line[b]: {path: DIR/conf, line: b}\n  \
                file[DIR/conf]: {ensure: file, mode: \"0640\"}\n";
    let path = manifest(&place, text);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(plan.stdout.contains("+a") && plan.stdout.contains("+b"), "{plan:?}");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&conf(&place)), "a\nb\n");
    assert_eq!(place.run(&["plan", &path]).code, 0);
}

#[test]
fn file_with_whole_content_excludes_lines() {
    let place = Place::new();
    let text = "resources:\n  line[a]: {path: DIR/conf, line: a}\n  file[DIR/conf]: {content: x}\n";
    let ended = place.run(&["plan", &manifest(&place, text)]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("file[DIR/conf] declares its whole content (`content`)"), "{ended:?}");
    let kept = text.replace("content: x", "content: \"x\\n\", replace: false");
    let applied = place.run(&["apply", &manifest(&place, &kept)]);
    assert_eq!((applied.code, content(&conf(&place)).as_str()), (0, "x\na\n"), "{applied:?}");
}

#[test]
fn bad_line_is_refused_with_a_reason() {
    let place = Place::new();
    place.file("conf", "a=1\na=2\n");
    let refused = |resource: &str| place.run(&["plan", &manifest(&place, &format!("resources:\n  {resource}\n"))]);
    for (resource, reason) in [
        ("line[x]: {path: DIR/conf, line: \"a\\nb\"}", "the text must be a single line"),
        ("line[x]: {path: conf, line: a}", "is not an absolute path"),
        ("line[x]: {path: DIR/conf}", "the text of the line is missing"),
        ("line[x]: {path: DIR/conf, line: a, match: (}", "is not a regular expression"),
        ("lineinfile[x]: {path: DIR/conf, line: a}", "kilter's type is `line`"),
        ("file_line[x]: {path: DIR/conf, line: a}", "kilter's type is `line`"),
        ("blockinfile[x]: {path: DIR/conf, content: a}", "kilter's type is `block`"),
        ("ini_setting[x]: {path: DIR/conf, setting: a, value: b}", "kilter's type is `ini`"),
        ("line[x]: {path: DIR/conf, line: a, regexp: b}", "`match`"),
    ] {
        let ended = refused(resource);
        assert!(ended.code == 1 && ended.stderr.contains(reason), "{resource}: {ended:?}");
    }
    for (resource, reason) in [
        ("line[x]: {path: DIR/conf, line: a=3, match: ^a=}", "2 lines match `^a=`"),
        ("line[x]: {path: DIR/none, line: a}", "DIR/none does not exist, and `create` is false"),
    ] {
        let ended = refused(resource);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code != 0 && ended.code != 2 && text.contains(reason), "{resource}: {ended:?}");
    }
    let ended = place.run(&["get", "line"]);
    assert!(ended.code != 0 && ended.stderr.contains("found only by its declaration"), "{ended:?}");
    let ended = place.run(&["get", "line", "x"]);
    assert!(ended.code != 0 && ended.stderr.contains("found only by its declaration"), "{ended:?}");
}

#[test]
fn secret_line_is_in_no_output() {
    let place = Place::new();
    place.file("conf", "x\n");
    place.file("secret", "hunter2-and-more");
    let secret = "line[key]: {path: DIR/conf, line: {sensitive: {file: DIR/secret}}}";
    let plain = "line[plain]: {path: DIR/conf, line: plain}";
    let path = manifest(&place, &format!("resources:\n  {secret}\n"));
    for arguments in [vec!["plan"], vec!["apply", "--noop"], vec!["apply"]] {
        let ended = place.run(&[&arguments[..], &[path.as_str()]].concat());
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!text.contains("hunter2") && text.contains("line[key]"), "{text}");
    }
    assert_eq!(content(&conf(&place)), "x\nhunter2-and-more\n");
    // The secret is now beside another line, in the context of its diff.
    let path = manifest(&place, &format!("resources:\n  {secret}\n  {plain}\n"));
    let ended = place.run(&["plan", &path]);
    assert!(ended.stdout.contains("+plain") && !ended.stdout.contains("hunter2"), "{ended:?}");
}

/// An editor that replaces the file while kilter changes it loses nothing. kilter reports a change that the editor
/// overwrites, and makes it again at the next run.
#[test]
fn concurrent_editor_loses_nothing() {
    let place = Place::new();
    place.file("conf", "start\n");
    let lines: String = (0..20)
        .map(|n| format!("  line[{n}]: {{path: DIR/conf, line: ours {n}, validate_cmd: [cat, '%']}}\n"))
        .collect();
    let path = manifest(&place, &format!("resources:\n{lines}"));
    // As an editor does: it reads the file, and renames a new one to its path, unless the file changed meanwhile.
    let script = "for n in $(seq 30); do flock lock sh -c 'cat conf > new; echo \"theirs $0\" >> new; \
                  mv new conf' $n; done";
    let mut editor = std::process::Command::new("sh");
    let mut editor = editor.args(["-c", script]).current_dir(place.path()).spawn().unwrap();
    let mut rounds = 0;
    while editor.try_wait().unwrap().is_none() || rounds == 0 {
        rounds += 1;
        let ended = place.run(&["apply", &path]);
        // The editor may replace the file after kilter's last look, or just after kilter has replaced it.
        let is_told = ["replaced by another program", "still not in its state after the change"];
        assert!(ended.code == 0 || is_told.iter().any(|words| ended.stdout.contains(words)), "{ended:?}");
    }
    let ended = place.run(&["apply", &path]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = content(&conf(&place));
    for n in 0..20 {
        assert!(text.contains(&format!("ours {n}\n")), "{text}");
    }
    for n in 1..=30 {
        assert!(text.contains(&format!("theirs {n}\n")), "{n}: {text}");
    }
}

/// A block and a setting of one file.
const BLOCK_AND_SETTING: &str = "resources:\n  block[b]: {path: DIR/conf, content: \"one\\ntwo\\n\"}\n  \
                                 ini[a]: {path: DIR/conf, section: s, setting: a, value: 2}\n";

const BOTH: &str = "; by hand\n[s]\na = 2\n# BEGIN kilter b\none\ntwo\n# END kilter b\n";

#[test]
fn block_and_setting_are_planned_applied_and_removed() {
    let place = Place::new();
    let before = "; by hand\n[s]\na = 1\n";
    place.file("conf", before);
    let path = manifest(&place, BLOCK_AND_SETTING);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    for shown in ["-a = 1", "+a = 2", "+# BEGIN kilter b", "+one"] {
        assert!(plan.stdout.contains(shown), "{shown}: {}", plan.stdout);
    }
    assert_eq!(content(&conf(&place)), before, "a plan changes nothing");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&conf(&place)), BOTH);
    assert_eq!(place.run(&["plan", &path]).code, 0);
    std::fs::write(conf(&place), BOTH.replace("two", "three").replace("a = 2", "a = 3")).unwrap();
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&conf(&place)), BOTH, "the damage is repaired");
    let absent = "resources:\n  block[b]: {path: DIR/conf, ensure: absent}\n  ini[a]: {path: DIR/conf, section: s, \
                  setting: a, ensure: absent}\n";
    assert_eq!(place.run(&["apply", &manifest(&place, absent)]).code, 0);
    assert_eq!(content(&conf(&place)), "; by hand\n[s]\n");
}

#[test]
fn damaged_block_and_setting_are_repaired_by_run() {
    let place = Place::new();
    place.file("conf", "; by hand\n[s]\na = 1\n");
    let running = Running::begin(&place, &[&manifest(&place, BLOCK_AND_SETTING)]);
    wait("the block", || content(&conf(&place)) == BOTH);
    rest(&place);
    std::fs::write(conf(&place), BOTH.replace("one\n", "").replace("a = 2", "a = 3")).unwrap();
    wait("the repair", || content(&conf(&place)) == BOTH);
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}

/// Values of three files, two of them in one file.
const VALUES: &str = "resources:\n  structured[driver]: {path: DIR/daemon.json, key: log-driver, value: journald}\n  \
                      structured[size]: {path: DIR/daemon.json, key: [log-opts, max-size], value: 10m}\n  \
                      structured[port]: {path: DIR/app.yaml, key: [listen, 0, port], value: 8080}\n  \
                      structured[name]: {path: DIR/app.toml, key: [server, name], value: web, create: true}\n";

const DAEMON: &str = "{\n  // by hand\n  \"log-driver\": \"json-file\", \"debug\": true\n}\n";
const DAEMON_DONE: &str =
    "{\n  // by hand\n  \"log-driver\": \"journald\", \"debug\": true, \"log-opts\": {\"max-size\": \"10m\"}\n}\n";
const APP: &str = "listen:\n  - port: 80  # http\n    host: any\n";

#[test]
fn structured_values_are_planned_applied_and_kept_by_run() {
    let place = Place::new();
    place.file("daemon.json", DAEMON);
    place.file("app.yaml", APP);
    let path = manifest(&place, VALUES);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    for shown in ["value: json-file → journald", "-  - port: 80  # http", "+  - port: 8080  # http", "+[server]"] {
        assert!(plan.stdout.contains(shown), "{shown}: {}", plan.stdout);
    }
    let read = |name: &str| content(&place.path().join(name));
    assert_eq!((read("daemon.json").as_str(), read("app.yaml").as_str()), (DAEMON, APP), "a plan changes nothing");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    let is_done = || {
        read("daemon.json") == DAEMON_DONE
            && read("app.yaml") == APP.replace("80", "8080")
            && read("app.toml") == "[server]\nname = \"web\"\n"
    };
    assert!(is_done(), "{} {} {}", read("daemon.json"), read("app.yaml"), read("app.toml"));
    let again = place.run(&["plan", &path]);
    assert_eq!(again.code, 0, "{again:?}");
    let running = Running::begin(&place, &[&path]);
    rest(&place);
    std::fs::write(place.path().join("daemon.json"), DAEMON_DONE.replace("journald", "syslog")).unwrap();
    std::fs::write(place.path().join("app.toml"), "[server]\n").unwrap();
    wait("the repair", is_done);
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}

#[test]
fn structured_value_comes_after_its_file_and_before_what_its_value_decides() {
    let place = Place::new();
    let text = "vars: {limit: 3}\nresources:\n  structured[b]: {path: DIR/new/a.yaml, key: b, \
                value: \"${vars.limit}\"}\n\
                \x20 file[DIR/new]: {ensure: directory}\n  file[DIR/new/a.yaml]: {content: \"a: 1\\n\", replace: \
                false}\n";
    let path = manifest(&place, text);
    let plan = place.run(&["plan", &path]);
    assert!(plan.code == 2 && plan.stdout.contains("+b: 3"), "{plan:?}");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&place.path().join("new/a.yaml")), "a: 1\nb: 3\n");
}

#[test]
fn bad_structured_value_is_refused_with_a_reason() {
    let place = Place::new();
    place.file("a.json", "{\"a\": 1}\n");
    place.file("conf", "a: 1\n");
    for (resource, reason) in [
        ("structured[x]: {path: DIR/conf, key: a, value: 1}", "add `format: json`"),
        ("structured[x]: {path: DIR/a.json, key: a}", "a key needs a value"),
        ("structured[x]: {path: DIR/a.json, key: [a, b], value: 1}", "there is no key `b`, because `a` is a number"),
        ("structured[x]: {path: DIR/a.json, key: [a, -1], value: 1}", "an index that counts from 0"),
        ("structured[x]: {path: DIR/a.json, key: a, value: 2, validate_cmd: [grep, -q, z, '%']}", "validate_cmd"),
        ("structured[x]: {path: DIR/a.json, setting: a, value: 1}", "`key`"),
        ("yaml_setting[x]: {path: DIR/a.json, key: a, value: 1}", "kilter's type is `structured`"),
    ] {
        let ended = place.run(&["apply", &manifest(&place, &format!("resources:\n  {resource}\n"))]);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(matches!(ended.code, 1 | 4) && text.contains(reason), "{resource}: {ended:?}");
    }
    assert_eq!(content(&place.path().join("a.json")), "{\"a\": 1}\n");
}

#[test]
fn part_that_requires_another_part_of_its_file_sees_its_change() {
    let place = Place::new();
    let structured = |name, key, more| format!("  structured[{name}]: {{path: DIR/a.json, key: {key}, {more}}}\n");
    let resources = [
        structured("first", "[list, 0]", "value: x, create: true"),
        structured("second", "[list, 1]", "value: y, require: 'structured[first]'"),
        "  line[one]: {path: DIR/a.txt, line: one, create: true}\n".to_owned(),
        "  line[two]: {path: DIR/a.txt, line: two, require: 'line[one]'}\n".to_owned(),
    ];
    let resources = resources.concat().replace("DIR", &place.path().display().to_string());
    place.file("m.yaml", format!("resources:\n{resources}"));
    let applied = place.run(&["apply", "m.yaml"]);
    assert!(applied.code == 0 && applied.stdout.contains("4 resources: 4 changed"), "{applied:?}");
    let content = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(content("a.json"), "{\n  \"list\": [\n    \"x\",\n    \"y\"\n  ]\n}\n");
    assert_eq!(content("a.txt"), "one\ntwo\n");
}
