//! `kilter undo`.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::run::{Running, content, wait};
use crate::support::*;

fn manifest(place: &Place, resources: &str) -> String {
    place.file("site.yaml", format!("resources:\n{resources}").replace("DIR", &place.path().display().to_string()))
}

#[test]
fn undo_restores_content_mode_links_and_absence_in_reverse_order() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("old"), [b'x', 0, 255, b'\n']).unwrap();
    std::fs::set_permissions(path("old"), PermissionsExt::from_mode(0o640)).unwrap();
    symlink("somewhere", path("link")).unwrap();
    std::fs::write(path("gone"), "kept\n").unwrap();
    std::fs::write(path("big"), vec![7; 200_000]).unwrap();
    let site = manifest(
        &place,
        "  file:\n    DIR/old: { content: new, mode: '0600' }\n    DIR/link: { ensure: link, target: elsewhere }\n    \
         DIR/gone: { ensure: absent }\n    DIR/d: { ensure: directory }\n    DIR/d/e: { ensure: directory }\n    \
         DIR/d/e/f: { content: new }\n    DIR/big: { content: small }\n",
    );
    assert_eq!(place.run(&["apply", &site]).code, 0);
    let planned = place.run(&["undo", "last", "--noop"]);
    assert_eq!(planned.code, 2, "{} {}", planned.stdout, planned.stderr);
    assert!(planned.stdout.contains("7 resources: 7 to change") && path("d/e/f").exists(), "{}", planned.stdout);
    let ended = place.run(&["undo", "last"]);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(std::fs::read(path("old")).unwrap(), [b'x', 0, 255, b'\n']);
    assert_eq!(std::fs::metadata(path("old")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_link(path("link")).unwrap().to_str(), Some("somewhere"));
    assert_eq!(content(&path("gone")), "kept\n");
    assert_eq!(std::fs::read(path("big")).unwrap(), vec![7; 200_000]);
    assert!(!path("d").exists());
    // The undo is a run, and can be undone.
    assert_eq!(place.run(&["undo", "last"]).code, 0);
    assert_eq!((content(&path("old")), content(&path("d/e/f"))), ("new".to_owned(), "new".to_owned()));
    // An apply after an undo repairs no drift.
    assert_eq!(place.run(&["undo", "last"]).code, 0);
    assert_eq!(place.run(&["apply", &site]).code, 0);
    assert!(place.run(&["history", "-n", "1"]).stdout.contains("7 changed"));
}

#[test]
fn undo_last_undoes_the_newest_run_that_changed_resources() {
    let place = Place::new();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    let site = manifest(&place, "  file:\n    DIR/a: { content: x }\n");
    assert_eq!(place.run(&["apply", &site]).code, 0);
    let run = |line: usize| {
        let listed = place.run(&["history", "--format", "json"]).stdout;
        let run: serde_json::Value = serde_json::from_str(listed.lines().nth(line).unwrap()).unwrap();
        run["run"].to_string()
    };
    let changing = run(0);
    // A new declaration that is in sync already: the history records this run, which changes nothing.
    std::fs::write(&b, "x").unwrap();
    let site = manifest(&place, "  file:\n    DIR/a: { content: x }\n    DIR/b: { content: x }\n");
    assert_eq!(place.run(&["apply", &site]).code, 0);
    assert_ne!(run(0), changing);
    let unchanged = place.run(&["undo", &run(0)]);
    let says = format!("there is nothing to undo: no change of run {} is on record", run(0));
    assert!(unchanged.code == 0 && unchanged.stderr.contains(&says), "{}", unchanged.stderr);
    let planned = place.run(&["undo", "last", "--noop"]);
    let head = format!("undo of run {changing} (apply, ");
    assert!(planned.code == 2 && planned.stderr.starts_with(&head), "{} {}", planned.stdout, planned.stderr);
    assert_eq!(place.run(&["undo", "last"]).code, 0);
    assert!(!a.exists() && b.exists());
    let listed = place.run(&["history", "-n", "1"]).stdout;
    assert!(listed.contains(&format!("undo run {changing}")), "{listed}");
}

