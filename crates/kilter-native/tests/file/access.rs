//! Access control lists, capabilities and other extended attributes.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use kilter_model::{Attributes, Value};
use kilter_native::FileProvider;
use kilter_provider::{Context, Provider, ReadOne, Wanted, canonicalize_one};
use rustix::fs::XattrFlags;

use crate::harness::*;

/// The user who prepares files: nobody.
const EVE: u32 = 65534;
const NO_ID: u32 = u32::MAX;

/// `user::rw- user:EVE:PERMISSIONS group::GROUP mask::MASK other::---`
fn list_for_eve(permissions: u16, group: u16, mask: u16) -> [(u16, u16, u32); 5] {
    [(1, 6, NO_ID), (2, permissions, EVE), (4, group, NO_ID), (0x10, mask, NO_ID), (0x20, 0, NO_ID)]
}

fn default_list_for_eve() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [(1, 7, NO_ID), (2, 7, EVE), (4, 5, NO_ID), (0x10, 7, NO_ID), (0x20, 5, NO_ID)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    list
}

fn has(path: &Path, name: &str) -> bool {
    rustix::fs::getxattr(path, name, &mut [0; 256][..]).is_ok()
}

/// Returns true if eve can read a file.
fn eve_reads(path: &Path) -> bool {
    let options = ["--reuid=65534", "--regid=65534", "--clear-groups", "cat"];
    let output = Command::new("setpriv").args(options).arg(path).output();
    output.expect("setpriv is missing: install the package util-linux").status.success()
}

/// A directory in which everybody can create files.
fn shared_directory() -> tempfile::TempDir {
    need_root();
    let home = directory();
    set_mode(home.path(), 0o1777);
    home
}

/// A file that eve has prepared for herself.
fn prepared(path: &Path, content: &str, owner: u32) {
    let _ = fs::remove_file(path);
    fs::write(path, content).expect("writable");
    set_access_list(path, &list_for_eve(6, 4, 4));
    chown(path, Some(owner), Some(owner)).expect("the test runs as root");
}

#[test]
fn user_who_prepared_a_file_cannot_read_it_afterwards() {
    let home = shared_directory();
    let path = home.path().join("secret");
    let attributes = || [("owner", text("root")), ("group", text("root")), ("mode", text("0640"))];
    let [owner, group, mode] = attributes();
    let secret = file(&path, [("content", text("secret")), owner, group, mode]);
    for (content, prepared_by) in [("secret", EVE), ("bait", EVE), ("secret", 0), ("bait", 0)] {
        prepared(&path, content, prepared_by);
        let planned = told(&plan(&secret));
        assert!(planned.contains(&"acl".to_owned()), "{content} of {prepared_by}: {planned:?}");
        converge(&secret);
        assert!(!eve_reads(&path), "{content} of {prepared_by}");
        assert!(!has(&path, "system.posix_acl_access"));
        assert_eq!(crate::harness::mode(&path), 0o640);
    }
    prepared(&path, "theirs", EVE);
    converge(&file(&path, attributes()));
    assert!(!eve_reads(&path), "without a declared content");
}

#[test]
fn removed_list_is_reported_with_its_entries() {
    let home = shared_directory();
    let path = home.path().join("x");
    prepared(&path, "", 0);
    let planned = plan(&file(&path, [("mode", text("0640"))]));
    let message = planned[0].message.as_deref().unwrap();
    assert!(message.ends_with(":rw- → none (undeclared)"), "{message}");
    assert_eq!(planned[0].is.as_hash().unwrap()["managed"].as_list().len(), 1, "{planned:?}");
}

#[test]
fn reported_list_is_removed_although_the_new_mode_would_limit_it() {
    let home = shared_directory();
    let path = home.path().join("x");
    prepared(&path, "bait", EVE);
    set_access_list(&path, &[(1, 6, NO_ID), (2, 6, 4711), (4, 4, NO_ID), (0x10, 6, NO_ID), (0x20, 4, NO_ID)]);
    let declared = file(&path, [("content", text("new"))]);
    assert!(told(&plan(&declared)).contains(&"acl".to_owned()));
    converge(&declared);
    assert!(!has(&path, "system.posix_acl_access"));
    assert_eq!(crate::harness::mode(&path), 0o644);
}

