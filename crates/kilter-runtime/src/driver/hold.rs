//! Holding a state: start, idle work and end.

use std::time::Duration;

use kilter_engine::{Input, RepairBudget, ResourceId, Timestamp};

use super::Driver;
use super::pause_state::PauseState;
use super::reconcile_loop::FLUSH;
use crate::driver::clock::millis;
use crate::observer::Event;

impl Driver<'_, '_, '_, '_> {
    /// Registers the watches of changed and added resources.
    pub(super) fn watch_anew(&mut self, fresh: &[ResourceId]) {
        let Some(holder) = &mut self.holder else { return };
        let tracker = &mut self.state.origins.tracker;
        holder.watch(&self.prepared, fresh, self.options, tracker, &self.sender, self.now);
        holder.provider_watches.begin(&self.prepared, self.options.mode, &self.sender, self.stop);
    }

    /// Starts to hold a catalog whose watches have been registered.
    pub(super) fn begin_holding(&mut self) {
        // It must converge again.
        if self.holder.as_mut().is_some_and(|holder| std::mem::take(&mut holder.is_converged)) {
            self.observer.event(Event::Converged(false));
        }
        // The manifest may have changed between the read and the start of the watch.
        self.tell_door();
        self.look_at_declared();
        self.go_on();
    }

    /// Does the idle work. Returns true if the loop must run again.
    pub(super) fn on_idle(&mut self) -> bool {
        self.flush_what_was_done();
        let quiet_since = self.quiet_since();
        let Some(holder) = &mut self.holder else { return false };
        let Some(since) = quiet_since else {
            holder.quiet_at = None;
            if std::mem::take(&mut holder.is_converged) {
                self.observer.event(Event::Converged(false));
            }
            return false;
        };
        // Checks on this thread start and end between two calls of this function.
        let settled = self.state.settled().total;
        if holder.quiet_at.replace(settled) != Some(settled) {
            self.observer.event(Event::Quiet(self.state.standing_counts()));
        }
        let quiet = Duration::from_millis(self.now.0.saturating_sub(since.0));
        // A repair between two checks also counts as activity.
        let is_converged = holder.hold.converged.is_some_and(|asked| quiet >= asked);
        if is_converged != std::mem::replace(&mut holder.is_converged, is_converged) {
            self.observer.event(Event::Converged(is_converged));
            holder.is_enough |= is_converged && holder.hold.until_converged;
            return holder.is_enough;
        }
        false
    }

