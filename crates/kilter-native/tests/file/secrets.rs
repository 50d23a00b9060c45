//! Secrets that are copied, and what a plan keeps of what it is based on.

use std::fs::{self, File};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use kilter_model::{Attributes, Value};
use kilter_native::FileProvider;
use kilter_provider::{Context, Interrupt, Predict, PreviewContext, Wanted};

use crate::harness::*;

/// The other files of a catalog.
struct Others(Vec<DeclaredFile>);

impl PreviewContext for Others {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        let found = self.0.iter().find(|other| type_name == "file" && other.name == name);
        found.map(|other| &other.should)
    }
}

fn basis(cx: &Context<'_>, declared: &DeclaredFile) -> Value {
    let found = found(cx, declared).expect("it can be read");
    let wanted = Wanted::new(&declared.name, Some(&declared.should));
    FileProvider::new().basis(cx, wanted, &found).expect("something is read")
}

fn basis_alone(declared: &DeclaredFile) -> Value {
    basis(&Context::empty(), declared)
}

#[test]
fn copy_of_a_file_with_a_sensitive_content_is_treated_like_one() {
    let home = directory();
    grow(home.path(), &[("s/key", "1234"), ("s/other", "x"), ("file", "old"), ("tree/key", "old"), ("whole", "old")]);
    let at = |name: &str| home.path().join(name);
    std::os::unix::fs::symlink(at("s"), at("link")).unwrap();
    let others = Others(vec![
        file(at("s/key"), [("content", Value::sensitive("1234".into()))]),
        file(at("twice"), [("source", path_text(&at("s/key")))]),
    ]);
    fs::copy(at("s/key"), at("twice")).unwrap();
    let fragments = |path: &str| Value::strings([at(path).to_str().unwrap()]);
    for declared in [
        file(at("file"), [("source", path_text(&at("s/key")))]),
        file(at("file"), [("source", path_text(&at("link/key")))]),
        file(at("file"), [("source", path_text(&at("twice")))]),
        file(at("file"), [("source", path_text(&at("s/key"))), ("checksum", text("size"))]),
        file(at("tree"), [("source", path_text(&at("s"))), ("recurse", yes())]),
        file(at("tree"), [("source", path_text(&at("link"))), ("recurse", yes())]),
        file(at("whole"), [("fragments", fragments("s/key"))]),
        file(at("whole"), [("fragments", fragments("s"))]),
    ] {
        for noop in [true, false] {
            let cx = Context::empty().with_preview_context(&others).with_noop(noop);
            let planned = found(&cx, &declared).unwrap().differences;
            let content = planned.iter().find(|one| one.attribute == "content").unwrap();
            assert_eq!(content.diff, None, "{:?}", declared.should);
            let message = content.message.as_deref();
            assert_eq!(message, Some("another content (not shown: it is sensitive)"), "{:?}", declared.should);
            assert!(!format!("{content:?}").contains("{s"), "{content:?}");
            assert!(basis(&cx, &declared).holds_sensitive(), "{:?}", declared.should);
        }
    }
    let open = file(at("file"), [("source", path_text(&at("s/other")))]);
    assert!(!basis(&Context::empty().with_preview_context(&others), &open).holds_sensitive());
}

#[test]
fn source_tree_is_described_with_its_declared_entries() {
    let home = directory();
    grow(home.path(), &[("s/x", "one"), ("copy/x", "old")]);
    let source = path_text(&home.path().join("s"));
    let declared = file(home.path().join("copy"), [("source", source), ("recurse", yes())]);
    let cx = || Context::empty().with_managed(&|name| name == "/");
    let planned = basis(&cx(), &declared);
    fs::write(home.path().join("s/x"), "two").unwrap();
    assert_ne!(basis(&cx(), &declared), planned);
}

#[test]
fn removal_is_described_without_contents() {
    let home = directory();
    let path = home.path().join("d");
    grow(home.path(), &[("d/sub/x", "old")]);
    let all = [("ensure", text("absent")), ("force", yes())];
    let purged = [("ensure", text("directory")), ("recurse", yes()), ("purge", yes())];
    let file_at = |time: u64| {
        let opened = File::options().write(true).open(path.join("sub/x")).unwrap();
        opened.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time)).unwrap();
    };
    for declared in [file(&path, all), file(&path, purged)] {
        file_at(1);
        let planned = basis_alone(&declared);
        assert_eq!(basis_alone(&declared), planned);
        file_at(2);
        assert_ne!(basis_alone(&declared), planned);
    }
}

#[test]
fn description_of_removal_is_interruptible() {
    let home = directory();
    let path = home.path().join("d");
    grow(home.path(), &[("d/x", "old"), ("d/y", "old")]);
    let raised = AtomicBool::new(true);
    let cx = Context::empty().with_interrupt(Interrupt::new(&raised, None));
    let purged = [("ensure", text("directory")), ("recurse", yes()), ("purge", yes())];
    for attributes in [purged, [("ensure", text("absent")), ("force", yes()), ("recurse", yes())]] {
        let declared = file(&path, attributes);
        let found = found(&Context::empty(), &declared).unwrap();
        let wanted = || Wanted::new(&declared.name, Some(&declared.should));
        let whole = FileProvider::new().basis(&Context::empty(), wanted(), &found);
        let cut = FileProvider::new().basis(&cx, wanted(), &found);
        assert!(cut.is_some() && cut != whole, "it is not the basis of a plan: {cut:?}");
    }
}
