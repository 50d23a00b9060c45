//! Pauses of a run.

use std::time::Duration;

use ecow::EcoString;
use kilter_engine::Timestamp;

/// Request to pause a run: it starts nothing new, and running calls continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Maximum duration; none for a pause that only a resume ends.
    pub longest: Option<Duration>,
    /// Reason, as the requester wrote it.
    pub why: EcoString,
    /// True if it ends with the command named by the reason, to which the state directory is lent.
    pub is_loan: bool,
}

/// Pause in a status snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Time since its start.
    pub lasted: Duration,
    /// Time until its end, if it is limited.
    pub left: Option<Duration>,
    /// Its reason.
    pub why: EcoString,
}

/// Active pause.
#[derive(Clone, Debug)]
pub(super) struct PauseState {
    pub(super) since: Timestamp,
    pub(super) until: Option<Timestamp>,
    pub(super) why: EcoString,
}

impl PauseState {
    /// Returns the time at which it ends, if it is limited.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    pub(super) fn status(&self, now: Timestamp) -> Paused {
        let between = |from: Timestamp, to: Timestamp| Duration::from_millis(to.0.saturating_sub(from.0));
        Paused {
            lasted: between(self.since, now),
            left: self.until.map(|until| between(now, until)),
            why: self.why.clone(),
        }
    }
}
