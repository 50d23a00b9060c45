//! Observer of a run: a model of the required results, without knowledge of the implementation.

use kilter_engine::{
    ApplyResult, CheckResult, Command, Disposition, Input, Machine, RefreshToken, ResourceId, Timestamp,
};

use crate::journal::Journal;
use crate::properties::{Property, Violation, blocking, ending, entitled, order, owed_refreshes, plan, retries};
use crate::system::System;
use crate::world::GeneratedGraph;

/// Kind of call for a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Check,
    Apply,
    Refresh,
}

/// Kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// All vertices are noop.
    Plan,
    /// A run with failures and disturbances.
    Hostile,
    /// A run without failures and disturbances.
    Clean,
    /// A clean run without drift, and without pending refreshes that could be paid.
    Calm,
}

/// Observations of a vertex.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Call in flight.
    pub(crate) flight: Option<Act>,
    /// Result of the last check, while it is valid.
    pub(crate) found: Option<CheckResult>,
    /// True if an event arrived during the call in flight.
    pub(crate) outdated: bool,
    /// Last settlement.
    pub(crate) settlement: Option<Disposition>,
    /// Number of settlements.
    pub(crate) settles: u32,
    /// Number of restarts after a settlement.
    pub(crate) retakes: u32,
    /// Number of events.
    pub(crate) events: u32,
    /// Number of checks.
    pub(crate) checks: u32,
    /// Number of failed checks, applies and refreshes.
    pub(crate) failures: u32,
    /// Time before which no call may start.
    pub(crate) wake: Option<Timestamp>,
    /// Time of the last answer.
    pub(crate) answered: Timestamp,
    /// Tick of the start of the last check.
    pub(crate) began: u64,
    /// Tick of the last settlement.
    pub(crate) settled_at: u64,
    /// True if an apply succeeded.
    pub(crate) changed: bool,
    /// True if a refresh succeeded.
    pub(crate) refreshed: bool,
    /// Senders whose pending refreshes the call in flight serves.
    pub(crate) serving: Vec<ResourceId>,
    /// Senders whose pending refreshes have been served and must be paid.
    pub(crate) served: Vec<ResourceId>,
}

impl Seen {
    /// Returns the settlement, unless the vertex was restarted since.
    pub(crate) fn settled(&self) -> Option<Disposition> {
        self.settlement.filter(|_| self.settles == self.retakes + 1)
    }
}

/// Observations of a run.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) world: &'a GeneratedGraph,
    /// Kind of run.
    pub(crate) mode: RunMode,
    /// Observations of the vertices.
    pub(crate) seen: Vec<Seen>,
    /// True after an interrupt.
    pub(crate) interrupted: bool,
}

