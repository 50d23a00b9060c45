//! Rate limits of events, retries and back-off of failures, and budgets of repairs.

use std::collections::VecDeque;

use kilter_engine::{Backoff, RateLimit, RepairBudget, Timestamp};

/// Events of a part that had an effect, at once or delayed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventCount {
    since: Option<Timestamp>,
    count: u64,
}

impl EventCount {
    /// Counts an event. Returns the allowed number if there are too many. Starts with the first event that is not
    /// delayed, because the event after a delayed one may come sooner.
    pub(super) fn count(&mut self, now: Timestamp, limit: Option<RateLimit>, is_late: bool) -> Option<u64> {
        let RateLimit { interval, burst } = limit?;
        if self.since.is_none() && is_late {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.count += 1;
        let most = u64::from(burst) + (now.0 - since.0) / interval;
        (self.count > most).then_some(most)
    }
}

/// Back-off of a failed part, which applies also to events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BackoffState {
    last: u64,
    /// End of the back-off, while the part is known only to have failed.
    pub(super) until: Option<Timestamp>,
    /// True if an event arrived since the failure.
    pub(super) had_event: bool,
}

impl BackoffState {
    /// Records a further failure.
    pub(super) fn record_failure(&mut self, now: Timestamp, Backoff { min_after_event, longest, .. }: Backoff) {
        if self.last == 0 || self.had_event {
            self.last = (self.last * 2).clamp(min_after_event, longest.max(min_after_event));
        }
        self.until = Some(Timestamp(now.0 + self.last));
        self.had_event = false;
    }

    /// Resets the back-off after a success.
    pub(super) fn recovers(&mut self) {
        *self = BackoffState::default();
    }
}

/// Retries of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    left: i32,
    /// Number of retries as declared.
    all: i32,
    /// Earliest time of the next retry, until it starts.
    pub(super) next: Option<Timestamp>,
    /// True if it has failed without a retry left, and has not settled since.
    pub(super) are_used_up: bool,
}

impl Tries {
    /// Creates the retries of a part as declared.
    pub(super) fn of(retry: i32) -> Tries {
        Tries { left: retry, all: retry, ..Tries::default() }
    }

    /// Creates the retries of a part with another declaration, against which the retries count that it has used.
    pub(super) fn carried_over(self, retry: i32) -> Tries {
        Tries { left: (retry - (self.all - self.left)).max(0), ..Tries::of(retry) }
    }

    /// Records a failed attempt.
    pub(super) fn record_failure(&mut self, now: Timestamp, delay: u64) {
        self.are_used_up = self.left == 0;
        if !self.are_used_up {
            self.left -= 1;
            self.next = Some(Timestamp(now.0 + delay));
        }
    }
}

/// Times of the repairs of a part within its budget's period.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairWindow {
    at: VecDeque<Timestamp>,
    /// True if it is only watched, because there were too many repairs.
    pub(super) is_watched_only: bool,
    /// Back-off of a contested part.
    pub(super) contest: Option<ContestBackoff>,
}

/// Back-off of a contested part: the time before which it is not repaired, and its distance from the last repair.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContestBackoff {
    pub(super) next: Timestamp,
    interval: u64,
}

impl ContestBackoff {
    /// Returns true if the part has stayed in its state for one interval after it could be repaired again.
    pub(super) fn is_over(self, now: Timestamp) -> bool {
        now.0 >= self.next.0 + self.interval
    }
}

impl RepairWindow {
    /// Counts a repair. One in a contest starts the next interval, unless the contest is over.
    pub(super) fn add(&mut self, now: Timestamp, budget: RepairBudget) {
        match self.contest.filter(|contest| !contest.is_over(now)) {
            Some(ContestBackoff { interval, .. }) => {
                let interval = (interval * 2).min(budget.longest);
                self.contest = Some(ContestBackoff { next: Timestamp(now.0 + interval), interval });
            }
            None => {
                self.contest = None;
                self.at.push_back(now);
                self.at.retain(|at| now.0 - at.0 < budget.within);
            }
        }
    }

    /// Starts the back-off of a part whose budget is used up.
    pub(super) fn contend(&mut self, now: Timestamp, budget: RepairBudget) {
        if self.contest.is_none() {
            let interval = budget.first.min(budget.longest);
            self.contest = Some(ContestBackoff { next: Timestamp(now.0 + interval), interval });
            self.at.clear();
        }
    }

    /// Returns the number of repairs.
    pub(super) fn count(&self) -> u32 {
        self.at.len() as u32
    }
}
