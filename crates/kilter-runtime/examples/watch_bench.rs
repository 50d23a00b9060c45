//! Cost of watches: `cargo run --profile bench -p kilter-runtime --example watch_bench`.
//!
//! Time from a write to the call of `tell`, beside a bare loop of inotify in the same run; time and memory
//! to register 100,000 files in 100 directories.

use std::error::Error;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use kilter_runtime::watch::{Hub, PathWatch, Scope, Subscriber};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

const SUBSCRIBERS: u64 = 100_000;
const DIRECTORIES: u64 = 100;
const WRITES: usize = 10_000;

type BenchError = Box<dyn Error>;

fn main() -> Result<(), BenchError> {
    let directory = tempfile::tempdir()?;
    let (sender, told) = channel();
    for n in 0..DIRECTORIES {
        let path = path(directory.path(), n);
        fs::create_dir_all(path.parent().ok_or("every file has a directory")?)?;
    }
    for n in 0..SUBSCRIBERS {
        File::create(path(directory.path(), n))?;
    }
    let hub = Hub::start(move |_| sender.send(Instant::now()).unwrap_or_default())?;
    register(&hub, directory.path())?;
    while told.recv_timeout(Duration::from_millis(200)).is_ok() {}
    latency("hub, 100,000 subscribers", &path(directory.path(), 4711), &told)?;
    drop(hub);

    let floor = directory.path().join("floor");
    File::create(&floor)?;
    let told = bare(directory.path())?;
    latency("bare inotify", &floor, &told)
}

fn path(directory: &Path, n: u64) -> PathBuf {
    directory.join(format!("etc/application-{:02}/conf.d/{n:06}.conf", n % DIRECTORIES))
}

/// Registers all paths and prints the cost. Creates the paths one by one, so that the memory of the caller does not
/// count.
fn register(hub: &Hub, directory: &Path) -> Result<(), BenchError> {
    let watch = |n| PathWatch { path: path(directory, n), scope: Scope::This };
    let (before, begin) = (resident()?, Instant::now());
    let lost = hub.watch_all((0..SUBSCRIBERS).map(|n| (Subscriber(n), vec![watch(n)])));
    let (took, grown) = (begin.elapsed(), resident()?.saturating_sub(before));
    let (each, watches) = (grown / SUBSCRIBERS as usize, hub.counts().watches);
    println!(
        "{SUBSCRIBERS} files: {watches} watches, {took:?}, {grown} bytes, {each} each; {} not watched",
        lost.len()
    );
    Ok(())
}

/// Resident memory of this process.
fn resident() -> Result<usize, BenchError> {
    let text = fs::read_to_string("/proc/self/statm")?;
    Ok(text.split(' ').nth(1).ok_or("statm has two numbers at least")?.parse::<usize>()? * 4096)
}

fn latency(what: &str, path: &Path, told: &Receiver<Instant>) -> Result<(), BenchError> {
    let file = File::options().write(true).open(path)?;
    let mut all = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let begin = Instant::now();
        file.write_at(b"x", 0)?;
        all.push(told.recv()?.duration_since(begin));
    }
    all.sort_unstable();
    println!("{what}: write to told, median {:?}, p99 {:?}", all[WRITES / 2], all[WRITES * 99 / 100]);
    Ok(())
}

/// A loop that does nothing but take events.
fn bare(directory: &Path) -> Result<Receiver<Instant>, BenchError> {
    let inotify = inotify::init(CreateFlags::CLOEXEC)?;
    inotify::add_watch(&inotify, directory, WatchFlags::MODIFY)?;
    let (sender, told) = channel();
    thread::spawn(move || {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::MODIFY) && sender.send(Instant::now()).is_err() {
                break;
            }
        }
    });
    Ok(told)
}
