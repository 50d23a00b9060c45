//! Symbolic links above a path.

use std::fs;
use std::os::unix::fs::{lchown, symlink};

use kilter_provider::Context;

use crate::harness::*;

#[test]
fn a_parent_link_of_root_in_a_closed_directory_is_followed() {
    need_root();
    let home = directory();
    fs::create_dir(home.path().join("real")).unwrap();
    symlink("real", home.path().join("relative")).unwrap();
    symlink(home.path().join("relative"), home.path().join("absolute")).unwrap();
    for link in ["relative", "absolute"] {
        let declared = file(home.path().join(link).join("x"), [("content", text(link))]);
        converge(&declared);
        assert_eq!(fs::read_to_string(home.path().join("real/x")).unwrap(), link);
        assert_eq!(plan(&declared), []);
    }
    let up = home.path().join("real/up");
    symlink("../real/..", &up).unwrap();
    converge(&file(up.join("y"), [("content", text("up"))]));
    assert_eq!(fs::read_to_string(home.path().join("y")).unwrap(), "up");
}

#[test]
fn parent_link_of_other_user_is_refused() {
    need_root();
    let home = directory();
    let (open, victim) = (home.path().join("open"), home.path().join("victim"));
    fs::create_dir(&open).unwrap();
    fs::create_dir(&victim).unwrap();
    set_mode(&open, 0o1777);
    symlink(&victim, open.join("trap")).unwrap();
    lchown(open.join("trap"), Some(65534), Some(65534)).unwrap();
    let declared = file(open.join("trap/x"), [("content", text("y"))]);
    let error = found(&Context::empty(), &declared).unwrap_err();
    let link = open.join("trap");
    assert!(error.message.contains(&format!("will not follow the symbolic link {}", link.display())), "{error}");
    assert!(error.message.contains("belongs neither to root"), "{error}");
    lchown(open.join("trap"), Some(0), Some(0)).unwrap();
    let error = found(&Context::empty(), &declared).unwrap_err();
    assert!(error.message.contains("other users can write to its directory"), "{error}");
    set_mode(&open, 0o755);
    converge(&declared);
    assert!(victim.join("x").exists());
}

#[test]
fn source_through_link_of_other_user_is_refused() {
    need_root();
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    fs::write(&to, "").unwrap();
    symlink("/etc/passwd", &from).unwrap();
    let declared = file(&to, [("source", path_text(&from))]);
    converge(&declared);
    assert_eq!(fs::read(&to).unwrap(), fs::read("/etc/passwd").unwrap());
    lchown(&from, Some(65534), Some(65534)).unwrap();
    assert!(found(&Context::empty(), &declared).unwrap_err().message.contains("will not follow"));
}

#[test]
fn links_in_a_circle_are_an_error() {
    let home = directory();
    symlink("b", home.path().join("a")).unwrap();
    symlink("a", home.path().join("b")).unwrap();
    let error = found(&Context::empty(), &file(home.path().join("a/x"), [("content", text(""))])).unwrap_err();
    assert!(error.message.contains("symbolic links"), "{error}");
}
