//! Results of file system events.

use std::mem::take;

use rustc_hash::FxHashSet;

use super::slab::Id;
use super::{Subscriber, WatchEvent, WatchLost};

/// Results of the events of one read.
#[derive(Default)]
pub(super) struct HubEvents {
    pub(super) told: Vec<Subscriber>,
    pub(super) lost: Vec<WatchLost>,
    /// Names that may refer to other objects now.
    pub(super) stale: Vec<Id>,
    pub(super) everything: bool,
    /// Nodes that have been handled: stale names, paths with changed content, directories with entries.
    pub(super) seen_stale: FxHashSet<Id>,
    pub(super) touched: FxHashSet<Id>,
    pub(super) entered: FxHashSet<Id>,
}

impl HubEvents {
    /// Returns the events to deliver; each subscriber appears once.
    pub(super) fn into_told(mut self) -> Vec<WatchEvent> {
        let mut all: Vec<WatchEvent> = take(&mut self.lost).into_iter().map(WatchEvent::Lost).collect();
        if self.everything {
            all.push(WatchEvent::Everything);
        } else if !self.told.is_empty() {
            self.told.sort_unstable();
            self.told.dedup();
            all.push(WatchEvent::Changed(self.told));
        }
        all
    }
}
