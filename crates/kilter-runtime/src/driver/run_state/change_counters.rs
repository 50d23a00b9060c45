//! Changes and refreshes of resources while a state is held, in little memory: a run may have changed all of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_engine::ResourceId;
use kilter_model::{AttributeName, Difference, ResourceRef};
use rustc_hash::FxHashMap;

use crate::driver::clock::millis;
use crate::driver::status_snapshot::ChangeCounters;

/// Changes and refreshes of all resources.
#[derive(Debug, Default)]
pub(in super::super) struct Counters {
    of: FxHashMap<ResourceId, ResourceCounters>,
    /// Sets of attributes that changed together, stored once for many resources.
    sets: Vec<Box<[AttributeName]>>,
    numbers: FxHashMap<Box<[AttributeName]>, u32>,
    /// Time of the last refresh in milliseconds since 1970, with its causes. Few resources have one.
    refreshes: FxHashMap<ResourceId, (u64, Box<[ResourceRef]>)>,
}

/// Changes and refreshes of one resource.
#[derive(Clone, Copy, Debug, Default)]
struct ResourceCounters {
    changes: u32,
    refreshes: u32,
    failures: u32,
    /// Number of the set of attributes of the last change.
    set: u32,
    /// Time of the last change, in milliseconds since 1970.
    changed_at: u64,
}

impl Counters {
    /// Counts a change.
    pub(super) fn changed(&mut self, vertex: ResourceId, differences: &[Difference]) {
        let set = self.number(differences);
        let done = self.of.entry(vertex).or_default();
        done.changes = done.changes.saturating_add(1);
        (done.set, done.changed_at) = (set, now());
    }

    /// Counts a refresh that the resources `owed_by` caused.
    pub(super) fn refreshed(&mut self, vertex: ResourceId, owed_by: Vec<ResourceRef>) {
        let done = self.of.entry(vertex).or_default();
        done.refreshes = done.refreshes.saturating_add(1);
        self.refreshes.insert(vertex, (now(), owed_by.into()));
    }

    /// Counts a failure.
    pub(super) fn failed(&mut self, vertex: ResourceId) {
        let done = self.of.entry(vertex).or_default();
        done.failures = done.failures.saturating_add(1);
    }

    fn number(&mut self, differences: &[Difference]) -> u32 {
        let mut attributes: Vec<AttributeName> = differences.iter().map(|each| each.attribute.clone()).collect();
        attributes.dedup();
        if let Some(number) = self.numbers.get(attributes.as_slice()) {
            return *number;
        }
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        let attributes: Box<[AttributeName]> = attributes.into();
        self.sets.push(attributes.clone());
        self.numbers.insert(attributes, number);
        number
    }

    /// Returns the numbers of a resource.
    pub(in crate::driver) fn of(&self, vertex: ResourceId) -> ChangeCounters {
        let Some(done) = self.of.get(&vertex) else { return ChangeCounters::default() };
        let set = self.sets.get(done.set as usize).filter(|_| done.changes > 0);
        let time = |at: u64| UNIX_EPOCH + Duration::from_millis(at);
        ChangeCounters {
            changes: done.changes.into(),
            refreshes: done.refreshes.into(),
            failures: done.failures.into(),
            last_change: set.map(|set| (time(done.changed_at), set.clone())),
            last_refresh: self.refreshes.get(&vertex).map(|(at, by)| (time(*at), by.clone())),
        }
    }

    /// Forgets a resource.
    pub(super) fn forget(&mut self, vertex: ResourceId) {
        self.of.remove(&vertex);
        self.refreshes.remove(&vertex);
    }
}

/// Returns the time, in milliseconds since 1970.
fn now() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_report_each_kind_of_change() {
        let difference = |name: &str| Difference::new(name, 1.into(), 2.into());
        let mut tallies = Counters::default();
        let (one, other) = (ResourceId::first(1), ResourceId::first(2));
        assert_eq!(tallies.of(one), ChangeCounters::default());
        tallies.failed(one);
        assert_eq!(tallies.of(one), ChangeCounters { failures: 1, ..ChangeCounters::default() });
        tallies.changed(one, &[difference("mode"), difference("mode"), difference("owner")]);
        tallies.refreshed(one, vec![ResourceRef::new("file", "/a")]);
        tallies.changed(other, &[difference("mode"), difference("owner")]);
        tallies.refreshed(other, Vec::new());
        let names = |tally: &ChangeCounters| tally.last_change.as_ref().map(|(_, names)| names.len());
        let tally = tallies.of(one);
        assert_eq!((tally.changes, tally.refreshes, tally.failures, names(&tally)), (1, 1, 1, Some(2)));
        let (at, _) = tally.last_change.unwrap();
        assert_eq!(tally.last_refresh.unwrap().1[0].to_string(), "file[/a]");
        assert!(at.elapsed().unwrap_or_default() < Duration::from_secs(60));
        assert_eq!((tallies.of(other).refreshes, tallies.sets.len()), (1, 1), "what is alike is kept once");
        assert!(size_of::<(ResourceId, ResourceCounters)>() <= 32);
    }
}
