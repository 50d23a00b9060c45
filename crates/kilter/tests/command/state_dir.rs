//! `kilter run` after another directory has taken the place of its state directory, and a read-only state directory.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use rustix::fs::{CWD, FlockOperation, RenameFlags};

use crate::run::{Running, content, manifest, rest, wait};
use crate::support::*;

const MANIFEST: &str = "resources:\n  file[DIR/b]: {content: x, notify: \"exec[r]\"}\n  \
                        exec[r]: {command: \"echo x >> DIR/r\", shell: true, refreshonly: true}\n";

fn state(place: &Place) -> PathBuf {
    place.path().join("state")
}

/// Creates a directory with this mode beside the state directory, with a journal.
fn other_directory(place: &Place, mode: u32) -> PathBuf {
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("journal"), "").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(mode)).unwrap();
    other
}

/// Exchanges the state directory and another one.
fn exchange(place: &Place, other: &PathBuf) {
    rustix::fs::renameat_with(CWD, state(place), CWD, other, RenameFlags::EXCHANGE).unwrap();
}

fn holding(place: &Place, text: &str) -> Running {
    let running = Running::begin(place, &[&manifest(place, text)]);
    rest(place);
    running
}

#[test]
fn run_ends_with_an_error_if_another_run_locked_the_new_state_directory() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    end_by_exchange(&place, running);
}

#[test]
fn run_without_status_server_ends_if_another_run_locked_the_new_state_directory() {
    let place = Place::new();
    fs::create_dir(state(&place)).unwrap();
    fs::set_permissions(state(&place), Permissions::from_mode(0o700)).unwrap();
    // The path of the socket is taken.
    fs::create_dir(state(&place).join("status.sock")).unwrap();
    let running = Running::begin(&place, &[&manifest(&place, MANIFEST)]);
    wait("the start", || {
        running.told("`kilter status` cannot query this run") == 1 && state(&place).join("journal").exists()
    });
    end_by_exchange(&place, running);
}

fn end_by_exchange(place: &Place, mut running: Running) {
    let other = other_directory(place, 0o700);
    // Its lock belongs to this process.
    let lock = File::create(other.join("lock")).unwrap();
    rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    fs::remove_file(state(place).join("journal")).unwrap();
    exchange(place, &other);
    wait("the end", || running.has_ended());
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(4), "{errors}");
    assert_eq!(errors.matches("this run ends").count(), 1, "{errors}");
    let left: Vec<_> = fs::read_dir(state(place)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((left.len(), content(&state(place).join("journal"))), (2, String::new()), "{left:?}");
}

#[test]
fn run_writes_nothing_to_a_state_directory_that_others_can_use() {
    let place = Place::new();
    let running = holding(&place, MANIFEST);
    let before = fs::metadata(state(&place).join("status.sock")).unwrap();
    assert_eq!(before.mode() & 0o7777, 0o600);
    let other = other_directory(&place, 0o755);
    fs::remove_file(state(&place).join("journal")).unwrap();
    exchange(&place, &other);
    wait("a warning", || running.told("this run writes no status socket") > 0);
    wait("the failure of the journal", || running.told("Changes that owe a refresh wait") > 0);
    fs::write(place.path().join("b"), "changed").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(content(&place.path().join("b")), "changed");
    let left: Vec<_> = fs::read_dir(state(&place)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((left, content(&state(&place).join("journal"))), (vec!["journal".into()], String::new()));
    exchange(&place, &other);
    wait("the repair", || content(&place.path().join("b")) == "x");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn run_writes_no_outputs_to_a_state_directory_that_others_can_use() {
    let place = Place::new();
    let text = "resources:\n  exec[e]: {command: \"cat DIR/in\", mtimes: [DIR/in]}\n  \
                file[DIR/out]: {content: \"${exec[e].stdout}\"}\n";
    place.file("in", "one");
    let running = holding(&place, text);
    let out = place.path().join("out");
    assert_eq!((content(&out).as_str(), state(&place).join("outputs").exists()), ("one", true));
    let other = other_directory(&place, 0o755);
    exchange(&place, &other);
    wait("a warning", || running.told("this run writes no status socket") > 0);
    place.file("in", "two");
    wait("the output", || content(&out) == "two");
    assert!(!state(&place).join("outputs").exists());
    exchange(&place, &other);
    running.end();
}

#[test]
fn edit_does_not_end_a_run_whose_state_directory_became_unsafe() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/b]: {content: one}\n";
    let running = holding(&place, text);
    fs::set_permissions(state(&place), Permissions::from_mode(0o755)).unwrap();
    manifest(&place, &text.replace("one", "two"));
    wait("the edit", || content(&place.path().join("b")) == "two");
    wait("a warning", || running.told("has mode 0755") > 0);
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn unwritable_journal_is_not_retried_at_each_event() {
    let place = Place::new();
    fs::write(place.path().join("b"), "x").unwrap();
    let running = holding(&place, MANIFEST);
    // The new journal cannot replace a directory, and stays beside it.
    fs::create_dir(state(&place).join("journal")).unwrap();
    let mut tries = std::collections::BTreeSet::new();
    let begun = std::time::Instant::now();
    for round in 0..40 {
        fs::write(place.path().join("b"), format!("changed {round}")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let found = fs::metadata(state(&place).join("journal.new"));
        // A try makes the file and then writes to it.
        tries.extend(found.ok().map(|found| (found.ino(), found.created().unwrap())));
    }
    let most = 1 + begun.elapsed().as_secs() as usize / 5;
    assert!((1..=most).contains(&tries.len()), "{tries:?}");
    fs::remove_dir(state(&place).join("journal")).unwrap();
    wait("the repair", || content(&place.path().join("b")) == "x");
    wait("the refresh", || content(&place.path().join("r")) == "x\n");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn read_only_state_directory_prevents_recorded_changes_and_refreshes_only() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    fs::create_dir(state(&place)).unwrap();
    let path = manifest(
        &place,
        "resources:\n  file[DIR/b]: {content: x, notify: \"exec[r]\"}\n  file[DIR/a]: {content: declared}\n  \
         exec[r]: {command: \"echo x >> DIR/r\", shell: true, refreshonly: true}\n",
    );
    let script = "mount -t tmpfs -o ro,mode=0700 none state; \"$0\" apply \"$1\"; echo code $?; ls; \
                  \"$0\" apply --without-history \"$1\"; echo code $?; \"$0\" plan \"$1\"; echo code $?";
    let ended = place.run_in_own_mounts(script, &[&path]);
    let parts: Vec<&str> = ended.stdout.split("code ").collect();
    let [recorded, unrecorded, plan, code] = parts[..] else { panic!("{ended:?}") };
    assert!(recorded.contains("Read-only file system") && recorded.contains("--without-history"), "{recorded}");
    assert!(recorded.contains("3 resources: 2 failed, 1 skipped"), "{recorded}");
    assert!(unrecorded.starts_with("4\nhome\n") && !unrecorded.contains("\na\n"), "{unrecorded}");
    assert!(unrecorded.contains("not begun, because its refreshes cannot be recorded: "), "{unrecorded}");
    assert!(unrecorded.contains("3 resources: 1 changed, 1 failed, 1 skipped"), "{unrecorded}");
    assert!(plan.starts_with("4\n") && plan.contains("1 to change"), "{plan}");
    assert_eq!(code, "2\n");
    assert!(file("a").exists() && !file("b").exists() && !file("r").exists());
}
