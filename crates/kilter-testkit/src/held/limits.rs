//! What may be begun when: events by their limit, failures by their tries and their back-off, repairs by their budget.

use std::collections::VecDeque;

use kilter_engine::{Backoff, Budget, Limit, Timestamp};

/// Events of one part that it was taken up for at once or in their time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heeded {
    since: Option<Timestamp>,
    count: u64,
}

impl Heeded {
    /// Counts one, and tells how many there may be by now if they are too many. The first one that counts is heeded at
    /// once: of one that came late, the next may come sooner.
    pub(super) fn count(&mut self, now: Timestamp, limit: Option<Limit>, is_late: bool) -> Option<u64> {
        let Limit { interval, burst } = limit?;
        if self.since.is_none() && is_late {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.count += 1;
        let most = u64::from(burst) + (now.0 - since.0) / interval;
        (self.count > most).then_some(most)
    }
}

/// How long a part that has failed is left alone, whatever happens to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftAlone {
    last: u64,
    /// Until when, as long as nothing is known of it but that it has failed.
    pub(super) until: Option<Timestamp>,
    /// Whether something was told of it since it failed.
    pub(super) is_roused: bool,
}

impl LeftAlone {
    /// It has failed, once more.
    pub(super) fn fails(&mut self, now: Timestamp, Backoff { roused, longest, .. }: Backoff) {
        if self.last == 0 || self.is_roused {
            self.last = (self.last * 2).clamp(roused, longest.max(roused));
        }
        self.until = Some(Timestamp(now.0 + self.last));
        self.is_roused = false;
    }

    /// It has not failed.
    pub(super) fn recovers(&mut self) {
        *self = LeftAlone::default();
    }
}

/// The tries of a part that fails.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    left: i32,
    /// When it may be tried again, as long as it was not.
    pub(super) next: Option<Timestamp>,
    /// Whether it has failed with no try left, and has not settled since.
    pub(super) are_used_up: bool,
}

impl Tries {
    /// Of a part that is declared so.
    pub(super) fn of(retry: i32) -> Tries {
        Tries { left: retry, ..Tries::default() }
    }

    /// A try has failed.
    pub(super) fn fails(&mut self, now: Timestamp, delay: u64) {
        self.are_used_up = self.left == 0;
        if !self.are_used_up {
            self.left -= 1;
            self.next = Some(Timestamp(now.0 + delay));
        }
    }
}

/// When a part was repaired, as far back as its budget reaches.
#[derive(Clone, Debug, Default)]
pub(super) struct Repairs {
    at: VecDeque<Timestamp>,
    /// Whether it is only watched since these were too many.
    pub(super) is_watched_only: bool,
    /// Back-off of a contested part.
    pub(super) contest: Option<Contest>,
}

/// Back-off of a contested part: the time before which it is not repaired, and its distance from the last repair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    pub(super) next: Timestamp,
    interval: u64,
}

impl Contest {
    /// Returns true if the part has stayed in its state for one interval after it could be repaired again.
    pub(super) fn is_over(self, now: Timestamp) -> bool {
        now.0 >= self.next.0 + self.interval
    }
}

impl Repairs {
    /// Counts a repair. One in a contest starts the next interval, unless the contest is over.
    pub(super) fn add(&mut self, now: Timestamp, budget: Budget) {
        match self.contest.filter(|contest| !contest.is_over(now)) {
            Some(Contest { interval, .. }) => {
                let interval = (interval * 2).min(budget.longest);
                self.contest = Some(Contest { next: Timestamp(now.0 + interval), interval });
            }
            None => {
                self.contest = None;
                self.at.push_back(now);
                self.at.retain(|at| now.0 - at.0 < budget.within);
            }
        }
    }

    /// Starts the back-off of a part whose budget is used up.
    pub(super) fn contend(&mut self, now: Timestamp, budget: Budget) {
        if self.contest.is_none() {
            let interval = budget.first.min(budget.longest);
            self.contest = Some(Contest { next: Timestamp(now.0 + interval), interval });
            self.at.clear();
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.at.len() as u32
    }
}
