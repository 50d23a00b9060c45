//! Plans in files: what binds them, who believes them, and how their steps are carried out.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::run::wait;
use crate::support::{Ended, Place, is_root};

/// A place with a manifest, in which DIR is the place.
pub(crate) fn place(resources: &str) -> Place {
    let place = Place::new();
    let resources = resources.replace("DIR", &place.path().display().to_string());
    place.file("m.yaml", format!("resources:\n{resources}"));
    place
}

pub(crate) fn plan(place: &Place) -> Ended {
    let planned = place.run(&["plan", "m.yaml", "-o", "p"]);
    assert!(matches!(planned.code, 0 | 2), "{planned:?}");
    planned
}

/// The report of an apply of the plan, and how it ended.
pub(crate) fn applied(place: &Place) -> (i32, Json) {
    let ended = place.run(&["apply", "p", "--format", "json"]);
    (ended.code, serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}")))
}

/// Returns the status of the resource with this title, its mark in the plan, and its failure or note.
pub(crate) fn of(report: &Json, title: &str) -> (String, String, String) {
    let all = report["resources"].as_array().unwrap();
    let Some(one) = all.iter().find(|one| one["title"].as_str().unwrap().ends_with(title)) else {
        return ("in_sync".to_owned(), String::new(), String::new());
    };
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let said = if one["failure"].is_null() {
        one["notes"][0].as_str().unwrap_or_default().to_owned()
    } else {
        text("failure")
    };
    (text("status"), text("plan"), said)
}

pub(crate) fn content(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap_or_default()
}

#[test]
fn stale_step_blocks_only_its_dependents() {
    let place = place(
        "  file[DIR/a]: { content: declared }\n  file[DIR/below]: { content: x, require: 'file[DIR/a]' }\n  \
         exec[behind]: { command: 'touch behind', cwd: DIR, require: 'file[DIR/below]' }\n  \
         file[DIR/b]: { content: y }\n  file[DIR/copy]: { source: DIR/source }\n  \
         file[DIR/unchanged]: { content: z }\n  file[DIR/done]: { content: w }\n",
    );
    place.file("source", "shown");
    place.file("unchanged", "z");
    plan(&place);
    place.file("a", "foreign");
    place.file("source", "not shown");
    place.file("unchanged", "foreign");
    place.file("done", "w");

    let (code, report) = applied(&place);
    assert_eq!(code, 4, "{report:#}");
    let (status, mark, why) = of(&report, "/a");
    assert_eq!((&*status, &*mark), ("failed", "stale"));
    assert!(why.starts_with("its step of the plan is stale: `ensure` was absent when the plan was made"), "{why}");
    assert!(why.ends_with("make a new plan with `kilter plan -o FILE`"), "{why}");
    assert_eq!(of(&report, "/below").0, "skipped");
    assert_eq!(of(&report, "behind").0, "skipped");
    assert_eq!(of(&report, "/b").0, "changed");
    let (status, mark, why) = of(&report, "/copy");
    assert_eq!((&*status, &*mark), ("failed", "stale"));
    assert!(why.contains("the content of its source, or the content that it replaces, has changed since"), "{why}");
    assert!(!place.path().join("copy").exists());
}

#[test]
fn a_source_that_changed_after_the_plan_is_not_copied() {
    let place = place("  file[DIR/copy]: { source: DIR/source }\n  file[DIR/other]: { content: x }\n");
    place.file("copy", "old");
    place.file("source", "shown");
    plan(&place);
    place.file("source", "not shown");
    let (code, report) = applied(&place);
    let (status, mark, why) = of(&report, "/copy");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert!(why.contains("`content` was planned"), "{why}");
    assert_eq!((content(&place, "copy"), content(&place, "other")), ("old".to_owned(), "x".to_owned()));
}

