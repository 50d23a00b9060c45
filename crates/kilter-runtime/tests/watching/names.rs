use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use kilter_runtime::watch::{PathWatch, Scope, Subscriber, WatchError};

use crate::alone::secluded;
use crate::fixture::Fixture;

#[test]
fn every_change_of_a_file_causes_an_event_but_reads_do_not() {
    let f = Fixture::new();
    f.write("a", "1");
    f.watch(1, "a", Scope::This);
    f.assert_silence();
    fs::read(f.path("a")).unwrap();
    fs::read_dir(f.path("")).unwrap().count();
    f.assert_silence();
    f.write("a", "2");
    assert_eq!(f.told(), [1]);
    fs::set_permissions(f.path("a"), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(f.told(), [1]);
    fs::remove_file(f.path("a")).unwrap();
    assert_eq!(f.told(), [1]);
    f.write("a", "3");
    assert_eq!(f.told(), [1]);
    f.write("b", "of no interest");
    f.assert_silence();
}

#[test]
fn each_write_to_an_open_file_causes_an_event() {
    let f = Fixture::new();
    let mut open = File::create(f.path("a")).unwrap();
    f.watch(1, "a", Scope::This);
    for _ in 0..3 {
        open.write_all(b"x").unwrap();
        assert_eq!(f.told(), [1]);
    }
}

#[test]
fn file_replaced_by_rename_stays_watched() {
    let f = Fixture::new();
    f.write("a", "1");
    let mut old = File::options().append(true).open(f.path("a")).unwrap();
    f.watch(1, "a", Scope::This);
    for _ in 0..3 {
        f.write("new", "2");
        f.rename("new", "a");
        assert_eq!(f.told(), [1]);
        f.write("a", "3");
        assert_eq!(f.told(), [1]);
    }
    // The first file has no name any more.
    old.write_all(b"x").unwrap();
    f.assert_silence();
}

#[test]
fn missing_path_is_watched_at_its_existing_ancestors() {
    let f = Fixture::new();
    f.watch(1, "a/b/c/d", Scope::This);
    f.make("a/b");
    assert_eq!(f.told(), [1]);
    f.make("a/b/c");
    assert_eq!(f.told(), [1]);
    f.write("a/b/c/d", "");
    assert_eq!(f.told(), [1]);
    fs::remove_dir_all(f.path("a/b")).unwrap();
    assert_eq!(f.told(), [1]);
    f.make("a/b/c");
    f.write("a/b/c/d", "");
    assert_eq!(f.told(), [1]);
    f.write("a/b/c/d", "1");
    assert_eq!(f.told(), [1]);
    // A file where a directory was.
    fs::remove_dir_all(f.path("a")).unwrap();
    f.write("a", "");
    assert_eq!(f.told(), [1]);
    fs::remove_file(f.path("a")).unwrap();
    f.make("a/b/c");
    assert_eq!(f.told(), [1]);
    f.write("a/b/c/d", "2");
    assert_eq!(f.told(), [1]);
}

#[test]
fn directories_created_during_the_scan_are_watched() {
    let f = Fixture::new();
    for round in 0..300u64 {
        let path = f.path(&format!("{round}/b/c/d/e"));
        f.watch(1, &format!("{round}/b/c/d/e"), Scope::This);
        thread::scope(|scope| {
            scope.spawn(|| {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "").unwrap();
            });
        });
        assert_eq!(f.told(), [1]);
        fs::write(&path, "1").unwrap();
        assert_eq!(f.told(), [1], "round {round}");
    }
}

#[test]
fn directory_that_replaces_a_moved_one_is_watched() {
    let f = Fixture::new();
    f.make("a/b/c");
    f.make("new/c");
    f.write("a/b/c/d", "old");
    f.write("new/c/d", "new");
    f.watch(1, "a/b/c/d", Scope::This);
    f.rename("a/b", "old");
    assert_eq!(f.told(), [1]);
    f.rename("new", "a/b");
    assert_eq!(f.told(), [1]);
    f.write("old/c/d", "nobody's");
    fs::remove_file(f.path("old/c/d")).unwrap();
    f.assert_silence();
    f.write("a/b/c/d", "somebody's");
    assert_eq!(f.told(), [1]);
    // Back again.
    f.rename("a/b", "new");
    f.rename("old", "a/b");
    assert_eq!(f.told(), [1]);
    f.write("a/b/c/d", "there again");
    assert_eq!(f.told(), [1]);
    f.write("new/c/d", "nobody's");
    f.assert_silence();
}

