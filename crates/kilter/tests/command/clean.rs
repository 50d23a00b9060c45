//! Temporary files of a killed run.

use std::path::PathBuf;

use serde_json::Value as Json;

use crate::support::*;

/// Kills its parent, which is kilter, while the new content has its temporary name.
const KILLED: &str =
    "resources:\n  file[DIR/files/x]:\n    content: new\n    validate_cmd: [sh, -c, 'kill -9 $PPID', '%']\n";
const OTHER: &str = "resources:\n  file[DIR/other]:\n    content: x\n";

/// A place in which an `apply` was killed, and the temporary file that it left.
fn killed(place: &Place) -> PathBuf {
    let files = place.path().join("files");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("x"), "old").unwrap();
    // Named like one of another process, and not like one at all.
    std::fs::write(files.join(".kilter.1-2-3-0123456789abcdef"), "").unwrap();
    std::fs::write(files.join(".kilter.conf"), "").unwrap();
    let manifest = manifest(place, "killed.yaml", KILLED);
    let output = place.command(&["apply", &manifest]).output().unwrap();
    assert_eq!(output.status.code(), None, "{output:?}");
    let found = left(place);
    assert_eq!(found.len(), 3, "{found:?}");
    found.into_iter().find(|name| !name.ends_with("abcdef") && !name.ends_with(".conf")).unwrap().into()
}

fn manifest(place: &Place, name: &str, text: &str) -> String {
    place.file(name, text.replace("DIR", &place.path().display().to_string()))
}

/// The files whose names begin like those of kilter, by their names.
fn left(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path().join("files")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".kilter.")).collect()
}

#[test]
fn clean_removes_only_temporaries_of_killed_apply() {
    let place = Place::new();
    let temporary = killed(&place);
    let listed = place.run(&["clean", "--noop", "--format", "json"]);
    let json: Json = serde_json::from_str(&listed.stdout).unwrap();
    let path = format!("DIR/files/{}", temporary.display());
    assert_eq!((listed.code, &json["noop"], &json["removed"]), (2, &true.into(), &Json::from(vec![path.clone()])));
    assert_eq!(left(&place).len(), 3);
    let cleaned = place.run(&["clean"]);
    assert_eq!((cleaned.code, cleaned.stdout), (0, format!("- {path}\n1 temporary file removed\n")));
    assert_eq!(left(&place).len(), 2, "the others are not of the process that was killed");
    let again = place.run(&["clean"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "no temporary files\n"));
    let wrong = place.run(&["clean", "nowhere"]);
    assert_eq!((wrong.code, wrong.stderr.as_str()), (1, "error: there is no directory nowhere\n"));
}

#[test]
fn run_of_other_manifest_removes_temporaries_of_killed_apply() {
    let place = Place::new();
    let other = manifest(&place, "other.yaml", OTHER);
    killed(&place);
    assert_eq!(place.run(&["plan", "-o", "plan", &other]).code, 2);
    assert_eq!(left(&place).len(), 3, "a plan changes nothing");
    assert_eq!(place.run(&["apply", "plan"]).code, 0);
    assert_eq!(left(&place).len(), 2, "a plan that is applied");
    killed(&place);
    assert_eq!(place.run(&["run", "--converged-exit", "--converged-timeout", "0", &other]).code, 0);
    assert_eq!(left(&place).len(), 2, "a run");
    killed(&place);
    assert_eq!(place.run(&["set", "file", &place.path().join("y").display().to_string(), "content=y"]).code, 0);
    assert_eq!(left(&place).len(), 2, "a set");
}

#[test]
fn run_that_ends_leaves_no_record() {
    let place = Place::new();
    let path = place.path().join("x");
    std::fs::write(&path, "old").unwrap();
    assert_eq!(place.run(&["set", "file", &path.display().to_string(), "content=new"]).code, 0);
    assert!(!place.path().join("state/temporary").exists());
    let nothing = Place::new();
    assert_eq!(nothing.run(&["clean"]).code, 0);
    assert!(!nothing.path().join("state").exists(), "nothing is made to be cleaned");
}
