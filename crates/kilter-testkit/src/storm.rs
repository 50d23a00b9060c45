//! A storm of file events around a run that holds a state.
//!
//! Bursts of operations, by two threads, in the directories of a thousand resources. In every other burst the run stands still, so
//! that more events come than the kernel keeps, and those of what was struck last are lost for certain.
//!
//! | resources | what the storm does to them | what must come of it |
//! |---|---|---|
//! | calm files | each is struck once in a burst, and touched all the time | it is in its state behind each burst, and was changed once for each blow |
//! | limited files | are written all the time | they are in their state at the end, and were changed no more often than `limit` and `burst` allow |
//! | limited commands | what they look at comes and goes all the time | they were looked at no more often than `limit` and `burst` allow |
//! | contested files | are written all the time, and at last until they are given up | nobody else is given up; an edit of the manifest brings them back |
//!
//! Beside them are files that nobody declares.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use serde_json::Value as Json;

use crate::outside::{Held, Running, wait};

const DIRECTORIES: usize = 10;
const CALM: usize = 860;
const LIMITED: usize = 100;
const CONTESTED: usize = 20;
const COMMANDS: usize = 20;
const THREADS: usize = 2;

/// Seconds in which a limited resource may be looked at once more.
const INTERVAL: u64 = 5;
/// How often it may be at once.
const BURST: u64 = 3;
/// Repairs in a minute, more than which are given up.
const BUDGET: usize = 20;

/// How long is waited for what has to come.
const LONGEST: Duration = Duration::from_secs(60);

/// How much of a storm it is.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many bursts. No more than may be repaired in a minute.
    pub bursts: usize,
    /// How many operations each of them has. All make an event at least, and more than the kernel keeps.
    pub operations: u64,
}

/// How a run has come through it.
#[derive(Clone, Copy, Debug)]
pub struct Weathered {
    /// Operations in all.
    pub operations: u64,
    /// How long the bursts took.
    pub took: Duration,
    /// How often the kernel lost events.
    pub overflows: u64,
    /// What the run had before.
    pub before: Held,
    /// What it had behind.
    pub behind: Held,
    /// The longest from the end of a burst until all that has no limit was in its state.
    pub longest: Duration,
    /// The same for those with a limit, behind the last one.
    pub longest_limited: Duration,
    /// How often one was changed at most, how often a limited command was looked at, and how often either may have been.
    pub limited: [u64; 3],
}

struct Place {
    directory: PathBuf,
    manifest: PathBuf,
    done: AtomicU64,
}

impl Place {
    fn path(&self, kind: &str, number: usize) -> PathBuf {
        self.directory.join((number % DIRECTORIES).to_string()).join(format!("{kind}{number}"))
    }

    fn text(&self) -> String {
        let file = |kind: &str, number: usize, meta: &str| {
            let path = self.path(kind, number);
            format!("  file[{}]: {{content: declared, mode: \"0644\"{meta}}}\n", path.display())
        };
        let limit = format!(", meta: {{limit: {}, burst: {BURST}}}", 1.0 / INTERVAL as f64);
        let command = |number: usize| {
            let (creates, log) = (self.path("asked", number), self.log(number));
            let (creates, log) = (creates.display(), log.display());
            format!(
                "  exec[{number}]: {{command: \"false\", creates: {creates}, unless: \"sh -c 'echo x >> {log}'\"{limit}}}\n"
            )
        };
        let calm = (0..CALM).map(|number| file("calm", number, ""));
        let limited = (0..LIMITED).map(|number| file("limited", number, &limit));
        let contested = (0..CONTESTED).map(|number| file("contested", number, ""));
        let all = calm.chain(limited).chain(contested).chain((0..COMMANDS).map(command));
        format!("resources:\n{}", all.collect::<String>())
    }

    /// Where a command notes that it was looked at.
    fn log(&self, number: usize) -> PathBuf {
        self.directory.join(format!("logs/{number}"))
    }

    fn declare(&self, text: &str) {
        let new = self.directory.join("m.new");
        fs::write(&new, text).expect("there is room");
        fs::rename(&new, &self.manifest).expect("both are in one directory");
    }

