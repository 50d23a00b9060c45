//! A hub, a directory, and points in time at which all has been told.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kilter_runtime::watch::{Hub, Limits, PathWatch, Scope, Subscriber, WatchEvent, WatchLost};
use tempfile::TempDir;

/// Long enough for the slowest machine: nothing waits for it unless something is wrong.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

const MARKER: Subscriber = Subscriber(u64::MAX);

pub(crate) struct Fixture {
    pub(crate) hub: Hub,
    told: Receiver<WatchEvent>,
    directory: TempDir,
    mode: Cell<u32>,
}

/// Events between two quiet points.
#[derive(Debug, Default)]
pub(crate) struct HeardEvents {
    pub(crate) changed: BTreeSet<u64>,
    pub(crate) everything: bool,
    pub(crate) lost: Vec<WatchLost>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::within(Limits::default())
    }

    pub(crate) fn within(limits: Limits) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("marker"), "").unwrap();
        fs::create_dir(directory.path().join("base")).unwrap();
        let (sender, told) = channel();
        let hub = Hub::start_within(limits, move |told| sender.send(told).unwrap_or_default()).unwrap();
        let fixture = Fixture { hub, told, directory, mode: Cell::new(0o600) };
        fixture.watch(MARKER.0, "../marker", Scope::This);
        fixture
    }

    /// A path below the directory that the test plays in.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        match below.strip_prefix("../") {
            Some(beside) => self.directory.path().join(beside),
            None if below.is_empty() => self.directory.path().join("base"),
            None => self.directory.path().join("base").join(below),
        }
    }

    /// The directory that holds everything.
    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn watch(&self, subscriber: u64, below: &str, scope: Scope) {
        let watch = PathWatch { path: self.path(below), scope };
        assert_eq!(self.hub.watch(Subscriber(subscriber), vec![watch]), []);
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        fs::write(self.path(below), text).unwrap();
    }

    pub(crate) fn make(&self, below: &str) {
        fs::create_dir_all(self.path(below)).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, below: &str) {
        std::os::unix::fs::symlink(target, self.path(below)).unwrap();
    }

    /// Waits until all that happened so far has been told. A change of mode is one event, which the
    /// kernel tells after those before it.
    pub(crate) fn quiet(&self) -> HeardEvents {
        self.mode.set(self.mode.get() ^ 0o044);
        fs::set_permissions(self.path("../marker"), Permissions::from_mode(self.mode.get())).unwrap();
        let mut heard = HeardEvents::default();
        loop {
            match self.told.recv_timeout(DEADLINE).expect("what happened is told in time") {
                WatchEvent::Changed(subscribers) => {
                    assert!(subscribers.is_sorted_by(|a, b| a < b), "each is named once: {subscribers:?}");
                    let is_over = subscribers.contains(&MARKER);
                    heard.changed.extend(subscribers.iter().filter(|one| **one != MARKER).map(|one| one.0));
                    if is_over {
                        return heard;
                    }
                }
                WatchEvent::Everything => heard.everything = true,
                WatchEvent::Lost(lost) => heard.lost.push(lost),
            }
        }
    }

    /// Returns the notified subscribers since the last quiet point. No event was lost.
    pub(crate) fn told(&self) -> Vec<u64> {
        let heard = self.quiet();
        assert!(!heard.everything && heard.lost.is_empty(), "{heard:?}");
        heard.changed.into_iter().collect()
    }

    /// Checks that no subscriber was notified since the last quiet point.
    #[track_caller]
    pub(crate) fn assert_silence(&self) {
        assert_eq!(self.told(), Vec::<u64>::new());
    }
}
