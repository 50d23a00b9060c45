//! Files that are removed by age, size and name.

use std::fs::{self, File, FileTimes};
use std::time::{Duration, SystemTime};

use crate::run::{Running, manifest, wait};
use crate::support::*;

const TIDY: &str = "resources:\n  tidy[DIR/spool]: {recurse: true, age: 3d, type: mtime, matches: \"*.log\"}\n  \
                    file[DIR/spool/declared.log]: {content: x}\n";

fn old(place: &Place, name: &str) {
    let path = place.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "x").unwrap();
    let time = SystemTime::now() - Duration::from_secs(4 * 86_400);
    File::open(&path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

#[test]
fn old_files_are_planned_and_removed() {
    let place = Place::new();
    ["spool/a.log", "spool/sub/b.log", "spool/kept", "spool/declared.log"].iter().for_each(|name| old(&place, name));
    fs::write(place.path().join("spool/new.log"), "").unwrap();
    let path = manifest(&place, TIDY);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    for line in ["    a.log: ensure: file → absent\n", "    sub/b.log: ensure: file → absent\n", "1 to change"] {
        assert!(plan.stdout.contains(line), "{line}: {}", plan.stdout);
    }
    assert!(place.path().join("spool/a.log").exists(), "a plan changes nothing");
    assert_eq!(place.run(&["apply", &path]).code, 0);
    let mut left: Vec<_> =
        fs::read_dir(place.path().join("spool")).unwrap().map(|one| one.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["declared.log", "kept", "new.log", "sub"]);
    assert_eq!(place.run(&["plan", &path]).code, 0);
}

#[test]
fn saved_plan_of_a_tidy_removes_only_the_listed_files() {
    let place = Place::new();
    old(&place, "spool/a.log");
    let path = manifest(&place, TIDY);
    let saved = place.path().join("plan").to_str().unwrap().to_owned();
    assert_eq!(place.run(&["plan", "-o", &saved, &path]).code, 2);
    old(&place, "spool/later.log");
    let stale = place.run(&["apply", &saved]);
    assert_eq!(stale.code, 4, "{stale:?}");
    assert!(place.path().join("spool/a.log").exists() && place.path().join("spool/later.log").exists());
    fs::remove_file(place.path().join("spool/later.log")).unwrap();
    let applied = place.run(&["apply", &saved]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(!place.path().join("spool/a.log").exists());
}

#[test]
fn new_files_are_removed_by_run() {
    let place = Place::new();
    fs::create_dir(place.path().join("spool")).unwrap();
    fs::write(place.path().join("spool/first"), "").unwrap();
    let running = Running::begin(&place, &[&manifest(&place, "resources:\n  tidy[DIR/spool]: {recurse: true}\n")]);
    let spool = place.path().join("spool");
    wait("the first removal", || !spool.join("first").exists());
    fs::write(spool.join("second"), "").unwrap();
    wait("the second removal", || !spool.join("second").exists());
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}
