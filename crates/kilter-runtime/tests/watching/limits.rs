use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use kilter_runtime::watch::{Hub, Limits, PathWatch, Scope, StartError, Subscriber, WatchError};

use crate::alone::{secluded, unprivileged};
use crate::fixture::Fixture;

#[test]
fn watches_beyond_the_user_limit_are_lost_and_others_continue() {
    secluded("limits::watches_beyond_the_user_limit_are_lost_and_others_continue", || {
        let f = Fixture::new();
        for n in 0..10 {
            f.make(&n.to_string());
        }
        f.watch(1, "0/a", Scope::This);
        let allowed = f.hub.counts().watches + 3;
        fs::write("/proc/sys/user/max_inotify_watches", allowed.to_string()).unwrap();
        let watch = |below: &str, scope| vec![PathWatch { path: f.path(below), scope }];
        let all = (1..10).map(|n| (Subscriber(n), watch(&format!("{n}/a"), Scope::This)));
        let lost = f.hub.watch_all(all.collect::<Vec<_>>());
        let rest: Vec<Subscriber> = (4..10).map(Subscriber).collect();
        // The first was there, and gave up its directory.
        assert_eq!((lost.len(), &lost[0].why, &lost[0].subscribers[..]), (1, &WatchError::LimitOfUser, &rest[1..]));
        assert!(lost[0].why.to_string().contains("sysctl fs.inotify.max_user_watches"));
        f.write("2/a", "");
        assert_eq!(f.told(), [2]);
        // What is missing later is told by the thread.
        let heard = f.quiet();
        assert!(heard.lost.is_empty());
        fs::remove_dir_all(f.path("3")).unwrap();
        f.quiet();
        assert_eq!(f.hub.watch(Subscriber(20), watch("8/a", Scope::This)), []);
        f.make("3");
        let heard = f.quiet();
        assert_eq!(
            (&heard.lost[0].why, &heard.lost[0].subscribers[..]),
            (&WatchError::LimitOfUser, &[Subscriber(3)][..])
        );
        assert!(heard.changed.contains(&3));
        f.write("8/a", "");
        // There is a watch for the eighth now, too.
        assert_eq!(f.told(), [8, 20]);
    });
}

#[test]
fn lost_watch_is_restored_when_watches_are_available() {
    let f = Fixture::new();
    let floor = f.hub.counts().watches;
    let f = Fixture::within(Limits { watches: floor + 3 });
    ["a", "b", "c"].into_iter().for_each(|name| f.make(name));
    let watch = |below: &str| vec![PathWatch { path: f.path(below), scope: Scope::This }];
    f.watch(1, "a/x", Scope::This);
    f.watch(2, "b/x", Scope::This);
    let lost = f.hub.watch(Subscriber(3), watch("c/x"));
    assert_eq!((lost.len(), f.hub.watch_again(Subscriber(3)).len()), (1, 1));
    f.hub.unwatch(Subscriber(1));
    assert_eq!(f.hub.watch_again(Subscriber(3)), []);
    f.write("c/x", "");
    assert_eq!(f.told(), [3]);
    assert_eq!(f.hub.watch_again(Subscriber(2)), []);
    f.write("b/x", "");
    assert_eq!(f.told(), [2]);
}

#[test]
fn a_hub_keeps_to_its_own_limit() {
    let f = Fixture::new();
    let floor = f.hub.counts().watches;
    let f = Fixture::within(Limits { watches: floor + 3 });
    for n in 0..5 {
        f.make(&format!("t/{n}"));
    }
    let watch = PathWatch { path: f.path("t"), scope: Scope::Tree };
    assert_eq!(f.hub.watch(Subscriber(1), vec![watch]).len(), 1);
    assert_eq!(f.hub.counts().watches, floor + 3);
    f.write("x", "");
    f.assert_silence();
    f.hub.unwatch(Subscriber(1));
    f.watch(2, "t/3/a", Scope::This);
    f.write("t/3/a", "");
    assert_eq!(f.told(), [2]);
}

#[test]
fn missing_inotify_instance_is_reported_with_its_limit() {
    secluded("limits::missing_inotify_instance_is_reported_with_its_limit", || {
        fs::write("/proc/sys/user/max_inotify_instances", "1").unwrap();
        let first = Hub::start(|_| {}).unwrap();
        let Err(why) = Hub::start(|_| {}) else { panic!("there is only one instance") };
        assert!(matches!(why, StartError::LimitOfInstances));
        assert!(why.to_string().contains("sysctl fs.inotify.max_user_instances"));
        drop(first);
        Hub::start(|_| {}).unwrap();
    });
}

#[test]
fn watch_of_unreadable_directory_is_lost_and_restored() {
    unprivileged("limits::watch_of_unreadable_directory_is_lost_and_restored", || {
        let f = Fixture::new();
        f.make("d/e");
        let mode = |below: &str, mode| fs::set_permissions(f.path(below), Permissions::from_mode(mode)).unwrap();
        mode("d", 0o111);
        let watch = PathWatch { path: f.path("d/e/a"), scope: Scope::This };
        let lost = f.hub.watch(Subscriber(1), vec![watch]);
        assert_eq!((&lost[0].why, &lost[0].subscribers[..]), (&WatchError::Denied(f.path("d")), &[Subscriber(1)][..]));
        // Below the one that is not watched, watching goes on.
        f.write("d/e/a", "");
        assert_eq!(f.told(), [1]);
        mode("d", 0o755);
        assert_eq!(f.told(), [1]);
        f.write("d/e/a", "2");
        assert_eq!(f.told(), [1]);
        mode("d", 0);
        let heard = f.quiet();
        assert!(heard.changed.contains(&1) && !heard.lost.is_empty());
        assert!(heard.lost.iter().all(|lost| lost.subscribers == [Subscriber(1)]), "{heard:?}");
        mode("d", 0o755);
        assert_eq!(f.told(), [1]);
        f.write("d/e/a", "1");
        assert_eq!(f.told(), [1]);
    });
}

#[test]
fn deep_paths_and_trees_do_not_stop_the_hub() {
    let f = Fixture::new();
    let before = f.hub.counts();
    let deep = "a/".repeat(1900);
    f.watch(1, &deep, Scope::This);
    f.make("a/a/a");
    assert_eq!(f.told(), [1]);
    f.make("t");
    f.watch(2, "t", Scope::Tree);
    let deep = format!("t/{}", "a/".repeat(1900));
    f.make(&deep);
    let heard = f.quiet();
    assert!(heard.changed.contains(&2));
    assert!(matches!(&heard.lost[0].why, WatchError::Depth(path) if path.starts_with(f.path("t/a/a"))), "{heard:?}");
    f.write("t/a/a/f", "");
    assert_eq!(f.told(), [2]);
    f.rename("t", "gone");
    f.rename("a", "away");
    assert_eq!(f.told(), [1, 2]);
    f.hub.unwatch(Subscriber(1));
    f.hub.unwatch(Subscriber(2));
    assert_eq!(f.hub.counts(), before);
}