impl<'a> Observed<'a> {
    /// Creates the observer of a run that has not started.
    pub(crate) fn new(world: &'a GeneratedGraph, mode: RunMode) -> Observed<'a> {
        Observed { world, mode, seen: vec![Seen::default(); world.vertices.len()], interrupted: false }
    }

    /// Returns the observations of a vertex.
    pub(crate) fn of(&self, vertex: ResourceId) -> &Seen {
        &self.seen[vertex.slot()]
    }

    fn of_mut(&mut self, vertex: ResourceId) -> &mut Seen {
        &mut self.seen[vertex.slot()]
    }

    /// Checks a command before it is carried out.
    ///
    /// # Errors
    /// The violated property.
    pub(crate) fn command(
        &mut self,
        command: &Command,
        journal: &Journal,
        system: &System,
        tick: u64,
    ) -> Result<(), Violation> {
        match command {
            Command::JournalRefresh(tokens) => owed_refreshes::owes_only_what_acts(self, tokens),
            Command::ClearRefresh(tokens) => owed_refreshes::pays_only_what_was_served(self, tokens, journal, system),
            Command::Check(batch) => {
                order::batch_is_in_manifest_order(batch)?;
                batch.vertices.iter().try_for_each(|vertex| self.begin(Act::Check, *vertex, journal, tick))
            }
            Command::Apply(batch) => {
                order::batch_is_in_manifest_order(batch)?;
                batch.vertices.iter().try_for_each(|vertex| self.begin(Act::Apply, *vertex, journal, tick))
            }
            Command::Refresh(batch) => {
                order::batch_is_in_manifest_order(batch)?;
                batch.vertices.iter().try_for_each(|vertex| self.begin(Act::Refresh, *vertex, journal, tick))
            }
            Command::SetTimer(vertex, at) => {
                retries::waits_as_told(self, *vertex, *at)?;
                self.of_mut(*vertex).wake = Some(*at);
                Ok(())
            }
            Command::Settled(vertex, settlement) => self.settle(*vertex, *settlement, tick),
            Command::Watch(vertex)
            | Command::Contested(vertex)
            | Command::Uncontested(vertex)
            | Command::Demoted(vertex) => Err(Violation::at(Property::Ending, *vertex, "one pass watches nothing")),
        }
    }

    fn begin(&mut self, act: Act, vertex: ResourceId, journal: &Journal, tick: u64) -> Result<(), Violation> {
        order::parents_let_pass(self, vertex)?;
        entitled::nothing_is_in_flight(self, vertex)?;
        entitled::nothing_begins_after_an_interrupt(self, vertex)?;
        retries::its_time_has_come(self, vertex)?;
        match act {
            Act::Check => ending::a_check_has_a_reason(self, vertex)?,
            Act::Apply => entitled::an_apply_follows_a_difference(self, vertex)?,
            Act::Refresh => entitled::refresh_follows_an_owed_refresh(self, vertex, journal)?,
        }
        if act != Act::Check {
            owed_refreshes::is_journalled(self, vertex, journal)?;
        }
        if act != Act::Check {
            self.mark_in_progress(vertex, journal);
        }
        let seen = self.of_mut(vertex);
        seen.flight = Some(act);
        seen.found = None;
        if act == Act::Check {
            seen.checks += 1;
            seen.began = tick;
        }
        Ok(())
    }

    /// Records the refreshes that a call serves. The refreshes it sends become pending again.
    fn mark_in_progress(&mut self, vertex: ResourceId, journal: &Journal) {
        let world = self.world;
        let owed = |first: &ResourceId| journal.owes(RefreshToken { first: *first, second: vertex });
        self.of_mut(vertex).serving = world.parents(vertex).filter(owed).collect();
        for edge in world.refreshing(vertex) {
            let receiver = self.of_mut(edge.to);
            receiver.serving.retain(|first| *first != vertex);
            receiver.served.retain(|first| *first != vertex);
        }
    }

    fn settle(&mut self, vertex: ResourceId, settlement: Disposition, tick: u64) -> Result<(), Violation> {
        entitled::nothing_is_in_flight(self, vertex)?;
        ending::settles_once(self, vertex)?;
        blocking::the_blocker_is_a_failed_ancestor(self, vertex, settlement)?;
        retries::fails_after_its_tries(self, vertex, settlement)?;
        let seen = self.of_mut(vertex);
        seen.settles += 1;
        seen.settlement = Some(settlement);
        seen.settled_at = tick;
        if self.of(vertex).settled().is_some() {
            ending::the_settlement_says_what_was_found(self, vertex, settlement)?;
        }
        Ok(())
    }

    /// Records an input before the machine receives it.
    pub(crate) fn input(&mut self, input: Input, machine: &Machine, now: Timestamp) {
        match input {
            Input::Checked(vertex, verdict) => {
                // A check is void if an event arrived meanwhile, even if it failed.
                let void = self.of(vertex).outdated && !self.interrupted;
                self.answered(vertex, now, Some(verdict), verdict == CheckResult::Failed && !void);
            }
            Input::Applied(vertex, ApplyResult::Done { refreshed }) => {
                let seen = self.of_mut(vertex);
                seen.changed = true;
                if refreshed {
                    seen.served = std::mem::take(&mut seen.serving);
                }
                self.answered(vertex, now, Some(CheckResult::InSync), false);
            }
            Input::Refreshed(vertex, true) => {
                let seen = self.of_mut(vertex);
                seen.refreshed = true;
                seen.served = std::mem::take(&mut seen.serving);
                self.answered(vertex, now, Some(CheckResult::InSync), false);
            }
            Input::Applied(vertex, ApplyResult::Failed) | Input::Refreshed(vertex, false) => {
                self.answered(vertex, now, None, true);
            }
            Input::Cancelled(vertex) | Input::Requeued(vertex) => {
                let seen = self.of_mut(vertex);
                seen.flight = None;
                seen.answered = now;
                seen.outdated = false;
            }
            Input::TimerFired(vertex) => self.of_mut(vertex).wake = None,
            Input::Stale(vertex) => {
                let interrupted = self.interrupted;
                let retaken = machine.settlement(vertex).is_some_and(Disposition::unblocks_dependents) && !interrupted;
                let seen = self.of_mut(vertex);
                seen.events += 1;
                seen.retakes += u32::from(retaken);
                seen.outdated = seen.flight.is_some();
                if !interrupted {
                    seen.found = None;
                }
                if retaken {
                    self.outdate_children(vertex, machine);
                }
            }
            Input::Interrupt => {
                self.interrupted = true;
                self.seen.iter_mut().for_each(|seen| seen.wake = None);
            }
            // These inputs belong to machines that hold a state.
            Input::WatchEstablished(_) | Input::WatchLost(_) | Input::Pause | Input::Resume => {}
            Input::ResetBudget(_) | Input::Unrecorded(_) | Input::Edit(_) => {}
        }
    }

    /// Invalidates the results of a vertex's children, because the vertex was restarted.
    fn outdate_children(&mut self, vertex: ResourceId, machine: &Machine) {
        let world = self.world;
        for child in world.graph.children(vertex) {
            let seen = self.of_mut(child);
            seen.outdated |= seen.flight.is_some();
            if machine.settlement(child).is_none() {
                seen.found = None;
            }
        }
    }

    fn answered(&mut self, vertex: ResourceId, now: Timestamp, found: Option<CheckResult>, failed: bool) {
        let interrupted = self.interrupted;
        let seen = self.of_mut(vertex);
        seen.flight = None;
        seen.answered = now;
        seen.failures += u32::from(failed);
        seen.found = found;
        if seen.outdated && !interrupted {
            seen.found = None;
        }
        seen.outdated = false;
    }

    /// Checks the journal when a vertex has changed, or a refresh had an effect.
    ///
    /// # Errors
    /// If a crash at this moment would lose a refresh.
    pub(crate) fn changed(&self, vertex: ResourceId, journal: &Journal) -> Result<(), Violation> {
        owed_refreshes::is_journalled(self, vertex, journal)
    }

    /// Checks the state when all commands have been carried out and no answer has arrived.
    ///
    /// # Errors
    /// The violated property.
    pub(crate) fn quiet(&mut self, machine: &Machine, journal: &Journal) -> Result<(), Violation> {
        owed_refreshes::the_journal_is_what_is_owed(machine, journal)?;
        owed_refreshes::what_was_served_is_paid(self, journal)?;
        self.seen.iter_mut().for_each(|seen| seen.served.clear());
        order::nothing_ready_is_held_back(self)
    }

    /// Checks the state when the machine reports that it is finished.
    ///
    /// # Errors
    /// The violated property.
    pub(crate) fn ended(&mut self, machine: &Machine, journal: &Journal, system: &System) -> Result<(), Violation> {
        self.quiet(machine, journal)?;
        ending::everything_has_settled(self, machine)?;
        blocking::blocked_exactly_behind_failures(self)?;
        plan::a_refresh_is_shown_where_it_would_come(self, journal)?;
        if !self.interrupted {
            ending::what_is_said_to_be_in_its_state_is(self, system)?;
        }
        if matches!(self.mode, RunMode::Clean | RunMode::Calm) {
            owed_refreshes::every_change_was_followed_by_a_refresh(self, system)?;
        }
        Ok(())
    }

    pub(crate) fn token(edge: &kilter_engine::Edge) -> RefreshToken {
        RefreshToken { first: edge.from, second: edge.to }
    }
}
