//! Directories with their entries.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use kilter_model::Value;
use kilter_provider::Context;

use crate::harness::*;

#[test]
fn a_tree_is_copied_with_modes_and_links() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    grow(&from, &[("bin/run", "#!/bin/sh\n"), ("etc/a/b.conf", "b"), ("top", "t")]);
    set_mode(from.join("bin/run"), 0o755);
    set_mode(from.join("etc/a"), 0o750);
    set_mode(from.join("etc/a/b.conf"), 0o640);
    symlink("../etc", from.join("bin/etc")).unwrap();
    let declared = file(&to, [("source", path_text(&from)), ("recurse", yes())]);
    converge(&declared);
    assert_eq!(fs::read_to_string(to.join("etc/a/b.conf")).unwrap(), "b");
    let modes = ["bin/run", "etc/a", "etc/a/b.conf", "top"].map(|path| mode(to.join(path)));
    assert_eq!(modes, [0o755, 0o750, 0o640, 0o644]);
    assert_eq!(fs::read_link(to.join("bin/etc")).unwrap().to_str(), Some("../etc"));
    assert_eq!(plan(&declared), []);
}

#[test]
fn copied_tree_is_reported_and_repaired_by_entry() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    grow(&from, &[("a/one", "1"), ("a/two", "2"), ("b/three", "3"), ("c", "4")]);
    symlink("a", from.join("link")).unwrap();
    let declared = file(&to, [("source", path_text(&from)), ("recurse", yes())]);
    converge(&declared);
    fs::write(to.join("a/one"), "changed").unwrap();
    set_mode(to.join("a/one"), 0o600);
    fs::remove_file(to.join("a/two")).unwrap();
    fs::remove_dir_all(to.join("b")).unwrap();
    fs::remove_file(to.join("link")).unwrap();
    symlink("elsewhere", to.join("link")).unwrap();
    fs::write(to.join("own"), "not from the source").unwrap();
    let told = told(&converge(&declared));
    let starts = [
        "content of a/one: {sha256}",
        "mode of a/one: 0600 -> 0644",
        "ensure of a/two: absent -> file",
        "ensure of b: absent -> directory",
        "ensure of b/three: absent -> file",
        "target of link: elsewhere -> a",
    ];
    assert_eq!(told.len(), starts.len(), "{told:#?}");
    for (told, start) in told.iter().zip(starts) {
        assert!(told.starts_with(start), "{told}");
    }
    assert_eq!(fs::read_to_string(to.join("b/three")).unwrap(), "3");
    assert_eq!(mode(to.join("a/one")), 0o644);
    assert!(to.join("own").exists(), "without purge it stays");
}

#[test]
fn declared_owner_and_mode_hold_for_a_whole_copy() {
    need_root();
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    grow(&from, &[("bin/run", "x"), ("doc", "y")]);
    set_mode(from.join("bin/run"), 0o755);
    let attributes = [("source", path_text(&from)), ("recurse", yes()), ("owner", text("daemon"))];
    converge(&file(&to, attributes.clone()));
    assert_eq!((owner(&to).0, owner(to.join("bin")).0, owner(to.join("bin/run")).0), (1, 1, 1));
    let [source, recurse, owner] = attributes;
    converge(&file(&to, [source, recurse, owner, ("mode", text("u=rwX,go=rX"))]));
    assert_eq!((mode(to.join("bin/run")), mode(to.join("doc")), mode(to.join("bin"))), (0o755, 0o644, 0o755));
}

#[test]
fn recurse_without_a_source_sets_owner_and_mode_below() {
    need_root();
    let home = directory();
    let root = home.path().join("r");
    grow(&root, &[("a/b", "1"), ("c", "2"), ("mine/d", "3")]);
    symlink("/etc/passwd", root.join("link")).unwrap();
    let declared = file(
        &root,
        [("ensure", text("directory")), ("recurse", yes()), ("owner", text("daemon")), ("mode", text("0640"))],
    );
    let mine = root.join("mine");
    let managed = |name: &str| std::path::Path::new(name) == mine;
    let cx = Context::empty().with_managed(&managed);
    apply_in(&cx, &declared).unwrap();
    let modes = [root.clone(), root.join("a"), root.join("a/b"), root.join("c")].map(mode);
    assert_eq!(modes, [0o750, 0o750, 0o640, 0o640]);
    assert_eq!((owner(root.join("a/b")).0, owner(root.join("link")).0), (1, 1));
    assert_eq!((owner(&mine).0, owner(mine.join("d")).0), (0, 0), "what is declared apart is left alone");
    assert_eq!((owner("/etc/passwd").0, mode("/etc/passwd")), (0, 0o644));
}

