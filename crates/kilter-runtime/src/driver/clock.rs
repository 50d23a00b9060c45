//! Times in the unit of the state machine.

use std::time::Duration;

/// Returns a time in the unit of the state machine.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
