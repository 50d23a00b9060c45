//! Measures a check of unchanged files against the bare system calls.
//!
//! `cargo run --profile bench -p kilter-native --example file_bench -- [FILES] [ROUNDS]`; with a third
//! argument (`floor` or `provider`) only that part runs, once, for `strace -c -f`.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_model::Attributes;
use kilter_native::FileProvider;
use kilter_provider::{Context, Wanted, canonicalize_one, check};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

fn main() {
    let mut args = std::env::args().skip(1);
    let files = args.next().and_then(|text| text.parse().ok()).unwrap_or(5000);
    let rounds = args.next().and_then(|text| text.parse().ok()).unwrap_or(20);
    let part = args.next();
    let directory = std::env::temp_dir().join("kilter-file-bench");
    let declared = prepare(&directory, files);
    let provider = FileProvider::new();
    let wanted: Vec<_> = declared.iter().map(|(name, should)| Wanted::new(name, Some(should))).collect();
    match part.as_deref() {
        Some("floor") => floor(&declared),
        Some("provider") => all_in_sync(&provider, &wanted),
        _ => compare(&provider, &wanted, &declared, rounds),
    }
    println!("(files in {})", directory.display());
}

/// Both are measured in turns, and the best of each counts: it is the least disturbed.
fn compare(provider: &FileProvider, wanted: &[Wanted<'_>], declared: &[(EcoString, Attributes)], rounds: u32) {
    let (mut bare, mut checked) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        bare = bare.min(timed(|| floor(declared)));
        checked = checked.min(timed(|| all_in_sync(provider, wanted)));
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / wanted.len() as f64;
    println!("floor    {:.2} µs a file (openat2, fstat, read, close)", each(bare));
    println!("provider {:.2} µs a file", each(checked));
    println!("ratio    {:.2}", each(checked) / each(bare));
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Directories of 100 files with 200 bytes each, as a manifest would declare them.
fn prepare(directory: &Path, files: usize) -> Vec<(EcoString, Attributes)> {
    let provider = FileProvider::new();
    let mut declared = Vec::with_capacity(files);
    for number in 0..files {
        let parent = directory.join(format!("d{:03}", number / 100));
        let path = parent.join(format!("file{number}.conf"));
        let content = format!("{number:0>199}\n");
        std::fs::create_dir_all(&parent).expect("the temporary directory is writable");
        std::fs::write(&path, &content).expect("the temporary directory is writable");
        let mut name = EcoString::from(path.to_str().expect("the temporary directory has a name in UTF-8"));
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::chmod(&path, mode).expect("the file was just written");
        let mut should: Attributes = [("content", content.as_str()), ("mode", "0644")].into_iter().collect();
        if rustix::process::geteuid().is_root() {
            should.set("owner", "root");
            should.set("group", "root");
        }
        canonicalize_one(&provider, &Context::empty(), &mut name, &mut should).expect("the declaration is right");
        declared.push((name, should));
    }
    declared
}

fn floor(declared: &[(EcoString, Attributes)]) {
    let mut buffer = [0; 4096];
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    for (name, should) in declared {
        let fd = rustix::fs::openat2(CWD, name.as_str(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .expect("the file was just written");
        let stat = rustix::fs::fstat(&fd).expect("an open file can be inspected");
        let size = usize::try_from(stat.st_size).expect("the file is small");
        let count = rustix::io::read(&fd, &mut buffer[..size]).expect("an open file can be read");
        black_box(should.text("content").is_some_and(|content| content.as_bytes() == &buffer[..count]));
    }
}

fn all_in_sync(provider: &FileProvider, wanted: &[Wanted<'_>]) {
    let cx = Context::empty();
    for found in check(provider, &cx, wanted) {
        let found = found.expect("the file can be read");
        assert!(found.differences.is_empty(), "{:?}", found.differences);
    }
}
