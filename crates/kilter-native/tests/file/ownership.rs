//! Owners, groups and modes.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use kilter_model::{Change, State, Value};
use kilter_native::FileProvider;
use kilter_provider::{Context, Provider, canonicalize_one};

use crate::harness::*;

#[test]
fn owner_and_group_are_given_by_name_or_number() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    let named = file(&path, [("content", text("")), ("owner", text("daemon")), ("group", text("sys"))]);
    converge(&named);
    let numbered = file(&path, [("owner", Value::from(1)), ("group", text("3"))]);
    assert_eq!(plan(&numbered), []);
    chown(&path, Some(0), Some(0)).unwrap();
    let by_name = plan(&named);
    assert_eq!((by_name[0].is.as_str(), by_name[0].should.as_str()), (Some("root"), Some("daemon")));
    let by_number = plan(&numbered);
    assert_eq!((by_number[0].is.as_str(), by_number[0].should.as_str()), (Some("0"), Some("1")));
    converge(&numbered);
    assert_eq!(owner(&path), (1, 3));
}

#[test]
fn missing_owner_fails_before_changes() {
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
    converge(&file(&path, [("owner", text("daemon")), ("mode", text("6755"))]));
    assert_eq!((owner(&path).0, mode(&path)), (1, 0o6755));
    converge(&file(&path, [("owner", text("root"))]));
    assert_eq!((owner(&path).0, mode(&path)), (0, 0o755), "nobody declared that root's file is setuid");
    converge(&file(&path, [("content", text("new")), ("owner", text("daemon")), ("mode", text("4711"))]));
    assert_eq!((owner(&path).0, mode(&path)), (1, 0o4711));
    converge(&file(&path, [("content", text("newer")), ("owner", text("root"))]));
    assert_eq!((owner(&path).0, mode(&path)), (0, 0o711));
}

/// A file of somebody else with setuid and setgid bits, as an attacker would prepare it.
fn armed(path: &Path, bits: u32) {
    fs::write(path, "theirs").expect("writable");
    chown(path, Some(1000), Some(1000)).expect("the test runs as root");
    set_mode(path, bits);
}

#[test]
fn symbolic_mode_drops_setuid_bits_at_owner_change() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    let symbols = [("go-w", 0o755), ("a+rX", 0o777), ("u=rwX,go=rX", 0o755), ("u+s,go-w", 0o4755), ("+t", 0o1777)];
    for (symbols, expected) in symbols {
        for account in ["owner", "group"] {
            for content in [None, Some(("content", text("ours")))] {
                let _ = fs::remove_file(&path);
                armed(&path, 0o6777);
                let mut declared = file(&path, [(account, text("root")), ("mode", text(symbols))]);
                if let Some((attribute, value)) = content.clone() {
                    declared = file(&path, [(account, text("root")), ("mode", text(symbols)), (attribute, value)]);
                }
                converge(&declared);
                assert_eq!(mode(&path), expected, "{symbols} with another {account} and {content:?}");
                assert_eq!(plan(&declared), []);
            }
        }
    }
}

#[test]
fn plan_shows_loss_of_setuid_bits_at_owner_change() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    armed(&path, 0o4777);
    let planned = plan(&file(&path, [("owner", text("root")), ("mode", text("go-w"))]));
    let mode = planned.iter().find(|difference| difference.attribute == "mode").unwrap();
    assert_eq!(mode.message.as_deref(), Some("4777 → 0755 (go-w)"));
    armed(&path, 0o4755);
    let planned = told(&plan(&file(&path, [("owner", text("root")), ("mode", text("go-w"))])));
    assert_eq!(planned, ["owner", "mode"], "the bits differ although the symbols change nothing");
    assert_eq!(plan(&file(&path, [("owner", Value::from(1000)), ("mode", text("go-w"))])), []);
}

#[test]
fn group_change_clears_setgid_bit() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    for bits in [0o2755, 0o2744] {
        armed(&path, bits);
        converge(&file(&path, [("group", text("root"))]));
        assert_eq!(mode(&path), bits & 0o777);
        armed(&path, bits);
        converge(&file(&path, [("group", text("root")), ("content", text("ours"))]));
        assert_eq!(mode(&path), bits & 0o777);
    }
}

#[test]
fn symbolic_mode_of_tree_drops_setuid_bits_at_owner_change() {
    need_root();
    let home = directory();
    let root = home.path().join("r");
    fs::create_dir_all(root.join("sub")).unwrap();
    armed(&root.join("one"), 0o4711);
    armed(&root.join("sub/two"), 0o2711);
    set_mode(root.join("sub"), 0o2711);
    chown(root.join("sub"), Some(1000), Some(1000)).unwrap();
    set_mode(root.join("sub"), 0o2711);
    let attributes = [("recurse", yes()), ("mode", text("a+rX")), ("owner", text("root")), ("group", text("root"))];
    let differences = told(&converge(&file(&root, attributes)));
    assert!(differences.contains(&"mode of one: 4711 -> 0755".to_owned()), "{differences:#?}");
    assert_eq!(["one", "sub/two", "sub"].map(|path| mode(root.join(path))), [0o755, 0o755, 0o2755]);
}