#[test]
fn changed_entry_is_neither_removed_nor_overwritten_by_plan() {
    let place = place(
        "  file[DIR/gone]: { ensure: absent }\n  file[DIR/tree]: { ensure: absent, force: true }\n  \
         file[DIR/purged]: { ensure: directory, recurse: true, purge: true }\n  \
         file[DIR/secret]: { content: { sensitive: hunter2 } }\n  file[DIR/large]: { content: x }\n  \
         file[DIR/parts]: { fragments: [DIR/part] }\n  file[DIR/copies]: { ensure: directory, recurse: true, source: \
         DIR/from }\n  file[DIR/fine]: { ensure: absent }\n",
    );
    for directory in ["tree/deep", "purged", "from/deep"] {
        fs::create_dir_all(place.path().join(directory)).unwrap();
    }
    let large = "l".repeat(2 << 20);
    let before = [
        ("gone", "old"),
        ("tree/deep/a", "old"),
        ("purged/a", "old"),
        ("secret", "old"),
        ("large", &large),
        ("part", "old"),
        ("from/deep/a", "old"),
        ("fine", "old"),
    ];
    before.iter().for_each(|(name, content)| drop(place.file(name, content)));
    plan(&place);
    let after = [
        ("gone", "precious"),
        ("tree/deep/b", "precious"),
        ("purged/a", "precious"),
        ("secret", "precious"),
        ("part", "other"),
        ("from/deep/a", "other"),
    ];
    after.iter().for_each(|(name, content)| drop(place.file(name, content)));
    // As long as before, in the middle of what is shown.
    place.file("large", "L".repeat(2 << 20));
    let (code, report) = applied(&place);
    assert_eq!(code, 4);
    for title in ["/gone", "/tree", "/purged", "/secret", "/large", "/parts", "/copies"] {
        let (status, mark, why) = of(&report, title);
        assert_eq!((&*status, &*mark), ("failed", "stale"), "{title}: {report:#}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    for name in ["gone", "tree/deep/b", "purged/a", "secret"] {
        assert_eq!(content(&place, name), "precious");
    }
    assert!(!place.path().join("parts").exists() && !place.path().join("copies").exists());
    assert!(of(&report, "/fine").0 == "changed" && !place.path().join("fine").exists());
}

/// A change of a tree after the plan, with the directory of the tree.
type TreeChange = (&'static str, fn(&std::path::Path));

#[test]
fn new_tree_whose_source_changed_after_the_plan_is_refused() {
    let changes: [TreeChange; 7] = [
        ("content", |from| fs::write(from.join("a"), "other").unwrap()),
        ("added file", |from| fs::write(from.join("deep/added"), "x").unwrap()),
        ("added directory", |from| fs::create_dir(from.join("empty")).unwrap()),
        ("removed file", |from| fs::remove_file(from.join("deep/b")).unwrap()),
        ("renamed file", |from| fs::rename(from.join("a"), from.join("c")).unwrap()),
        ("mode", |from| fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o600)).unwrap()),
        ("kind", |from| {
            fs::remove_file(from.join("a")).unwrap();
            symlink("deep/b", from.join("a")).unwrap();
        }),
    ];
    for (change, make) in changes {
        let place = place(
            "  file[DIR/to]: { ensure: directory, recurse: true, source: DIR/from }\n  \
             file[DIR/below]: { content: x, require: 'file[DIR/to]' }\n  file[DIR/other]: { content: y }\n",
        );
        fs::create_dir_all(place.path().join("from/deep")).unwrap();
        place.file("from/a", "a");
        place.file("from/deep/b", "b");
        plan(&place);
        make(&place.path().join("from"));
        let (code, report) = applied(&place);
        let (status, mark, _) = of(&report, "/to");
        assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{change}: {report:#}");
        assert_eq!(of(&report, "/below").0, "skipped", "{change}: {report:#}");
        assert_eq!(of(&report, "/other").0, "changed", "{change}: {report:#}");
        assert!(!place.path().join("to").exists(), "{change}");
    }
}

#[test]
fn plan_of_new_tree_lists_its_first_entries_and_counts_the_others() {
    for count in [19_usize, 20, 21, 40] {
        let place = place(
            "  file[DIR/to]: { ensure: directory, recurse: true, source: DIR/from }\n  \
             file[DIR/to/own]: { content: x }\n",
        );
        fs::create_dir_all(place.path().join("from/a/deep")).unwrap();
        symlink("a", place.path().join("from/link")).unwrap();
        place.file("from/own", "its own resource declares it");
        place.file("from/a/deep/x", "x");
        // The directories, the link and the file in the directory.
        for at in 4..count {
            place.file(&format!("from/f{at:02}"), "f");
        }
        let text = plan(&place).stdout;
        for line in [
            "    ensure: absent → directory\n    a: ensure: absent → directory\n    a/deep: ensure: absent → \
             directory\n",
            "    a/deep/x: ensure: absent → file\n    f04: ensure: absent → file\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let more = count.saturating_sub(20);
        let listed = text.lines().filter(|line| line.contains(": ensure: absent →")).count();
        assert_eq!(listed, count.min(20), "{text}");
        assert_eq!(text.contains(&format!("    …: ensure: and {more} more\n")), more > 0, "{text}");
        assert!(!text.contains("    own:"), "{text}");
        let (code, report) = applied(&place);
        assert_eq!(code, 0, "{report:#}");
        let made = fs::read_dir(place.path().join("to")).unwrap().count();
        // Without the directory and the file below `a`, with the declared file.
        assert_eq!(made, count - 2 + 1);
        assert_eq!(place.run(&["plan", "m.yaml"]).code, 0, "a second plan is empty");
    }
}

#[test]
fn plan_to_a_pipe_without_a_reader_can_be_ended() {
    let place = place("  file[DIR/a]: { content: a }\n");
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path().join("p"), rustix::fs::Mode::RUSR).unwrap();
    let mut child = place.command(&["plan", "m.yaml", "-o", "p"]).stdout(Stdio::null()).spawn().unwrap();
    // The command writes the plan after it has made the key. A signal before the open of the pipe does not end it.
    wait("the key", || place.path().join("state/sealing.key").exists());
    wait("the end", || {
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn plan_changes_no_resource_that_was_or_is_in_sync() {
    let place = place("  file[DIR/unchanged]: { content: z }\n  file[DIR/done]: { content: w }\n");
    place.file("unchanged", "z");
    plan(&place);
    place.file("unchanged", "foreign");
    place.file("done", "w");
    let (code, report) = applied(&place);
    let (status, mark, why) = of(&report, "/unchanged");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert!(why.contains("it was in sync when the plan was made, and now it is not"), "{why}");
    assert_eq!(content(&place, "unchanged"), "foreign");
    let (status, mark, said) = of(&report, "/done");
    assert_eq!((&*status, &*mark), ("in_sync", "not_needed"));
    assert!(said.contains("nothing is left to do"), "{said}");
    let shown = place.run(&["apply", "p"]);
    assert!(shown.stdout.contains("unchanged] refused\n"), "{shown:?}");
    assert!(shown.stdout.contains("1 step of the plan is stale and not carried out"), "{shown:?}");
}

#[test]
fn plan_shows_changes_that_no_run_makes_as_only_checked() {
    let place = place(
        "  file[DIR/a]: { content: a, meta: { policy: warn }, notify: ['exec[y]', 'exec[z]'] }
  file[DIR/b]: { content: b, meta: { noop: true } }
  file[DIR/c]: { content: c, notify: 'exec[z]' }
  exec[y]: { command: [/bin/true], refreshonly: true, notify: 'exec[x]' }
  exec[x]: { command: [/bin/true], refreshonly: true }
  exec[z]: { command: [/bin/true], refreshonly: true }
",
    );
    let plan = place.run(&["plan", "m.yaml"]);
    assert!(plan.stdout.contains("6 resources: 1 to change, 1 to refresh, 4 left out of sync"), "{plan:?}");
    let marked = |line: &&str| line.ends_with(" is only checked");
    let marked: Vec<&str> = plan.stdout.lines().filter(marked).filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(marked, ["file[DIR/a]", "file[DIR/b]", "exec[y]", "exec[x]"], "{plan:?}");
    let json: Json = serde_json::from_str(&place.run(&["plan", "m.yaml", "--format", "json"]).stdout).unwrap();
    let listed = json["resources"].as_array().unwrap();
    assert_eq!(listed.iter().filter(|one| one["only_checked"] == true).count(), 4, "{json}");
    let apply = place.run(&["apply", "m.yaml"]);
    assert!(apply.stdout.contains("6 resources: 1 changed, 1 refreshed, 4 left out of sync"), "{apply:?}");
}

#[test]
fn second_apply_of_plan_changes_nothing() {
    let place = place(
        "  file[DIR/a]: { content: x }\n  file[DIR/d]: { ensure: directory }\n  exec[e]: { command: touch e, cwd: DIR, \
         creates: DIR/e }\n",
    );
    plan(&place);
    assert_eq!(applied(&place).0, 0);
    let (code, report) = applied(&place);
    assert_eq!((code, report["counts"]["in_sync"].as_i64()), (0, Some(3)), "{report:#}");
}

#[test]
fn an_empty_file_is_neither_a_plan_nor_a_manifest() {
    let place = Place::new();
    place.file("empty", "");
    for args in [&["apply", "empty"][..], &["plan", "empty"], &["run", "empty", "--max-runtime", "1"]] {
        let ended = place.run(args);
        assert!(ended.code == 1 && ended.stderr.contains("empty is empty"), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_refresh_that_the_plan_did_not_show_is_refused() {
    let place = place(
        "  file[DIR/a]: { content: x, notify: 'exec[e]' }\n  \
         exec[e]: { command: 'test ! -e DIR/broken && echo run >>DIR/log', shell: true, refreshonly: true }\n",
    );
    place.file("broken", "");
    // A run that failed leaves a refresh that is owed, after the plan was made.
    place.file("a", "x");
    plan(&place);
    place.file("a", "y");
    assert_eq!(place.run(&["apply", "m.yaml"]).code, 4);
    fs::remove_file(place.path().join("broken")).unwrap();
    let (code, report) = applied(&place);
    let (status, mark, why) = of(&report, "e");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert!(why.contains("it would be refreshed, which the plan did not show"), "{why}");
    assert_eq!(content(&place, "log"), "");
    assert_eq!(place.run(&["apply", "m.yaml"]).code, 0);
    assert_eq!(content(&place, "log"), "run\n", "it is owed still");
}

#[test]
fn failed_attempt_does_not_make_step_stale() {
    let place = place(
        "  exec[e]: { command: 'echo try >>DIR/tries; test $(wc -l <DIR/tries) -ge 3', shell: true, creates: DIR/made, \
         verify: false, meta: { retry: 3, delay: 0 } }\n",
    );
    plan(&place);
    let (code, report) = applied(&place);
    assert_eq!((code, of(&report, "e").0.as_str()), (0, "changed"), "{report:#}");
    assert_eq!(content(&place, "tries"), "try\ntry\ntry\n");
}

#[test]
fn a_command_that_has_to_run_for_another_reason_is_the_same_step() {
    let place = place(
        "  exec[e]: { command: touch ran, cwd: DIR, unless: { command: date +%N, stdout: never }, verify: false }\n  \
         exec[off]: { command: touch off, cwd: DIR, unless: { command: cat DIR/say, stdout: stop } }\n",
    );
    place.file("say", "go");
    plan(&place);
    place.file("say", "stop");
    let (code, report) = applied(&place);
    assert_eq!((code, of(&report, "e").0.as_str()), (0, "changed"), "{report:#}");
    assert_eq!(of(&report, "off").1, "not_needed", "{report:#}");
    assert!(place.path().join("ran").exists() && !place.path().join("off").exists());
}

#[test]
fn a_dry_run_of_a_plan_names_its_stale_steps() {
    let place = place("  file[DIR/a]: { content: x }\n  file[DIR/b]: { content: y }\n");
    plan(&place);
    place.file("a", "foreign");
    let ended = place.run(&["apply", "p", "--noop", "--format", "json"]);
    let report: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, of(&report, "/a").1.as_str(), of(&report, "/b").0.as_str()), (4, "stale", "would_change"));
}

#[test]
fn changed_secret_is_not_written_and_absent_from_plan() {
    let place =
        place("  file[DIR/app]: { content: { sensitive: { file: DIR/secret } } }\n  file[DIR/b]: { content: x }\n");
    place.file("secret", "hunter2-planned");
    plan(&place);
    let kept = content(&place, "p");
    assert!(!kept.contains("hunter2") && kept.contains("should_digest"), "{kept}");
    place.file("secret", "hunter2-other");
    let (code, report) = applied(&place);
    let (status, mark, why) = of(&report, "/app");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert!(why.contains("has another sensitive value") && !report.to_string().contains("hunter2"), "{why}");
    assert!(!place.path().join("app").exists());
    place.file("secret", "hunter2-planned");
    assert_eq!(applied(&place).0, 0);
    assert_eq!(content(&place, "app"), "hunter2-planned");
}

#[test]
fn damaged_plan_is_refused_before_changes() {
    let place = place("  exec[e]: { command: touch ran, cwd: DIR }\n");
    plan(&place);
    let whole = fs::read(place.path().join("p")).unwrap();
    // Each bit is tried in kilter-runtime; here is the beginning, by which plans are known, and every so many bytes.
    let bytes = (0..20).chain((20..whole.len()).step_by(whole.len() / 40));
    for at in bytes {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        place.file("p", &flipped);
        let ended = place.run(&["apply", "p"]);
        assert_eq!(ended.code, 1, "byte {at}: {ended:?}");
        assert!(!place.path().join("ran").exists(), "byte {at}: {ended:?}");
    }
    place.file("p", &whole);
    assert_eq!(place.run(&["apply", "p"]).code, 0);
    assert!(place.path().join("ran").exists());
}

#[test]
fn a_plan_of_an_earlier_format_is_refused() {
    let place = Place::new();
    for version in [1, 2, 3, 5] {
        place.file("p", format!("{{\n  \"kilter_plan\": {version},\n  \"sources\": []\n}}\n"));
        let ended = place.run(&["apply", "p"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains(&format!("p is a plan of version {version}")), "{ended:?}");
        assert!(ended.stderr.contains("make a new plan"), "{ended:?}");
    }
}

/// A key in the place, made as the documentation says, and its public half.
fn key(place: &Place, name: &str) {
    let make = format!(
        "umask 077; openssl genpkey -algorithm ed25519 -out {name}.key && openssl pkey -in {name}.key -pubout -out \
         {name}.pub"
    );
    let made = Command::new("sh").args(["-c", &make]).current_dir(place.path()).output().unwrap();
    assert!(made.status.success(), "openssl is needed: {}", String::from_utf8_lossy(&made.stderr));
}

/// Applies a plan with another state directory, as another machine has.
fn elsewhere(place: &Place, more: &[&str]) -> Ended {
    place.run(&[&["apply", "p", "--state-dir", "elsewhere"], more].concat())
}

#[test]
fn plan_of_other_machine_needs_signature() {
    let place = place("  file[DIR/a]: { content: x }\n");
    plan(&place);
    let refused = elsewhere(&place, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("was made on another machine, by another user or with another state directory"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("kilter plan --sign KEY"), "{refused:?}");

    key(&place, "one");
    key(&place, "other");
    let refused = place.run(&["apply", "p", "--verify", "one.pub"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("is not signed, but `--verify` requires a signature"),
        "{refused:?}"
    );
    let signed = place.run(&["plan", "m.yaml", "-o", "p", "--sign", "one.key"]);
    assert_eq!(signed.code, 2, "{signed:?}");
    let refused = elsewhere(&place, &[]);
    assert!(refused.code == 1 && refused.stderr.contains("is signed with a key that is not trusted"), "{refused:?}");
    let public = content(&place, "one.pub").lines().nth(1).unwrap().to_owned();
    assert!(refused.stderr.contains(&public) && refused.stderr.contains("plan-keys/NAME.pub"), "{refused:?}");
    for here in [false, true] {
        let verify = ["--verify", "other.pub"];
        let refused =
            if here { place.run(&["apply", "p", "--verify", "other.pub"]) } else { elsewhere(&place, &verify) };
        assert!(
            refused.code == 1 && refused.stderr.contains("is signed with a key that is not trusted"),
            "{refused:?}"
        );
    }
    assert!(!place.path().join("a").exists(), "nothing was touched");
    let applied = elsewhere(&place, &["--verify", "other.pub", "--verify", "one.pub"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place, "a"), "x");

    // A user without rights trusts the keys of its own configuration.
    fs::create_dir_all(place.path().join("home/.config/kilter/plan-keys")).unwrap();
    let apply = ["apply", "p", "--state-dir", "unprivileged"];
    let refused = place.run_unprivileged(&apply);
    assert!(refused.code == 1 && refused.stderr.contains("is signed with a key that is not trusted"), "{refused:?}");
    fs::copy(place.path().join("one.pub"), place.path().join("home/.config/kilter/plan-keys/one.pub")).unwrap();
    let trusted = place.run_unprivileged(&apply);
    assert_eq!(trusted.code, 0, "{trusted:?}");
}

#[test]
fn plan_shows_origin_and_earlier_application() {
    let place = place("  file[DIR/a]: { content: x }\n  exec[always]: { command: 'true' }\n");
    let planned = plan(&place);
    let json: Json = serde_json::from_str(&content(&place, "p")).unwrap();
    let made = &json["made"];
    let text = |key: &str| made[key].as_str().unwrap_or_default();
    let origin = format!("plan {}, made on {} at {}", &text("id")[..8], text("host"), text("at"));
    assert!(!text("host").is_empty() && text("at").ends_with('Z') && text("id").len() == 32, "{made}");
    assert_eq!(planned.stderr, format!("{origin} is written to p\n"));
    let warning = format!("warning: plan {} was carried out already, at 2", &text("id")[..8]);
    // Neither a dry run nor a run that fails carries a plan out.
    assert_eq!(place.run(&["apply", "p", "--noop"]).stderr, format!("{origin}\n"));
    place.file("a", "another");
    assert_eq!(place.run(&["apply", "p"]).code, 4);
    fs::remove_file(place.path().join("a")).unwrap();
    let first = place.run(&["apply", "p"]);
    assert_eq!((first.code, first.stderr), (0, format!("{origin}\n")));
    let again = place.run(&["apply", "p"]);
    assert!(again.code == 0 && again.stderr.contains(&warning), "{again:?}");
    assert_eq!(place.run(&["--quiet", "apply", "p"]).stderr.matches(&warning).count(), 1);
    // Another plan of the same manifest is another one.
    plan(&place);
    assert!(!place.run(&["apply", "p"]).stderr.contains("already"));
}

#[test]
fn unusable_key_is_reported_before_changes() {
    let place = place("  file[DIR/a]: { content: x }\n");
    key(&place, "one");
    place.file("none.key", "hello\n");
    let sign = |key: &str| place.run(&["plan", "m.yaml", "-o", "p", "--sign", key]);
    let refused = |ended: Ended, why: &str| {
        assert!(ended.code == 1 && ended.stderr.contains(why) && ended.stdout.is_empty(), "{why}: {ended:?}");
    };
    refused(sign("gone.key"), "cannot read the key gone.key: No such file");
    refused(sign("one.pub"), "one.pub is a public key");
    place.run(&["plan", "m.yaml"]);
    fs::set_permissions(place.path().join("none.key"), fs::Permissions::from_mode(0o600)).unwrap();
    refused(sign("none.key"), "none.key is not a private key in PEM");
    fs::set_permissions(place.path().join("one.key"), fs::Permissions::from_mode(0o640)).unwrap();
    refused(sign("one.key"), "one.key has mode 0640: others may know it");
    let long = content(&place, "one.key") + &"\n".repeat(64 << 10);
    place.file("long.key", long);
    fs::set_permissions(place.path().join("long.key"), fs::Permissions::from_mode(0o600)).unwrap();
    refused(sign("long.key"), "the key long.key is longer than 65536 bytes");
    refused(sign("."), "the key . is not a file");
    fs::set_permissions(place.path().join("one.key"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!place.path().join("p").exists());
    assert_eq!(sign("one.key").code, 2);
    let verify = |key: &str| place.run(&["apply", "p", "--verify", key]);
    refused(verify("one.key"), "one.key is a private key");
    refused(verify("none.key"), "none.key is not a public key");
    refused(place.run(&["apply", "m.yaml", "--verify", "one.pub"]), "`--verify` is for plans");
    assert_eq!(verify("one.pub").code, 0);
}

#[test]
fn signed_plan_with_secrets_is_bound_to_its_machine() {
    let place = place("  file[DIR/a]: { content: { sensitive: hunter2 } }\n");
    key(&place, "one");
    let planned = place.run(&["plan", "m.yaml", "-o", "p", "--sign", "one.key"]);
    assert!(planned.code == 2 && planned.stderr.contains("can be applied here only"), "{planned:?}");
    let refused = elsewhere(&place, &["--verify", "one.pub"]);
    assert!(refused.code == 1 && refused.stderr.contains("is sealed"), "{refused:?}");
    assert_eq!(place.run(&["apply", "p", "--verify", "one.pub"]).code, 0);
}

#[test]
fn plan_output_follows_no_foreign_link() {
    let place = place("  file[DIR/a]: { content: x }\n");
    let shared = place.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    place.file("precious", "precious");
    symlink(place.path().join("precious"), shared.join("p")).unwrap();
    symlink(place.path(), shared.join("d")).unwrap();
    for path in ["shared/p", "shared/d/precious"] {
        let refused = place.run(&["plan", "m.yaml", "-o", path]);
        assert!(refused.code == 1 && refused.stderr.contains("is a symbolic link"), "{refused:?}");
        assert_eq!(content(&place, "precious"), "precious");
    }
    let written = place.run(&["plan", "m.yaml", "-o", "shared/new"]);
    assert_eq!(written.code, 2, "{written:?}");
    assert_eq!(fs::metadata(shared.join("new")).unwrap().mode() & 0o7777, 0o600);
    let names: Vec<_> = fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let refused = place.run(&["plan", "m.yaml", "-o", "shared"]);
    assert!(refused.code == 1 && refused.stderr.contains("it is a directory"), "{refused:?}");
    let printed = place.run(&["plan", "m.yaml", "-o", "/dev/stdout", "-q"]);
    assert!(printed.code == 2 && printed.stdout.contains("kilter_plan"), "{printed:?}");
}

#[test]
fn plan_is_not_written_through_a_link_of_another_user() {
    assert!(is_root(), "run this test as root: it makes a link of another user");
    let place = place("  file[DIR/a]: { content: x }\n");
    place.file("precious", "precious");
    let link = place.path().join("link");
    symlink(place.path().join("precious"), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
    let refused = place.run(&["plan", "m.yaml", "-o", "link"]);
    assert!(refused.code == 1 && refused.stderr.contains("of the user with uid 65534"), "{refused:?}");
    assert_eq!(content(&place, "precious"), "precious");
}

#[test]
fn plan_of_another_kind_of_file_shows_every_attribute_that_changes() {
    let place = place(
        "  file[DIR/link]: { content: \"declared\\n\", mode: \"0600\" }\n  \
         file[DIR/directory]: { content: x, mode: \"0640\", force: true }\n  \
         file[DIR/file]: { target: DIR/other }\n  \
         file[DIR/parts]: { fragments: [DIR/part], mode: u=rw }\n  \
         file[DIR/secret]: { content: { sensitive: hunter2 }, replace: false }\n  \
         file[DIR/to]: { ensure: directory, mode: \"0700\" }\n",
    );
    let path = |name: &str| place.path().join(name);
    for link in ["link", "parts", "secret", "to"] {
        symlink("/etc/hostname", path(link)).unwrap();
    }
    fs::create_dir(path("directory")).unwrap();
    fs::set_permissions(path("directory"), fs::Permissions::from_mode(0o755)).unwrap();
    place.file("file", "x");
    place.file("part", "part\n");
    let planned = plan(&place);
    let shown = planned.stdout.split_once("plan ").map_or(&*planned.stdout, |(steps, _)| steps);
    let expected = "~ file[DIR/link]\n    ensure: link → file\n    content: nothing → {sha256}a23c9e491c7f\n      --- DIR/link (is)\n      \
         +++ DIR/link (should)\n      @@ -0,0 +1,1 @@\n      +declared\n    mode: (none) → 0600\n";
    assert!(shown.contains(expected), "{shown}");
    for lines in [
        "~ file[DIR/directory]\n    ensure: directory → file\n    content: nothing → {sha256}2d711642b726\n",
        "    mode: 0755 → 0640\n",
        "~ file[DIR/file]\n    ensure: file → link\n    target: (none) → DIR/other\n",
        "~ file[DIR/parts]\n    ensure: link → file\n    mode: (none) → u=rw\n    content: nothing → {sha256}",
        "      +part\n",
        "~ file[DIR/secret]\n    ensure: link → file\n    content: another content (not shown: it is sensitive)\n",
        "~ file[DIR/to]\n    ensure: link → directory\n    mode: (none) → 0700\n",
    ] {
        assert!(shown.contains(lines), "{lines}\n{shown}");
    }
    let (code, report) = applied(&place);
    assert_eq!(code, 0, "{report:#}");
    let mode = |name: &str| fs::symlink_metadata(path(name)).unwrap().mode() & 0o7777;
    assert_eq!((content(&place, "link"), mode("link")), ("declared\n".to_owned(), 0o600));
    assert_eq!((content(&place, "directory"), mode("directory")), ("x".to_owned(), 0o640));
    assert_eq!(fs::read_link(path("file")).unwrap(), path("other"));
    assert_eq!((content(&place, "parts"), content(&place, "secret")), ("part\n".to_owned(), "hunter2".to_owned()));
    assert_eq!(mode("to"), 0o700);
    assert_eq!(place.run(&["plan", "m.yaml"]).code, 0, "a second plan is empty");
}

#[test]
fn another_kind_of_file_than_in_the_plan_is_refused() {
    let place = place("  file[DIR/link]: { content: x, mode: \"0600\" }\n");
    symlink("/etc/hostname", place.path().join("link")).unwrap();
    plan(&place);
    fs::remove_file(place.path().join("link")).unwrap();
    place.file("link", "precious");
    let (code, report) = applied(&place);
    let (status, mark, _) = of(&report, "/link");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert_eq!(content(&place, "link"), "precious");
}
