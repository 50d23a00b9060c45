//! How often something is done to a vertex: repairs by their budget, what failed after its back-off, events by their limit.

use super::Timestamp;

/// Rate limit of repairs: a vertex that needs more is contested, because another program undoes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of repairs in `within`.
    pub repairs: u32,
    /// Length of the window, in milliseconds.
    pub within: u64,
    /// Milliseconds between a repair and the next one when a vertex becomes contested. Doubles with each further repair.
    pub first: u64,
    /// Maximum milliseconds between two repairs of a contested vertex.
    pub longest: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { repairs: 20, within: 60_000, first: 5_000, longest: 300_000 }
    }
}

/// How long a failed vertex is left alone if nothing happens to it: twice as long after each failure. What happens to it brings it
/// back sooner: an event that was followed by a failure makes that twice as long as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Milliseconds after the first failure if nothing happens to it.
    pub first: u64,
    /// Milliseconds after the first failure whatever happens to it; at most as many.
    pub roused: u64,
    /// Milliseconds at most.
    pub longest: u64,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: 1000, roused: 50, longest: 300_000 }
    }
}

/// A bucket of tokens, one for each event (`limit` and `burst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Milliseconds in which a token comes back.
    pub interval: u64,
    /// Tokens that there are at most; at least one.
    pub burst: u32,
}

impl Limit {
    /// Takes a token out of a bucket that is full at a time, which that puts off: when what it is for may begin.
    pub(super) fn take(self, full: &mut Timestamp, now: Timestamp) -> Timestamp {
        *full = Timestamp((*full).max(now).0.saturating_add(self.interval));
        let room = self.interval.saturating_mul(u64::from(self.burst.max(1)));
        Timestamp(full.0.saturating_sub(room)).max(now)
    }
}

/// How long a vertex that failed is left alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftAlone {
    /// For so many milliseconds if nothing happens to it.
    pause: u64,
    /// For so many milliseconds whatever happens to it, and until when.
    least: u64,
    until: Timestamp,
    /// Whether something has happened to it since it failed, or while it did.
    is_roused: bool,
}

impl LeftAlone {
    /// It has failed once more: when it comes back if nothing happens to it.
    pub(super) fn fails(&mut self, now: Timestamp, Backoff { first, roused, longest }: Backoff) -> Timestamp {
        let next = |last: u64, first: u64| last.saturating_mul(2).clamp(first, longest.max(first));
        self.pause = next(self.pause, first);
        if self.is_roused || self.least == 0 {
            self.least = next(self.least, roused);
        }
        self.until = Timestamp(now.0.saturating_add(self.least));
        self.is_roused = false;
        Timestamp(now.0.saturating_add(self.pause))
    }

    /// Something happens to it: when it may be looked at, unless that is known already.
    pub(super) fn is_roused(&mut self) -> Option<Timestamp> {
        (!std::mem::replace(&mut self.is_roused, true)).then_some(self.until)
    }
}

/// When a vertex was repaired. Nearly all are repaired once, as when a run makes everything.
#[derive(Clone, Debug)]
pub(super) enum Repairs {
    Once(Timestamp),
    Often(Vec<Timestamp>),
}

impl Repairs {
    /// One more repair; those that are so many milliseconds old do not count any more.
    pub(super) fn add(&mut self, now: Timestamp, within: u64) {
        let is_old = |time: &Timestamp| now.0 - time.0 >= within;
        match self {
            Repairs::Once(first) if is_old(first) => *first = now,
            Repairs::Once(first) => *self = Repairs::Often(vec![*first, now]),
            Repairs::Often(times) => {
                times.push(now);
                times.retain(|time| !is_old(time));
                if times.len() == 1 {
                    *self = Repairs::Once(now);
                }
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Repairs::Once(_) => 1,
            Repairs::Often(times) => times.len(),
        }
    }
}
