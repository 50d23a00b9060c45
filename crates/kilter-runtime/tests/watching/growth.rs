use std::fs;
use std::process::Command;
use std::sync::mpsc::channel;

use kilter_runtime::watch::{Hub, PathWatch, Scope, Subscriber};

use crate::alone::{alone, secluded};
use crate::fixture::{DEADLINE, Fixture};

/// The open descriptors of this process, and the watches of those that are inotify's.
fn held() -> (usize, usize) {
    let all: Vec<String> = fs::read_dir("/proc/self/fdinfo")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .collect();
    (all.len(), all.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("inotify wd:")).count())
}

fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn thousands_of_changes_leak_nothing() {
    alone("growth::thousands_of_changes_leak_nothing", || {
        let f = Fixture::new();
        f.make("a/b/c");
        f.make("t/u/v");
        f.link("a/b", "l");
        let cycle = |n: u32| {
            f.watch(1, &format!("a/b/c/{n}"), Scope::This);
            f.watch(2, "l/c/d/e", Scope::Entries);
            f.watch(3, "t", Scope::Tree);
            f.watch(4, &format!("missing{n}/x/y"), Scope::This);
            f.rename("a/b", "a/moved");
            f.make("a/b/c/d/e");
            fs::remove_dir_all(f.path("a/b")).unwrap();
            f.rename("a/moved", "a/b");
            f.rename("t/u", "t/w");
            f.rename("t/w", "t/u");
            if n.is_multiple_of(16) {
                f.quiet();
            }
            (1..=4).for_each(|subscriber| f.hub.unwatch(Subscriber(subscriber)));
            f.hub.counts()
        };
        for n in 0..1000 {
            cycle(n);
        }
        f.quiet();
        let (counts, kernel, memory) = (f.hub.counts(), held(), resident());
        assert_eq!(kernel.1, counts.watches);
        for n in 1000..6000 {
            cycle(n);
        }
        f.quiet();
        assert_eq!((f.hub.counts(), held()), (counts, kernel));
        let grown = resident().saturating_sub(memory);
        assert!(grown < 1 << 20, "{grown} bytes more");
    });
}

#[test]
fn short_lived_directories_of_a_tree_leak_nothing() {
    let f = Fixture::new();
    f.make("t");
    f.watch(1, "t", Scope::Tree);
    f.quiet();
    let before = f.hub.counts();
    for n in 0..1000u32 {
        f.make(&format!("t/{n}/x/y"));
        if n.is_multiple_of(3) {
            f.quiet();
        }
        f.rename(&format!("t/{n}"), &format!("gone{n}"));
    }
    f.quiet();
    assert_eq!(f.hub.counts(), before);
}

#[test]
fn a_dropped_hub_leaves_no_thread_and_no_descriptor() {
    alone("growth::a_dropped_hub_leaves_no_thread_and_no_descriptor", || {
        let before = (held(), threads());
        for _ in 0..200 {
            let hub = Hub::start(|_| {}).unwrap();
            let watch = PathWatch { path: "/nowhere/at/all".into(), scope: Scope::This };
            assert_eq!(hub.watch(Subscriber(1), vec![watch]), []);
        }
        assert_eq!((held(), threads()), before);
    });
}

#[test]
fn the_thread_sleeps_while_nothing_of_interest_happens() {
    secluded("growth::the_thread_sleeps_while_nothing_of_interest_happens", || {
        // Names that others make beside the directory would wake it.
        let temporary = std::env::temp_dir();
        let status = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(temporary).status().unwrap();
        assert!(status.success());
        count_wakeups();
    });
}

fn count_wakeups() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("f"), "").unwrap();
    let (sender, told) = channel();
    let hub = Hub::start(move |_| sender.send(fs::read_link("/proc/thread-self").unwrap()).unwrap()).unwrap();
    let watch = PathWatch { path: path.join("f"), scope: Scope::This };
    assert_eq!(hub.watch(Subscriber(1), vec![watch]), []);
    // Something to get hold of the thread.
    fs::write(path.join("f"), "1").unwrap();
    let thread = told.recv_timeout(DEADLINE).unwrap();
    while told.try_recv().is_ok() {}
    let woken = || {
        let text = fs::read_to_string(format!("/proc/{}/status", thread.display())).unwrap();
        let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    let before = woken();
    for _ in 0..2000 {
        fs::read(path.join("f")).unwrap();
        fs::read_dir(&path).unwrap().count();
        // Writing where only names matter.
        fs::write(directory.path().join("a").join("other"), "x").unwrap_or_default();
    }
    // One is the name that came; what was under way before may be a few.
    assert!(woken() - before < 20, "{} wake-ups", woken() - before);
}
