//! Polled resources, with the reason: their type demands it, or their watch is lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::driver::clock::millis;
use kilter_engine::{ResourceId, Timestamp};
use kilter_provider::POLL;
use rustc_hash::FxHashMap;

/// Reason why a resource has no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollReason {
    /// The kernel's limit of watches is reached.
    Limit = 1,
    /// A process cannot be watched.
    Process = 2,
    /// A path or the network cannot be watched. It stays so until the declaration changes.
    Other = 4,
    /// The watch of the provider does not run.
    Provider = 8,
}

/// Poll state of one resource. It is polled while it has an interval or an event source is missing.
#[derive(Clone, Copy, Debug, Default)]
struct Polled {
    /// Interval of its type or of the manifest, in milliseconds.
    declared: Option<u64>,
    /// Bit set of the missing event sources.
    missing: u8,
    /// Time of its next poll. Other entries of the queue for this resource are outdated.
    next: Timestamp,
}

impl Polled {
    fn interval(self) -> Option<u64> {
        let missing = (self.missing != 0).then(|| millis(POLL));
        self.declared.into_iter().chain(missing).min()
    }
}

/// All polled resources.
#[derive(Debug, Default)]
pub(super) struct Polls {
    of: FxHashMap<ResourceId, Polled>,
    queue: BinaryHeap<Reverse<(Timestamp, ResourceId)>>,
    /// Number of resources with a missing event source.
    missing: usize,
}

impl Polls {
    /// Number of resources that are polled because they cannot be watched.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Returns the reason why a resource is polled instead of watched.
    pub(super) fn why(&self, vertex: ResourceId) -> Option<&'static str> {
        let missing = self.of.get(&vertex)?.missing;
        let whys = [
            (PollReason::Limit, "no more inotify watches: raise the limit by `sysctl fs.inotify.max_user_watches`"),
            (PollReason::Process, "a process cannot be watched"),
            (PollReason::Other, "a path of it, or the network, cannot be watched"),
            (PollReason::Provider, "the watch of its provider does not run"),
        ];
        whys.into_iter().find(|(what, _)| missing & *what as u8 != 0).map(|(_, why)| why)
    }

    /// Resources that are polled.
    pub(super) fn polled(&self) -> impl Iterator<Item = ResourceId> {
        self.of.keys().copied()
    }

    /// Sets the interval of a resource in milliseconds. Without one it is polled only while an event source is
    /// missing.
    pub(super) fn declare(&mut self, vertex: ResourceId, interval: Option<u64>, now: Timestamp) {
        if interval.is_some() || self.of.contains_key(&vertex) {
            self.update(vertex, now, |polled| polled.declared = interval);
        }
    }

    /// Records a missing event source; returns true if the resource was not polled before.
    pub(super) fn add_reason(&mut self, vertex: ResourceId, what: PollReason, now: Timestamp) -> bool {
        let was_polled = self.of.contains_key(&vertex);
        self.update(vertex, now, |polled| polled.missing |= what as u8);
        !was_polled
    }

    /// Records that an event source works again.
    pub(super) fn remove_reason(&mut self, vertex: ResourceId, what: PollReason) {
        if let Some(polled) = self.of.get_mut(&vertex) {
            // This does not delay the next poll.
            let was_missing = polled.missing != 0;
            polled.missing &= !(what as u8);
            self.missing -= usize::from(was_missing && polled.missing == 0);
            if polled.interval().is_none() {
                self.of.remove(&vertex);
            }
        }
    }

    pub(super) fn is_missing(&self, vertex: ResourceId, what: PollReason) -> bool {
        self.of.get(&vertex).is_some_and(|polled| polled.missing & what as u8 != 0)
    }

    fn update(&mut self, vertex: ResourceId, now: Timestamp, change: impl FnOnce(&mut Polled)) {
        let polled = self.of.entry(vertex).or_default();
        let (before, was_missing) = (polled.interval(), polled.missing != 0);
        change(polled);
        self.missing += usize::from(!was_missing && polled.missing != 0);
        let Some(interval) = polled.interval() else {
            self.of.remove(&vertex);
            return;
        };
        let next = Timestamp(now.0.saturating_add(interval));
        if before.is_none() || next < polled.next {
            polled.next = next;
            self.queue.push(Reverse((next, vertex)));
            // Repeated changes of an interval must not let the queue grow.
            if self.queue.len() > 2 * self.of.len() + 64 {
                self.queue = queue(&self.of);
            }
        }
    }

    /// Returns the poll interval of a resource, in milliseconds.
    pub(super) fn interval(&self, vertex: ResourceId) -> Option<u64> {
        self.of.get(&vertex).and_then(|polled| polled.interval())
    }

    /// Returns the next poll of each resource, unsorted.
    pub(super) fn looks(&self) -> impl Iterator<Item = (Timestamp, ResourceId)> {
        self.of.iter().map(|(vertex, polled)| (polled.next, *vertex))
    }

    /// Returns the earliest time at which a poll may be due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the next resource that is due, and schedules its next poll after its interval.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<ResourceId> {
        self.drop_outdated();
        let Reverse((_, vertex)) = self.queue.peek().copied().filter(|Reverse((at, _))| *at <= now)?;
        self.queue.pop();
        let polled = self.of.get_mut(&vertex)?;
        polled.next = Timestamp(now.0.saturating_add(polled.interval()?));
        self.queue.push(Reverse((polled.next, vertex)));
        Some(vertex)
    }

    fn drop_outdated(&mut self) {
        let is_outdated = |of: &FxHashMap<ResourceId, Polled>, at: Timestamp, vertex: ResourceId| {
            of.get(&vertex).is_none_or(|polled| polled.next != at)
        };
        while let Some(Reverse((at, vertex))) = self.queue.peek()
            && is_outdated(&self.of, *at, *vertex)
        {
            self.queue.pop();
        }
    }

    /// Ends the polls of a resource.
    pub(super) fn forget(&mut self, vertex: ResourceId) {
        let polled = self.of.remove(&vertex);
        self.missing -= usize::from(polled.is_some_and(|polled| polled.missing != 0));
    }
}

