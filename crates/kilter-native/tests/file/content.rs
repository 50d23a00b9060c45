//! Contents: replacement, backups and diffs.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use kilter_model::{Change, Value};
use kilter_native::FileProvider;
use kilter_provider::{Context, Durability, Mode, Provider, Session, Wanted, check};
use rustix::fs::XattrFlags;

use crate::harness::*;

#[test]
fn a_content_that_differs_is_replaced_and_shown_as_a_diff() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "one\ntwo\n").unwrap();
    let declared = file(&path, [("content", text("one\nthree\n"))]);
    let differences = converge(&declared);
    let diff = differences[0].diff.as_deref().unwrap();
    assert!(diff.contains("-two\n+three\n"), "{diff}");
    let message = differences[0].message.as_deref().unwrap();
    assert!(message.starts_with("{sha256}") && message.contains(" → {sha256}"), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\nthree\n");
}

#[test]
fn contents_of_every_size_compare_byte_by_byte() {
    let home = directory();
    let path = home.path().join("x");
    for size in [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 200_000, 3_000_000] {
        let content: String = (0..size).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let declared = file(&path, [("content", text(&content))]);
        converge(&declared);
        assert_eq!(plan(&declared), [], "{size}");
        if size > 0 {
            let mut bytes = content.clone().into_bytes();
            *bytes.last_mut().unwrap() = b'!';
            fs::write(&path, &bytes).unwrap();
            assert_eq!(told(&plan(&declared)), ["content"], "{size}");
        }
        fs::write(&path, content + "more").unwrap();
        assert_eq!(told(&plan(&declared)), ["content"], "{size}");
    }
}

#[test]
fn binary_content_is_accepted() {
    let home = directory();
    let path = home.path().join("x");
    let bytes: Vec<u8> = (0..=255).collect();
    let declared = file(&path, [("content", Value::Binary(bytes.as_slice().into()))]);
    converge(&declared);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::write(&path, "text").unwrap();
    let differences = converge(&declared);
    assert_eq!(differences[0].diff, None);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn secret_content_is_never_shown() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old secret").unwrap();
    let declared = file(&path, [("content", Value::sensitive(text("new secret")))]);
    let found = found(&Context::empty(), &declared).unwrap();
    let shown = format!("{found:?}");
    assert!(!shown.contains("secret") && !shown.contains("sha256"), "{shown}");
    converge(&declared);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new secret");
    let empty = file(&path, [("content", Value::sensitive(text("")))]);
    assert_eq!(told(&converge(&empty)), ["content"]);
}

#[test]
fn show_diff_false_hides_old_content() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "private\n").unwrap();
    let declared = file(&path, [("content", text("other\n")), ("show_diff", Value::from(false))]);
    let differences = plan(&declared);
    assert_eq!(differences[0].diff, None);
    assert!(!format!("{differences:?}").contains("private"));
}

#[test]
fn replace_false_only_creates() {
    let home = directory();
    let path = home.path().join("x");
    let declared = file(&path, [("content", text("first")), ("replace", Value::from(false))]);
    converge(&declared);
    fs::write(&path, "changed by hand").unwrap();
    assert_eq!(plan(&declared), []);
}

#[test]
fn plan_of_a_new_file_shows_what_is_written() {
    let home = directory();
    let attributes = |of: &[kilter_model::Difference]| -> Vec<String> {
        of.iter().map(|one| one.attribute.as_str().to_owned()).collect()
    };
    let path = home.path().join("kept");
    let declared = file(&path, [("content", text("x")), ("acl", text("keep"))]);
    assert_eq!(attributes(&plan(&declared)), ["ensure", "content"]);
    assert_eq!(attributes(&converge(&declared)), ["ensure", "content"]);
    assert_eq!(plan(&declared), []);

    let path = home.path().join("once");
    let declared = file(&path, [("content", text("first")), ("replace", Value::from(false))]);
    assert_eq!(attributes(&plan(&declared)), ["ensure", "content"]);
    converge(&declared);
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");

    let path = home.path().join("link");
    let declared = file(&path, [("ensure", text("link")), ("target", text("once")), ("replace", Value::from(false))]);
    assert_eq!(attributes(&plan(&declared)), ["ensure", "target"]);
    converge(&declared);
    assert_eq!(fs::read_link(&path).unwrap(), std::path::Path::new("once"));
}