#[test]
fn purge_previews_and_removes_undeclared_entries() {
    let home = directory();
    let root = home.path().join("r");
    grow(&root, &[("kept", "1"), ("stray", "2"), ("sub/deep", "3")]);
    symlink("/etc", root.join("etc")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    let kept = root.join("kept");
    let managed = |name: &str| std::path::Path::new(name) == kept;
    let cx = Context::empty().with_managed(&managed);
    let declared = file(&root, [("ensure", text("directory")), ("purge", yes())]);
    let planned = told(&found(&cx, &declared).unwrap().differences);
    assert_eq!(planned, ["ensure of etc: link -> absent", "ensure of stray: file -> absent"]);
    assert!(root.join("stray").exists());
    apply_in(&cx, &declared).unwrap();
    assert_eq!(names(&root), ["empty", "kept", "sub"]);
    assert!(fs::metadata("/etc/passwd").is_ok());
    let forced = file(&root, [("ensure", text("directory")), ("purge", yes()), ("force", yes())]);
    let planned = told(&found(&cx, &forced).unwrap().differences);
    assert_eq!(
        planned,
        [
            "ensure of empty: directory -> absent",
            "ensure of sub/deep: file -> absent",
            "ensure of sub: directory -> absent"
        ]
    );
    apply_in(&cx, &forced).unwrap();
    assert_eq!(names(&root), ["kept"]);
}

#[test]
fn purge_keeps_directories_above_declared_files() {
    let home = directory();
    let root = home.path().join("r");
    grow(&root, &[("a/b/kept", "1"), ("a/b/stray", "2"), ("a/c/stray", "3")]);
    let kept = root.join("a/b/kept");
    let managed = |name: &str| std::path::Path::new(name) == kept;
    let cx = Context::empty().with_managed(&managed);
    apply_in(&cx, &file(&root, [("recurse", yes()), ("purge", yes())])).unwrap();
    assert_eq!(
        (names(&root), names(root.join("a")), names(root.join("a/b"))),
        (vec!["a".to_owned()], vec!["b".to_owned()], vec!["kept".to_owned()])
    );
}

#[test]
fn purge_keeps_links_and_empty_directories_above_declared_files() {
    let home = directory();
    let root = home.path().join("r");
    grow(home.path(), &[("elsewhere/x", "1"), ("r/stray", "2")]);
    fs::create_dir(root.join("empty")).unwrap();
    for link in ["link", "other"] {
        symlink("../elsewhere", root.join(link)).unwrap();
    }
    let above = [root.join("link"), root.join("empty")];
    let below = |path: &str| above.iter().any(|above| std::path::Path::new(path) == above);
    let cx = Context::empty().with_managed_below(&below);
    let declared = file(&root, [("recurse", yes()), ("purge", yes())]);
    let planned = told(&found(&cx, &declared).unwrap().differences);
    assert_eq!(planned, ["ensure of other: link -> absent", "ensure of stray: file -> absent"]);
    apply_in(&cx, &declared).unwrap();
    assert_eq!(names(&root), ["empty", "link"]);
    assert!(home.path().join("elsewhere/x").exists());
}

#[test]
fn copy_inside_its_source_through_link_is_refused() {
    let home = directory();
    grow(home.path(), &[("source/x", "1")]);
    symlink("source", home.path().join("link")).unwrap();
    let source = path_text(&home.path().join("link"));
    let copy = file(home.path().join("source/copy"), [("source", source), ("recurse", yes())]);
    let failure = apply(&copy).unwrap_err();
    assert!(failure.contains("the copy would hold itself"), "{failure}");
    assert_eq!(names(home.path().join("source")), ["x"]);
}

#[test]
fn purge_with_a_source_leaves_exactly_the_copy() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    grow(&from, &[("a/one", "1")]);
    grow(&to, &[("a/one", "1"), ("a/old", "2"), ("gone/x", "3")]);
    converge(&file(&to, [("source", path_text(&from)), ("recurse", yes()), ("purge", yes())]));
    assert_eq!((names(&to), names(to.join("a"))), (vec!["a".to_owned()], vec!["one".to_owned()]));
}