#[test]
fn report_names_only_the_list_that_is_removed() {
    let home = shared_directory();
    let path = home.path().join("x");
    fs::create_dir(&path).unwrap();
    set_access_list(&path, &list_for_eve(7, 5, 5));
    set_mode(&path, 0o755);
    rustix::fs::setxattr(&path, "system.posix_acl_default", &default_list_for_eve(), XattrFlags::empty()).unwrap();
    let declared = file(&path, [("ensure", text("directory")), ("mode", text("0755"))]);
    let planned = plan(&declared);
    let message = planned[0].message.as_deref().unwrap();
    assert!(message.starts_with("default:") && !message.contains(", user:"), "{message}");
    converge(&declared);
    assert!(has(&path, "system.posix_acl_access") && !has(&path, "system.posix_acl_default"));
}

#[test]
fn list_that_gives_no_more_than_the_mode_is_left_alone() {
    let home = shared_directory();
    let path = home.path().join("x");
    for mode in ["0600", "0644", "0755", "0604"] {
        prepared(&path, "same", 0);
        converge(&file(&path, [("mode", text(mode))]));
        assert!(has(&path, "system.posix_acl_access"), "{mode}");
        assert_eq!(plan(&file(&path, [("content", text("same")), ("mode", text(mode))])), []);
        assert_eq!(plan(&file(&path, [("ensure", text("file"))])), []);
    }
    assert_eq!(plan(&file(&path, [("mode", text("0750"))])).len(), 2, "the new mode would open it");
    converge(&file(&path, [("mode", text("0750"))]));
    assert!(!has(&path, "system.posix_acl_access"));
}

#[test]
fn list_is_removed_without_giving_the_group_more() {
    let home = shared_directory();
    let path = home.path().join("x");
    for content in [None, Some("new")] {
        fs::write(&path, "old").unwrap();
        set_access_list(&path, &list_for_eve(4, 0, 4));
        match content {
            None => converge(&file(&path, [("owner", text("root"))])),
            Some(content) => converge(&file(&path, [("content", text(content))])),
        };
        assert_eq!(mode(&path), 0o600, "{content:?}: group::---");
    }
}

#[test]
fn removed_list_opens_a_file_at_no_time() {
    let home = shared_directory();
    let paths: Vec<_> = (0..300).map(|number| home.path().join(format!("x{number}"))).collect();
    for path in &paths {
        fs::write(path, "").unwrap();
        set_access_list(path, &list_for_eve(6, 0, 6));
    }
    // Whoever sees no list sees the mode after its removal or a later one.
    let watched = paths.clone();
    let watcher = std::thread::spawn(move || {
        let is_opened = |path: &std::path::PathBuf| {
            while has(path, "system.posix_acl_access") {}
            mode(path) & 0o020 != 0
        };
        watched.iter().filter(|path| is_opened(path)).count()
    });
    paths.iter().for_each(|path| drop(converge(&file(path, [("mode", text("0640"))]))));
    assert_eq!(watcher.join().unwrap(), 0, "files that their group could write for a while");
    assert!(paths.iter().all(|path| mode(path) == 0o640));
}

#[test]
fn symbolic_mode_keeps_group_permissions_that_the_list_denies() {
    let home = shared_directory();
    let path = home.path().join("x");
    for (content, group, expected) in [("same", 0, 0o600), ("same", 4, 0o640), ("new", 0, 0o600), ("new", 4, 0o640)] {
        let _ = fs::remove_file(&path);
        fs::write(&path, "same").unwrap();
        set_access_list(&path, &list_for_eve(6, group, 6));
        let declared = file(&path, [("content", text(content)), ("mode", text("u=rw,o="))]);
        converge(&declared);
        assert_eq!(mode(&path), expected, "{content}, group {group}");
        assert!(!eve_reads(&path), "{content}, group {group}");
    }
    let given = file(&path, [("mode", text("u=rw,g+w,o="))]);
    set_access_list(&path, &list_for_eve(6, 4, 4));
    converge(&given);
    assert_eq!(mode(&path), 0o660, "what the mode adds is added");
}

