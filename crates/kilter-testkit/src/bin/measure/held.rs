//! Measures the cost of holding a state.

use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kilter_testkit::kilter_process::{KilterProcess, wait};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::run::{MeasureSetup, best};
use super::table::CostTable;

const HELD_FILES: usize = 100_000;
const DIRECTORIES: usize = 100;
/// Number of resources that an edit changes.
const EDITED: usize = 10;
/// Number of edits. The median counts.
const EDITS: usize = 11;
/// Number of changes from outside.
const CHANGES: usize = 400;

/// Maximum memory per resource in bytes, in addition to its declaration.
const IDLE: f64 = 1024.0;

fn begin(bench: &MeasureSetup, manifest: &Path) -> KilterProcess {
    let mut command = bench.kilter(&["run", "--quiet"]);
    KilterProcess::begin(command.arg(manifest), &bench.state())
}

fn path(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("{:02}/{number}", number % DIRECTORIES))
}

fn manifest(directory: &Path, count: usize, edition: usize) -> PathBuf {
    let content = |number: usize| if number < EDITED { edition } else { 0 };
    let one = |number| format!("  file[{}]: {{content: \"{}\"}}\n", path(directory, number).display(), content(number));
    let text: String = (0..count).map(one).collect();
    let (new, manifest) = (directory.join("m.new"), directory.join("m.yaml"));
    fs::write(&new, format!("resources:\n{text}")).expect("there is room");
    fs::rename(&new, &manifest).expect("there is room");
    manifest
}

fn place(bench: &MeasureSetup, name: &str) -> PathBuf {
    let directory = bench.directory(name);
    for number in 0..DIRECTORIES {
        fs::create_dir(directory.join(format!("{number:02}"))).expect("there is room");
    }
    directory
}

/// Measures 100,000 files: until quiet, at rest, and during an edit.
pub(crate) fn held(bench: &MeasureSetup, table: &mut CostTable) {
    let directory = place(bench, "held");
    let declared = manifest(&directory, HELD_FILES, 0);
    best(1, || bench.apply(&declared, &[]));
    let once = best(3, || bench.apply(&declared, &[]));
    let begun = Instant::now();
    let running = begin(bench, &declared);
    running.wait_until_quiet();
    let to_quiet = begun.elapsed().as_secs_f64() * 1e3;
    table.ratio("`run` with 100,000 files, start to converged", to_quiet, once.wall, "ms", "one pass", 3.0);
    // Wait until writes are durable and status clients are gone.
    std::thread::sleep(Duration::from_secs(3));
    let before = running.cpu();
    std::thread::sleep(Duration::from_secs(10));
    table.limit("`run` with 100,000 files, CPU in 10 s without events", running.cpu() - before, "ms", 0.0);
    edited(&directory, &running, table);
}

/// Measures an edit of ten resources among all: time until they are held, and number of checks.
fn edited(directory: &Path, running: &KilterProcess, table: &mut CostTable) {
    let before = running.held();
    let mut events = running.follow();
    let (mut took, mut most) = (Vec::new(), 0);
    for edition in 1..=EDITS {
        let [settled, changed] = counted(running);
        manifest(directory, HELD_FILES, edition);
        let from = events.find_map(|line| time_of("reloading", &line)).expect("it is read");
        let until = events.by_ref().filter_map(|line| time_of("settled", &line)).nth(EDITED - 1);
        took.push(until.expect("it is held") - from);
        rested(running);
        let [settled_then, changed_then] = counted(running);
        assert_eq!(changed_then - changed, EDITED as u64, "these are changed, once each");
        most = most.max(settled_then - settled);
    }
    took.sort_by(f64::total_cmp);
    let what = "`run` with 100,000 files, edit of ten, read to in sync, median";
    table.limit(what, took[EDITS / 2], "ms", 100.0);
    // Each file is checked again after the event of its own change.
    table.limit(
        "`run` with 100,000 files, edit of ten, maximum number of checks",
        most as f64,
        "checks",
        2.0 * EDITED as f64,
    );
    // The follower has a descriptor, and the last query had another for a moment.
    let descriptors = |_| {
        std::thread::sleep(Duration::from_millis(20));
        running.held().descriptors
    };
    let behind = (0..50).map(descriptors).min().unwrap_or_default();
    let more = behind as f64 - before.descriptors as f64 - 1.0;
    // The first change opens the history: the database, its write-ahead log and the index of the log.
    table.limit("`run` with 100,000 files, additional descriptors after all edits", more, "descriptors", 3.0);
}

/// Returns the time of an event, if it is of this kind.
fn time_of(word: &str, line: &str) -> Option<f64> {
    let event: serde_json::Value = serde_json::from_str(line).expect("events are JSON");
    (event["event"] == word).then(|| event["unix_ms"].as_f64().expect("each has its time"))
}

/// Returns the number of settlements, and of those with a change.
fn counted(running: &KilterProcess) -> [u64; 2] {
    let status = running.status("notable").expect("it listens");
    let settled = status["settled"].as_object().expect("it is counted");
    let all = settled.values().filter_map(serde_json::Value::as_u64).sum();
    [all, status["settled"]["changed"].as_u64().unwrap_or(0)]
}

