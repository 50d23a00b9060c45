//! Carries out the commands of a machine in a random order, with disturbances.

use fastrand::Rng;
use kilter_engine::{ApplyResult, Batch, CheckResult, Command, Disposition, Input, Machine, ResourceId, Timestamp};
use rustc_hash::FxHasher;

use crate::chaos::Chaos;
use crate::journal::{Journal, Record};
use crate::mutant::{Moment, Mutant};
use crate::observed::{Act, Observed, RunMode};
use crate::properties::{Property, Violation, order};
use crate::simulation::SimulationCounts;
use crate::stream::command_hash;
use crate::system::{ApplyAnswer, System, reported};
use crate::world::{GeneratedGraph, chance};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The machine finished. Contains the settlement of each vertex.
    Finished(Vec<Option<Disposition>>),
    Crashed,
}

/// State that outlives a run.
#[derive(Clone)]
pub(crate) struct PersistentState {
    pub(crate) system: System,
    pub(crate) journal: Journal,
    pub(crate) rng: Rng,
    /// Logical clock that counts actions on the system, so that they have an order.
    pub(crate) tick: u64,
    pub(crate) counts: SimulationCounts,
    /// Hash of the commands of all runs.
    pub(crate) stream: FxHasher,
    /// Bug to inject, if any.
    pub(crate) mutant: Option<Mutant>,
    /// True in the second simulation of the same seed.
    pub(crate) second: bool,
}

/// A call in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    vertex: ResourceId,
    act: Act,
    began: u64,
    /// Result of the call, once it has taken effect.
    heard: Option<CallAnswer>,
}

#[derive(Clone, Copy, Debug)]
enum CallAnswer {
    Found(CheckResult),
    Applied(ApplyAnswer),
}

/// Steps per vertex after which an endless run is interrupted.
const MAX_STEPS_PER_VERTEX: u32 = 40;

/// A run of a machine.
pub(crate) struct SimulatedRun<'a> {
    machine: Machine,
    observed: Observed<'a>,
    world: &'a GeneratedGraph,
    persistent: &'a mut PersistentState,
    chaos: Chaos,
    flights: Vec<InFlight>,
    wakes: Vec<(Timestamp, ResourceId)>,
    now: Timestamp,
    steps: u32,
    commands: u32,
    /// Number of inputs so far.
    told: u64,
}