#[test]
fn undo_last_passes_over_a_failed_run_that_changed_nothing() {
    let place = Place::new();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    assert_eq!(place.run(&["apply", &manifest(&place, "  file:\n    DIR/a: { content: x }\n")]).code, 0);
    std::fs::create_dir_all(b.join("entry")).unwrap();
    let site = manifest(&place, "  file:\n    DIR/b: { content: x }\n");
    assert_eq!(place.run(&["apply", &site]).code, 4);
    let site = manifest(&place, "  file:\n    DIR/missing/c: { content: x }\n");
    assert_eq!(place.run(&["apply", &site]).code, 4);
    let ended = place.run(&["undo", "last"]);
    assert!(ended.code == 0 && ended.stdout.contains("1 resource: 1 changed"), "{ended:?}");
    assert!(!a.exists());
}

#[test]
fn merged_mapping_is_restored_without_the_keys_of_the_merge() {
    let place = Place::new();
    let earlier = "{\n  \"o\": {\n    \"a\": 1,\n    \"b\": 9\n  }\n}\n";
    place.file("o.json", earlier);
    let resource = "  structured[m]: { path: DIR/o.json, key: o, value: { b: 2, c: 3 }, merge: true }\n";
    assert_eq!(place.run(&["apply", &manifest(&place, resource)]).code, 0);
    assert!(content(&place.path().join("o.json")).contains("\"c\": 3"));
    let ended = place.run(&["undo", "last"]);
    assert!(ended.code == 0 && ended.stdout.contains("1 changed"), "{ended:?}");
    assert_eq!(content(&place.path().join("o.json")), earlier);
    // `reverse` restores the same.
    let reversed = resource.replace("merge: true", "merge: true, meta: { reverse: true }");
    assert_eq!(place.run(&["apply", &manifest(&place, &reversed)]).code, 0);
    assert!(content(&place.path().join("o.json")).contains("\"c\": 3"));
    let ended = place.run(&["apply", &manifest(&place, "  file[DIR/x]: { content: x }\n")]);
    assert_eq!((ended.code, content(&place.path().join("o.json")).as_str()), (0, earlier), "{ended:?}");
}

