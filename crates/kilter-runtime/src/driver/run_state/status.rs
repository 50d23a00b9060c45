//! Resources while a state is held: what is out of sync, when each was checked, and how often it changed.

use std::collections::BTreeMap;
use std::time::Duration;

use kilter_engine::{ResourceId, Timestamp};
use rustc_hash::FxHashSet;

use super::change_counters::Counters;
use crate::report::{Counts, ResourceReport, Status};

/// State of the resources while a state is held.
pub(in crate::driver) struct HeldStatus {
    /// Resources out of sync.
    pub(super) reports: BTreeMap<ResourceId, ResourceReport>,
    pub(super) counters: Counters,
    /// Resources that have settled once, by slot.
    settled_once: Vec<bool>,
    /// Time of the last check of each resource by slot, in seconds of the driver's clock plus one; 0 for none.
    checked_at: Vec<u32>,
    /// Resources whose next check is a poll, without an event.
    polled: FxHashSet<ResourceId>,
    /// Hidden resources that have settled.
    hidden: FxHashSet<ResourceId>,
}

impl HeldStatus {
    pub(super) fn new(slots: usize) -> HeldStatus {
        HeldStatus {
            reports: BTreeMap::new(),
            counters: Counters::default(),
            settled_once: vec![false; slots],
            checked_at: vec![0; slots],
            polled: FxHashSet::default(),
            hidden: FxHashSet::default(),
        }
    }

    /// Takes another number of slots, and forgets the resources that have changed or been removed.
    pub(super) fn edit(&mut self, slots: usize, gone: &[ResourceId]) {
        self.settled_once.resize(self.settled_once.len().max(slots), false);
        self.checked_at.resize(self.settled_once.len(), 0);
        for vertex in gone {
            self.reports.remove(vertex);
            self.counters.forget(*vertex);
            self.hidden.remove(vertex);
            self.settled_once[vertex.slot()] = false;
            self.checked_at[vertex.slot()] = 0;
        }
        self.polled.clear();
    }

    /// Counts the resources by state.
    ///
    /// An active resource counts with its earlier state, and a resource that has never settled does not count.
    pub(super) fn counts(&self, total: usize, left_out: usize) -> Counts {
        let settled = self.settled_once.iter().filter(|has_settled| **has_settled).count();
        let hidden = self.hidden.len();
        let mut counts = Counts { total, in_sync: settled - hidden, hidden, left_out, ..Counts::default() };
        for report in self.reports.values() {
            let of_status = match report.status {
                Status::WouldChange => &mut counts.would_change,
                Status::WouldRefresh => &mut counts.would_refresh,
                Status::Unknown => &mut counts.unknown,
                Status::Failed => &mut counts.failed,
                Status::Skipped => &mut counts.skipped,
                Status::Interrupted => &mut counts.interrupted,
                Status::InSync | Status::Changed | Status::Refreshed => continue,
            };
            *of_status += 1;
            counts.in_sync -= 1;
        }
        counts
    }

    /// Records the time of a successful check.
    pub(super) fn checked(&mut self, vertex: ResourceId, now: Timestamp) {
        self.checked_at[vertex.slot()] = u32::try_from(now.0 / 1000 + 1).unwrap_or(u32::MAX);
    }

    /// Returns the time since the last check of a resource, in whole seconds.
    pub(in crate::driver) fn last_check(&self, vertex: ResourceId, now: Timestamp) -> Option<Duration> {
        let at = self.checked_at[vertex.slot()].checked_sub(1)?;
        Some(Duration::from_secs((now.0 / 1000).saturating_sub(at.into())))
    }

    pub(super) fn settled(&mut self, vertex: ResourceId, is_hidden: bool) {
        self.settled_once[vertex.slot()] = true;
        match is_hidden {
            true => self.hidden.insert(vertex),
            false => self.hidden.remove(&vertex),
        };
    }

    /// Returns true if a resource has settled once.
    pub(in crate::driver) fn has_settled(&self, vertex: ResourceId) -> bool {
        self.settled_once[vertex.slot()]
    }

    /// Records that the next check of a settled resource is a poll.
    pub(in crate::driver) fn poll(&mut self, vertex: ResourceId) {
        self.polled.insert(vertex);
    }

    /// Records an event on a resource, or its settlement. Returns true if its next check was a poll.
    pub(in crate::driver) fn end_poll(&mut self, vertex: ResourceId) -> bool {
        self.polled.remove(&vertex)
    }

    /// Returns the report of a resource that is out of sync.
    pub(in crate::driver) fn report(&self, vertex: ResourceId) -> Option<&ResourceReport> {
        self.reports.get(&vertex)
    }

    pub(in crate::driver) fn counters(&self) -> &Counters {
        &self.counters
    }
}