#[test]
fn content_or_owner_change_drops_capabilities() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    // Version 2, effective: cap_setuid (7), which is nothing inheritable.
    let capabilities = [0x0200_0001u32, 1 << 7, 0, 0, 0].map(u32::to_le_bytes).concat();
    let has = || rustix::fs::getxattr(&path, "security.capability", &mut [0; 64][..]).is_ok();
    armed(&path, 0o755);
    rustix::fs::setxattr(&path, "security.capability", &capabilities, rustix::fs::XattrFlags::empty()).unwrap();
    converge(&file(&path, [("mode", text("0711"))]));
    assert!(has(), "owner and content are the same");
    converge(&file(&path, [("content", text("new"))]));
    assert!(!has(), "they were given to the old content");
    rustix::fs::setxattr(&path, "security.capability", &capabilities, rustix::fs::XattrFlags::empty()).unwrap();
    converge(&file(&path, [("owner", text("root"))]));
    assert!(!has());
}

/// Applies without looking whether it came to be so.
fn set(declared: &DeclaredFile) {
    let (provider, cx) = (FileProvider::new(), Context::empty());
    let is = State::absent(declared.name.clone());
    let change = Change::new(&declared.name, &is, Some(&declared.should), &[]);
    provider.set(&cx, &[change], kilter_provider::Mode::Apply);
}

