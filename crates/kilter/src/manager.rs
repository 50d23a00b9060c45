//! The service manager that started this run, if one did: it is told when the run is ready, that it is well, and when it ends
//! (sd_notify(3)).

use std::time::Duration;

use kilter_runtime::{Counts, Event};
use sd_notify::NotifyState;

use crate::render::progress::paused;
use crate::render::report::counted;

/// How often the service manager wants to hear that the run is well: twice as often as it looks.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|interval| interval / 2)
}

/// Tells it what it asked for. Without a service manager nobody is told.
pub(crate) fn tell(event: &Event<'_>) {
    let told = match event {
        // It is ready when everything has settled once; to say so again means nothing.
        Event::Quiet(counts) => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&summary(counts))]),
        Event::Paused { why, longest } => sd_notify::notify(&[NotifyState::Status(&paused(why, *longest))]),
        Event::Resumed => sd_notify::notify(&[NotifyState::Status("resumed")]),
        Event::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        Event::Interrupted { .. } => sd_notify::notify(&[NotifyState::Stopping]),
        _ => return,
    };
    // One that does not listen any more has its own ways to find out.
    drop(told);
}

fn summary(counts: &Counts) -> String {
    let pending = counts.would_change + counts.would_refresh + counts.unknown;
    let parts = [
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (pending, "not as declared, and left so"),
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
    use super::*;

    #[test]
    fn the_summary_says_only_what_there_is() {
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
