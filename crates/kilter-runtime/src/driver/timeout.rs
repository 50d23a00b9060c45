//! Calls that may take so long only (`timeout`).

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ecow::eco_format;
use kilter_engine::VertexId;

use super::Driver;
use super::stop::{Alarm, Message, Stop};
use crate::step::Done;

/// Ends one call that has begun, and no other.
#[derive(Debug)]
pub(super) struct Deadline {
    vertex: VertexId,
    begun: Instant,
    pub(super) alarm: Alarm,
}

/// A call on a worker that may take so long only, before it has begun.
pub(super) struct ToBegin {
    vertex: VertexId,
    sender: Sender<Message>,
}

impl ToBegin {
    /// It begins: the time that it waited for a worker does not count.
    pub(super) fn begin(self, stop: &Stop) -> Arc<Deadline> {
        let deadline = Arc::new(Deadline { vertex: self.vertex, begun: Instant::now(), alarm: Alarm::new() });
        stop.also_ends(&deadline);
        // The driver outlives its workers.
        let _ = self.sender.send(Message::Begun(Arc::clone(&deadline)));
        deadline
    }
}

/// A call with a deadline that has begun and has not been answered.
pub(super) struct Timed {
    deadline: Arc<Deadline>,
    is_over: bool,
}

impl Driver<'_, '_, '_> {
    /// What a call on a worker begins with, if it is for one resource and may take so long only.
    pub(super) fn to_begin(&self, vertices: &[VertexId]) -> Option<ToBegin> {
        match *vertices {
            [vertex] if self.is_timed(vertex) => Some(ToBegin { vertex, sender: self.sender.clone() }),
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

    /// How long the time of a call lasts still.
    fn left(&self, deadline: &Deadline) -> Duration {
        Duration::from_millis(self.limit(deadline.vertex)).saturating_sub(deadline.begun.elapsed())
    }

    /// How long there is to wait until the time of a call is up.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.timed.iter().filter(|timed| !timed.is_over).map(|timed| self.left(&timed.deadline)).min()
    }

    /// Ends the calls whose time is up.
    pub(super) fn end_overdue(&mut self) {
        for at in 0..self.timed.len() {
            let timed = &self.timed[at];
            if !timed.is_over && self.left(&timed.deadline).is_zero() {
                timed.deadline.alarm.raise();
                self.timed[at].is_over = true;
            }
        }
    }

    /// Calls have been answered: whether the time of one was up. What was done in spite of that is done.
    pub(super) fn have_ended(&mut self, done: &mut [Done]) -> bool {
        let mut was_over = false;
        if self.timed.is_empty() {
            return was_over;
        }
        for done in done {
            let Some(at) = self.timed.iter().position(|timed| timed.deadline.vertex == done.vertex) else { continue };
            let Timed { deadline, is_over } = self.timed.swap_remove(at);
            self.stop.ends_no_longer(&deadline);
            was_over |= is_over;
            if is_over && let Err(why) = &mut done.result {
                *why = eco_format!("timeout after {} ms (its `timeout`): {why}", self.limit(done.vertex));
            }
        }
        was_over
    }
}
