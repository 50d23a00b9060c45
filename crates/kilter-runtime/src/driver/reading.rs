//! What is declared: when it is read anew, and what that waits for.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use kilter_engine::{Stage, Timestamp, VertexId};
use rustc_hash::FxHashSet;

use super::stop::Message;
use super::{Driver, Handover, Held, Outdated, RunError, Stale, millis};
use crate::observer::Event;

/// Where a state is declared that is held.
pub trait Declared {
    /// The files in which it is.
    fn files(&self) -> Vec<PathBuf>;

    /// Directories of which everything below them belongs to it.
    fn trees(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether one of the files that were read last may be another one by now. Asked from time to time where nothing else
    /// tells.
    fn is_touched(&mut self) -> bool;

    /// Begins to read what is declared now, on another thread: it may take long, and what is held is mended meanwhile. Rings when
    /// it has been read.
    fn begin_reading(&mut self, ring: Ring);

    /// What came of it, when it has rung.
    fn read(&mut self) -> Anew;

    /// Returns why what is held is older than what is declared, if what was read last has errors.
    fn outdated(&self) -> Option<Outdated> {
        None
    }

    /// Returns why collected resources may be older than those that are exported now, if they may.
    fn stale(&self) -> Option<Stale> {
        None
    }

    /// Holds what is declared now, while what was begun before goes on.
    ///
    /// # Errors
    /// When it cannot be held.
    fn succeed(&mut self, handover: Box<Handover>) -> Result<Held, RunError>;
}

/// Says that what is declared has been read, at the latest when it is dropped.
#[derive(Debug)]
pub struct Ring(Sender<Message>);

impl Drop for Ring {
    fn drop(&mut self) {
        // Without a driver nobody waits for it any more.
        let _ = self.0.send(Message::Declared);
    }
}

/// What was declared when it was read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anew {
    /// The same as before.
    Same,
    /// Something else, which is held from now on.
    Other,
    /// Nothing that can be held. What is held goes on, and the files are looked at from time to time: there may be others
    /// among them that nobody watches.
    Wrong,
    /// Nobody knows, since it was written meanwhile: it is read once more.
    Unsettled,
}

/// For so many milliseconds nobody must have written what is declared before it is read: it may be half of it.
const SETTLED: u64 = 200;
/// For so many milliseconds it is waited for that, at most.
const LATEST: u64 = 2000;
/// Milliseconds between two looks at what is declared, where nothing tells.
pub(super) const LOOK_AT_DECLARED: u64 = 2000;

/// Milliseconds between two looks at whether resources have come to their state for which it waits.
const LOOK_AT_REALIZED: u64 = 50;

/// When what is declared is looked at.
#[derive(Default)]
pub(super) struct Reading {
    /// When it is read, unless somebody writes it before that.
    due: Option<Timestamp>,
    /// Whether it is being read.
    is_under_way: bool,
    /// When somebody wrote it first since it was read.
    first_touched: Option<Timestamp>,
    /// When it is compared with what was read last.
    look: Option<Timestamp>,
    /// When it is read though nobody has written it.
    again: Option<Timestamp>,
    /// Whether it could not be held when it was read last.
    is_wrong: bool,
    /// Errors in what was read last.
    pub(super) outdated: Option<Outdated>,
    /// Whether nothing tells when it is written.
    pub(super) is_unwatched: bool,
}

impl Reading {
    /// It is compared with what was read last as soon as it is watched: it may have been written between.
    pub(super) fn begun() -> Reading {
        Reading { look: Some(Timestamp::default()), ..Reading::default() }
    }

    /// Has it read again after a while, if that makes sense.
    pub(super) fn read_again_after(&mut self, interval: Option<Duration>, now: Timestamp) {
        let at = |interval: Duration| now.0.saturating_add(millis(interval).max(1));
        self.again = interval.map(|interval| Timestamp(at(interval)));
    }

