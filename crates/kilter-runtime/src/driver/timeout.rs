//! Calls that may take so long only (`timeout`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ecow::eco_format;
use kilter_engine::{Timestamp, VertexId};
use kilter_provider::Interrupt;
use rustix::event::{EventfdFlags, eventfd};

use super::Driver;
use super::stop::Message;
use crate::step::{Done, Item};

/// Ends one call, and no other.
#[derive(Debug)]
pub(super) struct Deadline {
    vertex: VertexId,
    flag: AtomicBool,
    event: OwnedFd,
}

impl Deadline {
    pub(super) fn interrupt(&self) -> Interrupt<'_> {
        Interrupt::new(&self.flag, Some(self.event.as_fd()))
    }

    fn raise(&self) {
        self.flag.store(true, Ordering::Release);
        // The counter can only be full after 2^64 writes.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

/// A call with a deadline that has not been answered.
pub(super) struct Timed {
    deadline: Arc<Deadline>,
    /// When its time is up; none while it waits for a worker.
    at: Option<Timestamp>,
    is_over: bool,
}

impl<'run: 'scope, 'scope, 'env> Driver<'run, 'scope, 'env> {
    /// What ends a call for one resource that may take so long only.
    pub(super) fn deadline(&mut self, items: &[Item<'run>]) -> Option<Arc<Deadline>> {
        let [only] = items else { return None };
        self.deadline_of(only.vertex)
    }

    pub(super) fn deadline_of(&mut self, vertex: VertexId) -> Option<Arc<Deadline>> {
        if !self.is_timed(vertex) {
            return None;
        }
        // Without a descriptor left, the call takes as long as it takes.
        let event = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        let deadline = Arc::new(Deadline { vertex, flag: AtomicBool::new(false), event });
        self.timed.push(Timed { deadline: Arc::clone(&deadline), at: None, is_over: false });
        Some(deadline)
    }

    /// What a worker says when it begins: time that a call waits for one does not count.
    pub(super) fn begins(&self, deadline: Option<&Arc<Deadline>>) -> impl FnOnce() + Send + use<'run, 'scope, 'env> {
        let begins = deadline.map(|deadline| (self.sender.clone(), deadline.vertex));
        move || {
            if let Some((sender, vertex)) = begins {
                // The driver outlives its workers.
                let _ = sender.send(Message::Begun(vertex));
            }
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
    pub(super) fn has_begun(&mut self, vertex: VertexId) {
        self.tick();
        let at = Timestamp(self.now.0.saturating_add(self.limit(vertex)));
        if let Some(timed) = self.timed.iter_mut().find(|timed| timed.deadline.vertex == vertex) {
            timed.at = Some(at);
        }
    }

    /// How long there is to wait until the time of a call is up.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let times = self.timed.iter().filter(|timed| !timed.is_over).filter_map(|timed| timed.at);
        times.min().map(|at| Duration::from_millis(at.0.saturating_sub(self.now.0)))
    }

    /// Ends the calls whose time is up.
    pub(super) fn end_overdue(&mut self) {
        for timed in self.timed.iter_mut().filter(|timed| timed.at.is_some_and(|at| at <= self.now)) {
            if !std::mem::replace(&mut timed.is_over, true) {
                timed.deadline.raise();
            }
        }
    }

    /// Ends all calls that have a deadline, as the others are ended.
    pub(super) fn end_timed(&self) {
        self.timed.iter().for_each(|timed| timed.deadline.raise());
    }

    /// Calls will not be made.
    pub(super) fn forget_deadlines(&mut self, vertices: &[VertexId]) {
        self.timed.retain(|timed| !vertices.contains(&timed.deadline.vertex));
    }

    /// Calls have been answered: whether the time of one was up. What was done in spite of that is done.
    pub(super) fn have_ended(&mut self, done: &mut [Done]) -> bool {
        let mut was_over = false;
        if self.timed.is_empty() {
            return was_over;
        }
        for done in done {
            let Some(at) = self.timed.iter().position(|timed| timed.deadline.vertex == done.vertex) else { continue };
            let is_over = self.timed.swap_remove(at).is_over;
            was_over |= is_over;
            if is_over && let Err(why) = &mut done.result {
                *why = eco_format!("timeout after {} ms (its `timeout`): {why}", self.limit(done.vertex));
            }
        }
        was_over
    }
}
