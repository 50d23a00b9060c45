//! Service manager that started this run, if there is one: readiness, watchdog and stop notifications
//! (sd_notify(3)).

use std::time::Duration;

use kilter_runtime::{Conditions, Counts, Event};
use sd_notify::NotifyState;

use crate::render::progress::paused;
use crate::render::report::counted;
use crate::render::status;

/// Returns the interval of watchdog notifications: half of the service manager's timeout.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|interval| interval / 2)
}

/// Service manager, with the state that this run has reported.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    counts: Option<Counts>,
    conditions: Conditions,
    paused: Option<String>,
}

impl Manager {
    /// Reports an event to the service manager, if any.
    pub(crate) fn notify(&mut self, event: &Event<'_>) {
        let told = match event {
            // The run is ready when everything has settled once; repeated notifications are harmless.
            Event::Quiet(counts) => {
                self.counts = Some(*counts);
                sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&self.status())])
            }
            Event::Conditions(conditions) => {
                self.conditions.clone_from(conditions);
                sd_notify::notify(&[NotifyState::Status(&self.status())])
            }
            Event::Paused { why, longest, is_loan } => {
                self.paused = Some(paused(why, *longest, *is_loan));
                // A run that starts paused would otherwise never become ready.
                sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&self.status())])
            }
            Event::Resumed => {
                self.paused = None;
                sd_notify::notify(&[NotifyState::Status(&self.status())])
            }
            Event::Watchdog => sd_notify::notify(&[NotifyState::Watchdog]),
            Event::Interrupted { .. } => sd_notify::notify(&[NotifyState::Stopping]),
            _ => return,
        };
        // A service manager that no longer listens notices the end by itself.
        drop(told);
    }

    /// Returns the status on one line. Problems come first, because the line may be cut.
    fn status(&self) -> String {
        let mut parts: Vec<String> = self.paused.iter().cloned().collect();
        parts.extend(status::conditions(&self.conditions));
        parts.push(self.counts.as_ref().map_or_else(|| "nothing is settled yet".to_owned(), summary));
        parts.join("; ")
    }
}

fn summary(counts: &Counts) -> String {
    let pending = counts.would_change + counts.would_refresh + counts.unknown;
    let parts = [
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (pending, "not as declared, and left so"),
        (counts.hidden, "not checked"),
        (counts.left_out, "left out by `when`"),
    ];
    let mut text = format!("{}, {} in their state", counted(counts.total as u64), counts.in_sync);
    for (count, word) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {word}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use kilter_runtime::Outdated;

    use super::*;

    #[test]
    fn status_of_broken_manifest_says_so_first() {
        let outdated = Outdated { held: SystemTime::UNIX_EPOCH, errors: 2, messages: Vec::new() };
        let conditions = Conditions { outdated: Some(outdated), unwatched: 1, contested: 3, ..Conditions::default() };
        let counts = Some(Counts { total: 3, in_sync: 3, ..Counts::default() });
        let manager = Manager { counts, conditions, paused: None };
        assert_eq!(
            manager.status(),
            "holding the state of 1970-01-01T00:00:00Z; the manifest has 2 errors; 3 resources are contested; 1 \
             resource \
             cannot be watched and is polled; 3 resources, 3 in their state"
        );
    }

    #[test]
    fn status_summary_omits_zero_counts() {
        let counts = Counts { total: 3, in_sync: 3, ..Counts::default() };
        assert_eq!(summary(&counts), "3 resources, 3 in their state");
        let counts = Counts { total: 1, in_sync: 1, left_out: 2, ..Counts::default() };
        assert_eq!(summary(&counts), "1 resource, 1 in their state, 2 left out by `when`");
        let counts = Counts { total: 4, in_sync: 1, failed: 1, skipped: 1, would_change: 1, ..Counts::default() };
        assert_eq!(
            summary(&counts),
            "4 resources, 1 in their state, 1 failed, 1 skipped, 1 not as declared, and left so"
        );
    }
}
