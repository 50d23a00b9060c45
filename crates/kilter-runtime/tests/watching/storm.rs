//! More events than the kernel keeps.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kilter_runtime::watch::{Hub, PathWatch, Scope, Subscriber, WatchEvent};

use crate::fixture::DEADLINE;

const FILES: u64 = 64;
const EVENTS: u64 = 1_000_000;
const BURST: u64 = 50_000;

/// Writes in bursts without a reader, so that the queue of the kernel overflows. A reader then checks each path of an
/// event. At the end it has seen the last content of every file, although directories were moved meanwhile.
#[test]
fn storm_of_changes_misses_no_event() {
    let directory = tempfile::tempdir().unwrap();
    let path = |n: u64| directory.path().join(format!("{}/{n}", n % 4));
    for n in 0..4 {
        fs::create_dir(directory.path().join(n.to_string())).unwrap();
    }
    let gate = Arc::new(Mutex::new(()));
    let (overflow, overflows) = channel();
    let (sender, told) = channel();
    let hub = {
        let gate = Arc::clone(&gate);
        Hub::start(move |told| {
            drop(gate.lock().unwrap());
            if told == WatchEvent::Everything {
                overflow.send(()).unwrap_or_default();
            }
            sender.send(told).unwrap_or_default();
        })
        .unwrap()
    };
    let all = (0..FILES).map(|n| (Subscriber(n), vec![PathWatch { path: path(n), scope: Scope::This }]));
    assert_eq!(hub.watch_all(all), []);
    let is_over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let (is_over, path) = (&is_over, &path);
        let reader = scope.spawn(move || {
            let mut seen = vec![None; FILES as usize];
            let all = || (0..FILES).map(Subscriber).collect::<Vec<_>>();
            let wanted = || (0..FILES).map(|n| fs::read(path(n)).ok()).collect::<Vec<_>>();
            let mut waited = Duration::ZERO;
            while !(is_over.load(Ordering::Acquire) && seen == wanted()) {
                let subscribers = match told.recv_timeout(Duration::from_millis(100)) {
                    Ok(WatchEvent::Changed(subscribers)) => subscribers,
                    Ok(WatchEvent::Everything) => all(),
                    Ok(WatchEvent::Lost(lost)) => panic!("{lost:?}"),
                    Err(RecvTimeoutError::Timeout) => {
                        waited += Duration::from_millis(100);
                        assert!(waited < DEADLINE, "something was missed");
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => panic!("the hub ended"),
                };
                for Subscriber(n) in subscribers {
                    seen[n as usize] = fs::read(path(n)).ok();
                }
            }
            seen
        });
        let mut done = 0;
        while done < EVENTS {
            let shut = gate.lock().unwrap();
            let mut files: Vec<File> = (0..FILES).map(|n| File::create(path(n)).unwrap()).collect();
            for n in 0..BURST {
                files[(n % FILES) as usize].write_all(b"x").unwrap();
            }
            // Nobody hears of these.
            let (from, to) = (directory.path().join("0"), directory.path().join("away"));
            fs::rename(&from, &to).unwrap();
            fs::create_dir(&from).unwrap();
            for n in (0..FILES).filter(|n| n.is_multiple_of(4)) {
                fs::write(path(n), format!("new {n} {done}")).unwrap();
            }
            fs::remove_dir_all(&to).unwrap();
            drop((files, shut));
            overflows.recv_timeout(DEADLINE).expect("an overflow is told");
            done += BURST;
        }
        is_over.store(true, Ordering::Release);
        reader.join().unwrap()
    });
    assert_eq!(seen[4], Some(format!("new 4 {}", EVENTS - BURST).into_bytes()));
    let counts = hub.counts();
    println!("{EVENTS} writes, {counts:?}");
    assert!(counts.overflows >= EVENTS / BURST);
}
