//! Paused runs, which start nothing new.

use std::sync::Arc;

use kilter_engine::{Input, Stage, Timestamp};

use super::Driver;
use super::pause_state::{Pause, PauseState};
use crate::driver::clock::millis;
use crate::observer::Event;

impl Driver<'_, '_, '_, '_> {
    /// Starts nothing new. Returns true if the run was paused already; the new request then replaces the earlier
    /// one.
    pub(super) fn pause(&mut self, Pause { longest, why, is_loan }: &Pause) -> bool {
        let Some(holder) = &mut self.holder else { return false };
        let was_paused = holder.paused.is_some();
        let until = longest.map(|longest| Timestamp(self.now.0.saturating_add(millis(longest))));
        let since = holder.paused.as_ref().map_or(self.now, |paused| paused.since);
        holder.paused = Some(PauseState { since, until, why: why.clone() });
        if !was_paused {
            holder.hurry_flush();
        }
        self.machine.input(self.now, Input::Pause);
        self.workers.pause(true);
        self.return_changes();
        self.observer.event(Event::Paused { why, longest: *longest, is_loan: *is_loan });
        was_paused
    }

    /// Starts the queued work. Returns true if the run was paused.
    pub(super) fn resume(&mut self) -> bool {
        let was_paused = self.holder.as_mut().is_some_and(|holder| holder.paused.take().is_some());
        if was_paused {
            self.observer.event(Event::Resumed);
            // A pause does not count as quiet time.
            self.landed_at = self.now;
            if self.next.is_none() {
                self.look_again();
                self.go_on();
            }
        }
        was_paused
    }

    /// Cancels changes that no worker has started, because their resources may change during the pause.
    fn return_changes(&mut self) {
        let changes = self.calls.that_change();
        for vertex in self.unbegun(|call| changes.contains(&call)) {
            self.machine.input(self.now, Input::Requeued(vertex));
        }
    }

    /// Repeats checks whose results are from before or during the pause.
    fn look_again(&mut self) {
        let prepared = Arc::clone(&self.prepared);
        for vertex in prepared.graph.vertices() {
            if matches!(self.machine.stage(vertex), Stage::Ready | Stage::Owed) {
                self.machine.input(self.now, Input::Stale(vertex));
            }
        }
    }

    /// Resumes the machine, unless the run is paused.
    pub(super) fn go_on(&mut self) {
        let is_paused = self.holder.as_ref().is_some_and(|holder| holder.paused.is_some());
        self.workers.pause(is_paused);
        if !is_paused {
            self.machine.input(self.now, Input::Resume);
        }
    }

    /// Resumes when the pause is over.
    pub(super) fn look_at_pause(&mut self) {
        let until = self.holder.as_ref().and_then(|holder| holder.paused.as_ref()?.until);
        if until.is_some_and(|until| until <= self.now) {
            self.resume();
        }
    }

    /// Returns the number of running calls, without calls that wait for a worker.
    pub(super) fn in_flight(&self) -> usize {
        self.calls.len().saturating_sub(self.workers.queued_count())
    }
}