#[test]
fn a_reader_never_sees_part_of_a_content() {
    let home = directory();
    let path = home.path().join("x");
    let contents = ["a".repeat(60_000), "b".repeat(40_000)];
    fs::write(&path, &contents[0]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) || reads == 0 {
                let seen = fs::read_to_string(&path).expect("the file is always there");
                assert!(contents.contains(&seen), "{} bytes", seen.len());
                reads += 1;
            }
        });
        let cx = Context::empty().with_durability(Durability::Unflushed);
        for round in 1..100 {
            apply_in(&cx, &file(&path, [("content", text(&contents[round % 2])), ("show_diff", Value::from(false))]))
                .unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader saw whole contents only");
    });
}

#[test]
fn a_replaced_file_keeps_owner_mode_access_list_and_attributes() {
    need_root();
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
    set_mode(&path, 0o640);
    rustix::fs::setxattr(&path, "user.note", b"kept", XattrFlags::empty()).unwrap();
    // user::rw- user:7:rw- group::r-- mask::rw- other::---
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, 7), (4, 4, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let before = mode(&path);
    converge(&file(&path, [("content", text("new")), ("acl", text("keep"))]));
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!((owner(&path), mode(&path)), ((12, 34), before));
    let read = |name: &str| {
        let mut value = vec![0; 256];
        let count = rustix::fs::getxattr(&path, name, &mut value[..]).unwrap();
        value.truncate(count);
        value
    };
    assert_eq!(read("user.note"), b"kept");
    assert_eq!(read("system.posix_acl_access"), list);
}

#[test]
fn backup_with_suffix_is_in_the_same_directory() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    set_mode(&path, 0o4750);
    let declare = |content: &str| file(&path, [("content", text(content)), ("backup", text(".orig"))]);
    converge(&declare("new"));
    assert_eq!(fs::read_to_string(home.path().join("x.orig")).unwrap(), "old");
    assert_eq!((mode(home.path().join("x.orig")), mode(&path)), (0o750, 0o4750), "the old program is disarmed");
    for content in ["newer", "new", "newer", "newest"] {
        converge(&declare(content));
    }
    let kept = ["x.orig", "x.orig.1", "x.orig.2"].map(|name| fs::read_to_string(home.path().join(name)).unwrap());
    assert_eq!(kept, ["old", "new", "newer"], "the first is not lost, and nothing is kept twice");
    assert_eq!(names(home.path()), ["x", "x.orig", "x.orig.1", "x.orig.2"]);
}

#[test]
fn directory_backup_never_reuses_a_name() {
    let home = directory();
    let path = home.path().join("x");
    for content in ["one", "two"] {
        grow(&path, &[("inside", content)]);
        let attributes = [("content", text("a file")), ("force", yes()), ("backup", text(".orig"))];
        converge(&file(&path, attributes));
        fs::remove_file(&path).unwrap();
    }
    let kept = ["x.orig/inside", "x.orig.1/inside"].map(|name| fs::read_to_string(home.path().join(name)).unwrap());
    assert_eq!(kept, ["one", "two"]);
}

#[test]
fn a_new_mode_limits_the_access_list_that_is_kept() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    let entries =
        |mask, other| [(1, 6, u32::MAX), (2, 4, 7), (4, 4, u32::MAX), (0x10, mask, u32::MAX), (0x20, other, u32::MAX)];
    let kept = set_access_list(&path, &entries(4, 4));
    converge(&file(&path, [("content", text("secret")), ("mode", text("0600"))]));
    assert_eq!(mode(&path), 0o600);
    let limited = access_list(&path);
    converge(&file(&path, [("content", text("public")), ("mode", text("0644"))]));
    assert_eq!((mode(&path), access_list(&path)), (0o644, kept), "user 7 may read again");
    set_access_list(&path, &entries(0, 0));
    assert_eq!(access_list(&path), limited);
}