impl<'a> SimulatedRun<'a> {
    pub(crate) fn new(
        world: &'a GeneratedGraph,
        mode: RunMode,
        chaos: Chaos,
        persistent: &'a mut PersistentState,
    ) -> SimulatedRun<'a> {
        let mut owed = persistent.journal.owed();
        if let Some(mutant) = persistent.mutant {
            mutant.forget(&mut owed, &mut persistent.journal);
        }
        persistent.journal.begin();
        let machine = Machine::new(world.graph.clone(), world.vertices.clone(), &owed);
        let endless = world.graph.vertices().any(|v| world.vertex(v).retry < 0 && persistent.system.is_hopeless(v));
        let max_steps = MAX_STEPS_PER_VERTEX * (world.vertices.len() as u32 + 5);
        let interrupt = if endless { Some(chaos.interrupt.unwrap_or(max_steps)) } else { chaos.interrupt };
        SimulatedRun {
            machine,
            observed: Observed::new(world, mode),
            world,
            persistent,
            chaos: Chaos { interrupt, ..chaos },
            flights: Vec::new(),
            wakes: Vec::new(),
            now: Timestamp(0),
            steps: 0,
            commands: 0,
            told: 0,
        }
    }

    /// Runs until the machine is finished or the driver crashes.
    ///
    /// # Errors
    /// The first violated property.
    pub(crate) fn run(mut self) -> Result<End, Violation> {
        loop {
            let commands = self.take_commands();
            let whole = order::batches_are_whole(&commands, |vertex| self.world.vertex(vertex));
            for command in commands {
                if self.chaos.crash == Some(self.commands) {
                    return Ok(self.die());
                }
                self.commands += 1;
                self.carry_out(command)?;
            }
            whole?;
            self.observed.quiet(&self.machine, &self.persistent.journal)?;
            if self.machine.is_finished() && !self.is_stirred() {
                break;
            }
            self.step()?;
        }
        if let Some(flight) = self.flights.first() {
            let what = format!("the machine is finished and {:?} is under way", flight.act);
            return Err(Violation::at(Property::Ending, flight.vertex, what));
        }
        self.observed.ended(&self.machine, &self.persistent.journal, &self.persistent.system)?;
        let settlements = self.world.graph.vertices().map(|v| self.machine.settlement(v)).collect();
        Ok(End::Finished(settlements))
    }

    /// Returns true if further events follow after the machine is finished.
    fn is_stirred(&mut self) -> bool {
        self.chaos.events > 0 && !self.world.vertices.is_empty() && self.persistent.rng.u32(..4) == 0
    }

    fn take_commands(&mut self) -> Vec<Command> {
        let mut commands = self.machine.commands();
        if let Some(mutant) = self.persistent.mutant {
            let (second, journal) = (self.persistent.second, &self.persistent.journal);
            mutant.distort(&mut commands, &Moment { observed: &self.observed, journal, second });
        }
        for command in &commands {
            command_hash(&mut self.persistent.stream, command);
        }
        commands
    }

    fn carry_out(&mut self, command: Command) -> Result<(), Violation> {
        let persistent = &mut *self.persistent;
        persistent.tick += 1;
        persistent.counts.commands += 1;
        persistent.journal.rely();
        self.observed.command(&command, &persistent.journal, &persistent.system, persistent.tick)?;
        match command {
            Command::JournalRefresh(tokens) => persistent.journal.write(Record::Owe(tokens)),
            Command::ClearRefresh(tokens) => persistent.journal.write(Record::Paid(tokens)),
            Command::Check(batch) => self.take_off(Act::Check, batch)?,
            Command::Apply(batch) => self.take_off(Act::Apply, batch)?,
            Command::Refresh(batch) => self.take_off(Act::Refresh, batch)?,
            Command::SetTimer(vertex, at) => self.wakes.push((at, vertex)),
            // The other commands belong to machines that hold a state.
            Command::Settled(..)
            | Command::Watch(_)
            | Command::Contested(_)
            | Command::Uncontested(_)
            | Command::Demoted(_) => {}
        }
        Ok(())
    }

    /// Starts a batch. Some calls take effect at once, the others at some time before their answers.
    fn take_off(&mut self, act: Act, batch: Batch) -> Result<(), Violation> {
        for vertex in batch.vertices {
            self.flights.push(InFlight { vertex, act, began: self.persistent.tick, heard: None });
            if self.persistent.rng.u32(..4) == 0 {
                self.happen(self.flights.len() - 1)?;
            }
        }
        Ok(())
    }

    /// Applies the effect of a call to the system.
    fn happen(&mut self, at: usize) -> Result<(), Violation> {
        let flight = self.flights[at];
        if flight.heard.is_some() {
            return Ok(());
        }
        let persistent = &mut *self.persistent;
        persistent.tick += 1;
        let InFlight { vertex, began, .. } = flight;
        let answer = match flight.act {
            Act::Check => CallAnswer::Found(persistent.system.check(vertex)),
            Act::Apply => {
                CallAnswer::Applied(persistent.system.apply(&mut persistent.rng, vertex, began, persistent.tick))
            }
            Act::Refresh => CallAnswer::Applied(persistent.system.refresh(vertex, began, persistent.tick)),
        };
        self.flights[at].heard = Some(answer);
        if persistent.system.changed(vertex) == persistent.tick {
            self.observed.changed(vertex, &persistent.journal)?;
        }
        Ok(())
    }

    /// Advances the time: delivers answers, events and timers.
    fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        self.now.0 += self.persistent.rng.u64(..60);
        let told = self.told;
        let interrupted = self.chaos.interrupt.is_some_and(|at| self.steps > at) && !self.machine.is_interrupted();
        if interrupted && self.persistent.rng.bool() {
            self.interrupt();
        }
        self.disturb();
        self.wake();
        self.answer(told)?;
        if interrupted && !self.machine.is_interrupted() {
            self.interrupt();
        }
        self.disturb();
        Ok(())
    }

    fn interrupt(&mut self) {
        self.persistent.counts.interrupts += 1;
        self.give(Input::Interrupt);
        // Some calls that no worker has started are returned.
        let mut at = 0;
        while at < self.flights.len() {
            if self.flights[at].heard.is_none() && self.persistent.rng.bool() {
                let flight = self.flights.swap_remove(at);
                self.give(Input::Cancelled(flight.vertex));
            } else {
                at += 1;
            }
        }
    }

    /// Changes the system from outside, and delivers an event.
    fn disturb(&mut self) {
        let rng = &mut self.persistent.rng;
        if self.chaos.events == 0 || self.world.vertices.is_empty() || !chance(rng, self.chaos.event) {
            return;
        }
        self.chaos.events -= 1;
        let mut vertex = ResourceId::first(rng.u32(..self.world.vertices.len() as u32));
        if let Some(flight) = rng.choice(&self.flights).filter(|_| self.chaos.slow) {
            // Hit a parent of a vertex in flight, the most critical case.
            vertex = rng.choice(self.world.parents(flight.vertex).collect::<Vec<_>>()).unwrap_or(flight.vertex);
        }
        match (chance(rng, self.chaos.drift), rng.u32(..4)) {
            (true, 0) => self.persistent.system.repair(vertex),
            (true, _) => self.persistent.system.drift(vertex),
            (false, _) => {}
        }
        self.give(Input::Stale(vertex));
    }

    /// Fires due timers. If nothing else is in flight, advances to the next timer.
    fn wake(&mut self) {
        if self.flights.is_empty() && !self.wakes.iter().any(|(at, _)| *at <= self.now) {
            let next = self.wakes.iter().map(|(at, _)| *at).min();
            self.now = next.unwrap_or(self.now);
        }
        let all = self.flights.is_empty();
        let mut at = 0;
        while at < self.wakes.len() {
            if self.wakes[at].0 <= self.now && (all || self.persistent.rng.bool()) {
                let (_, vertex) = self.wakes.swap_remove(at);
                self.give(Input::TimerFired(vertex));
            } else {
                at += 1;
            }
        }
    }

    /// Answers some of the calls in flight.
    fn answer(&mut self, told: u64) -> Result<(), Violation> {
        if self.flights.is_empty() {
            return self.is_going_on(told);
        }
        let rng = &mut self.persistent.rng;
        let count = if chance(rng, self.chaos.together) { self.flights.len() } else { 1 };
        if rng.u32(..3) == 0 {
            let at = rng.usize(..self.flights.len());
            self.happen(at)?;
        }
        for _ in 0..count {
            let at = self.landing();
            self.happen(at)?;
            let flight = self.flights.swap_remove(at);
            let input = self.answer_of(flight);
            self.give(input);
        }
        Ok(())
    }

    /// Returns the next call to answer. Slow refreshes are answered last.
    fn landing(&mut self) -> usize {
        let at = self.persistent.rng.usize(..self.flights.len());
        if self.chaos.slow && self.flights[at].act == Act::Refresh {
            return self.flights.iter().position(|flight| flight.act != Act::Refresh).unwrap_or(at);
        }
        at
    }

    /// Checks that the run can continue: without calls in flight there must be another input or a timer.
    fn is_going_on(&self, told: u64) -> Result<(), Violation> {
        let goes_on = self.told > told || !self.wakes.is_empty() || self.machine.is_finished();
        let what = "nothing is under way, nothing waits for its time, and it is not finished";
        if goes_on { Ok(()) } else { Err(Violation::of(Property::Ending, what)) }
    }

    /// Returns the answer to a call. The vertex is checked after an apply, which has failed if it is not in sync,
    /// whatever the provider reports.
    fn answer_of(&mut self, flight: InFlight) -> Input {
        let in_sync = self.persistent.system.is_in_sync(flight.vertex);
        let input = match (flight.act, flight.heard.expect("it has just happened")) {
            (_, CallAnswer::Found(verdict)) => {
                Input::Checked(flight.vertex, reported(verdict, &self.machine, &mut self.persistent.rng))
            }
            (Act::Refresh, CallAnswer::Applied(heard)) => Input::Refreshed(flight.vertex, heard != ApplyAnswer::Failed),
            (_, CallAnswer::Applied(ApplyAnswer::Done { refreshed })) if in_sync => {
                Input::Applied(flight.vertex, ApplyResult::Done { refreshed })
            }
            (_, CallAnswer::Applied(_)) => Input::Applied(flight.vertex, ApplyResult::Failed),
        };
        let failed = matches!(
            input,
            Input::Checked(_, CheckResult::Failed)
                | Input::Applied(_, ApplyResult::Failed)
                | Input::Refreshed(_, false)
        );
        self.persistent.counts.failures += u64::from(failed);
        input
    }

    fn give(&mut self, input: Input) {
        self.observed.input(input.clone(), &self.machine, self.now);
        self.machine.input(self.now, input);
        self.told += 1;
    }

    /// Crashes the driver. Each call in flight has taken effect or never will. The end of the journal may be lost.
    fn die(mut self) -> End {
        self.persistent.counts.crashes += 1;
        for at in 0..self.flights.len() {
            if self.persistent.rng.bool() {
                // Violations were checked at the start of the call. A crashed driver reports no errors.
                let _ = self.happen(at);
            }
        }
        let rng = &mut self.persistent.rng;
        self.persistent.journal.crash(|loose| rng.usize(..=loose));
        End::Crashed
    }
}
