//! Owners, groups and modes.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;

use kilter_model::Value;
use kilter_provider::Context;

use crate::harness::*;

#[test]
fn owner_and_group_are_given_by_name_or_number() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    let named = file(&path, [("content", text("")), ("owner", text("daemon")), ("group", text("sys"))]);
    bring(&named);
    let numbered = file(&path, [("owner", Value::from(1)), ("group", text("3"))]);
    assert_eq!(plan(&numbered), []);
    chown(&path, Some(0), Some(0)).unwrap();
    let by_name = plan(&named);
    assert_eq!((by_name[0].is.as_str(), by_name[0].should.as_str()), (Some("root"), Some("daemon")));
    let by_number = plan(&numbered);
    assert_eq!((by_number[0].is.as_str(), by_number[0].should.as_str()), (Some("0"), Some("1")));
    bring(&numbered);
    assert_eq!(owner(&path), (1, 3));
}

#[test]
fn a_user_who_does_not_exist_is_a_failure_and_nothing_is_changed() {
    let home = directory();
    let path = home.path().join("x");
    let failure = apply(&file(&path, [("content", text("x")), ("owner", text("no-such-user"))])).unwrap_err();
    assert_eq!(failure, "the user `no-such-user` does not exist");
    assert_eq!(names(home.path()), [""; 0]);
}

#[test]
fn setuid_bits_survive_a_change_of_owner_if_they_are_declared() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "").unwrap();
    set_mode(&path, 0o6755);
    bring(&file(&path, [("owner", text("daemon")), ("mode", text("6755"))]));
    assert_eq!((owner(&path).0, mode(&path)), (1, 0o6755));
    bring(&file(&path, [("owner", text("root"))]));
    assert_eq!((owner(&path).0, mode(&path)), (0, 0o755), "nobody declared that root's file is setuid");
    bring(&file(&path, [("content", text("new")), ("owner", text("daemon")), ("mode", text("4711"))]));
    assert_eq!((owner(&path).0, mode(&path)), (1, 0o4711));
    bring(&file(&path, [("content", text("newer")), ("owner", text("root"))]));
    assert_eq!((owner(&path).0, mode(&path)), (0, 0o711));
}

#[test]
fn directories_have_modes_with_setgid_and_sticky_bits_and_gain_no_x() {
    let home = directory();
    let path = home.path().join("d");
    bring(&file(&path, [("ensure", text("directory")), ("mode", text("3775"))]));
    assert_eq!(mode(&path), 0o3775);
    bring(&file(&path, [("ensure", text("directory")), ("mode", text("0644"))]));
    assert_eq!(mode(&path), 0o644);
}

#[test]
fn a_link_has_an_owner_of_its_own() {
    need_root();
    let home = directory();
    let (victim, path) = (home.path().join("victim"), home.path().join("link"));
    fs::write(&victim, "").unwrap();
    bring(&file(&path, [("target", path_text(&victim)), ("owner", text("daemon"))]));
    assert_eq!((owner(&path).0, owner(&victim).0), (1, 0));
    bring(&file(&path, [("target", path_text(&victim)), ("owner", text("bin"))]));
    bring(&file(&path, [("target", text("elsewhere"))]));
    assert_eq!((owner(&path).0, owner(&victim).0), (2, 0));
}

