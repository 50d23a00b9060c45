//! Every way from what can be there to what can be wanted.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};

use kilter_model::{Change, State};
use kilter_native::FileProvider;
use kilter_provider::{Context, Mode, Placement, Provider, Query, ReadOne, Scheduling, Wanted};

use crate::harness::*;

#[test]
fn absent_path_is_created_as_each_kind() {
    let home = directory();
    let (one, two, three, four) =
        (home.path().join("file"), home.path().join("directory"), home.path().join("link"), home.path().join("any"));
    converge(&file(&one, [("content", text("hello"))]));
    converge(&file(&two, [("ensure", text("directory"))]));
    converge(&file(&three, [("target", text("nowhere"))]));
    converge(&file(&four, [("ensure", text("present"))]));
    assert_eq!(fs::read_to_string(&one).unwrap(), "hello");
    assert_eq!((mode(&one), mode(&two), mode(&four)), (0o644, 0o755, 0o644));
    assert_eq!(fs::read_link(&three).unwrap().to_str(), Some("nowhere"));
    assert_eq!(fs::read(&four).unwrap(), b"");
    assert_eq!(names(home.path()).len(), 4, "nothing temporary is left");
}

#[test]
fn files_and_links_replace_each_other_without_force() {
    let home = directory();
    let path = home.path().join("x");
    let as_file = file(&path, [("content", text("a"))]);
    let as_link = file(&path, [("target", text("/etc"))]);
    let as_directory = file(&path, [("ensure", text("directory"))]);
    converge(&as_file);
    assert_eq!(told(&converge(&as_link)), ["ensure", "target"]);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(told(&converge(&as_file)), ["ensure", "content"]);
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    converge(&as_directory);
    fs::remove_dir(&path).unwrap();
    converge(&as_link);
    converge(&as_directory);
    assert!(fs::symlink_metadata(&path).unwrap().is_dir());
    assert!(fs::metadata("/etc/passwd").is_ok(), "what the link pointed to is untouched");
}

#[test]
fn directory_is_replaced_only_with_force() {
    for (attribute, value) in [("content", "a"), ("target", "/etc")] {
        let home = directory();
        let path = home.path().join("x");
        grow(&path, &[("sub/deep", "1"), ("top", "2")]);
        symlink("/etc", path.join("sub/etc")).unwrap();
        let failure = apply(&file(&path, [(attribute, text(value))])).unwrap_err();
        assert!(failure.contains("is a directory: `force: true`"), "{failure}");
        assert!(path.join("sub/deep").exists());
        converge(&file(&path, [(attribute, text(value)), ("force", yes())]));
        assert!(!fs::symlink_metadata(&path).unwrap().is_dir());
        assert!(fs::metadata("/etc/passwd").is_ok());
    }
}

#[test]
fn preview_reports_missing_force() {
    let home = directory();
    let declared = file(home.path(), [("content", text("a"))]);
    let is = State::absent(declared.name.clone());
    let change = Change::new(&declared.name, &is, Some(&declared.should), &[]);
    let outcome = FileProvider::new().set(&Context::empty(), &[change], Mode::Preview).remove(0);
    assert!(outcome.failure.is_some_and(|failure| failure.contains("force")));
    assert!(home.path().is_dir());
}

#[test]
fn absent_removes_files_links_fifos_and_empty_directories() {
    let home = directory();
    let gone = |name: &str| file(home.path().join(name), [("ensure", text("absent"))]);
    fs::write(home.path().join("file"), "x").unwrap();
    symlink("/etc", home.path().join("link")).unwrap();
    fs::create_dir(home.path().join("directory")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, home.path().join("fifo"), fifo, 0o600.into(), 0).unwrap();
    for name in ["file", "link", "directory", "fifo"] {
        assert_eq!(told(&converge(&gone(name))), ["ensure"], "{name}");
        assert_eq!(told(&plan(&gone(name))), [""; 0], "{name}");
    }
    assert_eq!(names(home.path()), [""; 0]);
    assert_eq!(plan(&gone("not/even/its/directory")), []);
}

#[test]
fn absent_removes_a_full_directory_only_with_force() {
    let home = directory();
    let path = home.path().join("x");
    grow(&path, &[("a/b/c", "1")]);
    let failure = apply(&file(&path, [("ensure", text("absent"))])).unwrap_err();
    assert!(failure.contains("`force: true`"), "{failure}");
    converge(&file(&path, [("ensure", text("absent")), ("force", yes())]));
    assert!(!path.exists());
}

#[test]
fn present_accepts_every_kind() {
    let home = directory();
    symlink("nowhere", home.path().join("link")).unwrap();
    assert_eq!(plan(&file(home.path().join("link"), [])), []);
    assert_eq!(plan(&file(home.path(), [])), []);
}

#[test]
fn fifo_is_replaced_without_being_opened() {
    let home = directory();
    let path = home.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let declared = file(&path, [("content", text("x"))]);
    assert_eq!(plan(&declared)[0].message.as_deref(), Some("fifo → file"));
    assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    converge(&declared);
    assert!(fs::metadata(&path).unwrap().is_file());
}

#[test]
fn missing_directory_above_is_reported_with_its_path() {
    let home = directory();
    let failure = apply(&file(home.path().join("no/such/file"), [("content", text("x"))])).unwrap_err();
    assert!(failure.contains("there is no directory") && failure.contains("no/such: declare it"), "{failure}");
}

#[test]
fn get_without_declaration_returns_all_attributes() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "hello\n").unwrap();
    set_mode(&path, 0o4711);
    let provider = FileProvider::new();
    let name = path.to_str().unwrap().into();
    let state = provider.get_one(&Context::empty(), Wanted::new(&name, None)).unwrap();
    assert_eq!(state.attributes.text("ensure"), Some("file"));
    assert_eq!(state.attributes.text("mode"), Some("4711"));
    assert_eq!(state.attributes.text("content"), Some("hello\n"));
    assert!(state.attributes.text("checksum_value").is_some_and(|sum| sum.starts_with("{sha256}5891b5b522d5")));
    assert_eq!(state.attributes.get("size").and_then(kilter_model::Value::as_integer), Some(6));
    assert!(state.attributes.text("mtime").is_some_and(|time| time.ends_with('Z')));
    let queried = [Wanted::new(&name, None)];
    kilter_provider::get_checked(&provider, &Context::empty(), Query::Named(&queried)).expect("valid by the schema");
}

#[test]
fn all_files_are_not_listed() {
    let error = FileProvider::new().get(&Context::empty(), Query::All).unwrap_err();
    assert!(error.message.contains("kilter get file /etc/motd"), "{error}");
}

#[test]
fn only_slow_calls_run_on_a_worker() {
    let provider = FileProvider::new();
    let at = |declared: &DeclaredFile| provider.placement(&declared.should);
    assert_eq!(at(&file("/a", [("content", text("x"))])), Placement::Inline);
    assert_eq!(at(&file("/a", [("ensure", text("directory"))])), Placement::Inline);
    assert_eq!(at(&file("/a", [("source", text("/b"))])), Placement::Worker);
    assert_eq!(at(&file("/a", [("recurse", yes())])), Placement::Worker);
}