/// Waits until the run reports that it has been quiet for half a second.
fn rested(running: &KilterProcess) {
    let rests = || running.status("notable").is_some_and(|status| status["quiet_for_ms"].as_u64() > Some(500));
    wait("rest after an edit", Duration::from_secs(60), rests);
}

/// Measures the memory of an idle file.
///
/// The result is the difference between runs with `2n` and `n` files, which excludes the fixed cost of a run. It is
/// measured for files that were found in sync, and for files that the run created.
pub(crate) fn idle(bench: &MeasureSetup, table: &mut CostTable) {
    for (what, is_made) in [("found in sync", true), ("created by the run", false)] {
        let [less, more] = [HELD_FILES / 2, HELD_FILES].map(|count| {
            let directory = place(bench, "idle");
            let declared = manifest(&directory, count, 0);
            if is_made {
                best(1, || bench.apply(&declared, &["--no-flush"]));
            }
            // Without queries: after a query the run returns memory to the system.
            let converged = directory.join("converged");
            let mut command = bench.kilter(&["run", "--quiet", "--converged-status-file"]);
            let running = KilterProcess::begin(command.arg(&converged).arg(declared), &bench.state());
            let rests = || fs::read(&converged).is_ok_and(|told| told.starts_with(b"true"));
            wait("rest", Duration::from_secs(600), rests);
            running.held().memory as f64 * 1024.0
        });
        let of_one = (more - less) / (HELD_FILES - HELD_FILES / 2) as f64;
        table.limit(&format!("memory per file {what}, with its declaration"), of_one, "bytes", IDLE);
    }
}

/// Measures the repair of one of 10,000 files: from the write to the restored content.
pub(crate) fn repaired(bench: &MeasureSetup, table: &mut CostTable) {
    let count = 10_000;
    let directory = place(bench, "repair");
    let running = begin(bench, &manifest(&directory, count, 0));
    running.wait_until_quiet();
    let kilter = latencies(&directory, count);
    drop(running);
    let ended = AtomicBool::new(false);
    let floor = std::thread::scope(|scope| {
        let watching = bare(&directory);
        scope.spawn(|| rewrite(&directory, watching, &ended));
        let floor = latencies(&directory, count);
        ended.store(true, Ordering::Release);
        // The last event wakes the thread.
        fs::write(path(&directory, 1), "end").expect("there is room");
        floor
    });
    // The slowest percent waits for the disk and the processor, and has no target.
    for (word, at, limit) in [("median", CHANGES / 2, 3.0), ("99th percentile", CHANGES * 99 / 100, f64::INFINITY)] {
        let what = format!("`run` with 10,000 files, repair after a write, {word}");
        table.ratio(&what, kilter[at], floor[at], "ms", "a bare loop", limit);
    }
}

/// Returns the times from a write until the content is restored, in milliseconds, sorted.
fn latencies(directory: &Path, count: usize) -> Vec<f64> {
    let mut seen: Vec<f64> = (0..CHANGES)
        .map(|change| {
            // A different file each time, because a file that changes often becomes contested.
            let path = path(directory, EDITED + change * 17 % (count - EDITED));
            let mut file = File::create(&path).expect("it is there");
            file.write_all(b"changed").expect("there is room");
            // Opening and writing are excluded, because their cost is the same for both.
            let begun = Instant::now();
            drop(file);
            while fs::read(&path).map_or(true, |content| content != b"0") {
                // A tight polling loop would slow the writer down.
                std::thread::sleep(Duration::from_micros(20));
            }
            let took = begun.elapsed().as_secs_f64() * 1e3;
            std::thread::sleep(Duration::from_millis(10));
            took
        })
        .collect();
    seen.sort_by(f64::total_cmp);
    seen
}

/// Creates watches for the same directories only.
fn bare(directory: &Path) -> (rustix::fd::OwnedFd, Vec<i32>) {
    let inotify = inotify::init(CreateFlags::CLOEXEC).expect("there is inotify");
    let watches = (0..DIRECTORIES).map(|number| {
        let path = directory.join(format!("{number:02}"));
        inotify::add_watch(&inotify, path, WatchFlags::CLOSE_WRITE).expect("there is room for a watch")
    });
    let watches = watches.collect();
    (inotify, watches)
}

/// Restores each written file, unless its content is correct.
fn rewrite(directory: &Path, (inotify, watches): (rustix::fd::OwnedFd, Vec<i32>), ended: &AtomicBool) {
    let mut buffer = [const { MaybeUninit::uninit() }; 4096];
    let mut events = Reader::new(&inotify, &mut buffer);
    while !ended.load(Ordering::Acquire) {
        let event = events.next().expect("the watches stay");
        let _: ReadFlags = event.events();
        let number = watches.iter().position(|watch| *watch == event.wd()).expect("it is one of these");
        let name = event.file_name().expect("it is in a directory").to_string_lossy().into_owned();
        let path = directory.join(format!("{number:02}")).join(name);
        if fs::read(&path).is_ok_and(|content| content != b"0") {
            fs::write(&path, "0").expect("there is room");
        }
    }
}
