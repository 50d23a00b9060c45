//! Running calls with a timeout.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::CallKind;
use super::cancel::CancelToken;
use crate::worker::CallId;

/// Timeout of one running call.
#[derive(Debug)]
pub(super) struct Deadline {
    pub(super) call: CallId,
    pub(super) doing: CallKind,
    pub(super) begun: Instant,
    /// Maximum duration.
    pub(super) longest: Duration,
    pub(super) alarm: CancelToken,
}

impl Deadline {
    /// Returns the time left.
    pub(super) fn left(&self) -> Duration {
        self.longest.saturating_sub(self.begun.elapsed())
    }
}

/// Running call with a timeout.
pub(super) struct RunningDeadline {
    pub(super) deadline: Arc<Deadline>,
    pub(super) is_over: bool,
}