#[test]
fn directory_of_another_user_does_not_open_files_made_in_it() {
    let home = shared_directory();
    let path = home.path().join("d");
    let prepare = || {
        fs::create_dir(&path).unwrap();
        rustix::fs::setxattr(&path, "system.posix_acl_default", &default_list_for_eve(), XattrFlags::empty()).unwrap();
        chown(&path, Some(EVE), Some(EVE)).unwrap();
    };
    prepare();
    converge(&file(path.join("first"), [("content", text("secret")), ("mode", text("0640"))]));
    assert!(!eve_reads(&path.join("first")), "a new file inherits nothing");
    converge(&file(path.join("made"), [("ensure", text("directory"))]));
    assert!(!has(&path.join("made"), "system.posix_acl_default"), "nor does a new directory");
    let attributes = [("ensure", text("directory")), ("owner", text("root")), ("mode", text("0755"))];
    let declared = file(&path, attributes);
    assert_eq!(told(&converge(&declared)), ["owner", "acl"]);
    assert!(!has(&path, "system.posix_acl_default"));
    fs::write(path.join("second"), "secret").unwrap();
    set_mode(path.join("second"), 0o640);
    assert!(!eve_reads(&path.join("second")), "a file that another program made");
    fs::remove_dir_all(&path).unwrap();
    prepare();
    converge(&file(path.join("kept"), [("content", text("")), ("mode", text("0640")), ("acl", text("keep"))]));
    assert!(eve_reads(&path.join("kept")), "that was declared");
}

#[test]
fn new_entries_inherit_no_list_whatever_their_mode_is() {
    let home = shared_directory();
    let own = home.path().join("own");
    fs::create_dir(&own).unwrap();
    rustix::fs::setxattr(&own, "system.posix_acl_default", &default_list_for_eve(), XattrFlags::empty()).unwrap();
    chown(&own, Some(EVE), Some(EVE)).unwrap();
    for mode in ["0600", "0640", "0644"] {
        let path = own.join(mode);
        converge(&file(&path, [("content", text("new")), ("mode", text(mode))]));
        assert!(!has(&path, "system.posix_acl_access"), "{mode}");
    }
    let below = own.join("below");
    converge(&file(&below, [("ensure", text("directory"))]));
    assert!(!has(&below, "system.posix_acl_access") && !has(&below, "system.posix_acl_default"));
}

#[test]
fn lists_below_a_directory_are_removed_as_well() {
    let home = shared_directory();
    let (source, path) = (home.path().join("source"), home.path().join("copy"));
    grow(&source, &[("sub/a", "a"), ("b", "b")]);
    set_mode(source.join("sub/a"), 0o640);
    set_mode(source.join("b"), 0o640);
    let copied = file(&path, [("source", path_text(&source)), ("recurse", yes())]);
    converge(&copied);
    prepared(&path.join("sub/a"), "a", 0);
    prepared(&path.join("b"), "changed", 0);
    let planned = told(&plan(&copied));
    assert!(planned.iter().any(|line| line.starts_with("acl of sub/a: ")), "{planned:?}");
    converge(&copied);
    assert!(!eve_reads(&path.join("sub/a")) && !eve_reads(&path.join("b")));
    prepared(&path.join("b"), "b", 0);
    let owned = file(&path, [("recurse", yes()), ("mode", text("0640"))]);
    converge(&owned);
    assert!(!eve_reads(&path.join("b")));
}

#[test]
fn managed_entries_are_set_exactly_and_none_removes_all() {
    let home = shared_directory();
    let path = home.path().join("x");
    let declare = |acl: Value| file(&path, [("content", text("x")), ("mode", text("0640")), ("acl", acl)]);
    let eve = declare(managed(&["u:65534:r"]));
    converge(&eve);
    assert!(eve_reads(&path));
    assert_eq!((mode(&path), plan(&eve)), (0o640, vec![]));
    set_access_list(&path, &[(1, 6, NO_ID), (2, 4, EVE), (2, 4, 1), (4, 4, NO_ID), (0x10, 4, NO_ID), (0x20, 0, NO_ID)]);
    let differences = converge(&eve);
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert_eq!(differences[0].is.as_hash().unwrap()["managed"].as_list().len(), 2);
    let changed = file(&path, [("content", text("y")), ("mode", text("0640")), ("acl", managed(&["g:daemon:r"]))]);
    converge(&changed);
    assert!(!eve_reads(&path));
    let none = file(&path, [("mode", text("0644")), ("acl", text("none"))]);
    converge(&none);
    assert!(!has(&path, "system.posix_acl_access"));
    set_access_list(&path, &list_for_eve(4, 4, 4));
    assert_eq!(told(&plan(&file(&path, [("acl", text("none"))]))), ["acl"]);
    let below = home.path().join("d");
    let directory = file(&below, [("ensure", text("directory")), ("acl", managed(&["d:u:65534:rx", "u:65534:rx"]))]);
    converge(&directory);
    assert_eq!(plan(&directory), []);
    assert!(has(&below, "system.posix_acl_default"));
}