    /// Flushes completed changes, also while a retry is pending, which may never succeed.
    ///
    /// A paused run flushes at once, because the administrator may be about to copy the disk. After a failed flush, a
    /// run waits for 1 second, then twice as long after each further failure, up to [`FLUSH_AGAIN`]. It reports a
    /// failure once, until the messages change.
    pub(super) fn flush_what_was_done(&mut self) {
        if self.state.flushes.is_empty() || self.in_flight() > 0 {
            return;
        }
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.flush_due() <= self.now) else { return };
        let unflushed = self.state.flushes.flush(&self.prepared.registry, self.options, self.environment.mail);
        self.state.give_room_back();
        self.observer.event(Event::Flushed);
        let mut is_new = false;
        let pause = if unflushed.is_empty() {
            holder.flush_failure = None;
            FLUSH
        } else {
            let failure = holder.flush_failure.get_or_insert_default();
            is_new = failure.record(&unflushed);
            failure.pause
        };
        holder.flush_after = Timestamp(self.now.0.saturating_add(pause));
        for why in unflushed.iter().filter(|_| is_new) {
            let (level, message) = (kilter_provider::Level::Err, why.as_str());
            self.observer.event(Event::Log { level, type_name: "", name: "", message });
        }
    }

    /// Reports a sign of life when it is due.
    pub(super) fn tell_alive(&mut self) {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.alive_at <= self.now) else { return };
        if let Some(interval) = holder.hold.watchdog_interval {
            let interval = millis(interval).max(1);
            holder.alive_at = Timestamp(self.now.0.saturating_add(interval));
            self.observer.event(Event::Watchdog);
        }
    }

    /// Returns the time of the last activity, calls of changed and removed resources included. Returns none while there
    /// is activity.
    pub(super) fn quiet_since(&self) -> Option<Timestamp> {
        self.machine.quiet_since().filter(|_| self.calls.is_empty()).map(|since| since.max(self.landed_at))
    }

    /// Returns the time until the next timer or poll.
    pub(super) fn next_time(&self) -> Option<Duration> {
        let holder = self.holder.as_ref()?;
        let until = |at: u64| Duration::from_millis(at.saturating_sub(self.now.0));
        let poll = holder.polls.next().map(|at| until(at.0));
        let asked = holder.hold.converged.filter(|_| !holder.is_converged);
        let converged =
            asked.zip(self.quiet_since()).map(|(asked, since)| until(since.0.saturating_add(millis(asked))));
        let longest = holder
            .hold
            .longest
            .filter(|_| !holder.is_enough)
            .map(|longest| longest.saturating_sub(self.start.elapsed()));
        let read = holder.reading.next().map(|at| until(at.0));
        let alive = holder.hold.watchdog_interval.map(|_| until(holder.alive_at.0));
        let heard = holder.provider_watches.patience().map(|at| until(at.0));
        let resume = holder.paused.as_ref().and_then(PauseState::until).map(|at| until(at.0));
        let journal = holder.journal.as_ref().map(|failure| until(failure.next_try.0));
        let flush = (!self.state.flushes.is_empty() && self.in_flight() == 0).then(|| until(holder.flush_due().0));
        poll.into_iter()
            .chain(converged)
            .chain(longest)
            .chain(read)
            .chain(alive)
            .chain(heard)
            .chain(resume)
            .chain(journal)
            .chain(flush)
            .min()
    }

    /// Polls what is due, and checks the time limits.
    pub(super) fn poll_timers(&mut self) {
        self.look_at_declared();
        self.check_watch_starts();
        self.look_at_pause();
        self.look_at_journal();
        let Some(holder) = &mut self.holder else { return };
        let mut found = 0;
        while let Some(vertex) = holder.polls.due(self.now) {
            // The watch starts before the check.
            found += usize::from(holder.finds(vertex));
            // A running check counts as the poll: no event has arrived since its start.
            if self.machine.settlement(vertex).is_some() {
                if let Some(held_status) = self.state.standing_mut() {
                    held_status.poll(vertex);
                }
                self.machine.input(self.now, Input::Stale(vertex));
            }
        }
        if found > 0 {
            self.observer.event(Event::Rewatched { count: found });
        }
        holder.is_enough |= holder.hold.longest.is_some_and(|longest| self.start.elapsed() >= longest);
    }

    /// Reports that another program undoes the repairs of a resource.
    pub(super) fn contested(&mut self, vertex: ResourceId) {
        // The contest may have ended with a command of the same batch.
        let Some(contest) = self.machine.contest(vertex) else { return };
        let repaired: Box<[_]> = self.state.repaired(vertex).into();
        let opponent = self.state.opponent(vertex);
        self.state.contests.record(vertex, repaired, opponent);
        self.observer.event(Event::Contested {
            reference: &self.prepared.resource(vertex).reference,
            repairs: contest.repairs,
            next: Duration::from_millis(contest.next.0.saturating_sub(self.now.0)),
            differences: self.state.contests.repaired(vertex),
            opponent: self.state.contests.opponent(vertex),
        });
    }

    /// Reports that the contest over a resource has ended.
    pub(super) fn uncontested(&mut self, vertex: ResourceId) {
        if self.state.contests.end(vertex) {
            self.observer.event(Event::Uncontested { reference: &self.prepared.resource(vertex).reference });
        }
    }

    /// Reports that a contested resource is no longer repaired.
    pub(super) fn demoted(&mut self, vertex: ResourceId) {
        let RepairBudget { repairs, within, .. } = RepairBudget::default();
        let reference = &self.prepared.resource(vertex).reference;
        let differences = self.state.repaired(vertex);
        self.observer.event(Event::Demoted { reference, repairs, within, differences });
    }
}
