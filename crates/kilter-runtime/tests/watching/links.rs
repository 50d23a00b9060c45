use std::fs;

use kilter_runtime::watch::{Scope, Subscriber};

use crate::fixture::Fixture;

#[test]
fn link_above_a_path_is_watched_with_its_target() {
    let f = Fixture::new();
    f.make("one/b");
    f.make("two/b");
    f.link("one", "current");
    f.watch(1, "current/b/c", Scope::This);
    f.write("one/b/c", "");
    assert_eq!(f.told(), [1]);
    f.link("two", "next");
    f.rename("next", "current");
    assert_eq!(f.told(), [1]);
    f.write("one/b/c", "1");
    f.assert_silence();
    f.write("two/b/c", "");
    assert_eq!(f.told(), [1]);
    f.rename("two", "three");
    assert_eq!(f.told(), [1]);
    f.make("two/b");
    assert_eq!(f.told(), [1]);
    f.write("two/b/c", "");
    assert_eq!(f.told(), [1]);
    f.write("three/b/c", "1");
    f.assert_silence();
}

#[test]
fn final_link_is_watched_with_its_target() {
    let f = Fixture::new();
    f.make("d");
    f.write("d/target", "");
    f.link(f.path("d/target"), "l");
    f.link("l", "m");
    f.watch(1, "m", Scope::This);
    f.write("d/target", "1");
    assert_eq!(f.told(), [1]);
    f.rename("d", "e");
    assert_eq!(f.told(), [1]);
    f.link("e", "d");
    assert_eq!(f.told(), [1]);
    f.write("e/target", "2");
    assert_eq!(f.told(), [1]);
    fs::remove_file(f.path("l")).unwrap();
    assert_eq!(f.told(), [1]);
    f.write("e/target", "3");
    f.assert_silence();
}

#[test]
fn parent_component_in_a_link_resolves_from_the_real_directory() {
    let f = Fixture::new();
    f.make("x/y");
    f.make("z/y");
    f.link("x/y", "way");
    f.link("way/../t", "l");
    f.watch(1, "l", Scope::This);
    f.write("x/t", "");
    assert_eq!(f.told(), [1]);
    f.link("z/y", "new");
    f.rename("new", "way");
    assert_eq!(f.told(), [1]);
    f.write("z/t", "");
    assert_eq!(f.told(), [1]);
    f.write("x/t", "1");
    f.assert_silence();
}

#[test]
fn link_loop_ends_and_leaks_nothing() {
    let f = Fixture::new();
    let before = f.hub.counts();
    f.link("b", "a");
    f.link("a", "b");
    f.link("self", "self");
    f.link("inner/x", "inner");
    f.link(".", "dot");
    f.link("dot/l", "l");
    f.make("d");
    f.link("..", "d/up");
    let paths =
        ["a", "b", "self", "inner", "l", "a/c", "self/self", "inner/x", "dot/dot/dot/l", "d/up/d/up/d/f", "l/l"];
    for (subscriber, path) in (1..).zip(paths) {
        f.watch(subscriber, path, Scope::Entries);
    }
    fs::write(f.path("d/f"), "").unwrap();
    assert!(f.told().contains(&10));
    fs::remove_file(f.path("b")).unwrap();
    f.make("b");
    f.told();
    f.write("b/c", "");
    let told = f.told();
    assert!([1, 2, 6].iter().all(|one| told.contains(one)), "{told:?}");
    for (subscriber, _) in (1..).zip(paths) {
        f.hub.unwatch(Subscriber(subscriber));
    }
    assert_eq!(f.hub.counts(), before);
}
