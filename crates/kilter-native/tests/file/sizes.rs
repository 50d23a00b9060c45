//! Files that another user made as large as the file system allows: they are sparse, and cost that user nothing.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use kilter_model::Value;
use kilter_native::FileProvider;
use kilter_provider::{Context, Interrupt, Placement, ReadOne, Scheduling};

use crate::harness::*;

const HUGE: u64 = 8 << 40;

fn grown(path: &Path, size: u64) {
    File::create(path).and_then(|file| file.set_len(size)).expect("the file system has sparse files");
}

#[test]
fn content_of_another_size_is_replaced_without_being_read() {
    let home = directory();
    let path = home.path().join("x");
    grown(&path, HUGE);
    let declared = file(&path, [("content", text("ours"))]);
    let planned = plan(&declared);
    let message = planned[0].message.as_deref().unwrap();
    assert_eq!(message, "{size}8796093022208 → {sha256}ae0bec9e9d33 (not shown: larger than 1 MiB)");
    converge(&declared);
    assert_eq!(fs::read(&path).unwrap(), b"ours");
}

#[test]
fn copy_of_another_size_is_replaced_without_being_read() {
    let home = directory();
    let (source, copy, tree) = (home.path().join("s/f"), home.path().join("c"), home.path().join("t"));
    grow(home.path(), &[("s/f", "ours"), ("t/f", "")]);
    for (path, declared) in [
        (copy.clone(), file(&copy, [("source", path_text(&source))])),
        (tree.join("f"), file(&tree, [("source", path_text(source.parent().unwrap())), ("recurse", yes())])),
    ] {
        grown(&path, HUGE);
        let planned = plan(&declared);
        assert_eq!(planned[0].is, text("{size}8796093022208"), "{planned:?}");
        converge(&declared);
        assert_eq!(fs::read(&path).unwrap(), b"ours");
    }
}

#[test]
fn source_larger_than_free_space_is_refused() {
    let home = directory();
    let (source, copy) = (home.path().join("s"), home.path().join("c"));
    grown(&source, HUGE);
    let failure = apply_in(&Context::empty(), &file(&copy, [("source", path_text(&source))])).unwrap_err();
    assert!(failure.contains("No space left on device"), "{failure}");
    assert_eq!(names(home.path()), ["s"]);
}

#[test]
fn comparison_of_large_files_ends_at_an_interrupt() {
    let home = directory();
    let (source, copy) = (home.path().join("s"), home.path().join("c"));
    grown(&source, HUGE);
    grown(&copy, HUGE);
    let raised = AtomicBool::new(true);
    let cx = Context::empty().with_interrupt(Interrupt::new(&raised, None));
    let error = found(&cx, &file(&copy, [("source", path_text(&source))])).unwrap_err();
    assert!(error.message.ends_with(": interrupted"), "{error}");
    let tree = file(home.path(), [("recurse", yes()), ("mode", text("0600"))]);
    let error = found(&cx, &tree).unwrap_err();
    assert!(error.message.ends_with(": interrupted"), "{error}");
}

#[test]
fn fragment_that_is_too_large_is_refused_without_being_read() {
    let home = directory();
    let (fragment, path) = (home.path().join("fragment"), home.path().join("x"));
    grown(&fragment, HUGE);
    let error = found(&Context::empty(), &file(&path, [("fragments", Value::strings([fragment.to_str().unwrap()]))]))
        .unwrap_err();
    assert!(error.message.contains("fragment: File too large"), "{error}");
}

#[test]
fn file_that_is_too_large_for_a_backup_stays() {
    let (home, state) = (directory(), directory());
    let path = home.path().join("x");
    grown(&path, HUGE);
    let cx = Context::empty().with_var_dir(Some(state.path()));
    for attributes in [("content", text("ours")), ("ensure", text("absent"))] {
        let failure = apply_in(&cx, &file(&path, [attributes, ("backup", yes())])).unwrap_err();
        assert!(
            failure.contains("has 8796093022208 bytes")
                && failure.contains("the maximum for a file of its owner is 1073741824"),
            "{failure}"
        );
        assert_eq!(fs::metadata(&path).unwrap().len(), HUGE);
    }
    assert_eq!(names(state.path()), [""; 0], "nothing was begun");
    // A second name costs nothing, and neither does a second one beside it.
    for content in ["ours", "newer"] {
        grown(&path, HUGE);
        converge(&file(&path, [("content", text(content)), ("backup", text(".orig"))]));
    }
    assert_eq!(names(home.path()), ["x", "x.orig", "x.orig.1"]);
}

#[test]
fn purged_files_that_others_can_write_share_the_limit_of_backups() {
    const LIMIT: u64 = 16 << 20;
    let (home, state) = (directory(), directory());
    for (name, size) in [("a", LIMIT / 2), ("b", LIMIT / 2 + 1), ("c", 1), ("d/e", 1)] {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        grown(&path, size);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    let cx = Context::empty().with_var_dir(Some(state.path()));
    let attributes = [("ensure", text("directory")), ("recurse", yes()), ("purge", yes()), ("backup", yes())];
    let failure = apply_in(&cx, &file(home.path(), attributes.clone())).unwrap_err();
    assert!(failure.contains("/b (8388609 bytes) stays: a change backs up at most 16777216 bytes"), "{failure}");
    assert_eq!(names(home.path()), ["b"]);
    // Two contents: that of `a`, and that of `c` and `d/e`.
    let kept = || names(state.path().join("backup")).into_iter().filter(|name| name.len() == 2).count();
    assert_eq!(kept(), 2);
    assert_eq!(fs::read_to_string(state.path().join("backup/index")).unwrap().lines().count(), 3);
    apply_in(&cx, &file(home.path(), attributes)).unwrap();
    assert_eq!((names(home.path()), kept()), (Vec::<String>::new(), 3));
    assert!(names(state.path().join("backup")).iter().all(|name| name.len() == 2 || name == "index"));
}

#[test]
fn large_file_is_listed_without_its_checksum() {
    let home = directory();
    let path = home.path().join("x");
    grown(&path, HUGE);
    let name = path.to_str().unwrap().into();
    let wanted = kilter_provider::Wanted::new(&name, None);
    let state = FileProvider::new().get_one(&Context::empty(), wanted).unwrap();
    assert_eq!(state.attributes.get("size"), Some(&Value::Integer(HUGE.cast_signed())));
    assert_eq!(state.attributes.get("checksum_value"), None);
}

#[test]
fn change_that_reads_an_old_content_runs_on_a_worker() {
    let declared = file("/x", [("content", text("x")), ("backup", yes())]);
    let provider = FileProvider::new();
    assert_eq!(provider.placement(&declared.should), Placement::Inline);
    assert_eq!(provider.set_placement(&declared.should), Placement::Worker);
    let plain = file("/x", [("content", text("x")), ("backup", Value::from(false))]);
    assert_eq!(provider.set_placement(&plain.should), Placement::Inline);
}
