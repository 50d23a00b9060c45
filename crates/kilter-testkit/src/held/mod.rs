//! Simulation of machines that hold a state: events, watches, graph swaps, crashes, and finally no disturbances.

mod driver;
mod limits;
mod site;

use std::collections::BTreeMap;
use std::hash::Hasher;

use fastrand::Rng;
use rustc_hash::FxHasher;

use crate::journal::Journal;
use crate::properties::{Property, Violation};
use crate::simulation::{SimulationCounts, SimulationReport};
use crate::system::System;
use driver::{Driver, PersistentState};
use site::Site;

/// A bug in the driver or its configuration, which a property must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// Loses an event.
    LosesEvents,
    /// Reports watches as started before they have started.
    WatchesTooLate,
    /// Does not journal pending refreshes.
    OwesNothing,
    /// Makes a change although its refreshes could not be journalled.
    ChangesUnrecorded,
    /// Resets the budget of a demoted or contested vertex at once.
    NeverTires,
    /// Restarts unchanged vertices after a swap, without regard to calls in flight.
    SwapsBlindly,
    /// Restarts a watch during a call.
    WatchesBeside,
    /// Starts no watch during a pause.
    WatchesNotWhilePaused,
    /// Loses an event on a vertex with a call in flight.
    SwallowsEvents,
    /// Does not report a pause to the machine.
    IgnoresPause,
    /// Also wakes the dependents of a vertex on an event.
    WakesDependants,
    /// Checks unchanged vertices after a swap.
    SwapsWhole,
    /// Starts no check after a swap before earlier calls have ended.
    SwapsLate,
    /// Checks the children of a vertex together with it.
    StartsEarly,
    /// Counts a pending refresh as paid when the refresh starts.
    PaysEarly,
    /// Does not configure semaphores.
    ForgetsSemaphores,
    /// Reports the semaphores of a removed vertex as free too early.
    FreesEarly,
    /// Issues the id of a removed vertex again.
    ReusesIds,
    /// Delivers the answer to a call of a removed or changed vertex to the vertex that took its place.
    AnswersNewcomer,
    /// Takes queued calls back before an edit, and does not report this to the machine.
    LosesReturned,
    /// Lets an edited vertex have all its retries, although the ones that it has used count.
    RestoresRetries,
    /// Does not configure rate limits.
    ForgetsLimits,
    /// Does not configure a back-off.
    ForgetsBackoff,
    /// Drops the timer of a failed vertex.
    ForgetsWakes,
    /// Drops the timer of a contested vertex.
    ForgetsContests,
    /// Configures retries without delay.
    HurriesRetries,
    /// Configures a retry too many.
    RetriesTooOften,
    /// Never resets the retries of a vertex that is in sync.
    NeverForgives,
    /// Resets the retries of all vertices that are in sync, also without `retryreset`.
    ForgivesAll,
    /// Demotes a vertex one repair too early.
    TiresEarly,
    /// Loses an event on a settled vertex.
    HearsLate,
    /// Lets a blocked vertex blame itself.
    BlamesWrong,
    /// Keeps a failed vertex failed after a change of its declaration.
    KeepsFailed,
    /// Reports the machine as quiet at all times.
    ClaimsRest,
    /// Splits a batch.
    SplitsBatches,
    /// Reorders commands in the second simulation of a seed.
    Wavers,
}

impl SeededBug {
    /// All bugs, with the property that detects each.
    pub const ALL: [(SeededBug, Property); 36] = [
        (SeededBug::LosesEvents, Property::Converges),
        (SeededBug::WatchesTooLate, Property::Watched),
        (SeededBug::OwesNothing, Property::Refreshes),
        (SeededBug::ChangesUnrecorded, Property::Refreshes),
        (SeededBug::NeverTires, Property::Limits),
        (SeededBug::SwapsBlindly, Property::OneAtATime),
        (SeededBug::WatchesBeside, Property::Watched),
        (SeededBug::WatchesNotWhilePaused, Property::Watched),
        (SeededBug::SwallowsEvents, Property::Watched),
        (SeededBug::IgnoresPause, Property::Entitled),
        (SeededBug::WakesDependants, Property::Entitled),
        (SeededBug::SwapsWhole, Property::Entitled),
        (SeededBug::SwapsLate, Property::Begins),
        (SeededBug::StartsEarly, Property::ParentsFirst),
        (SeededBug::PaysEarly, Property::Refreshes),
        (SeededBug::ForgetsSemaphores, Property::Limits),
        (SeededBug::FreesEarly, Property::Limits),
        (SeededBug::ReusesIds, Property::Answers),
        (SeededBug::AnswersNewcomer, Property::Answers),
        (SeededBug::LosesReturned, Property::Begins),
        (SeededBug::RestoresRetries, Property::Retries),
        (SeededBug::ForgetsLimits, Property::Limits),
        (SeededBug::ForgetsBackoff, Property::Retries),
        (SeededBug::ForgetsWakes, Property::Begins),
        (SeededBug::ForgetsContests, Property::Converges),
        (SeededBug::HurriesRetries, Property::Retries),
        (SeededBug::RetriesTooOften, Property::Retries),
        (SeededBug::NeverForgives, Property::Retries),
        (SeededBug::ForgivesAll, Property::Retries),
        (SeededBug::TiresEarly, Property::Limits),
        (SeededBug::HearsLate, Property::ParentsFirst),
        (SeededBug::BlamesWrong, Property::Blocking),
        (SeededBug::KeepsFailed, Property::Begins),
        (SeededBug::ClaimsRest, Property::Rests),
        (SeededBug::SplitsBatches, Property::Batches),
        (SeededBug::Wavers, Property::Determinism),
    ];
}

/// Simulates a seed twice. Both simulations must give the same commands.
///
/// # Errors
/// The first violated property.
pub fn simulate_held(seed: u64) -> Result<SimulationReport, Violation> {
    simulate_held_with(seed, None)
}

/// Simulates a seed with a bug.
///
/// # Errors
/// The first violated property.
pub fn simulate_held_with(seed: u64, fault: Option<SeededBug>) -> Result<SimulationReport, Violation> {
    let report = once(seed, fault.filter(|fault| *fault != SeededBug::Wavers))?;
    if report == once(seed, fault)? {
        return Ok(report);
    }
    Err(Violation::of(Property::Determinism, "the commands of the same seed differ"))
}

fn once(seed: u64, fault: Option<SeededBug>) -> Result<SimulationReport, Violation> {
    let mut rng = Rng::with_seed(seed);
    let site = Site::random(&mut rng);
    let system = System::random(&mut rng, &site.plain_world());
    let journal = Journal::default();
    let stream = FxHasher::default();
    let mut persistent = PersistentState {
        site,
        system,
        journal,
        notified: BTreeMap::new(),
        rng,
        tick: 0,
        counts: SimulationCounts::default(),
        stream,
        fault,
    };
    for _ in 0..persistent.rng.u32(1..4) {
        let length = persistent.rng.u32(5..160);
        Driver::new(&mut persistent).hostile(length)?;
    }
    let length = persistent.rng.u32(0..160);
    Driver::new(&mut persistent).peaceful(length)?;
    Ok(SimulationReport { counts: persistent.counts, stream: persistent.stream.finish() })
}