#[test]
fn copy_that_a_power_cut_left_empty_does_not_count_as_a_backup() {
    let (home, state) = (directory(), directory());
    let path = home.path().join("x");
    let cx = Context::empty().with_var_dir(Some(state.path()));
    fs::write(&path, "old").unwrap();
    // SHA-256 of `old`.
    let sum = "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4";
    let kept = state.path().join("backup").join(&sum[..2]).join(sum);
    for damage in ["", "odd", "old"] {
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::write(&kept, damage).unwrap();
        fs::write(&path, "old").unwrap();
        apply_in(&cx, &file(&path, [("content", text("new")), ("backup", yes())])).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "old", "{damage:?}");
        assert_eq!(names(state.path().join("backup")), [&sum[..2], "index"]);
    }
    fs::write(home.path().join("elsewhere"), "old").unwrap();
    fs::remove_file(&kept).unwrap();
    std::os::unix::fs::symlink(home.path().join("elsewhere"), &kept).unwrap();
    fs::write(&path, "old").unwrap();
    apply_in(&cx, &file(&path, [("target", text("nowhere")), ("backup", yes())])).unwrap();
    assert!(fs::symlink_metadata(&kept).unwrap().is_file(), "a link is no copy");
}

#[test]
fn a_backup_in_the_state_directory_is_private_and_indexed() {
    let (home, state) = (directory(), directory());
    let path = home.path().join("x");
    let cx = Context::empty().with_var_dir(Some(state.path()));
    for content in ["one", "two", "one"] {
        apply_in(&cx, &file(&path, [("content", text(content)), ("backup", yes())])).unwrap();
    }
    apply_in(&cx, &file(&path, [("ensure", text("absent")), ("backup", yes())])).unwrap();
    let index = fs::read_to_string(state.path().join("backup/index")).unwrap();
    assert_eq!(index.lines().count(), 3, "{index}");
    assert!(index.lines().all(|line| line.ends_with(path.to_str().unwrap())), "{index}");
    let sum = index.split(' ').nth(1).unwrap();
    let kept = state.path().join("backup").join(&sum[..2]).join(sum);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "one");
    assert_eq!((mode(&kept), mode(state.path().join("backup"))), (0o600, 0o700));
}

#[test]
fn irregular_backup_index_is_an_error() {
    let (home, state) = (directory(), directory());
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    let index = state.path().join("backup/index");
    fs::create_dir(state.path().join("backup")).unwrap();
    let cx = Context::empty().with_var_dir(Some(state.path()));
    let declared = file(&path, [("content", text("new")), ("backup", yes())]);
    let mkfifo = |path: &std::path::Path| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    mkfifo(&index);
    assert!(apply_in(&cx, &declared).unwrap_err().contains("backup/index"), "nobody reads it");
    let reader = fs::File::options().read(true).write(true).open(&index).unwrap();
    assert!(apply_in(&cx, &declared).unwrap_err().contains("backup/index"), "somebody reads it");
    drop(reader);
    fs::remove_file(&index).unwrap();
    symlink(home.path().join("elsewhere"), &index).unwrap();
    assert!(apply_in(&cx, &declared).unwrap_err().contains("backup/index"), "a link");
    assert_eq!((names(home.path()), fs::read(&path).unwrap()), (vec!["x".to_owned()], b"old".to_vec()));
}

#[test]
fn missing_backup_directory_prevents_replacement() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    let failure = apply(&file(&path, [("content", text("new")), ("backup", yes())])).unwrap_err();
    assert!(failure.contains("backup: there is no directory for"), "{failure}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(home.path()), ["x"]);
}

