//! Repair budgets, failure back-off and event rate limits.

use super::Timestamp;

/// Repair budget: the rate limit of repairs. A vertex that needs more repairs is contested, because another program
/// undoes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairBudget {
    /// Maximum number of repairs in `within`.
    pub repairs: u32,
    /// Length of the window, in milliseconds.
    pub within: u64,
    /// Milliseconds between a repair and the next one when a vertex becomes contested. Doubles with each further
    /// repair.
    pub first: u64,
    /// Maximum milliseconds between two repairs of a contested vertex.
    pub longest: u64,
}

impl Default for RepairBudget {
    fn default() -> RepairBudget {
        RepairBudget { repairs: 20, within: 60_000, first: 5_000, longest: 300_000 }
    }
}

/// Back-off of a failed vertex: the delay doubles with each failure. An event triggers an earlier retry, after
/// a shorter delay. That delay doubles when a retry after an event fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay in milliseconds after the first failure, without events.
    pub first: u64,
    /// Minimum delay in milliseconds after the first failure, with events. At most `first`.
    pub min_after_event: u64,
    /// Maximum delay in milliseconds.
    pub longest: u64,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: 1000, min_after_event: 50, longest: 300_000 }
    }
}

/// Token bucket: each event takes one token (`limit` and `burst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Milliseconds until one token is added.
    pub interval: u64,
    /// Maximum number of tokens, at least one.
    pub burst: u32,
}

impl RateLimit {
    /// Takes a token from the bucket and moves the time at which the bucket is full again. Returns the time at
    /// which the work may start.
    pub(super) fn take(self, full: &mut Timestamp, now: Timestamp) -> Timestamp {
        *full = Timestamp((*full).max(now).0.saturating_add(self.interval));
        let room = self.interval.saturating_mul(u64::from(self.burst.max(1)));
        Timestamp(full.0.saturating_sub(room)).max(now)
    }
}

/// Back-off state of a failed vertex.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BackoffState {
    /// Current delay in milliseconds without events.
    pause: u64,
    /// Current minimum delay in milliseconds with events. It ends at `until`.
    least: u64,
    until: Timestamp,
    /// True if an event arrived during or after the failed call.
    is_roused: bool,
}

impl BackoffState {
    /// Counts a failure. Returns the time of the retry if no event arrives.
    pub(super) fn next_delay(
        &mut self,
        now: Timestamp,
        Backoff { first, min_after_event: roused, longest }: Backoff,
    ) -> Timestamp {
        let next = |last: u64, first: u64| last.saturating_mul(2).clamp(first, longest.max(first));
        self.pause = next(self.pause, first);
        if self.is_roused || self.least == 0 {
            self.least = next(self.least, roused);
        }
        self.until = Timestamp(now.0.saturating_add(self.least));
        self.is_roused = false;
        Timestamp(now.0.saturating_add(self.pause))
    }

    /// Records an event. Returns the earliest time of the retry for the first event, and none for later ones.
    pub(super) fn note_event(&mut self) -> Option<Timestamp> {
        (!std::mem::replace(&mut self.is_roused, true)).then_some(self.until)
    }
}

/// Times of the repairs of a vertex. Most vertices are repaired once, so the single time needs no allocation.
#[derive(Clone, Debug)]
pub(super) enum RepairWindow {
    Once(Timestamp),
    Often(Vec<Timestamp>),
}

impl RepairWindow {
    /// Adds a repair. Forgets repairs that are at least `within` milliseconds old.
    pub(super) fn add(&mut self, now: Timestamp, within: u64) {
        let is_old = |time: &Timestamp| now.0 - time.0 >= within;
        match self {
            RepairWindow::Once(first) if is_old(first) => *first = now,
            RepairWindow::Once(first) => *self = RepairWindow::Often(vec![*first, now]),
            RepairWindow::Often(times) => {
                times.push(now);
                times.retain(|time| !is_old(time));
                if times.len() == 1 {
                    *self = RepairWindow::Once(now);
                }
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            RepairWindow::Once(_) => 1,
            RepairWindow::Often(times) => times.len(),
        }
    }
}
