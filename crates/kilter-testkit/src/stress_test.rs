//! A storm of file events around a run that holds a state.
//!
//! Two threads perform bursts of operations in the directories of a thousand resources. In every other burst the
//! process is stopped. The kernel's event queue then overflows, and the last events are certainly lost.
//!
//! - *Calm files* are changed once per burst, and touched all the time. After each burst they are in sync, with one
//!   repair per change.
//! - *Limited files* are written all the time. At the end they are in sync, with no more changes than `limit` and
//!   `burst` allow.
//! - *Limited commands* check files that appear and disappear all the time. They run no more checks than `limit` and
//!   `burst` allow.
//! - *Contested files* are written all the time, and at the end until they are contested. No other resource becomes
//!   contested. An edit of the manifest resets them.
//!
//! There are also files that the manifest does not declare.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use serde_json::Value as Json;

use crate::kilter_process::{Held, KilterProcess, wait};

const DIRECTORIES: usize = 10;
const CALM: usize = 860;
const LIMITED: usize = 100;
const CONTESTED: usize = 20;
const COMMANDS: usize = 20;
const THREADS: usize = 2;

/// Interval in seconds after which a limited resource may be checked again.
const INTERVAL: u64 = 5;
/// Number of events of a limited resource without delay.
const BURST: u64 = 3;
/// Number of repairs per minute before a resource becomes contested.
const BUDGET: usize = 20;

/// Maximum time to wait for an expected result.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Size of a storm.
#[derive(Clone, Copy, Debug)]
pub struct StressTest {
    /// Number of bursts. Less than the number of repairs that the budget allows per minute.
    pub bursts: usize,
    /// Number of operations per burst. Each causes at least one event, and they exceed the kernel's queue.
    pub operations: u64,
}

/// Result of a storm.
#[derive(Clone, Copy, Debug)]
pub struct StressReport {
    /// Total number of operations.
    pub operations: u64,
    /// Duration of the bursts.
    pub took: Duration,
    /// Number of overflows of the kernel's queue.
    pub overflows: u64,
    /// System resources of the run before the storm.
    pub before: Held,
    /// System resources of the run after the storm.
    pub behind: Held,
    /// Maximum time from the end of a burst until all resources without a limit are in sync.
    pub longest: Duration,
    /// Time from the end of the last burst until all limited resources are in sync.
    pub longest_limited: Duration,
    /// Maximum number of changes of a limited file, maximum number of checks of a limited command, and the allowed
    /// number of both.
    pub limited: [u64; 3],
}

struct StormDirectory {
    directory: PathBuf,
    manifest: PathBuf,
    done: AtomicU64,
}