    /// Those of a kind that are not as declared.
    fn amiss(&self, kind: &str, count: usize) -> Vec<PathBuf> {
        let is_declared = |path: &PathBuf| {
            fs::read(path).is_ok_and(|content| content == b"declared")
                && fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o7777 == 0o644)
        };
        (0..count).map(|number| self.path(kind, number)).filter(|path| !is_declared(path)).collect()
    }

    #[track_caller]
    fn wait_for(&self, kind: &str, count: usize) -> Duration {
        let begun = Instant::now();
        loop {
            let amiss = self.amiss(kind, count);
            let Some(one) = amiss.first() else { return begun.elapsed() };
            assert!(begun.elapsed() < LONGEST, "{} are missed, as {}", amiss.len(), one.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// One blow at a calm file, in one of the ways in which files are changed.
    fn strike(&self, number: usize, burst: usize) {
        let path = self.path("calm", number);
        match (number + burst) % 4 {
            0 => fs::write(&path, "struck").expect("it is there"),
            1 => fs::remove_file(&path).expect("it is there"),
            2 => fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is there"),
            _ => {
                let other = self.path("other", number);
                fs::write(&other, "struck").expect("there is room");
                fs::rename(&other, &path).expect("both are in one directory");
            }
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// What goes on all the time; how many operations that was. What is gone for a moment is left alone.
    fn rage(&self, thread: usize, at: usize) -> u64 {
        let round = at / 20;
        match at % 20 {
            0..6 => {
                let (one, other) = (self.path("noise", at % 50 * THREADS + thread), self.path("noise", at % 50 + 500));
                let _ = fs::write(&one, "noise").and_then(|()| fs::rename(&one, &other));
                let _ = fs::remove_file(&other);
                3
            }
            kind @ 6..16 => {
                let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                let times = Timestamps { last_access: now, last_modification: now };
                let _ = utimensat(CWD, self.path("calm", (round * 10 + kind) % CALM), &times, AtFlags::empty());
                1
            }
            kind @ (16 | 17) => {
                let is_written = fs::write(self.path("limited", (round * 2 + kind) % LIMITED), "struck").is_ok();
                u64::from(is_written)
            }
            18 => u64::from(fs::write(self.path("contested", round % CONTESTED), "struck").is_ok()),
            _ => {
                let path = self.path("asked", round % COMMANDS);
                let _ = fs::write(&path, "").and_then(|()| fs::remove_file(&path));
                2
            }
        }
    }

    fn burst(&self, operations: u64) {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let (mut done, mut at) = (0, 0);
                    while done < operations / THREADS as u64 {
                        let more = self.rage(thread, at);
                        self.done.fetch_add(more, Ordering::Relaxed);
                        (done, at) = (done + more, at + 1);
                    }
                });
            }
        });
    }

    /// A burst around a run that stands still: what is struck when the queue is full is not told.
    fn burst_unheard(&self, running: &Running, burst: usize, operations: u64) {
        running.freeze();
        self.burst(operations);
        (0..CALM).for_each(|number| self.strike(number, burst));
        running.go_on();
    }

    /// A burst around a run that mends what is struck.
    fn burst_heard(&self, burst: usize, operations: u64) {
        let begun = self.done.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| self.burst(operations));
            for number in 0..CALM {
                let share = operations * number as u64 / CALM as u64;
                while self.done.load(Ordering::Relaxed) - begun < share {
                    std::thread::yield_now();
                }
                self.strike(number, burst);
            }
        });
    }

    fn reference(&self, kind: &str, number: usize) -> String {
        format!("file[{}]", self.path(kind, number).display())
    }

    /// Waits until the calm files are in their state, and the run knows it: what is struck while it still looks at what it has
    /// changed has failed, and is left alone for a second.
    #[track_caller]
    fn wait_for_calm(&self, running: &Running) -> Duration {
        let begun = Instant::now();
        self.wait_for("calm", CALM);
        let is_known = || self.status(running, "calm", CALM).iter().all(|one| one["state"] == "in_sync");
        wait("the calm files to be known as in their state", LONGEST, is_known);
        begun.elapsed()
    }

    /// What is known of all of a kind.
    fn status(&self, running: &Running, kind: &str, count: usize) -> Vec<Json> {
        let all: Vec<String> = (0..count).map(|number| self.reference(kind, number)).collect();
        let status = running.status(all).expect("it listens");
        status["resources"].as_array().expect("there are some").clone()
    }

    /// Writes what is contested until it is repaired at growing intervals only.
    fn contest(&self, running: &Running) {
        wait("the contested files to be called so", LONGEST, || {
            let amiss = self.amiss("contested", CONTESTED);
            for path in (0..CONTESTED).map(|number| self.path("contested", number)).filter(|path| !amiss.contains(path))
            {
                fs::write(path, "struck").expect("there is room");
            }
            self.status(running, "contested", CONTESTED).iter().all(|one| one["contested"].is_object())
        });
    }

    /// How often limited resources were changed, and looked at, at most, and how often they may have been.
    fn limited(&self, running: &Running, since: Instant) -> [u64; 3] {
        let count = |one: &Json, key: &str| one[key].as_u64().expect("it is a number");
        // What is written again before it has been looked at behind a change has failed.
        let changes = |one: &Json| count(one, "changes") + count(one, "failures");
        let changed = self.status(running, "limited", LIMITED).iter().map(changes).max();
        let looks = |number: usize| fs::read(self.log(number)).map_or(0, |log| log.len() as u64 / 2);
        let looked = (0..COMMANDS).map(looks).max();
        // The first look needs no event.
        let allowed = 1 + BURST + since.elapsed().as_secs() / INTERVAL;
        [changed.expect("there are some"), looked.expect("there are some"), allowed]
    }
}