#[test]
fn symbolic_modes_come_to_what_chmod_makes_of_them() {
    let home = directory();
    let (path, other) = (home.path().join("file"), home.path().join("other"));
    let (directory, other_directory) = (home.path().join("d"), home.path().join("e"));
    fs::write(&path, "").unwrap();
    fs::write(&other, "").unwrap();
    fs::create_dir(&directory).unwrap();
    fs::create_dir(&other_directory).unwrap();
    let symbols = [
        "u=rwX,g-w,o=,+t",
        "u+x",
        "a-x",
        "+x",
        "=r",
        "u=rw,go=r",
        "g=u",
        "o=g-w",
        "u+s",
        "ug+s,o-rwx",
        "a+X",
        "go-rwX",
        "u=rwxs,g=rx",
        "+t",
        "o+t",
        "u+t",
        "g+s",
        "a=rw",
        "o=u,g=o",
        "-w",
        "u-s,g-s",
        "=",
        "u=",
        "a=rwXst",
    ];
    for mode_before in [0o000, 0o644, 0o755, 0o2770, 0o4711, 0o1777, 0o600, 0o6644] {
        for symbol in symbols {
            for (mine, theirs) in [(&path, &other), (&directory, &other_directory)] {
                set_mode(mine, mode_before);
                set_mode(theirs, mode_before);
                let script = "umask 0; exec chmod \"$1\" \"$2\"";
                let status = Command::new("sh").args(["-c", script, "sh", symbol]).arg(theirs).status();
                assert!(status.expect("chmod is missing: install coreutils").success(), "{symbol}");
                let declared = file(mine, [("mode", text(symbol))]);
                // Symbols that contradict themselves never settle; only the bits count here.
                let differences = plan(&declared);
                let expected = mode(theirs);
                if differences.is_empty() {
                    assert_eq!(mode_before, expected, "{symbol} of {mode_before:04o}");
                } else {
                    let message = differences[0].message.clone().unwrap();
                    assert!(
                        message.contains(&format!("→ {expected:04o} ")),
                        "{symbol} of {mode_before:04o}: {message}"
                    );
                }
            }
        }
    }
    set_mode(&path, 0o666);
    bring(&file(&path, [("mode", text("u=rwX,g-w,o="))]));
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn new_files_have_the_declared_mode_whatever_the_umask() {
    let home = directory();
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let (one, two) = (home.path().join("a"), home.path().join("b"));
    bring(&file(&one, [("content", text("")), ("mode", text("0666"))]));
    bring(&file(&two, [("content", text(""))]));
    rustix::process::umask(before);
    assert_eq!((mode(&one), mode(&two)), (0o666, 0o644));
}

#[test]
fn a_file_with_other_names_is_not_touched_where_others_can_link() {
    need_root();
    let home = directory();
    let victim = home.path().join("victim");
    fs::write(&victim, "").unwrap();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o777);
    fs::hard_link(&victim, open.join("x")).unwrap();
    for attribute in [("owner", text("daemon")), ("mode", text("0666"))] {
        let failure = apply(&file(open.join("x"), [attribute])).unwrap_err();
        assert!(failure.contains("has 2 hard links: others can write"), "{failure}");
    }
    assert_eq!((owner(&victim).0, mode(&victim)), (0, 0o644));
    bring(&file(open.join("x"), [("content", text("new")), ("mode", text("0666"))]));
    assert_eq!((fs::read(&victim).unwrap(), mode(&victim)), (b"".to_vec(), 0o644), "a new content is a new file");
    let closed = home.path().join("closed");
    fs::hard_link(&victim, &closed).unwrap();
    bring(&file(&closed, [("mode", text("0600"))]));
    let failure = apply(&file(&closed, [("mode", text("4755"))])).unwrap_err();
    assert!(failure.contains("setuid and setgid would reach"), "{failure}");
}

#[test]
fn nobody_may_read_their_own_files_and_is_told_of_the_others() {
    let home = directory();
    set_mode(home.path(), 0o777);
    fs::write(home.path().join("secret"), "hidden").unwrap();
    set_mode(home.path().join("secret"), 0o600);
    as_nobody("ownership::as_nobody_in_a_directory_of_others", home.path());
}

#[test]
#[ignore = "started by another test, as nobody"]
fn as_nobody_in_a_directory_of_others() {
    let home = given_directory();
    let own = home.join("own");
    bring(&file(&own, [("content", text("mine")), ("mode", text("0640")), ("owner", Value::from(65534))]));
    assert_eq!((owner(&own).0, mode(&own)), (65534, 0o640));
    let failure = apply(&file(&own, [("owner", text("root"))])).unwrap_err();
    assert!(failure.contains("cannot change the owner of") && failure.contains("not permitted"), "{failure}");
    let secret = home.join("secret");
    let error = found(&Context::bare(), &file(&secret, [("content", text("hidden"))])).unwrap_err();
    assert!(error.message.contains("cannot read") && error.message.contains("Permission denied"), "{error}");
    assert_eq!(plan(&file(&secret, [("mode", text("0600")), ("owner", text("root"))])), []);
    let error = found(&Context::bare(), &file("/root/x", [("content", text("y"))]));
    assert!(error.is_err_and(|error| error.message.contains("Permission denied")));
    symlink("own", home.join("link")).unwrap();
    bring(&file(home.join("link"), [("content", text("a file now"))]));
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
}
