//! A run that begins nothing further, since somebody wants it so.

use std::time::Duration;

use ecow::EcoString;
use kilter_engine::{Input, Stage, Timestamp};

use super::{Driver, millis};
use crate::observer::Event;

/// What somebody wants who pauses a run: nothing further is begun, and what is under way goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// For how long at most; until somebody resumes it where nothing is said.
    pub longest: Option<Duration>,
    /// Why, in the words of whoever wants it.
    pub why: EcoString,
}

/// A pause as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// For how long it has lasted.
    pub lasted: Duration,
    /// For how long it lasts still, at most.
    pub left: Option<Duration>,
    /// Why.
    pub why: EcoString,
}

/// A pause that lasts.
#[derive(Clone, Debug)]
pub(super) struct PauseState {
    since: Timestamp,
    until: Option<Timestamp>,
    why: EcoString,
}

impl PauseState {
    /// When it ends, if it does so by itself.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    pub(super) fn told(&self, now: Timestamp) -> Paused {
        let between = |from: Timestamp, to: Timestamp| Duration::from_millis(to.0.saturating_sub(from.0));
        Paused {
            lasted: between(self.since, now),
            left: self.until.map(|until| between(now, until)),
            why: self.why.clone(),
        }
    }
}

impl<'run: 'scope, 'scope> Driver<'run, '_, 'scope, '_> {
    /// Begins nothing further. A pause that lasts already goes on as this one says; whether there was one.
    pub(super) fn pause(&mut self, Pause { longest, why }: &Pause) -> bool {
        let Some(holder) = &mut self.holder else { return false };
        let was_paused = holder.paused.is_some();
        let until = longest.map(|longest| Timestamp(self.now.0.saturating_add(millis(longest))));
        let since = holder.paused.as_ref().map_or(self.now, |paused| paused.since);
        holder.paused = Some(PauseState { since, until, why: why.clone() });
        self.machine.input(self.now, Input::Pause);
        self.workers.pause(true);
        self.return_changes();
        self.observer.event(Event::Paused { why, longest: *longest });
        was_paused
    }

    /// Begins what was held back. Says whether the run was paused.
    pub(super) fn resume(&mut self) -> bool {
        let was_paused = self.holder.as_mut().is_some_and(|holder| holder.paused.take().is_some());
        if was_paused {
            self.observer.event(Event::Resumed);
            // A time in which nothing could be done is no time in which nothing was to be done.
            self.landed_at = self.now;
            if !self.is_superseded() {
                self.look_again();
                self.go_on();
            }
        }
        was_paused
    }

    /// Takes back changes that no worker has begun: what they are made for may be otherwise when the pause is over.
    fn return_changes(&mut self) {
        let changes = self.calls.that_change();
        for vertex in self.unbegun(|call| changes.contains(&call)) {
            self.machine.input(self.now, Input::Returned(vertex));
        }
    }

    /// What was found before or in a pause, and is still to be acted on, may be otherwise by now.
    fn look_again(&mut self) {
        for vertex in self.prepared.graph.vertices() {
            if matches!(self.machine.stage(vertex), Stage::Ready | Stage::Owed) {
                self.machine.input(self.now, Input::Stale(vertex));
            }
        }
    }

    /// Has the machine go on, unless somebody wants it to pause.
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

    /// How many calls are under way: those that wait for a worker are not.
    pub(super) fn in_flight(&self) -> usize {
        self.calls.len().saturating_sub(self.workers.queued_count())
    }
}