fn queue(of: &FxHashMap<ResourceId, Polled>) -> BinaryHeap<Reverse<(Timestamp, ResourceId)>> {
    of.iter().map(|(vertex, polled)| Reverse((polled.next, *vertex))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ResourceId = ResourceId::first(1);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1000)
    }

    /// Returns the seconds of all polls up to `until`.
    fn looks(polls: &mut Polls, until: u64) -> Vec<u64> {
        (0..=until).filter(|second| polls.due(at(*second)).is_some()).collect()
    }

    #[test]
    fn poll_with_two_reasons_lasts_until_both_are_gone() {
        let reasons = [PollReason::Limit, PollReason::Other, PollReason::Process, PollReason::Provider];
        for one in reasons {
            for other in reasons.into_iter().filter(|other| *other != one) {
                let mut polls = Polls::default();
                assert!(polls.add_reason(ONE, one, at(0)));
                assert!(!polls.add_reason(ONE, other, at(10)), "it is looked at already");
                polls.remove_reason(ONE, one);
                assert!(!polls.is_missing(ONE, one) && polls.is_missing(ONE, other));
                assert_eq!(polls.missing(), 1);
                assert_eq!(looks(&mut polls, 700), [300, 600]);
                polls.remove_reason(ONE, other);
                assert_eq!((polls.interval(ONE), looks(&mut polls, 9999)), (None, vec![]));
                assert_eq!(polls.missing(), 0);
                assert!(polls.add_reason(ONE, one, at(9999)), "that is news again");
            }
        }
    }

    #[test]
    fn declared_poll_interval_stays_after_a_temporary_reason() {
        let mut polls = Polls::default();
        polls.declare(ONE, Some(1_000_000), at(0));
        assert!(!polls.add_reason(ONE, PollReason::Other, at(100)));
        assert_eq!(looks(&mut polls, 800), [400, 700], "the more often of both");
        polls.remove_reason(ONE, PollReason::Other);
        assert_eq!(polls.interval(ONE), Some(1_000_000));
        assert_eq!(polls.looks().collect::<Vec<_>>(), [(at(1000), ONE)], "the next look is not put off");
        assert_eq!(looks(&mut polls, 3100), [1000, 2000, 3000]);
        polls.declare(ONE, None, at(3100));
        assert_eq!(polls.interval(ONE), None);
        polls.declare(ONE, None, at(3100));
        assert_eq!(looks(&mut polls, 9000), [0; 0]);
    }

    #[test]
    fn polls_that_start_and_stop_leave_no_entry() {
        let mut polls = Polls::default();
        for time in 0..10_000 {
            polls.add_reason(ONE, PollReason::Process, Timestamp(time));
            polls.remove_reason(ONE, PollReason::Process);
        }
        assert!(polls.queue.len() <= 66, "{}", polls.queue.len());
        assert_eq!(looks(&mut polls, 400), [0; 0]);
    }

    #[test]
    fn removed_resource_is_polled_no_longer_and_others_are() {
        let mut polls = Polls::default();
        polls.add_reason(ONE, PollReason::Provider, at(0));
        polls.add_reason(ONE.next(), PollReason::Limit, at(0));
        polls.declare(ResourceId::first(2), Some(1000), at(0));
        polls.forget(ResourceId::first(2));
        polls.forget(ONE.next());
        assert_eq!((polls.looks().collect::<Vec<_>>(), polls.missing()), (vec![(at(300), ONE)], 1));
        assert_eq!((looks(&mut polls, 299), polls.next()), (vec![], Some(at(300))));
    }
}
