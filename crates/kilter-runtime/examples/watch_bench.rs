//! What watching costs: `cargo run --release -p kilter-runtime --example watch_bench`.
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

const SUBSCRIBERS: u32 = 100_000;
const DIRECTORIES: u32 = 100;
const WRITES: usize = 10_000;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let (sender, told) = channel();
    let hub = Hub::start(move |_| sender.send(Instant::now()).unwrap_or_default())?;
    register(&hub, directory.path(), false)?;
    for subscriber in 0..SUBSCRIBERS {
        hub.unwatch(Subscriber(subscriber));
    }
    for n in 0..SUBSCRIBERS {
        File::create(path(directory.path(), n))?;
    }
    register(&hub, directory.path(), true)?;
    let all = Instant::now();
    while told.recv_timeout(Duration::from_millis(200)).is_ok() {}
    println!("settled after {:?}", all.elapsed());
    latency("hub, 100,000 subscribers", &path(directory.path(), 4711), &told)?;
    drop(hub);

    let floor = directory.path().join("floor");
    File::create(&floor)?;
    let told = bare(directory.path())?;
    latency("bare inotify", &floor, &told)
}

fn path(directory: &Path, n: u32) -> PathBuf {
    directory.join(format!("etc/application-{:02}/conf.d/{n:06}.conf", n % DIRECTORIES))
}

/// Registers all, and says what it took.
fn register(hub: &Hub, directory: &Path, is_there: bool) -> Result<(), Failure> {
    for n in 0..DIRECTORIES {
        let path = path(directory, n);
        fs::create_dir_all(path.parent().ok_or("a directory")?)?;
    }
    let all: Vec<_> = (0..SUBSCRIBERS)
        .map(|n| (Subscriber(n), vec![PathWatch { path: path(directory, n), scope: Scope::This }]))
        .collect();
    // The paths that the caller keeps are not the hub's: they are freed before the second look.
    let (before, begin) = (heap()?, Instant::now());
    let mut given = 0;
    let lost = hub.watch_all(all.into_iter().inspect(|(_, watches)| given += size_of_val(&watches[..])));
    let (took, grown) = (begin.elapsed(), heap()?.saturating_sub(before));
    let counts = hub.counts();
    println!(
        "{} subscribers ({}): {} watches, {took:?}, resident memory + {grown} bytes beside what was handed over, lost {}",
        counts.subscribers,
        if is_there { "files that are there" } else { "files to come" },
        counts.watches,
        lost.len()
    );
    println!("  that is {} bytes each", grown / SUBSCRIBERS as usize);
    Ok(())
}

/// Resident memory; what the caller's own vectors have is subtracted by measuring around the call only.
fn heap() -> Result<usize, Failure> {
    let text = fs::read_to_string("/proc/self/statm")?;
    Ok(text.split(' ').nth(1).ok_or("statm")?.parse::<usize>()? * 4096)
}

fn latency(what: &str, path: &Path, told: &Receiver<Instant>) -> Result<(), Failure> {
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
fn bare(directory: &Path) -> Result<Receiver<Instant>, Failure> {
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