#[test]
fn list_that_is_read_can_be_declared() {
    let home = shared_directory();
    let path = home.path().join("d");
    fs::create_dir(&path).unwrap();
    set_access_list(&path, &list_for_eve(5, 5, 7));
    rustix::fs::setxattr(&path, "system.posix_acl_default", &default_list_for_eve(), XattrFlags::empty()).unwrap();
    let (provider, name) = (FileProvider::new(), path.to_str().unwrap().into());
    let read = provider.get_one(&Context::empty(), Wanted::new(&name, None)).unwrap();
    let acl = read.attributes.get("acl").unwrap().clone();
    let mut canonical: Attributes = [("acl", acl.clone())].into_iter().collect();
    canonicalize_one(&provider, &Context::empty(), &mut name.clone(), &mut canonical).unwrap();
    assert_eq!(canonical.get("acl"), Some(&acl));
    // Only the group's own entry differs from the mode.
    let declared = file(&path, [("ensure", text("directory")), ("mode", text("0670")), ("acl", acl)]);
    assert_eq!(told(&converge(&declared)), ["acl"]);
    let fresh = file(home.path().join("x"), [("content", text("")), ("mode", text("0640")), ("acl", text("none"))]);
    converge(&fresh);
    set_access_list(&home.path().join("x"), &[(1, 6, NO_ID), (4, 4, NO_ID), (0x10, 4, NO_ID), (0x20, 0, NO_ID)]);
    assert_eq!(told(&converge(&fresh)), ["acl"], "a list with a mask and nobody in it");
}

#[test]
fn attributes_of_the_old_owner_are_not_given_to_the_new_file() {
    let home = shared_directory();
    let path = home.path().join("x");
    for (owner, kept) in [(0, true), (EVE, false)] {
        let _ = fs::remove_file(&path);
        fs::write(&path, "old").unwrap();
        rustix::fs::setxattr(&path, "user.note", b"x", XattrFlags::empty()).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        converge(&file(&path, [("content", text("new")), ("owner", text("root"))]));
        assert_eq!(has(&path, "user.note"), kept, "{owner}");
    }
}

#[test]
fn capabilities_of_a_user_namespace_are_a_difference() {
    let home = shared_directory();
    let path = home.path().join("x");
    fs::write(&path, "").unwrap();
    set_mode(&path, 0o755);
    // Revision 3, effective: cap_setuid (7) for the namespace whose root is uid 1000; and revision 2, by root.
    let namespaced = [0x0300_0001u32, 1 << 7, 0, 0, 0, 1000].map(u32::to_le_bytes).concat();
    let by_root = [0x0200_0001u32, 1 << 7, 0, 0, 0].map(u32::to_le_bytes).concat();
    let declared = file(&path, [("mode", text("0755")), ("owner", text("root"))]);
    rustix::fs::setxattr(&path, "security.capability", &by_root, XattrFlags::empty()).unwrap();
    assert_eq!(plan(&declared), [], "root gave them");
    rustix::fs::setxattr(&path, "security.capability", &namespaced, XattrFlags::empty()).unwrap();
    assert_eq!(told(&converge(&declared)), ["capabilities"]);
    assert!(!has(&path, "security.capability"));
}

fn managed(entries: &[&str]) -> Value {
    Value::hash([("managed", Value::strings(entries.iter().copied()))])
}

/// The access list as getfacl(1) prints it: `user::rw- user:7:r-- group::r-- mask::r-- other::---`.
fn getfacl(path: &Path) -> String {
    let list = access_list(path);
    let entries = list[4..].chunks_exact(8).map(|entry| {
        let word = match entry[0] {
            1 | 2 => "user",
            4 | 8 => "group",
            0x10 => "mask",
            _ => "other",
        };
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let id = if id == NO_ID { String::new() } else { id.to_string() };
        let letter = |bit, letter| if entry[2] & bit != 0 { letter } else { '-' };
        format!("{word}:{id}:{}{}{}", letter(4, 'r'), letter(2, 'w'), letter(1, 'x'))
    });
    entries.collect::<Vec<_>>().join(" ")
}