#[test]
fn a_refused_content_leaves_the_old_one() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old\n").unwrap();
    let declare = |command: Value| file(&path, [("content", text("new\n")), ("validate_cmd", command)]);
    let failure = apply(&declare(text("grep -q old %"))).unwrap_err();
    assert!(failure.contains("validate_cmd refused") && failure.contains("exit code 1"), "{failure}");
    let shell = ["sh", "-c", "echo \"bad line in $1\" >&2; exit 3", "sh", "%"];
    let failure = apply(&declare(Value::strings(shell))).unwrap_err();
    assert!(failure.contains(&format!("exit code 3: bad line in {}", path.display())), "{failure}");
    assert!(apply(&declare(text("/no/such/program %"))).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
    assert_eq!(names(home.path()), ["x"]);
    converge(&declare(text("sh -c 'grep -q \"$1\" \"$2\"' sh \"new\" %")));
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
}

#[test]
fn validate_cmd_error_hides_secret() {
    let home = directory();
    let path = home.path().join("x");
    let secret = Value::sensitive(text("hunter2 of the database\n"));
    let command = |shell: &str| Value::strings(["sh", "-c", shell, "sh", "%"]);
    for shell in ["cat \"$1\" >&2; exit 3", "cut -c 1-7 \"$1\"; exit 3"] {
        let failure = apply(&file(&path, [("content", secret.clone()), ("validate_cmd", command(shell))])).unwrap_err();
        assert!(failure.contains("exit code 3") && !failure.contains("hunter2"), "{failure}");
    }
    assert_eq!(names(home.path()), [""; 0]);
}