/// Holds a thousand resources through a storm.
///
/// `kilter` makes the command with these arguments, which has its state in `state`; everything else is made in `directory`.
///
/// # Panics
/// When something is missed, is changed or looked at more often than it may be, or is given up though it should not be.
pub fn storm(storm: Storm, kilter: impl Fn(&[&str]) -> Command, directory: &Path, state: &Path) -> Weathered {
    let Storm { bursts, operations } = storm;
    let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("there is inotify");
    let kept: u64 = kept.trim().parse().expect("it is a number");
    assert!(operations > kept && bursts < BUDGET, "{storm:?} is none: the kernel keeps {kept} events");
    let place = Place { directory: directory.to_owned(), manifest: directory.join("m.yaml"), done: AtomicU64::new(0) };
    for name in (0..DIRECTORIES).map(|number| number.to_string()).chain(["logs".to_owned()]) {
        fs::create_dir(directory.join(name)).expect("there is room");
    }
    let text = place.text();
    place.declare(&text);
    let begun = Instant::now();
    let manifest = place.manifest.display().to_string();
    let running = Running::begin(&mut kilter(&["run", "--quiet", &manifest]), state);
    running.wait_until_quiet();
    place.wait_for_calm(&running);
    let before = running.held();
    let (mut longest, mut took) = (Duration::ZERO, Duration::ZERO);
    for burst in 0..bursts {
        let begun = Instant::now();
        match burst % 2 {
            0 => place.burst_unheard(&running, burst, operations),
            _ => place.burst_heard(burst, operations),
        }
        took += begun.elapsed();
        longest = longest.max(place.wait_for_calm(&running));
    }
    let longest_limited = place.wait_for("limited", LIMITED);
    let limited = place.limited(&running, begun);
    assert!(limited[0] <= limited[2] && limited[1] <= limited[2], "changed, looked at, allowed: {limited:?}");
    // Whether what has no limit was changed more often, and that of the others was heeded at all.
    assert!(limited[0] > 1 && limited[1] > 1, "changed, looked at, allowed: {limited:?}");

    place.contest(&running);
    for calm in place.status(&running, "calm", CALM) {
        // It was made, and mended once for each blow.
        assert!(calm["contested"].is_null() && calm["state"] == "in_sync", "{calm}");
        assert!(calm["changes"] == bursts + 1 && calm["failures"] == 0, "{calm}");
    }
    place.declare(&format!("{text}# What was given up is repaired again.\n"));
    place.wait_for("contested", CONTESTED);
    let overflows = running.status("notable").and_then(|status| status["overflows"].as_u64());
    let overflows = overflows.expect("it listens");
    assert!(overflows >= bursts.div_ceil(2) as u64, "the kernel lost events {overflows} times only");
    let behind = running.held();
    assert_eq!(running.end(), Some(143));
    let operations = place.done.into_inner();
    Weathered { operations, took, overflows, before, behind, longest, longest_limited, limited }
}