/// Applies a file and expects that a second apply finds no difference.
fn bring_once(declared: &DeclaredFile) -> Vec<String> {
    let differences = told(&converge(declared));
    assert_eq!(converge(declared), [], "the second apply of {}", declared.name);
    differences
}

#[test]
fn managed_entry_above_the_mask_raises_the_mask() {
    let home = shared_directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    set_mode(&path, 0o640);
    let declare = |entries: &[&str]| file(&path, [("acl", managed(entries))]);
    let planned = plan(&declare(&["user:65534:rw"]));
    let mask = planned.iter().find(|difference| difference.attribute == "mask").expect("the mask is in the diff");
    assert_eq!(mask.message.as_deref(), Some("r-- → rw- (the mode 0640 becomes 0660)"));
    assert_eq!(bring_once(&declare(&["user:65534:rw"])), ["acl", "mask"]);
    assert_eq!(getfacl(&path), "user::rw- user:65534:rw- group::r-- mask::rw- other::---");
    assert!(eve_reads(&path));
    // chmod(1) changes the mask, not the entry of the owning group.
    set_mode(&path, 0o600);
    assert_eq!(bring_once(&declare(&["user:65534:rw"])), ["acl", "mask"]);
    assert_eq!(getfacl(&path), "user::rw- user:65534:rw- group::r-- mask::rw- other::---");
    bring_once(&declare(&["group:7:x"]));
    assert_eq!(getfacl(&path), "user::rw- group::r-- group:7:--x mask::r-x other::---", "the mask is lowered too");
    bring_once(&file(&path, [("acl", text("none"))]));
    assert_eq!(mode(&path), 0o640, "the owning group keeps its own permissions");
}

