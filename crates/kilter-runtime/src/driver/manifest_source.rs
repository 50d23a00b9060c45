//! Source of the declared state, and the state of its reloads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use kilter_engine::Timestamp;

use super::message::Message;
use crate::conditions::{Outdated, SourceVersion, Stale};
use crate::driver::clock::millis;
use crate::prepare::Prepared;

/// Source of the declared state of a run that holds it.
pub trait ManifestSource {
    /// Returns its files.
    fn files(&self) -> Vec<PathBuf>;

    /// Returns directories whose complete content belongs to it.
    fn trees(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns true if a file may have changed since the last read. Called for polling, if the files cannot be
    /// watched.
    fn may_have_changed(&mut self) -> bool;

    /// Starts to read the manifest on another thread. It may take long, and repairs continue meanwhile. Drops
    /// `ring` when it has finished.
    fn begin_reading(&mut self, ring: ReloadNotifier);

    /// Returns the result of the read, after `ring` was dropped.
    fn read(&mut self) -> Reload;

    /// Returns why the held state is older than the manifest, if the last read found errors.
    fn outdated(&self) -> Option<Outdated> {
        None
    }

    /// Returns why collected resources may be older than the exported ones, if they may.
    fn stale(&self) -> Option<Stale> {
        None
    }

    /// Returns the version that the run holds, if it fetches the manifests from a source.
    fn source(&self) -> Option<SourceVersion> {
        None
    }

    /// Returns the interval at which the manifest is reloaded without an edit, because the output of programs and the
    /// facts may change.
    fn reread_interval(&self) -> Option<Duration> {
        None
    }

    /// Takes the catalog that an edit has replaced, to free it. Calls in flight may still use it.
    fn discard(&mut self, former: Arc<Prepared>) {
        drop(former);
    }
}

/// Notifies the driver when it is dropped: the manifest has been read.
#[derive(Debug)]
pub struct ReloadNotifier(pub(super) Sender<Message>);

impl Drop for ReloadNotifier {
    fn drop(&mut self) {
        // Without a driver there is no receiver.
        let _ = self.0.send(Message::Declared);
    }
}

/// Result of a reload.
#[derive(Debug)]
pub enum Reload {
    /// The same state as before.
    Same,
    /// Another state, which the run holds from now on.
    Other(Box<Prepared>),
    /// The manifest has errors. The run continues with the state it holds, and polls the files, because the
    /// manifest may include unwatched ones.
    Wrong,
    /// The manifest changed during the read: it is read again.
    Unsettled,
}

/// Debounce time in milliseconds: the manifest is read when it has not changed for so long, because a write may be
/// incomplete.
const DEBOUNCE: u64 = 200;
/// Maximum delay of a reload by debouncing, in milliseconds.
const MAX_DEBOUNCE: u64 = 2000;
/// Interval in milliseconds between polls of a manifest that cannot be watched.
pub(super) const MANIFEST_POLL_MILLIS: u64 = 2000;

/// Interval in milliseconds between checks whether resources with `realize` have settled.
pub(super) const LOOK_AT_REALIZED: u64 = 50;

/// State of the reloads.
#[derive(Default)]
pub(super) struct Reading {
    /// Time of the next read, unless another write delays it.
    pub(super) due: Option<Timestamp>,
    /// True while a read is running.
    pub(super) is_under_way: bool,
    /// Time of the first write since the last read.
    pub(super) first_touched: Option<Timestamp>,
    /// Time of the next comparison with the last read.
    pub(super) look: Option<Timestamp>,
    /// Time of the next read without a write.
    pub(super) again: Option<Timestamp>,
    /// True if the last read found errors.
    pub(super) is_wrong: bool,
    /// Errors of the last read.
    pub(super) outdated: Option<Outdated>,
    /// True if the manifest cannot be watched.
    pub(super) is_unwatched: bool,
}

impl Reading {
    /// Returns the initial state. The first comparison is due at once, because the manifest may have changed before
    /// the watch started.
    pub(super) fn begun() -> Reading {
        Reading { look: Some(Timestamp::default()), ..Reading::default() }
    }

    /// Schedules the next read without a write, if there is an interval.
    pub(super) fn read_again_after(&mut self, interval: Option<Duration>, now: Timestamp) {
        let at = |interval: Duration| now.0.saturating_add(millis(interval).max(1));
        self.again = interval.map(|interval| Timestamp(at(interval)));
    }

    /// Returns the time of the next action.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.is_under_way);
        due.into_iter().chain(self.look).chain(self.again).min()
    }

    /// Records a write.
    pub(super) fn touched(&mut self, now: Timestamp) {
        let first = *self.first_touched.get_or_insert(now);
        let settled = now.0.saturating_add(DEBOUNCE);
        self.due = Some(Timestamp(settled.min(first.0.saturating_add(MAX_DEBOUNCE)).max(now.0)));
    }

    /// Records a comparison.
    pub(super) fn looked(&mut self, now: Timestamp) {
        let is_polled = self.is_wrong || self.is_unwatched;
        self.look = is_polled.then_some(Timestamp(now.0.saturating_add(MANIFEST_POLL_MILLIS)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_delays_the_read_until_the_maximum() {
        let mut reading = Reading::default();
        assert_eq!(reading.next(), None);
        for at in (0..=1780).step_by(20) {
            reading.touched(Timestamp(at));
            assert_eq!(reading.next(), Some(Timestamp(at + DEBOUNCE)), "a write at {at} ms");
        }
        for at in [1820, 1999, 2000] {
            reading.touched(Timestamp(at));
            assert_eq!(reading.next(), Some(Timestamp(MAX_DEBOUNCE)), "a write at {at} ms");
        }
        // A read is overdue: it starts now.
        reading.touched(Timestamp(2500));
        assert_eq!(reading.next(), Some(Timestamp(2500)));
    }
}
