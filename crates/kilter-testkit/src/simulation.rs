//! Simulation of a seed: several hostile runs over a world, then runs without disturbances.

use std::hash::Hasher;

use fastrand::Rng;
use kilter_engine::Disposition;
use rustc_hash::FxHasher;

use crate::chaos::Chaos;
use crate::driver::{End, PersistentState, SimulatedRun};
use crate::journal::Journal;
use crate::mutant::Mutant;
use crate::observed::RunMode;
use crate::properties::{Property, Violation, plan};
use crate::system::System;
use crate::world::{GeneratedGraph, chance};

/// Counters of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationCounts {
    /// Number of commands.
    pub commands: u64,
    /// Number of crashes of the driver.
    pub crashes: u64,
    /// Number of interrupted runs.
    pub interrupts: u64,
    /// Number of failed checks, applies and refreshes.
    pub failures: u64,
}

impl SimulationCounts {
    /// Adds the counters of another simulation.
    pub fn add(&mut self, other: SimulationCounts) {
        self.commands += other.commands;
        self.crashes += other.crashes;
        self.interrupts += other.interrupts;
        self.failures += other.failures;
    }
}

/// Result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulationReport {
    /// Counters.
    pub counts: SimulationCounts,
    /// Hash of all commands.
    pub stream: u64,
}

/// Simulates a seed twice. Both simulations must give the same commands.
///
/// # Errors
/// The first violated property.
pub fn simulate(seed: u64) -> Result<SimulationReport, Violation> {
    simulate_with(seed, None)
}

/// Simulates a seed with a bug in the command stream.
///
/// # Errors
/// The first violated property.
pub fn simulate_with(seed: u64, mutant: Option<Mutant>) -> Result<SimulationReport, Violation> {
    let report = once(seed, mutant, false)?;
    let again = once(seed, mutant, true)?;
    if report == again {
        return Ok(report);
    }
    let what = format!("the commands of the same seed differ: {:x} and {:x}", report.stream, again.stream);
    Err(Violation::of(Property::Determinism, what))
}

fn once(seed: u64, mutant: Option<Mutant>, second: bool) -> Result<SimulationReport, Violation> {
    let mut rng = Rng::with_seed(seed);
    let world = GeneratedGraph::random(&mut rng);
    let system = System::random(&mut rng, &world);
    let mut lasting = PersistentState {
        system,
        journal: Journal::default(),
        rng,
        tick: 0,
        counts: SimulationCounts::default(),
        stream: FxHasher::default(),
        mutant,
        second,
    };
    hostile(&world, &mut lasting)?;
    peaceful(&world, &mut lasting)?;
    Ok(SimulationReport { counts: lasting.counts, stream: lasting.stream.finish() })
}

/// Runs with failures, events, interrupts, crashes and occasional plans.
fn hostile(world: &GeneratedGraph, lasting: &mut PersistentState) -> Result<(), Violation> {
    for _ in 0..lasting.rng.u32(1..4) {
        if lasting.rng.u32(..3) == 0 {
            let chaos = Chaos { crash: None, ..Chaos::random(&mut lasting.rng, world.vertices.len()) };
            SimulatedRun::new(&world.noop(), RunMode::Plan, chaos, lasting).run()?;
        }
        let chaos = Chaos::random(&mut lasting.rng, world.vertices.len());
        SimulatedRun::new(world, RunMode::Hostile, chaos, lasting).run()?;
        drift(world, lasting, 5);
    }
    Ok(())
}

/// Runs without failures: a plan, an apply that matches the plan and gives the same result without batches, and an
/// apply without changes.
fn peaceful(world: &GeneratedGraph, lasting: &mut PersistentState) -> Result<(), Violation> {
    lasting.system.heal();
    let percent = [0, 10, 60][lasting.rng.usize(..3)];
    drift(world, lasting, percent);
    let mut planned = undisturbed(&world.noop(), RunMode::Plan, lasting)?;
    if let Some(mutant) = lasting.mutant {
        mutant.shown(&mut planned);
    }
    let mut other = lasting.clone();
    let applied = undisturbed(world, RunMode::Clean, lasting)?;
    let mut singly = undisturbed(&world.singly(), RunMode::Clean, &mut other)?;
    if let Some(mutant) = lasting.mutant {
        mutant.done_singly(&mut singly);
    }
    plan::batches_change_nothing(&applied, &singly)?;
    plan::the_apply_did_what_the_plan_showed(&planned, &applied)?;
    undisturbed(world, RunMode::Calm, lasting)?;
    Ok(())
}

fn undisturbed(
    world: &GeneratedGraph,
    mode: RunMode,
    lasting: &mut PersistentState,
) -> Result<Vec<Option<Disposition>>, Violation> {
    let chaos = Chaos::none(&mut lasting.rng);
    match SimulatedRun::new(world, mode, chaos, lasting).run()? {
        End::Finished(settlements) => Ok(settlements),
        End::Crashed => Err(Violation::of(Property::Ending, "a run that nothing disturbed crashed")),
    }
}

/// Changes the system between two runs.
fn drift(world: &GeneratedGraph, lasting: &mut PersistentState, percent: u32) {
    for vertex in world.graph.vertices() {
        if chance(&mut lasting.rng, percent) {
            lasting.system.drift(vertex);
        }
    }
}