#[test]
fn name_without_utf8_is_purged() {
    let home = directory();
    let root = home.path().join("r");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"bad\xff\\name")), "").unwrap();
    let told = told(&converge(&file(&root, [("ensure", text("directory")), ("purge", yes())])));
    assert_eq!(told, ["ensure of bad\\xff\\\\name: file -> absent"]);
    assert_eq!(names(&root), [""; 0]);
}

#[test]
fn copied_tree_replaces_files_but_needs_force_for_directories() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    grow(&from, &[("a/one", "1"), ("b", "2")]);
    grow(&to, &[("a", "in the way"), ("b/full", "x")]);
    let attributes = [("source", path_text(&from)), ("recurse", yes())];
    let failure = apply(&file(&to, attributes.clone())).unwrap_err();
    assert!(failure.contains("/b is a directory: `force: true`"), "{failure}");
    assert_eq!(fs::read_to_string(to.join("a/one")).unwrap(), "1", "the others were made");
    let [source, recurse] = attributes;
    converge(&file(&to, [source, recurse, ("force", yes())]));
    assert_eq!(fs::read_to_string(to.join("b")).unwrap(), "2");
}

#[test]
fn a_tree_with_more_directories_than_descriptors_is_copied() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    for number in 0..400 {
        grow(&from, &[(&format!("d{number}/f"), "new")]);
        grow(&to, &[(&format!("d{number}/f"), "old")]);
    }
    converge(&file(&to, [("source", path_text(&from)), ("recurse", yes()), ("show_diff", Value::from(false))]));
    assert_eq!(fs::read_to_string(to.join("d399/f")).unwrap(), "new");
}

#[test]
fn mounts_below_a_tree_are_not_entered() {
    let home = directory();
    in_own_mounts("trees::with_something_mounted_below", home.path());
}

#[test]
#[ignore = "started by another test, with mounts of its own"]
fn with_something_mounted_below() {
    let home = given_directory();
    let (data, root) = (home.join("data"), home.join("r"));
    grow(&data, &[("precious", "1"), ("sub/deep", "2")]);
    let from = home.join("from");
    grow(&from, &[("mounted/precious", "overwritten"), ("file", "overwritten")]);
    grow(&root, &[("stray", "3"), ("file", "")]);
    fs::create_dir(root.join("mounted")).unwrap();
    for (what, place) in [(data.clone(), root.join("mounted")), (data.join("sub/deep"), root.join("file"))] {
        let status = std::process::Command::new("mount").arg("--bind").args([what, place]).status();
        assert!(status.expect("mount is missing: install the package mount").success());
    }
    let intact = || {
        assert_eq!(fs::read_to_string(data.join("precious")).unwrap(), "1");
        assert_eq!(fs::read_to_string(data.join("sub/deep")).unwrap(), "2");
        assert_eq!([mode(&data), mode(data.join("precious")), mode(data.join("sub/deep"))], [0o755, 0o644, 0o644]);
    };
    converge(&file(&root, [("recurse", yes()), ("mode", text("0600"))]));
    intact();
    converge(&file(&root, [("recurse", yes()), ("source", path_text(&from)), ("show_diff", Value::from(false))]));
    intact();
    let planned = told(&converge(&file(&root, [("recurse", yes()), ("purge", yes()), ("force", yes())])));
    assert_eq!(planned, ["ensure of stray: file -> absent"]);
    intact();
    for declared in [
        file(&root, [("ensure", text("absent")), ("force", yes())]),
        file(&root, [("content", text("x")), ("force", yes())]),
        file(root.join("mounted"), [("content", text("x")), ("force", yes())]),
        file(root.join("mounted"), [("target", text("x")), ("force", yes())]),
    ] {
        let failure = apply(&declared).unwrap_err();
        assert!(failure.contains("mounted there or lies on another file system"), "{failure}");
        intact();
    }
    let failure = apply(&file(root.join("mounted"), [("ensure", text("absent")), ("force", yes())])).unwrap_err();
    assert!(failure.contains("is it a mount point?"), "{failure}");
    intact();
}

#[test]
fn tree_on_an_overlay_is_copied_owned_and_purged() {
    let home = directory();
    in_own_mounts("trees::with_a_tree_on_an_overlay", home.path());
}