    /// When something is to be done about it next.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.is_under_way);
        due.into_iter().chain(self.look).chain(self.again).min()
    }

    /// Something happened to it.
    pub(super) fn touched(&mut self, now: Timestamp) {
        let first = *self.first_touched.get_or_insert(now);
        let settled = now.0.saturating_add(SETTLED);
        self.due = Some(Timestamp(settled.min(first.0.saturating_add(LATEST)).max(now.0)));
    }

    /// It was looked at.
    pub(super) fn looked(&mut self, now: Timestamp) {
        let is_polled = self.is_wrong || self.is_unwatched;
        self.look = is_polled.then_some(Timestamp(now.0.saturating_add(LOOK_AT_DECLARED)));
    }
}

impl<'run: 'scope, 'scope> Driver<'run, '_, 'scope, '_> {
    /// Reads what is declared when somebody has written it, and nobody does any more.
    pub(super) fn look_at_declared(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        if holder.is_enough || holder.is_superseded {
            // Who comes next compares it with what was read.
            holder.reading = Reading::default();
            return;
        }
        if holder.reading.look.is_some_and(|at| at <= self.now) {
            holder.finds_declared();
        }
        let reading = &mut holder.reading;
        if reading.look.is_some_and(|at| at <= self.now) {
            if reading.due.is_none() && holder.hold.declared.is_touched() {
                reading.touched(self.now);
            }
            reading.looked(self.now);
        }
        if reading.again.is_some_and(|at| at <= self.now) {
            reading.read_again_after(holder.hold.reread, self.now);
            reading.due = reading.due.or(Some(self.now));
        }
        if reading.is_under_way || reading.due.is_none_or(|at| at > self.now) {
            return;
        }
        // What is paused does not come to its state before somebody resumes it, perhaps for what is declared now.
        if self.is_realizing() && self.holder.as_ref().is_some_and(|holder| holder.paused.is_none()) {
            // It is read as soon as they have.
            let Some(holder) = &mut self.holder else { return };
            holder.reading.due = Some(Timestamp(self.now.0.saturating_add(LOOK_AT_REALIZED)));
            return;
        }
        let Some(holder) = &mut self.holder else { return };
        let reading = &mut holder.reading;
        (reading.due, reading.first_touched, reading.is_under_way) = (None, None, true);
        holder.hold.declared.begin_reading(Ring(self.sender.clone()));
    }

    /// What is declared has been read.
    pub(super) fn take_declared(&mut self) {
        let is_ending = self.is_ending();
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.reading.is_under_way) else { return };
        let reading = &mut holder.reading;
        reading.is_under_way = false;
        if is_ending {
            return;
        }
        let read = holder.hold.declared.read();
        reading.is_wrong = read == Anew::Wrong;
        if read != Anew::Unsettled {
            reading.outdated = holder.hold.declared.outdated();
        }
        reading.looked(self.now);
        match read {
            // What was held back for it is begun.
            Anew::Same | Anew::Wrong => self.go_on(),
            Anew::Unsettled => reading.touched(self.now),
            Anew::Other => {
                holder.is_superseded = true;
                self.observer.event(Event::Reloading);
                self.make_way();
            }
        }
    }

    /// Whether a resource has yet to come to its state once before another one may take its place (`realize`). What is tried without
    /// end and has failed, or waits for that, may never.
    fn is_realizing(&self) -> bool {
        let realizing = self.prepared.resources().iter().zip((0..).map(VertexId));
        let mut realizing = realizing.filter(|(resource, _)| resource.meta().is_some_and(|meta| meta.realize));
        realizing.any(|(_, vertex)| {
            self.machine.settlement(vertex).is_none() && !self.board.has_settled(vertex) && !self.is_held_up(vertex)
        })
    }

    /// Whether a vertex, or one that it waits for, is tried again without end, or has to wait since too much happens to it.
    fn is_held_up(&self, vertex: VertexId) -> bool {
        let graph = self.machine.graph();
        let (mut open, mut seen) = (vec![vertex], FxHashSet::default());
        while let Some(vertex) = open.pop() {
            if !seen.insert(vertex) || self.machine.settlement(vertex).is_some() {
                continue;
            }
            let is_tried = self.board.is_tried_again(vertex);
            let is_endless = self.prepared.resource(vertex).meta().is_some_and(|meta| meta.retry < 0);
            if is_tried && is_endless || !is_tried && self.machine.stage(vertex) == Stage::Delayed {
                return true;
            }
            open.extend(graph.entering(vertex).iter().map(|edge| graph.edge(*edge).first));
        }
        false
    }
}