#[test]
fn a_new_file_never_has_another_name() {
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

    let home = directory();
    let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    add_watch(&watch, home.path(), WatchFlags::CREATE | WatchFlags::MOVE | WatchFlags::DELETE).unwrap();
    converge(&file(home.path().join("new"), [("content", text("one")), ("mode", text("0640"))]));
    converge(&file(home.path().join("new"), [("content", text("two"))]));
    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
    let mut reader = Reader::new(&watch, &mut buffer);
    let mut seen = Vec::new();
    while let Ok(event) = reader.next() {
        let name = event.file_name().unwrap().to_str().unwrap().to_owned();
        seen.push((event.events(), if name.starts_with(".kilter.") { "temporary".to_owned() } else { name }));
    }
    use rustix::fs::inotify::ReadFlags;
    let seen: Vec<_> = seen.iter().map(|(flags, name)| (*flags, name.as_str())).collect();
    let expected = [
        (ReadFlags::CREATE, "new"),
        // One that replaces another waits beside it.
        (ReadFlags::CREATE, "temporary"),
        (ReadFlags::MOVED_FROM, "temporary"),
        (ReadFlags::MOVED_TO, "new"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn temporaries_of_killed_run_are_removed_at_next_change() {
    let home = directory();
    let own = home.path().join("x");
    // A name as this process makes it, of a process that is gone: a child that was waited for.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let space = temporary_space(&home.path().join("probe"));
    let dead = home.path().join(format!(".kilter.{pid:x}-1-{space}-0123456789abcdef"));
    let foreign = home.path().join(".kilter.1-1-1-0123456789abcdef");
    let other = home.path().join(".kilter.conf");
    for path in [&dead, &foreign, &other] {
        fs::write(path, "half").unwrap();
    }
    let purging = file(home.path(), [("ensure", text("directory")), ("purge", yes())]);
    let told = told(&plan(&purging));
    let name = dead.file_name().unwrap().to_str().unwrap();
    // Entries come by name, and the number of a process may begin with any digit.
    let mut expected = [name, ".kilter.conf"].map(|name| format!("ensure of {name}: file -> absent"));
    expected.sort();
    assert_eq!(told, expected, "what another host or container may be at work on is no entry");
    converge(&file(&own, [("content", text("new"))]));
    assert!(!dead.exists());
    assert!(foreign.exists(), "another host or container may still be at work");
    assert!(other.exists());
}

/// The part of a temporary name that stands for this boot and PID namespace, as a `validate_cmd` sees
/// it in the directory.
fn temporary_space(probe: &Path) -> String {
    let shell = ["sh", "-c", "ls -a \"$(dirname \"$1\")\" | grep kilter >&2; exit 1", "sh", "%"];
    let listing = file(probe, [("content", text("x")), ("validate_cmd", Value::strings(shell))]);
    let failure = apply(&listing).expect_err("the command refuses everything");
    let name = failure.rsplit(".kilter.").next().expect("the temporary file is there");
    name.split('-').nth(2).expect("its name has four parts").to_owned()
}

#[test]
fn a_source_is_copied_with_its_permissions_and_compared() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    fs::write(&from, "#!/bin/sh\n").unwrap();
    set_mode(&from, 0o4755);
    let declared = file(&to, [("source", path_text(&from))]);
    converge(&declared);
    assert_eq!((fs::read(&to).unwrap(), mode(&to)), (b"#!/bin/sh\n".to_vec(), 0o755));
    fs::write(&to, "#!/bin/no\n").unwrap();
    let differences = converge(&declared);
    assert!(differences[0].diff.as_deref().unwrap().contains("-#!/bin/no\n+#!/bin/sh\n"));
    set_mode(&to, 0o600);
    assert_eq!(told(&converge(&declared)), ["mode"]);
    let error = found(&Context::empty(), &file(&to, [("source", path_text(home.path()))])).unwrap_err();
    assert!(error.message.contains("`recurse: true` copies it"), "{error}");
}

#[test]
fn the_checksum_decides_how_a_copy_is_compared() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    fs::write(&from, "12345").unwrap();
    let declare = |checksum: &str| file(&to, [("source", path_text(&from)), ("checksum", text(checksum))]);
    converge(&declare("mtime"));
    assert_eq!(fs::metadata(&to).unwrap().mtime(), fs::metadata(&from).unwrap().mtime());
    fs::write(&to, "54321").unwrap();
    let past = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    fs::File::options().write(true).open(&to).unwrap().set_times(past).unwrap();
    let seen = ["sha256", "sha512", "mtime", "size", "none"].map(|checksum| plan(&declare(checksum)).len());
    assert_eq!(seen, [1, 1, 1, 0, 0]);
    fs::write(&to, "longer than before").unwrap();
    assert_eq!(["size", "none"].map(|checksum| plan(&declare(checksum)).len()), [1, 0]);
    converge(&declare("size"));
}

#[test]
fn missing_source_with_pending_creator_is_planned() {
    let home = directory();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    fs::write(&to, "x").unwrap();
    let declared = file(&to, [("source", path_text(&from))]);
    assert!(found(&Context::empty(), &declared).is_err());
    let managed = |name: &str| Path::new(name) == from;
    let cx = Context::empty().with_managed(&managed);
    assert_eq!(told(&found(&cx, &declared).unwrap().differences), ["content"]);
}

#[test]
fn batch_failure_affects_only_its_file() {
    let home = directory();
    for number in 0..50 {
        fs::write(home.path().join(format!("f{number:02}")), "old").unwrap();
    }
    fs::create_dir(home.path().join("f50")).unwrap();
    let declared: Vec<_> =
        (0..60).map(|number| file(home.path().join(format!("f{number:02}")), [("content", text("new"))])).collect();
    let provider = FileProvider::new();
    let cx = Context::empty();
    let wanted: Vec<_> = declared.iter().map(|d| Wanted::new(&d.name, Some(&d.should))).collect();
    let found: Vec<_> = check(&provider, &cx, &wanted).into_iter().map(Result::unwrap).collect();
    let changes: Vec<_> = declared
        .iter()
        .zip(&found)
        .map(|(declared, found)| Change::new(&declared.name, &found.state, Some(&declared.should), &found.differences))
        .collect();
    let outcomes = provider.set(&cx, &changes, Mode::Apply);
    provider.flush(&cx).unwrap();
    let failed: Vec<_> = (0..60).filter(|at| !outcomes[*at].is_done()).collect();
    assert_eq!(failed, [50]);
    for number in (0..60).filter(|number| *number != 50) {
        assert_eq!(fs::read_to_string(home.path().join(format!("f{number:02}"))).unwrap(), "new");
    }
    assert_eq!(names(home.path()).len(), 60);
}

#[test]
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let home = directory();
    let path = home.path().join("x");
    let declared = file(&path, [("content", text("declared"))]);
    let before = found(&Context::empty(), &declared).unwrap();
    fs::write(&path, "somebody's").unwrap();
    let change = Change::new(&declared.name, &before.state, Some(&declared.should), &before.differences);
    let outcome = FileProvider::new().set(&Context::empty(), &[change], Mode::Apply).remove(0);
    assert!(outcome.failure.unwrap().contains("appeared while"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    assert_eq!(names(home.path()), ["x"]);
}

#[test]
fn a_link_at_the_path_is_replaced_and_never_written_through() {
    let home = directory();
    let (victim, path) = (home.path().join("victim"), home.path().join("x"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &path).unwrap();
    converge(&file(&path, [("content", text("new")), ("mode", text("0600"))]));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

/// Returns the description of a found or missing content that differs from the declared one.
fn said<const N: usize>(is: Option<&[u8]>, attributes: [(&str, Value); N]) -> String {
    let home = directory();
    let path = home.path().join("x");
    if let Some(is) = is {
        fs::write(&path, is).expect("writable");
    }
    let differences = plan(&file(&path, attributes));
    let content = differences.iter().find(|difference| difference.attribute == "content").expect("it differs");
    assert_eq!(content.diff, None, "nothing is shown");
    content.message.clone().expect("it is said why").into()
}

#[test]
fn a_content_that_is_not_shown_comes_with_the_reason() {
    let binary = || Value::from_bytes(b"\0\xff");
    let large = || text(&"x".repeat(2 << 20));
    assert!(said(Some(b"a"), [("content", binary())]).ends_with("(not shown: binary)"));
    assert!(said(Some(b"\0"), [("content", text("a"))]).ends_with("(not shown: binary)"));
    assert!(said(None, [("content", binary())]).ends_with("(not shown: binary)"));
    assert!(said(Some(b"a"), [("content", large())]).ends_with("(not shown: larger than 1 MiB)"));
    assert!(said(Some(&vec![b'x'; 2 << 20]), [("content", text("a"))]).ends_with("(not shown: larger than 1 MiB)"));
    assert!(said(None, [("content", text(&"x".repeat(17 << 10)))]).ends_with("(not shown: larger than 16 KiB)"));
    let hidden = [("content", text("b")), ("show_diff", Value::from(false))];
    assert!(said(Some(b"a"), hidden.clone()).ends_with("(not shown: `show_diff` is false)"));
    assert!(said(None, hidden).ends_with("(not shown: `show_diff` is false)"));
    let home = directory();
    grow(home.path(), &[("source", "\0")]);
    let source = || path_text(&home.path().join("source"));
    assert!(said(Some(b"a"), [("source", source())]).ends_with("(not shown: binary)"));
    let hidden = [("source", source()), ("show_diff", Value::from(false))];
    assert!(said(Some(b"a"), hidden).ends_with("(not shown: `show_diff` is false)"));
}

#[test]
fn a_content_that_is_shown_needs_no_reason() {
    let home = directory();
    let path = home.path().join("x");
    for content in ["a\n", "b\n"] {
        let differences = plan(&file(&path, [("content", text(content))]));
        let content = differences.iter().find(|difference| difference.attribute == "content").unwrap();
        assert!(content.diff.is_some() && !content.message.as_deref().unwrap().contains("shown"), "{content:?}");
        fs::write(&path, "old\n").unwrap();
    }
}
