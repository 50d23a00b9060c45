//! The directory in which a script keeps what it wants to find again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

/// Writes an executable script and its metadata.
fn script(place: &Place, path: &str, metadata: &str, text: &str) {
    let directory = place.path().join(path);
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    place.file(path, text);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    if !metadata.is_empty() {
        fs::write(directory.with_extension("yaml"), metadata).unwrap();
    }
}

fn metadata(type_name: &str, convention: &str, actions: &str) -> String {
    format!(
        "provider:\n  type: {type_name}\n  invoke: {convention}\n  actions: [{actions}]\n  suitable: true\n  \
         attributes:\n    \
         name:\n    v: {{type: string}}\n"
    )
}

/// Three types whose resources are what their scripts keep, and who try to keep something while they only read.
fn keepers() -> Place {
    let place = Place::new();
    let show = "if [ -f \"$KILTER_VAR_DIR/$name\" ]; then v=$(cat \"$KILTER_VAR_DIR/$name\"); else v=none; fi\n\
                : 2>/dev/null > \"$KILTER_VAR_DIR/probe\"\n";
    script(
        &place,
        "providers/note.prov",
        &metadata("note", "simple", "find, update, watch"),
        &format!(
            "#!/bin/bash\neval \"$@\"\necho '# simple'\ncase $ral_action in\nfind) {show}\
             printf 'name: %s\\nv: %s\\n' \"$name\" \"$v\" ;;\n\
             update) printf %s \"$v\" > \"$KILTER_VAR_DIR/$name\"; echo 'ral_derive: true' ;;\n\
             watch) tail -n +1 -F \"$KILTER_VAR_DIR/events\" | sed -u 's/^/name: /' ;;\nesac\n"
        ),
    );
    script(
        &place,
        "providers/card.prov",
        &metadata("card", "json", "get, set"),
        &format!(
            "#!/bin/bash\neval \"$@\"\nname=c\ncase $ral_action in\n\
             get) {show}printf '{{\"resources\": [{{\"name\": \"c\", \"v\": \"%s\"}}]}}' \"$v\" ;;\n\
             set) printf 2 > \"$KILTER_VAR_DIR/c\"; echo '{{\"derive\": true}}' ;;\nesac\n"
        ),
    );
    script(
        &place,
        "providers/slip.prov",
        &metadata("slip", "mold", "inspect, conform"),
        &format!(
            "#!/bin/bash\nname=s\n[ \"$1\" = conform ] && printf 3 > \"$KILTER_VAR_DIR/s\"\n[ \"$1\" = inspect ] && \
             {{ {show}}}\n\
             v=$(cat \"$KILTER_VAR_DIR/s\" 2>/dev/null || echo none)\n\
             printf '{{\"kind\": \"slip\", \"name\": \"s\", \"exists\": true, \"v\": \"%s\"}}' \"$v\"\n"
        ),
    );
    place
}

const KEPT: &str = "resources:\n  note[n]: {v: '1'}\n  card[c]: {v: '2'}\n  slip[s]: {v: '3'}\n";

#[test]
fn scripts_keep_files_in_var_dir() {
    let place = keepers();
    let manifest = place.file("m.yaml", KEPT);
    let planned = place.run(&["-I", ".", "plan", &manifest]);
    assert!(planned.stdout.contains("3 to change"), "{planned:?}");
    let providers = place.path().join("state/scripts/providers");
    assert!(!providers.exists(), "who only reads makes nothing");
    let applied = place.run(&["-I", ".", "apply", &manifest]);
    assert_eq!(applied.code, 0, "{applied:?}");
    for (whose, name, v) in [("note.note", "n", "1"), ("card.card", "c", "2"), ("slip.slip", "s", "3")] {
        let directory = providers.join(whose);
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o7777, 0o700, "{whose}");
        assert_eq!(content(&directory.join(name)), v);
        assert!(!directory.join("probe").exists(), "who only reads cannot write there");
    }
    let again = place.run(&["-I", ".", "apply", &manifest]);
    assert!(again.stdout.contains("3 unchanged"), "{again:?}");
    let got = place.run(&["-I", ".", "get", "note", "n"]);
    assert_eq!(got.stdout, "note[n]\n  v  1\n", "{got:?}");
}

#[test]
fn recording_with_var_dir_replays_without_one() {
    let place = keepers();
    let manifest = place.file("m.yaml", KEPT);
    let recorded = place.run(&["-I", ".", "provider", "record", "r.jsonl", "apply", &manifest]);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    fs::remove_dir_all(place.path().join("providers")).unwrap();
    let elsewhere = place.path().join("elsewhere");
    let replay = place.command(&["provider", "replay", "r.jsonl"]).env("KILTER_STATE_DIR", &elsewhere).output();
    let replayed = place.ended(replay.unwrap());
    // What runs side by side comes in any order.
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((replayed.code, sorted(&replayed.stdout)), (0, sorted(&recorded.stdout)), "{}", replayed.stderr);
    assert!(!elsewhere.exists());
}

#[test]
fn foreign_var_dir_is_not_used() {
    let place = keepers();
    let manifest = place.file("m.yaml", "resources:\n  note[n]: {v: '1'}\n");
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let providers = place.path().join("state/scripts/providers");
    fs::create_dir_all(&providers).unwrap();
    for directory in providers.ancestors().take(3) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, providers.join("note.note")).unwrap();
    let applied = place.run(&["-I", ".", "apply", &manifest]);
    assert!(applied.stderr.contains("it has no directory in KILTER_VAR_DIR: "), "{applied:?}");
    assert!(
        applied.stderr.contains("state/scripts/providers/note.note is no directory: it must be a directory of"),
        "{applied:?}"
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn watch_reads_var_dir_of_its_script() {
    let place = keepers();
    let path = manifest(&place, "resources:\n  note[n]: {v: '1'}\n");
    let directory = place.path().join("state/scripts/providers/note.note");
    fs::create_dir_all(&directory).unwrap();
    for directory in directory.ancestors().take(4) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(directory.join("events"), "").unwrap();
    let running = Running::begin(&place, &["-I", ".", &path]);
    wait("the note", || content(&directory.join("n")) == "1");
    fs::write(directory.join("n"), "other").unwrap();
    fs::write(directory.join("events"), "n\n").unwrap();
    wait("the note, mended", || content(&directory.join("n")) == "1");
    running.end();
}