/// Files of an overlay have the device of the layer that they come from if its layers are on several file systems.
#[test]
#[ignore = "started by another test, with mounts of its own"]
fn with_a_tree_on_an_overlay() {
    let home = given_directory();
    let [lower, layers, root, from] = ["lower", "layers", "root", "from"].map(|name| home.join(name));
    for directory in [&lower, &layers, &root] {
        fs::create_dir(directory).unwrap();
    }
    let mount = |options: &[&str], place: &Path| {
        let status = std::process::Command::new("mount").args(options).arg(place).status();
        assert!(status.expect("mount is missing: install the package mount").success());
    };
    // The upper layer is on the disk, so that device numbers differ.
    mount(&["-t", "tmpfs", "none"], &lower);
    grow(&lower, &[("tree/sub/old", "old"), ("tree/stray", "stray"), ("tree/kept", "kept")]);
    grow(&layers, &[("upper/.x", ""), ("work/.x", "")]);
    fs::remove_file(layers.join("work/.x")).unwrap();
    let show = |path: &Path| path.to_str().unwrap().to_owned();
    let options = format!("lowerdir={},upperdir={u}/upper,workdir={u}/work,xino=off", show(&lower), u = show(&layers));
    mount(&["-t", "overlay", "overlay", "-o", &options], &root);
    let tree = root.join("tree");
    let device = |path: &Path| fs::symlink_metadata(path).unwrap().dev();
    assert_ne!(device(&tree), device(&tree.join("stray")), "the test needs an overlay whose devices differ");
    grow(&from, &[("sub/old", "new"), ("kept", "kept"), ("added", "added")]);
    let attributes = [("source", path_text(&from)), ("recurse", yes()), ("purge", yes())];
    let mut planned = told(&converge(&file(&tree, attributes)));
    planned.retain(|line| !line.starts_with("content"));
    assert_eq!(planned, ["ensure of added: absent -> file", "ensure of stray: file -> absent"]);
    assert_eq!(fs::read_to_string(tree.join("sub/old")).unwrap(), "new");
    converge(&file(&tree, [("recurse", yes()), ("mode", text("0600"))]));
    assert_eq!([mode(tree.join("kept")), mode(tree.join("sub/old"))], [0o600; 2]);
    converge(&file(tree.join("kept"), [("content", text("newer")), ("backup", text(".orig"))]));
    assert_eq!(fs::read_to_string(tree.join("kept.orig")).unwrap(), "kept");
    converge(&file(&tree, [("ensure", text("absent")), ("force", yes())]));
    assert_eq!(names(&root), [".x"]);
}

#[test]
fn temporaries_of_dead_processes_are_purged() {
    let home = directory();
    let root = home.path().join("r");
    let name = ".kilter.1-1-1-0123456789abcdef";
    grow(&root, &[(&format!("sub/{name}/full"), "a directory of somebody"), (&format!("busy/{name}"), "new")]);
    fs::write(root.join(name), "old").unwrap();
    let past = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    fs::File::options().write(true).open(root.join(name)).unwrap().set_times(past).unwrap();
    let planned = told(&plan(&file(&root, [("recurse", yes()), ("purge", yes())])));
    let expected = [
        format!("ensure of {name}: file -> absent"),
        format!("ensure of sub/{name}/full: file -> absent"),
        format!("ensure of sub/{name}: directory -> absent"),
        "ensure of sub: directory -> absent".to_owned(),
    ];
    assert_eq!(planned, expected, "another host may be at work on the new one");
    converge(&file(&root, [("recurse", yes()), ("purge", yes())]));
    assert_eq!((names(&root), names(root.join("busy"))), (vec!["busy".to_owned()], vec![name.to_owned()]));
}

#[test]
fn purge_removes_nothing_after_one_of_several_commits_lost_backups() {
    let (home, state) = (directory(), directory());
    let root = home.path().join("r");
    for number in 0..1030 {
        grow(&root, &[(&format!("d{number:04}/f"), &format!("content {number}"))]);
    }
    // SHA-256 of `content 0` begins with these digits. A file in place of their directory prevents its backup.
    let first = "75";
    grow(state.path(), &[(&format!("backup/{first}"), "")]);
    let cx = Context::empty().with_var_dir(Some(state.path()));
    let attributes = [("ensure", text("directory")), ("recurse", yes()), ("purge", yes()), ("backup", yes())];
    let failure = apply_in(&cx, &file(&root, attributes)).unwrap_err();
    assert!(failure.contains("backup"), "{failure}");
    let is_left = |number: &usize| root.join(format!("d{number:04}/f")).exists();
    assert_eq!((0..1030).filter(is_left).count(), 1030);
}
