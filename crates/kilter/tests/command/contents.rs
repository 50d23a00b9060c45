//! Contents of files beside the manifest: `content: { file: PATH }`.

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const MANIFEST: &str =
    "resources:\n  file[DIR/a]: {content: {file: files/a}}\n  file[DIR/b]: {content: {file: files/b}}\n";

/// Bytes that are no UTF-8.
const BYTES: &[u8] = b"\x7fELF\x00\xff\xfe";

/// A text with a byte order mark, which stays.
const TEXT: &str = "\u{feff}${no} {{ expression }}\r\n";

fn with_files(place: &Place) -> String {
    std::fs::create_dir(place.path().join("files")).unwrap();
    place.file("files/a", TEXT);
    place.file("files/b", BYTES);
    manifest(place, MANIFEST)
}

fn bytes(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path().join(name)).unwrap()
}

#[test]
fn contents_arrive_unchanged() {
    let place = Place::new();
    let path = with_files(&place);
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!((bytes(&place, "a"), bytes(&place, "b")), (TEXT.as_bytes().to_vec(), BYTES.to_vec()));
    assert_eq!(place.run(&["plan", &path]).code, 0);
}

#[test]
fn saved_plan_contains_them() {
    let place = Place::new();
    let path = with_files(&place);
    let plan = place.path().join("a.plan").display().to_string();
    assert_eq!(place.run(&["plan", &path, "-o", &plan]).code, 2);
    std::fs::remove_dir_all(place.path().join("files")).unwrap();
    let applied = place.run(&["apply", &plan]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!((bytes(&place, "a"), bytes(&place, "b")), (TEXT.as_bytes().to_vec(), BYTES.to_vec()));
}

#[test]
fn run_takes_up_an_edit() {
    let place = Place::new();
    let running = Running::begin(&place, &[&with_files(&place)]);
    wait("the first apply", || content(&place.path().join("a")) == TEXT);
    place.file("files/a", "edited");
    wait("the edit", || content(&place.path().join("a")) == "edited");
    running.end();
}

#[test]
fn run_takes_up_an_edited_secret_and_reports_a_removed_one() {
    let place = Place::new();
    place.file("secret", "first\n");
    let text = "resources:\n  file[DIR/a]: { content: { sensitive: { file: DIR/secret } } }\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the first secret", || content(&place.path().join("a")) == "first");
    place.file("secret", "second\n");
    wait("the second secret", || content(&place.path().join("a")) == "second");
    std::fs::remove_file(place.path().join("secret")).unwrap();
    wait("the failure", || running.told("cannot fetch the secret") > 0);
    running.end();
}

#[test]
fn each_problem_has_its_place() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("files")).unwrap();
    place.file("files/b", BYTES);
    let text = "resources:\n  file[DIR/a]: {content: {file: files/none}}\n  file[DIR/b]: {content: {file: [x]}}\n  \
                exec[c]: {command: {file: files/b}}\n  file[DIR/d]: {source: files/b}\n";
    let refused = place.run(&["plan", &manifest(&place, text)]);
    assert_eq!(refused.code, 1);
    for told in [
        "cannot read the content `files/none`: cannot read DIR/files/none: No such file or directory",
        "`file` is the path of a file, relative to the manifest",
        "the content of `files/b` is not a text, and this attribute takes no bytes",
        "a file beside the manifest is `content: { file: PATH }`",
    ] {
        assert!(refused.stderr.contains(told), "{told}: {}", refused.stderr);
    }
}
