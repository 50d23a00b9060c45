//! What may be begun when: events by their limit, failures by their back-off.

use kilter_engine::{Backoff, Limit, Timestamp};

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

/// How long a part that has failed is left alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftAlone {
    last: u64,
    /// Until when, as long as nothing is known of it but that it has failed.
    pub(super) until: Option<Timestamp>,
}

impl LeftAlone {
    /// It has failed, once more.
    pub(super) fn fails(&mut self, now: Timestamp, Backoff { first, longest }: Backoff) {
        self.last = (self.last * 2).clamp(first, longest.max(first));
        self.until = Some(Timestamp(now.0 + self.last));
    }

    /// It has not failed.
    pub(super) fn recovers(&mut self) {
        *self = LeftAlone::default();
    }
}
