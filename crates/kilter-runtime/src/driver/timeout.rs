//! Calls that may take so long only (`timeout`).

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ecow::eco_format;
use kilter_engine::VertexId;

use super::Driver;
use super::calls::CallId;
use super::stop::{Alarm, Doing, Message, Stop};
use crate::step::Done;

/// Ends one call that has begun, and no other.
#[derive(Debug)]
pub(super) struct Deadline {
    call: CallId,
    pub(super) doing: Doing,
    begun: Instant,
    /// How long it may take.
    longest: Duration,
    pub(super) alarm: Alarm,
}

impl Deadline {
    /// How long its time lasts still.
    fn left(&self) -> Duration {
        self.longest.saturating_sub(self.begun.elapsed())
    }
}

/// A call on a worker that may take so long only, before it has begun.
pub(super) struct ToBegin {
    call: CallId,
    doing: Doing,
    longest: Duration,
    sender: Sender<Message>,
}

impl ToBegin {
    /// It begins: the time that it waited for a worker does not count.
    pub(super) fn begin(self, stop: &Stop) -> Arc<Deadline> {
        let ToBegin { call, doing, longest, sender } = self;
        let deadline = Arc::new(Deadline { call, doing, begun: Instant::now(), longest, alarm: Alarm::new() });
        stop.also_ends(&deadline);
        // A driver outlives its workers, this one or one after it.
        let _ = sender.send(Message::Begun(Arc::clone(&deadline)));
        deadline
    }
}

/// A call with a deadline that has begun and has not been answered.
pub(super) struct Timed {
    deadline: Arc<Deadline>,
    is_over: bool,
}

impl Driver<'_, '_, '_, '_> {
    /// What a call on a worker begins with, if it is for one resource and may take so long only.
    pub(super) fn to_begin(&self, call: CallId, doing: Doing, vertices: &[VertexId]) -> Option<ToBegin> {
        match *vertices {
            [vertex] if self.is_timed(vertex) => {
                let longest = Duration::from_millis(self.limit(vertex));
                Some(ToBegin { call, doing, longest, sender: self.sender.clone() })
            }
            _ => None,
        }
    }

    /// Whether calls for a resource may take so long only.
    pub(super) fn is_timed(&self, vertex: VertexId) -> bool {
        self.limit(vertex) > 0
    }

    /// Milliseconds that calls for a resource may take; 0 without end.
    fn limit(&self, vertex: VertexId) -> u64 {
        self.prepared.resource(vertex).meta().map_or(0, |meta| meta.timeout)
    }

    /// A worker has begun.
    pub(super) fn has_begun(&mut self, deadline: Arc<Deadline>) {
        self.timed.push(Timed { deadline, is_over: false });
    }

    /// How long there is to wait until the time of a call is up.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.timed.iter().filter(|timed| !timed.is_over).map(|timed| timed.deadline.left()).min()
    }

    /// Ends the calls whose time is up.
    pub(super) fn end_overdue(&mut self) {
        for timed in &mut self.timed {
            if !timed.is_over && timed.deadline.left().is_zero() {
                timed.deadline.alarm.raise();
                timed.is_over = true;
            }
        }
    }

    /// A call has been answered: whether its time was up. What was done in spite of that is done.
    pub(super) fn has_ended(&mut self, call: CallId, done: &mut [Done]) -> bool {
        let Some(at) = self.timed.iter().position(|timed| timed.deadline.call == call) else { return false };
        let Timed { deadline, is_over } = self.timed.swap_remove(at);
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
