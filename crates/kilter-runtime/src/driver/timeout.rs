//! Per-call timeouts (`timeout`).

use std::sync::Arc;
use std::time::Duration;

use ecow::eco_format;
use kilter_engine::ResourceId;

use super::Driver;
use super::calls::CallKind;
use super::deadline::{Deadline, RunningDeadline};
use super::shutdown::PendingDeadline;
use crate::step::CallResult;
use crate::worker::CallId;

impl Driver<'_, '_, '_, '_> {
    /// Returns the timeout for a call on a worker, if it is for one resource with a timeout.
    pub(super) fn to_begin(&self, call: CallId, doing: CallKind, vertices: &[ResourceId]) -> Option<PendingDeadline> {
        match *vertices {
            [vertex] if self.is_timed(vertex) => {
                let longest = Duration::from_millis(self.limit(vertex));
                Some(PendingDeadline { call, doing, longest, sender: self.sender.clone() })
            }
            _ => None,
        }
    }

    /// Returns true if calls for a resource have a timeout.
    pub(super) fn is_timed(&self, vertex: ResourceId) -> bool {
        self.limit(vertex) > 0
    }

    /// Returns the timeout of calls for a resource in milliseconds; 0 for none.
    fn limit(&self, vertex: ResourceId) -> u64 {
        self.prepared.resource(vertex).meta().map_or(0, |meta| meta.timeout)
    }

    /// Records that a worker has started a call.
    pub(super) fn has_begun(&mut self, deadline: Arc<Deadline>) {
        self.timed.push(RunningDeadline { deadline, is_over: false });
    }

    /// Returns the time until the next call times out.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.timed.iter().filter(|timed| !timed.is_over).map(|timed| timed.deadline.left()).min()
    }

    /// Cancels the calls that have timed out.
    pub(super) fn end_overdue(&mut self) {
        for timed in &mut self.timed {
            if !timed.is_over && timed.deadline.left().is_zero() {
                timed.deadline.alarm.raise();
                timed.is_over = true;
            }
        }
    }

    /// Removes an answered call; returns true if it had timed out. Changes that it completed are reported as
    /// changes.
    pub(super) fn has_ended(&mut self, call: CallId, done: &mut [CallResult]) -> bool {
        let Some(at) = self.timed.iter().position(|timed| timed.deadline.call == call) else { return false };
        let RunningDeadline { deadline, is_over } = self.timed.swap_remove(at);
        self.stop.ends_no_longer(&deadline);
        if !is_over {
            return false;
        }
        for done in done {
            if let Err(why) = &mut done.result {
                *why = eco_format!("timeout after {} ms (its `timeout`): {why}", deadline.longest.as_millis());
            }
        }
        true
    }
}