#[test]
fn changes_that_cannot_be_undone_are_named_before_anything_is_done() {
    let place = Place::new();
    let site = manifest(
        &place,
        "  file:\n    DIR/a: { content: new }\n  exec:\n    run:\n      command: [/bin/touch, DIR/t]\n      creates: \
         DIR/t\n",
    );
    assert_eq!(place.run(&["apply", &site]).code, 0);
    let refused = place.run(&["undo", "last"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for expected in ["cannot be undone: exec[run]", "1 of 2 changes cannot be undone; nothing was changed", "--partly"]
    {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert!(place.path().join("a").exists());
    assert_eq!(place.run(&["undo", "last", "--partly"]).code, 0);
    assert!(!place.path().join("a").exists() && place.path().join("t").exists());
}

#[test]
fn run_whose_resources_were_changed_again_is_not_undone_over_the_later_change() {
    let place = Place::new();
    let file = place.path().join("a");
    let apply = |text: &str| {
        let site = manifest(&place, &format!("  file:\n    DIR/a: {{ content: {text} }}\n"));
        assert_eq!(place.run(&["apply", &site]).code, 0);
    };
    ["one", "two", "three"].into_iter().for_each(apply);
    let listed = place.run(&["history", "--format", "json"]).stdout;
    let oldest: serde_json::Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    let refused = place.run(&["undo", &oldest["run"].to_string()]);
    assert!(refused.code == 1 && refused.stderr.contains("has changed it again"), "{}", refused.stderr);
    assert_eq!(content(&file), "three");
    let resource = format!("file[{}]", file.display());
    assert_eq!(place.run(&["undo", &resource]).code, 0);
    assert_eq!(content(&file), "two");
    let time = oldest["ended"].as_str().unwrap();
    assert_eq!(place.run(&["undo", &resource, "--to", time]).code, 0);
    assert_eq!(content(&file), "one");
    assert_eq!(place.run(&["undo", "--to", "1h"]).code, 0);
    assert!(!file.exists());
}

#[test]
fn object_that_changed_its_resource_is_restored_in_reverse_order() {
    let place = Place::new();
    let file = place.path().join("f.ini");
    std::fs::write(&file, "k = 0\n").unwrap();
    for (title, value) in [("a", 1), ("b", 2)] {
        let resource = format!("  ini[{title}]: {{path: DIR/f.ini, setting: k, value: {value}}}\n");
        assert_eq!(place.run(&["apply", &manifest(&place, &resource)]).code, 0);
    }
    let ended = place.run(&["undo", "--to", "1h"]);
    assert_eq!((ended.code, content(&file).as_str()), (0, "k = 0\n"), "{ended:?}");
}

#[test]
fn resource_that_was_never_applied_leaves_the_manifest_without_a_name() {
    let place = Place::new();
    let resources = "  file:\n    DIR/missing/a: { content: x }\n    DIR/gone: { ensure: absent }\n    DIR/edited: { \
                     content: x }\n    DIR/c: { content: c }\n";
    assert_eq!(place.run(&["apply", &manifest(&place, resources)]).code, 4);
    // A change that failed after an earlier one.
    let edited = resources.replace("DIR/edited: { content: x }", "DIR/edited: { ensure: directory }");
    assert_eq!(place.run(&["apply", &manifest(&place, &edited)]).code, 4);
    let site = manifest(&place, "  file:\n    DIR/c: { content: c }\n");
    let kept = "no longer declared, and left as they are: file[DIR/edited]\n";
    for words in [&["plan", &site][..], &["apply", &site]] {
        let ended = place.run(words);
        assert!(ended.code == 0 && ended.stderr == kept, "{words:?}: {} {}", ended.stdout, ended.stderr);
    }
    // `run` finds resources that left by itself.
    let site = manifest(&place, "  file:\n    DIR/missing/a: { content: x }\n    DIR/c: { content: c }\n");
    assert_eq!(place.run(&["apply", &site]).code, 4);
    let running = Running::begin(&place, &[&manifest(&place, "  file:\n    DIR/d: { content: d }\n")]);
    let left = format!("no longer declared, and left as they are: file[{}/c]\n", place.path().display());
    wait("the name of the resource that left", || running.told(&left) == 1);
    running.terminate();
    running.end();
}

#[test]
fn resources_that_leave_the_manifest_stay_are_removed_or_reverted() {
    let place = Place::new();
    let (new, old) = (place.path().join("new"), place.path().join("old"));
    let both = "  file:\n    DIR/new: { content: x }\n    DIR/old: { content: changed }\n    DIR/c: { content: c }\n";
    let one = "  file:\n    DIR/c: { content: c }\n";
    let begin = || {
        std::fs::write(&old, "theirs").unwrap();
        assert_eq!(place.run(&["apply", &manifest(&place, both)]).code, 0);
        manifest(&place, one)
    };
    let site = begin();
    let kept = "no longer declared, and left as they are: file[DIR/new], file[DIR/old]\n";
    for words in [&["plan", &site][..], &["apply", &site]] {
        let ended = place.run(words);
        assert!(ended.code == 0 && ended.stderr == kept, "{words:?}: {} {}", ended.stdout, ended.stderr);
    }
    assert_eq!(place.run(&["apply", &site]).stderr, "", "it is said once");
    assert_eq!((content(&new).as_str(), content(&old).as_str()), ("x", "changed"));

    let site = begin();
    let planned = place.run(&["plan", "--released", "remove", &site]);
    assert!(planned.code == 2 && planned.stdout.contains("- file[DIR/new]"), "{}", planned.stdout);
    let ended = place.run(&["apply", "--released", "remove", &site]);
    assert!(
        ended.code == 0 && ended.stderr.contains("left as they are: file[DIR/old]"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    assert!(ended.stdout.contains("it is no longer declared"), "{}", ended.stdout);
    assert!(!new.exists() && content(&old) == "changed");

    let site = begin();
    assert_eq!(place.run(&["apply", "--released", "revert", &site]).code, 0);
    assert!(!new.exists() && content(&old) == "theirs");
    let again = place.run(&["apply", "--released", "revert", &site]);
    assert!(again.code == 0 && again.stdout.contains("1 resource: 1 unchanged"), "{} {}", again.stdout, again.stderr);

    let site = begin();
    let of_old = format!("file[{}]=revert", old.display());
    let ended = place.run(&["apply", "--released", "file=keep", "--released", &of_old, &site]);
    assert!(ended.code == 0 && ended.stderr.contains("left as they are: file[DIR/new]"), "{ended:?}");
    assert_eq!((content(&new).as_str(), content(&old).as_str()), ("x", "theirs"));
    for (rule, why) in
        [("delete", "`delete` is not keep, remove or revert"), ("file[x=keep", "write a type or a resource before `=`")]
    {
        let ended = place.run(&["apply", "--released", rule, &site]);
        assert!(ended.code == 1 && ended.stderr.contains(why), "{ended:?}");
    }
    let site = begin();
    let mistyped = place.run(&["plan", "--released", "fiel=remove", &site]);
    assert!(mistyped.code == 1 && mistyped.stderr.contains("did you mean `file`?"), "{mistyped:?}");
}

#[test]
fn secret_that_an_undo_removes_and_restores_is_shown_nowhere() {
    let place = Place::new();
    let site = manifest(&place, "  file:\n    DIR/s: { content: { sensitive: planted-secret }, mode: '0644' }\n");
    assert_eq!(place.run(&["apply", &site]).code, 0);
    for _ in 0..3 {
        let ended = place.run(&["undo", "last"]);
        assert!(ended.code == 0 && !ended.stdout.contains("planted-secret"), "{}", ended.stdout);
        assert!(!place.run(&["history", "export"]).stdout.contains("planted-secret"));
    }
    assert!(!place.path().join("s").exists());
}

#[test]
fn undo_says_why_it_shows_no_content_that_the_run_did_not_declare() {
    let place = Place::new();
    place.file("gone", "theirs");
    let site = manifest(&place, "  file[DIR/gone]: { ensure: absent }\n");
    let why = "saved contents that the undone run did not declare";
    assert_eq!(place.run(&["apply", &site]).code, 0);
    let ended = place.run(&["undo", "last"]);
    assert!(ended.code == 0 && ended.stderr.contains(why) && !ended.stdout.contains("theirs"), "{ended:?}");
    let ended = place.run(&["undo", "last"]);
    assert!(ended.code == 0 && !ended.stderr.contains(why), "{ended:?}");
}

#[test]
fn files_that_lines_and_settings_created_are_removed_unless_they_have_other_content() {
    let place = Place::new();
    place.file("present.conf", "");
    let site = manifest(
        &place,
        "  file[DIR/d]: { ensure: directory }\n  line:\n    a: { path: DIR/d/lines, line: a, create: true }\n    \
         b: { path: DIR/d/lines, line: b, create: true }\n    c: { path: DIR/other, line: c, create: true }\n    \
         p: { path: DIR/present.conf, line: p, create: true }\n  \
         ini:\n    s: { path: DIR/d/app.ini, section: S, setting: x, value: 1, create: true }\n    \
         t: { path: DIR/d/app.ini, section: T, setting: y, value: 2, create: true }\n  \
         structured[j]: { path: DIR/d/app.json, key: k, value: 1, create: true }\n",
    );
    assert_eq!(place.run(&["apply", &site]).code, 0);
    assert_eq!(content(&place.path().join("d/app.ini")), "[S]\nx = 1\n\n[T]\ny = 2\n");
    place.file("other", "c\nof another program\n");
    let ended = place.run(&["undo", "last"]);
    let left = std::fs::read_dir(place.path().join("d"))
        .map(|entries| entries.flatten().map(|one| one.path()).collect::<Vec<_>>());
    assert_eq!(ended.code, 0, "{left:?} {} {}", ended.stdout, ended.stderr);
    assert!(left.is_err());
    assert_eq!(content(&place.path().join("other")), "of another program\n");
    assert_eq!(content(&place.path().join("present.conf")), "");
}

#[test]
fn restorations_follow_the_reverse_order_of_the_changes() {
    let place = Place::new();
    // A directory with an entry cannot be removed: its entry, of another type, has to go before.
    let site = manifest(
        &place,
        "  file[DIR/d]: { ensure: directory, before: 'line[a]' }\n  line[a]: { path: DIR/d/x, line: a, create: true, \
         meta: { autoedge: false }, before: 'file[DIR/e]' }\n  file[DIR/e]: { ensure: directory }\n",
    );
    assert_eq!(place.run(&["apply", &site]).code, 0);
    place.file("e/stays", "");
    let ended = place.run(&["undo", "last"]);
    assert_eq!(ended.code, 4, "{} {}", ended.stdout, ended.stderr);
    // The failure of the first restoration blocks none of the others.
    assert!(ended.stdout.contains("3 resources: 2 changed, 1 failed"), "{}", ended.stdout);
    assert!(!place.path().join("d").exists());
}

#[test]
fn line_and_entries_of_files_are_undone() {
    let place = Place::new();
    place.file("conf", "first\n");
    place.file("hosts", "127.0.0.1 localhost\n");
    let site = manifest(
        &place,
        "  line:\n    new: { path: DIR/conf, line: added }\n  host:\n    www.example: { ip: 10.0.0.1, target: \
         DIR/hosts }\n",
    );
    assert_eq!(place.run(&["apply", &site]).code, 0);
    let ended = place.run(&["undo", "last"]);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(content(&place.path().join("conf")), "first\n");
    assert_eq!(content(&place.path().join("hosts")), "127.0.0.1 localhost\n");
}

#[test]
fn key_that_did_not_exist_is_removed_by_an_undo() {
    let place = Place::new();
    let declared = "  kv[plain]: {value: \"1\"}\n  kv[named]: {key: schema/version, value: \"3\"}\n  \
         kv[own]: {key: own, mapped: true, value: \"4\"}\n  kv[restored]: {key: other, value: \"5\", meta: {reverse: \
         true}}\n";
    let applied = manifest(&place, declared);
    let values = |place: &Place| {
        let directory = place.path().join("state/kept");
        let files = |name: &str| std::fs::read_dir(directory.join(name)).map_or(0, Iterator::count);
        (files("kv"), files("kv.mapped"))
    };
    for undone in [&["last"][..], &["kv[plain]", "kv[named]", "kv[own]", "kv[restored]"]] {
        let ended = place.run(&["apply", &applied]);
        assert_eq!((ended.code, values(&place)), (0, (3, 1)), "{}{}", ended.stdout, ended.stderr);
        for subject in undone {
            let ended = place.run(&["undo", subject]);
            assert!(ended.stdout.contains("ensure: present → absent"), "{subject}: {}{}", ended.stdout, ended.stderr);
        }
        assert_eq!(values(&place), (0, 0), "{undone:?}");
    }
    // An undo restores an earlier value under the same key.
    assert_eq!(place.run(&["apply", &applied]).code, 0);
    let applied = manifest(&place, &declared.replace("\"3\"", "\"7\""));
    assert_eq!(place.run(&["apply", &applied]).code, 0);
    let ended = place.run(&["undo", "kv[named]"]);
    assert!(ended.stdout.contains("value: 7 → 3"), "{}{}", ended.stdout, ended.stderr);
    // A key of a resource that leaves the manifest is removed again by `reverse`.
    manifest(&place, "  kv[plain]: {value: \"1\"}\n");
    let ended = place.run(&["apply", &applied]);
    assert!(ended.stdout.contains("kv[restored]") && values(&place).0 == 2, "{}{}", ended.stdout, ended.stderr);
}