#[test]
fn one_watch_serves_all_files_of_a_directory() {
    let f = Fixture::new();
    for n in 0..100 {
        f.make(&n.to_string());
    }
    let before = f.hub.counts();
    let all = (0..10_000u64).map(|n| {
        let path = f.path(&format!("{}/{n}", n % 100));
        (Subscriber(n), vec![PathWatch { path, scope: Scope::This }])
    });
    assert_eq!(f.hub.watch_all(all), []);
    let after = f.hub.counts();
    // And one for the directory above them.
    assert_eq!((after.watches - before.watches, after.subscribers - before.subscribers), (101, 10_000));
    f.write("17/4217", "");
    assert_eq!(f.told(), [4217]);
}

#[test]
fn new_subscription_replaces_the_old_one() {
    let f = Fixture::new();
    let before = f.hub.counts();
    let watch = |below: &str| PathWatch { path: f.path(below), scope: Scope::This };
    assert_eq!(f.hub.watch(Subscriber(1), vec![watch("a"), watch("b")]), []);
    assert_eq!(f.hub.watch(Subscriber(1), vec![watch("b"), watch("c")]), []);
    f.write("a", "");
    f.assert_silence();
    f.write("b", "");
    f.write("c", "");
    assert_eq!(f.told(), [1]);
    f.hub.unwatch(Subscriber(1));
    f.write("b", "1");
    assert_eq!((f.told(), f.hub.counts()), (vec![], before));
}

#[test]
fn unnormalised_path_is_reported_as_lost() {
    let f = Fixture::new();
    let path = f.path("a").join("../b");
    let watch = PathWatch { path: path.clone(), scope: Scope::This };
    let lost = f.hub.watch(Subscriber(1), vec![watch]);
    assert_eq!((lost[0].subscribers.as_slice(), &lost[0].why), (&[Subscriber(1)][..], &WatchError::Path(path)));
    assert!(lost[0].why.to_string().ends_with("base/a/../b: only absolute paths without `..` are watched"));
}

#[test]
fn a_file_with_two_names_is_watched_by_both() {
    let f = Fixture::new();
    f.make("else");
    f.write("else/b", "");
    fs::hard_link(f.path("else/b"), f.path("a")).unwrap();
    f.watch(1, "a", Scope::This);
    f.write("else/b", "1");
    assert_eq!(f.told(), [1]);
    fs::remove_file(f.path("a")).unwrap();
    assert_eq!(f.told(), [1]);
    f.write("else/b", "2");
    f.assert_silence();
}

#[test]
fn unmount_of_a_watched_path_causes_an_event() {
    secluded("names::unmount_of_a_watched_path_causes_an_event", || {
        let f = Fixture::new();
        f.make("m");
        let run = |words: &[&str]| {
            let status = std::process::Command::new(words[0]).args(&words[1..]).status().unwrap();
            assert!(status.success(), "{words:?}");
        };
        let at = f.path("m");
        let at = at.to_str().unwrap();
        run(&["mount", "-t", "tmpfs", "none", at]);
        f.watch(1, "m", Scope::This);
        f.watch(2, "m/a", Scope::This);
        // The mount was there before, but the system may tell of it only now.
        f.told();
        fs::set_permissions(f.path("m"), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(f.told(), [1]);
        f.write("m/a", "");
        assert_eq!(f.told(), [2]);
        run(&["umount", at]);
        assert_eq!(f.told(), [1, 2]);
        // What was below comes to light.
        f.write("m/a", "");
        assert_eq!(f.told(), [2]);
        // A file mounted over another, as containers have their /etc/hosts.
        f.make("else");
        f.write("else/b", "");
        run(&["mount", "--bind", f.path("else/b").to_str().unwrap(), f.path("m/a").to_str().unwrap()]);
        f.watch(3, "m/a", Scope::This);
        f.write("else/b", "1");
        assert_eq!(f.told(), [2, 3]);
        // Mounted over what is watched already, also behind a link.
        f.make("n/d");
        f.link("n", "l");
        f.watch(4, "n/d/a", Scope::This);
        f.watch(5, "l/d/a", Scope::This);
        f.told();
        run(&["mount", "-t", "tmpfs", "none", f.path("n/d").to_str().unwrap()]);
        assert_eq!(f.told(), [4, 5]);
        f.write("n/d/a", "");
        assert_eq!(f.told(), [4, 5]);
        // An end that leaves the file system in use.
        let open = File::create(f.path("n/d/open")).unwrap();
        f.told();
        run(&["umount", "--lazy", f.path("n/d").to_str().unwrap()]);
        assert_eq!(f.told(), [4, 5]);
        f.write("n/d/a", "");
        assert_eq!(f.told(), [4, 5]);
        drop(open);
    });
}