#[test]
fn new_content_takes_the_group_permissions_from_the_list_and_not_from_the_mask() {
    let home = shared_directory();
    let path = home.path().join("x");
    let expected = "user::rw- user:65534:rwx group::r-- mask::rwx other::---";
    fs::write(&path, "0").unwrap();
    set_mode(&path, 0o640);
    for content in ["1", "2", "3"] {
        bring_once(&file(&path, [("content", text(content)), ("acl", managed(&["user:65534:rwx"]))]));
        assert_eq!((getfacl(&path).as_str(), mode(&path)), (expected, 0o670), "{content}");
    }
    for content in ["4", "5"] {
        let mode = ("mode", text("u=rw,o="));
        bring_once(&file(&path, [("content", text(content)), mode, ("acl", managed(&["user:65534:rwx"]))]));
        assert_eq!(getfacl(&path), expected, "{content}, with a symbolic mode");
    }
    let owner = ("owner", text("65534"));
    bring_once(&file(&path, [owner, ("content", text("5")), ("acl", managed(&["user:65534:rwx"]))]));
    assert_eq!(getfacl(&path), expected, "with another owner");
    bring_once(&file(&path, [("content", text("6")), ("acl", text("none"))]));
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn new_file_and_directory_have_a_mask_for_their_managed_entries() {
    let home = shared_directory();
    let (path, below) = (home.path().join("x"), home.path().join("d"));
    bring_once(&file(&path, [("content", text("")), ("acl", managed(&["user:65534:rw"]))]));
    assert_eq!(getfacl(&path), "user::rw- user:65534:rw- group::r-- mask::rw- other::r--");
    bring_once(&file(&below, [("ensure", text("directory")), ("acl", managed(&["user:65534:rwx"]))]));
    assert_eq!(getfacl(&below), "user::rwx user:65534:rwx group::r-x mask::rwx other::r-x");
    bring_once(&file(&below, [("mode", text("2770")), ("acl", managed(&["user:65534:rwx"]))]));
    assert_eq!((mode(&below), getfacl(&below).contains("group::rwx")), (0o2770, true));
    bring_once(&file(&below, [("acl", managed(&["user:65534:rx"]))]));
    assert_eq!(mode(&below), 0o2770, "the setgid bit stays");
}

#[test]
fn group_digit_of_a_declared_mode_is_the_mask() {
    let home = shared_directory();
    let path = home.path().join("x");
    fs::write(&path, "").unwrap();
    let declare = |mode, entries: &[&str]| file(&path, [("mode", text(mode)), ("acl", managed(entries))]);
    bring_once(&declare("0660", &["user:65534:r"]));
    assert_eq!(getfacl(&path), "user::rw- user:65534:r-- group::rw- mask::rw- other::---");
    bring_once(&declare("0640", &["user:65534:r"]));
    assert_eq!(getfacl(&path), "user::rw- user:65534:r-- group::r-- mask::r-- other::---");
    bring_once(&declare("g+w", &["user:65534:r"]));
    assert_eq!(getfacl(&path), "user::rw- user:65534:r-- group::rw- mask::rw- other::---");
}

#[test]
fn declared_mask_replaces_the_union() {
    let home = shared_directory();
    let path = home.path().join("x");
    fs::write(&path, "").unwrap();
    set_mode(&path, 0o640);
    let declared = file(&path, [("acl", managed(&["user:nobody:rw", "m::r"]))]);
    bring_once(&declared);
    let expected = "user::rw- user:65534:rw- group::r-- mask::r-- other::---";
    assert_eq!(getfacl(&path), expected);
    let provider = FileProvider::new();
    let read = provider.get_one(&Context::empty(), Wanted::new(&declared.name, None)).unwrap();
    assert_eq!(read.attributes.get("acl"), declared.should.get("acl"), "`get` shows a mask that is not the union");
    set_mode(&path, 0o660);
    bring_once(&declared);
    assert_eq!(getfacl(&path), expected);
    bring_once(&file(&path, [("mode", text("0640")), ("acl", managed(&["user:65534:rw", "mask::r"]))]));
    assert_eq!(getfacl(&path), expected);
}

#[test]
fn copies_below_a_directory_have_a_mask_for_their_managed_entries() {
    let home = shared_directory();
    let (source, path) = (home.path().join("source"), home.path().join("copy"));
    grow(&source, &[("a", "a"), ("sub/b", "b")]);
    set_mode(source.join("a"), 0o640);
    let copied =
        file(&path, [("source", path_text(&source)), ("recurse", yes()), ("acl", managed(&["user:65534:rwx"]))]);
    bring_once(&copied);
    let expected = "user::rw- user:65534:rwx group::r-- mask::rwx other::---";
    assert_eq!(getfacl(&path.join("a")), expected);
    fs::write(source.join("a"), "new").unwrap();
    bring_once(&copied);
    assert_eq!(getfacl(&path.join("a")), expected);
    let one = home.path().join("one");
    let copied = file(&one, [("source", path_text(&source.join("a"))), ("acl", managed(&["user:65534:rwx"]))]);
    bring_once(&copied);
    set_access_list(&one, &[(1, 6, NO_ID), (2, 7, EVE), (4, 6, NO_ID), (0x10, 7, NO_ID), (0x20, 0, NO_ID)]);
    assert_eq!(bring_once(&copied), ["acl"], "the group had more than that of the source");
    assert_eq!(getfacl(&one), expected);
}

#[test]
fn managed_entries_that_the_mode_contradicts_are_refused() {
    let problems = |mode, entries: &[&str]| {
        let should: Attributes = [("mode", text(mode)), ("acl", managed(entries))].into_iter().collect();
        let problems = FileProvider::new().validate("/a", &should, &[]);
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{problems:?}");
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert!(problems("0640", &["user:eve:rw"]).contains("which is the group digit 4 of the mode 0640"));
    assert!(problems("g-w", &["user:eve:rw"]).contains("gives more than the mode g-w leaves to the mask"));
    assert!(problems("0640", &["user:eve:r", "mask::rw"]).contains("`mask::rw` contradicts the mode 0640"));
    assert!(problems("g+w", &["user:eve:r", "mask::r"]).contains("`mask::r` contradicts the mode g+w"));
    assert!(problems("u=rw", &["mask::r"]).contains("limits no entry"));
    for (mode, entries) in [
        ("0660", ["user:eve:rw", "group:adm:r"]),
        ("u=rw,o=", ["user:eve:rw", "mask::r"]),
        ("g+w", ["user:eve:r", "mask::rw"]),
        ("0640", ["user:eve:rw", "mask::r"]),
    ] {
        assert_eq!(problems(mode, &entries), "", "{mode} {entries:?}");
    }
}