#[test]
fn directory_owner_cannot_redirect_changes() {
    need_root();
    let home = directory();
    let (victim, path) = (home.path().join("victim"), home.path().join("x"));
    let done = AtomicBool::new(false);
    let declare = [
        file(&path, [("ensure", text("directory")), ("owner", text("daemon")), ("mode", text("0777"))]),
        file(&path, [("target", text("nowhere")), ("owner", text("daemon"))]),
    ];
    for (declared, secret) in declare.iter().zip(["directory", "file"]) {
        done.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // As the owner of the directory may: what appears in it changes places with the victim.
                while !done.load(Ordering::Relaxed) {
                    let others = names(home.path()).into_iter().filter(|name| name != "victim" && name != "aside");
                    for name in others {
                        let flags = rustix::fs::RenameFlags::EXCHANGE;
                        let cwd = rustix::fs::CWD;
                        let _ = rustix::fs::renameat_with(cwd, home.path().join(name), cwd, &victim, flags);
                    }
                }
            });
            for _ in 0..1000 {
                match secret {
                    "directory" => fs::create_dir(&victim).unwrap(),
                    _ => fs::write(&victim, "secret").unwrap(),
                }
                set_mode(&victim, 0o700);
                let inode = fs::symlink_metadata(&victim).unwrap().ino();
                set(declared);
                for name in names(home.path()) {
                    let metadata = fs::symlink_metadata(home.path().join(&name)).unwrap();
                    if metadata.ino() == inode && (metadata.uid(), metadata.mode() & 0o7777) != (0, 0o700) {
                        done.store(true, Ordering::Relaxed);
                        panic!("the victim, a {secret}, was changed: it belongs to {} now", metadata.uid());
                    }
                }
                for name in names(home.path()) {
                    let path = home.path().join(name);
                    let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn closed_directory_is_created_by_unprivileged_user() {
    let home = directory();
    set_mode(home.path(), 0o777);
    as_nobody("ownership::as_nobody_who_makes_a_closed_directory", home.path());
    assert_eq!(mode(home.path().join("closed")), 0o555);
}

#[test]
#[ignore = "started by another test, as nobody"]
fn as_nobody_who_makes_a_closed_directory() {
    converge(&file(given_directory().join("closed"), [("ensure", text("directory")), ("mode", text("0555"))]));
}

#[test]
fn directory_with_access_list_counts_as_writable_by_others() {
    need_root();
    let home = directory();
    let (shared, victim) = (home.path().join("shared"), home.path().join("victim"));
    fs::create_dir(&shared).unwrap();
    fs::write(&victim, "").unwrap();
    fs::hard_link(&victim, shared.join("x")).unwrap();
    converge(&file(shared.join("x"), [("mode", text("0640"))]));
    // user::rwx user:1000:rwx group::r-x mask::rwx other::r-x
    let entries = [(1, 7, u32::MAX), (2, 7, 1000), (4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 5, u32::MAX)];
    set_access_list(&shared, &entries);
    let failure = apply(&file(shared.join("x"), [("mode", text("0666"))])).unwrap_err();
    assert!(failure.contains("others can write in its directory"), "{failure}");
    let entries = [(1, 7, u32::MAX), (2, 7, 1000), (4, 5, u32::MAX), (0x10, 5, u32::MAX), (0x20, 5, u32::MAX)];
    set_access_list(&shared, &entries);
    converge(&file(shared.join("x"), [("mode", text("0600"))]));
    assert_eq!(mode(&victim), 0o600, "the mask lets nobody write");
}

#[test]
fn directories_have_modes_with_setgid_and_sticky_bits_and_gain_no_x() {
    let home = directory();
    let path = home.path().join("d");
    converge(&file(&path, [("ensure", text("directory")), ("mode", text("3775"))]));
    assert_eq!(mode(&path), 0o3775);
    converge(&file(&path, [("ensure", text("directory")), ("mode", text("0644"))]));
    assert_eq!(mode(&path), 0o644);
}

#[test]
fn link_has_its_own_owner() {
    need_root();
    let home = directory();
    let (victim, path) = (home.path().join("victim"), home.path().join("link"));
    fs::write(&victim, "").unwrap();
    converge(&file(&path, [("target", path_text(&victim)), ("owner", text("daemon"))]));
    assert_eq!((owner(&path).0, owner(&victim).0), (1, 0));
    converge(&file(&path, [("target", path_text(&victim)), ("owner", text("bin"))]));
    converge(&file(&path, [("target", text("elsewhere"))]));
    assert_eq!((owner(&path).0, owner(&victim).0), (2, 0));
}

#[test]
fn symbolic_modes_match_chmod() {
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
    converge(&file(&path, [("mode", text("u=rwX,g-w,o="))]));
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn new_files_have_the_declared_mode_whatever_the_umask() {
    let home = directory();
    with_umask("077", "ownership::new_files_in_a_process_with_a_umask", home.path());
    assert_eq!((mode(home.path().join("a")), mode(home.path().join("b"))), (0o666, 0o644));
}

#[test]
#[ignore = "started by another test, with a umask"]
fn new_files_in_a_process_with_a_umask() {
    let home = given_directory();
    fs::write(home.join("other"), "").unwrap();
    assert_eq!(mode(home.join("other")), 0o600, "the process has a umask");
    converge(&file(home.join("a"), [("content", text("")), ("mode", text("0666"))]));
    converge(&file(home.join("b"), [("content", text(""))]));
}

#[test]
fn hard_linked_file_in_shared_directory_is_not_changed() {
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
    converge(&file(open.join("x"), [("content", text("new")), ("mode", text("0666"))]));
    assert_eq!((fs::read(&victim).unwrap(), mode(&victim)), (b"".to_vec(), 0o644), "a new content is a new file");
    let closed = home.path().join("closed");
    fs::hard_link(&victim, &closed).unwrap();
    converge(&file(&closed, [("mode", text("0600"))]));
    let failure = apply(&file(&closed, [("mode", text("4755"))])).unwrap_err();
    assert!(failure.contains("setuid and setgid would reach"), "{failure}");
}

#[test]
fn unprivileged_user_reads_own_files_and_gets_errors_for_others() {
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
    converge(&file(&own, [("content", text("mine")), ("mode", text("0640")), ("owner", Value::from(65534))]));
    assert_eq!((owner(&own).0, mode(&own)), (65534, 0o640));
    let failure = apply(&file(&own, [("owner", text("root"))])).unwrap_err();
    assert!(failure.contains("cannot change the owner of") && failure.contains("not permitted"), "{failure}");
    let secret = home.join("secret");
    let error = found(&Context::empty(), &file(&secret, [("content", text("hidden"))])).unwrap_err();
    assert!(error.message.contains("cannot read") && error.message.contains("Permission denied"), "{error}");
    assert_eq!(plan(&file(&secret, [("mode", text("0600")), ("owner", text("root"))])), []);
    let error = found(&Context::empty(), &file("/root/x", [("content", text("y"))]));
    assert!(error.is_err_and(|error| error.message.contains("Permission denied")));
    symlink("own", home.join("link")).unwrap();
    converge(&file(home.join("link"), [("content", text("a file now"))]));
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
}

#[test]
fn a_sensitive_owner_owns_the_file() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    for (owner, uid) in [(Value::Integer(1), 1), (text("2"), 2), (text("root"), 0)] {
        let mut declared = file(&path, [("content", text("a")), ("owner", text("3"))]);
        declared.should.set("owner", Value::sensitive(owner));
        canonicalize_one(&FileProvider::new(), &Context::empty(), &mut declared.name, &mut declared.should).unwrap();
        converge(&declared);
        assert_eq!(crate::harness::owner(&path).0, uid);
    }
}
