use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use kilter_runtime::watch::{Scope, Subscriber};

use crate::fixture::Fixture;

#[test]
fn scope_self_covers_attributes_and_name() {
    let f = Fixture::new();
    f.make("a");
    f.watch(1, "a", Scope::This);
    f.write("a/b", "");
    f.assert_silence();
    fs::set_permissions(f.path("a"), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(f.told(), [1]);
    f.rename("a", "b");
    assert_eq!(f.told(), [1]);
}

#[test]
fn scope_entries_covers_direct_entries_only() {
    let f = Fixture::new();
    f.watch(1, "a", Scope::Entries);
    f.make("a/b");
    assert_eq!(f.told(), [1]);
    f.write("a/c", "");
    assert_eq!(f.told(), [1]);
    f.write("a/c", "1");
    assert_eq!(f.told(), [1]);
    f.write("a/b/d", "");
    f.assert_silence();
    fs::remove_file(f.path("a/c")).unwrap();
    assert_eq!(f.told(), [1]);
}

#[test]
fn scope_tree_covers_all_descendants() {
    let f = Fixture::new();
    let before = f.hub.counts();
    f.make("a/b/c");
    f.write("a/b/c/d", "");
    f.watch(1, "a", Scope::Tree);
    f.watch(2, "a/b", Scope::Tree);
    f.write("a/b/c/d", "1");
    assert_eq!(f.told(), [1, 2]);
    f.make("a/x/y/z");
    f.write("a/x/y/z/new", "");
    assert_eq!(f.told(), [1]);
    f.write("a/x/y/z/new", "1");
    assert_eq!(f.told(), [1]);
    f.make("other/p/q");
    f.told();
    f.rename("other", "a/b/moved");
    assert_eq!(f.told(), [1, 2]);
    f.write("a/b/moved/p/q/r", "");
    assert_eq!(f.told(), [1, 2]);
    f.rename("a/b/moved", "gone");
    assert_eq!(f.told(), [1, 2]);
    f.write("gone/p/q/r", "1");
    f.assert_silence();
    f.hub.unwatch(Subscriber(1));
    f.write("a/x/y/z/new", "2");
    f.assert_silence();
    f.write("a/b/c/d", "2");
    assert_eq!(f.told(), [2]);
    f.hub.unwatch(Subscriber(2));
    assert_eq!(f.hub.counts(), before);
}

#[test]
fn links_in_a_tree_are_entries_and_not_followed() {
    let f = Fixture::new();
    f.make("a");
    f.make("else/b");
    f.link("../else", "a/l");
    f.watch(1, "a", Scope::Tree);
    f.write("else/c", "");
    f.assert_silence();
    f.watch(2, "a/l/c", Scope::This);
    f.make("else/b/d");
    f.write("else/b/d/e", "");
    f.told();
    f.write("else/b/d/e", "");
    f.assert_silence();
    fs::remove_file(f.path("a/l")).unwrap();
    assert_eq!(f.told(), [1, 2]);
}

#[test]
fn the_root_of_all_is_a_directory_like_others() {
    let f = Fixture::new();
    let root = |scope| vec![kilter_runtime::watch::PathWatch { path: "/".into(), scope }];
    assert_eq!(f.hub.watch(Subscriber(1), root(Scope::This)), []);
    assert_eq!(f.hub.watch(Subscriber(2), root(Scope::Entries)), []);
    f.hub.unwatch(Subscriber(1));
    f.hub.unwatch(Subscriber(2));
    f.quiet();
}