impl StormDirectory {
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
                "  exec[{number}]: {{command: \"false\", creates: {creates}, unless: \"sh -c 'echo x >> \
                 {log}'\"{limit}}}\n"
            )
        };
        let calm = (0..CALM).map(|number| file("calm", number, ""));
        let limited = (0..LIMITED).map(|number| file("limited", number, &limit));
        let contested = (0..CONTESTED).map(|number| file("contested", number, ""));
        let all = calm.chain(limited).chain(contested).chain((0..COMMANDS).map(command));
        format!("resources:\n{}", all.collect::<String>())
    }

    /// Returns the file in which a command records its checks.
    fn log(&self, number: usize) -> PathBuf {
        self.directory.join(format!("logs/{number}"))
    }

    fn declare(&self, text: &str) {
        let new = self.directory.join("m.new");
        fs::write(&new, text).expect("there is room");
        fs::rename(&new, &self.manifest).expect("both are in one directory");
    }

    /// Returns the files of a kind that differ from their declaration.
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
            assert!(begun.elapsed() < MAX_WAIT, "{} are missed, as {}", amiss.len(), one.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Changes a calm file in one of several ways.
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

    /// Performs background operations and returns their number. Ignores files that are missing for a moment.
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

    /// Performs a burst while the process is stopped. The queue overflows, so the last changes cause no events.
    fn burst_unheard(&self, running: &KilterProcess, burst: usize, operations: u64) {
        running.freeze();
        self.burst(operations);
        (0..CALM).for_each(|number| self.strike(number, burst));
        running.go_on();
    }

    /// Performs a burst while the run repairs the changed files.
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

    /// Waits until the calm files are in sync and the run reports it. A file that changes again before the run has
    /// checked its repair fails and is left alone for a second.
    #[track_caller]
    fn wait_for_calm(&self, running: &KilterProcess) -> Duration {
        let begun = Instant::now();
        self.wait_for("calm", CALM);
        let is_known = || self.status(running, "calm", CALM).iter().all(|one| one["state"] == "in_sync");
        wait("the calm files to be known as in their state", MAX_WAIT, is_known);
        begun.elapsed()
    }

    /// Returns the status of all resources of a kind.
    fn status(&self, running: &KilterProcess, kind: &str, count: usize) -> Vec<Json> {
        let all: Vec<String> = (0..count).map(|number| self.reference(kind, number)).collect();
        let status = running.status(all).expect("it listens");
        status["resources"].as_array().expect("there are some").clone()
    }

    /// Writes the contested files until the run repairs them only at growing intervals.
    fn contest(&self, running: &KilterProcess) {
        wait("the contested files to be called so", MAX_WAIT, || {
            let amiss = self.amiss("contested", CONTESTED);
            for path in (0..CONTESTED).map(|number| self.path("contested", number)).filter(|path| !amiss.contains(path))
            {
                fs::write(path, "struck").expect("there is room");
            }
            self.status(running, "contested", CONTESTED).iter().all(|one| one["contested"].is_object())
        });
    }

    /// Returns the maximum numbers of changes and checks of limited resources, and the allowed number.
    fn limited(&self, running: &KilterProcess, since: Instant) -> [u64; 3] {
        let count = |one: &Json, key: &str| one[key].as_u64().expect("it is a number");
        // A file that changes again before the check after a repair counts as failed.
        let changes = |one: &Json| count(one, "changes") + count(one, "failures");
        let changed = self.status(running, "limited", LIMITED).iter().map(changes).max();
        let looks = |number: usize| fs::read(self.log(number)).map_or(0, |log| log.len() as u64 / 2);
        let looked = (0..COMMANDS).map(looks).max();
        // The first check needs no event.
        let allowed = 1 + BURST + since.elapsed().as_secs() / INTERVAL;
        [changed.expect("there are some"), looked.expect("there are some"), allowed]
    }
}

/// Holds a thousand resources through a storm.
///
/// `kilter` creates the command with these arguments, whose state is in `state`. All other files are created in
/// `directory`.
///
/// # Panics
/// If an event is missed, a resource is changed or checked too often, or the wrong resource becomes contested.
pub fn storm(storm: StressTest, kilter: impl Fn(&[&str]) -> Command, directory: &Path, state: &Path) -> StressReport {
    let StressTest { bursts, operations } = storm;
    let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("there is inotify");
    let kept: u64 = kept.trim().parse().expect("it is a number");
    assert!(operations > kept && bursts < BUDGET, "{storm:?} is none: the kernel keeps {kept} events");
    let place =
        StormDirectory { directory: directory.to_owned(), manifest: directory.join("m.yaml"), done: AtomicU64::new(0) };
    for name in (0..DIRECTORIES).map(|number| number.to_string()).chain(["logs".to_owned()]) {
        fs::create_dir(directory.join(name)).expect("there is room");
    }
    let text = place.text();
    place.declare(&text);
    let begun = Instant::now();
    let manifest = place.manifest.display().to_string();
    let running = KilterProcess::begin(&mut kilter(&["run", "--quiet", &manifest]), state);
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
    // Events of limited resources must have had an effect.
    assert!(limited[0] > 1 && limited[1] > 1, "changed, looked at, allowed: {limited:?}");

    place.contest(&running);
    for calm in place.status(&running, "calm", CALM) {
        // The file was created, and repaired once per change.
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
    StressReport { operations, took, overflows, before, behind, longest, longest_limited, limited }
}
