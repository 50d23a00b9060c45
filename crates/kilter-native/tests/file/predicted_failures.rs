//! Failures that a preview predicts, with the same text as the failure of the change.

use std::fs;
use std::os::unix::fs::symlink;

use kilter_model::{Attributes, Change, State};
use kilter_native::FileProvider;
use kilter_provider::{Context, Mode, PreviewContext, Provider};

use crate::harness::*;

/// Other resources of a catalog.
#[derive(Default)]
struct Others {
    declared: Vec<(&'static str, String, Attributes)>,
    is_open: bool,
}

impl PreviewContext for Others {
    fn may_change_before(&self, _: &str) -> bool {
        self.is_open
    }

    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        let mut all = self.declared.iter();
        all.find(|(of, other, _)| *of == type_name && other == name).map(|(_, _, should)| should)
    }
}

impl Others {
    fn with(mut self, other: DeclaredFile) -> Others {
        self.declared.push(("file", other.name.to_string(), other.should));
        self
    }
}

fn previewed(others: &Others, declared: &DeclaredFile) -> Option<String> {
    let cx = Context::empty().with_noop(true).with_preview_context(others);
    let found = found(&cx, declared).expect("it can be read");
    let (is, should, differences) = (&found.state, Some(&declared.should), &found.differences[..]);
    let change = Change::new(&declared.name, is, should, differences);
    FileProvider::new().set(&cx, &[change], Mode::Preview).remove(0).failure.map(Into::into)
}

/// Expects that the preview says what the change says, and that pending changes of others keep it from that.
fn foreseen(declared: &DeclaredFile) -> String {
    let failure = previewed(&Others::default(), declared).expect("it is foreseen");
    assert_eq!(apply(declared).expect_err("it was foreseen"), failure);
    assert_eq!(previewed(&Others { is_open: true, ..Others::default() }, declared), None);
    failure
}

#[test]
fn preflight_reports_obstacle_unless_forced() {
    let home = directory();
    grow(home.path(), &[("x/y", "")]);
    let path = home.path().join("x");
    for (attribute, value) in [("content", text("a")), ("target", text("a")), ("ensure", text("absent"))] {
        assert!(foreseen(&file(&path, [(attribute, value.clone())])).contains("is a directory: `force: true`"));
        assert_eq!(previewed(&Others::default(), &file(&path, [(attribute, value), ("force", yes())])), None);
    }
    let emptied = Others::default().with(file(path.join("y"), [("ensure", text("absent"))]));
    assert_eq!(previewed(&emptied, &file(&path, [("ensure", text("absent"))])), None);
    let gone = Others::default().with(file(home.path(), [("ensure", text("absent")), ("force", yes())]));
    assert_eq!(previewed(&gone, &file(&path, [("content", text("a"))])), None);
}

#[test]
fn preflight_reports_obstacle_below_copied_tree() {
    let home = directory();
    grow(home.path(), &[("source/x", "a"), ("copy/x/y", "")]);
    let source = path_text(&home.path().join("source"));
    let failure =
        foreseen(&file(home.path().join("copy"), [("source", source), ("recurse", yes()), ("mode", text("0755"))]));
    assert!(failure.contains("copy/x is a directory"), "{failure}");
}

#[test]
fn preflight_reports_source_that_cannot_be_copied() {
    let home = directory();
    grow(home.path(), &[("tree/x", "a")]);
    let copy = |source: &str| file(home.path().join("copy"), [("source", path_text(&home.path().join(source)))]);
    assert!(foreseen(&copy("tree")).contains("is a directory: `recurse: true`"));
    assert!(foreseen(&copy("missing")).contains("cannot read the source"));
    let brought = Others::default().with(file(home.path().join("missing"), [("content", text("a"))]));
    assert_eq!(previewed(&brought, &copy("missing")), None);
    let tree = file(home.path().join("copy"), [("source", path_text(&home.path().join("no"))), ("recurse", yes())]);
    assert!(foreseen(&tree).contains("cannot read the source"));
}

#[test]
fn preflight_reports_missing_directory() {
    let home = directory();
    let below = home.path().join("a/b/x");
    let declared = || file(&below, [("content", text("a"))]);
    assert!(foreseen(&declared()).contains("there is no directory"));
    let made = |path: &str| file(home.path().join(path), [("ensure", text("directory"))]);
    let half = Others::default().with(made("a"));
    assert!(previewed(&half, &declared()).is_some(), "nothing makes a/b");
    assert_eq!(previewed(&half.with(made("a/b")), &declared()), None);
    let linked = Others::default().with(file(home.path().join("a"), [("target", text("/elsewhere"))]));
    assert_eq!(previewed(&linked, &declared()), None);
    let source = text("/usr/share");
    let copied = Others::default().with(file(home.path().join("a"), [("source", source), ("recurse", yes())]));
    assert_eq!(previewed(&copied, &declared()), None);
    assert_eq!(previewed(&Others::default(), &file(&below, [("ensure", text("absent"))])), None);
}

#[test]
fn preflight_accepts_directory_created_through_link() {
    let home = directory();
    grow(home.path(), &[("real/x", "")]);
    symlink("real", home.path().join("link")).unwrap();
    symlink("later", home.path().join("dangling")).unwrap();
    let below = |path: &str| file(home.path().join(path), [("content", text("a"))]);
    assert!(previewed(&Others::default(), &below("link/new/x")).is_some());
    let made = Others::default().with(file(home.path().join("real/new"), [("ensure", text("directory"))]));
    assert_eq!(previewed(&made, &below("link/new/x")), None);
    assert_eq!(previewed(&Others::default(), &below("dangling/x")), None, "nobody knows what comes there");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3);
}

#[test]
fn preflight_reports_missing_owner() {
    let home = directory();
    let declared =
        |attribute| file(home.path().join("x"), [("content", text("a")), (attribute, text("no-such-account"))]);
    assert_eq!(foreseen(&declared("owner")), "the user `no-such-account` does not exist");
    assert_eq!(foreseen(&declared("group")), "the group `no-such-account` does not exist");
    let brings = |type_name| Others {
        declared: vec![(type_name, "no-such-account".to_owned(), Attributes::new())],
        ..Others::default()
    };
    assert_eq!(previewed(&brings("user"), &declared("owner")), None);
    assert_eq!(previewed(&brings("group"), &declared("group")), None);
    assert_eq!(previewed(&brings("user"), &declared("group")), None, "a user may bring a group");
    assert!(previewed(&brings("group"), &declared("owner")).is_some());
}

#[test]
fn preflight_skips_files_in_sync() {
    let home = directory();
    let absent = file(home.path().join("no/x"), [("ensure", text("absent"))]);
    let is = State::absent(absent.name.clone());
    let change = Change::new(&absent.name, &is, None, &[]);
    assert!(FileProvider::new().set(&Context::empty(), &[change], Mode::Preview)[0].is_done());
}
