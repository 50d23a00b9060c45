//! One seed: a world, several hostile runs over it, then peace.

use std::hash::Hasher;

use fastrand::Rng;
use kilter_engine::Settlement;
use rustc_hash::FxHasher;

use crate::chaos::Chaos;
use crate::driver::{Driver, End, Lasting};
use crate::journal::Journal;
use crate::mutant::Mutant;
use crate::observed::Mode;
use crate::properties::{Property, Violation, plan};
use crate::system::System;
use crate::world::{World, chance};

/// What happened in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands carried out.
    pub commands: u64,
    /// Drivers that died.
    pub crashes: u64,
    /// Runs that were interrupted.
    pub interrupts: u64,
    /// Checks, applies and refreshes that failed.
    pub failures: u64,
}

impl Counts {
    /// Adds what happened in another simulation.
    pub fn add(&mut self, other: Counts) {
        self.commands += other.commands;
        self.crashes += other.crashes;
        self.interrupts += other.interrupts;
        self.failures += other.failures;
    }
}

/// What one seed came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What happened.
    pub counts: Counts,
    /// The hash of all commands.
    pub stream: u64,
}

/// Simulates one seed twice, since the second time must give the same commands.
///
/// # Errors
/// The first property that does not hold.
pub fn simulate(seed: u64) -> Result<Report, Violation> {
    simulate_with(seed, None)
}

/// Simulates one seed with a bug in the command stream.
///
/// # Errors
/// The first property that does not hold.
pub fn simulate_with(seed: u64, mutant: Option<Mutant>) -> Result<Report, Violation> {
    let report = once(seed, mutant, false)?;
    let again = once(seed, mutant, true)?;
    if report == again {
        return Ok(report);
    }
    let what = format!("the commands of the same seed differ: {:x} and {:x}", report.stream, again.stream);
    Err(Violation::of(Property::Determinism, what))
}

fn once(seed: u64, mutant: Option<Mutant>, second: bool) -> Result<Report, Violation> {
    let mut rng = Rng::with_seed(seed);
    let world = World::random(&mut rng);
    let system = System::random(&mut rng, &world);
    let mut lasting = Lasting {
        system,
        journal: Journal::default(),
        rng,
        tick: 0,
        counts: Counts::default(),
        stream: FxHasher::default(),
        mutant,
        second,
    };
    hostile(&world, &mut lasting)?;
    peaceful(&world, &mut lasting)?;
    Ok(Report { counts: lasting.counts, stream: lasting.stream.finish() })
}

/// Runs with failures, events, interrupts and crashes, a plan now and then.
fn hostile(world: &World, lasting: &mut Lasting) -> Result<(), Violation> {
    for _ in 0..lasting.rng.u32(1..4) {
        if lasting.rng.u32(..3) == 0 {
            let chaos = Chaos { crash: None, ..Chaos::random(&mut lasting.rng, world.vertices.len()) };
            Driver::new(&world.noop(), Mode::Plan, chaos, lasting).run()?;
        }
        let chaos = Chaos::random(&mut lasting.rng, world.vertices.len());
        Driver::new(world, Mode::Hostile, chaos, lasting).run()?;
        drift(world, lasting, 5);
    }
    Ok(())
}

/// Nothing fails any longer: a plan, an apply that does what it showed and does the same without batches, and one that
/// does nothing.
fn peaceful(world: &World, lasting: &mut Lasting) -> Result<(), Violation> {
    lasting.system.heal();
    let percent = [0, 10, 60][lasting.rng.usize(..3)];
    drift(world, lasting, percent);
    let mut planned = undisturbed(&world.noop(), Mode::Plan, lasting)?;
    if let Some(mutant) = lasting.mutant {
        mutant.shown(&mut planned);
    }
    let mut other = lasting.clone();
    let applied = undisturbed(world, Mode::Clean, lasting)?;
    let mut singly = undisturbed(&world.singly(), Mode::Clean, &mut other)?;
    if let Some(mutant) = lasting.mutant {
        mutant.done_singly(&mut singly);
    }
    plan::batches_change_nothing(&applied, &singly)?;
    plan::the_apply_did_what_the_plan_showed(&planned, &applied)?;
    undisturbed(world, Mode::Calm, lasting)?;
    Ok(())
}

fn undisturbed(world: &World, mode: Mode, lasting: &mut Lasting) -> Result<Vec<Option<Settlement>>, Violation> {
    let chaos = Chaos::none(&mut lasting.rng);
    match Driver::new(world, mode, chaos, lasting).run()? {
        End::Finished(settlements) => Ok(settlements),
        End::Crashed => Err(Violation::of(Property::Ending, "a run that nothing disturbed crashed")),
    }
}

/// Somebody changes the system between two runs.
fn drift(world: &World, lasting: &mut Lasting, percent: u32) {
    for vertex in world.graph.vertices() {
        if chance(&mut lasting.rng, percent) {
            lasting.system.drift(vertex);
        }
    }
}
