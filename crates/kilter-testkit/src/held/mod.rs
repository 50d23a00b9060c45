//! The simulation of machines that hold a state: events, watches, swaps of the graph, crashes, and peace at last.

mod driver;
mod limits;
mod site;

use std::collections::BTreeMap;
use std::hash::Hasher;

use fastrand::Rng;
use rustc_hash::FxHasher;

use crate::journal::Journal;
use crate::properties::{Property, Violation};
use crate::simulation::{Counts, Report};
use crate::system::System;
use driver::{Driver, Lasting};
use site::Site;

/// A bug in the driver or on the way to it, that the properties have to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An event is lost.
    LosesEvents,
    /// Watches are said to have started when they have not.
    WatchesTooLate,
    /// What is owed is not journalled.
    OwesNothing,
    /// A change is made although what it owes could not be journalled.
    ChangesUnrecorded,
    /// A demoted or contested vertex is given back its budget at once.
    NeverTires,
    /// What a swap does not change is begun anew with nothing known of what is under way.
    SwapsBlindly,
    /// A watch starts anew beside what is under way.
    WatchesBeside,
    /// A watch does not start while nothing is to begin.
    WatchesNotWhilePaused,
    /// An event is lost on something that is being worked on.
    SwallowsEvents,
    /// The machine does not hear that nothing is to begin.
    IgnoresPause,
    /// An event wakes what depends on its vertex as well.
    WakesDependants,
    /// What a swap does not change is looked at all the same.
    SwapsWhole,
    /// Nothing is begun behind a swap before what was under way has ended.
    SwapsLate,
    /// The children of a vertex are looked at together with it.
    StartsEarly,
    /// What is owed counts as paid when the refresh begins.
    PaysEarly,
    /// The machine is not told of semaphores.
    ForgetsSemaphores,
    /// What is no longer declared is said to have ended with its semaphores when it has not.
    FreesEarly,
    /// The machine is not told of limits.
    ForgetsLimits,
    /// What has failed is not left alone.
    ForgetsBackoff,
    /// What has failed is not woken.
    ForgetsWakes,
    /// A contested vertex is not woken for its next repair.
    ForgetsContests,
    /// What is tried again is not left alone before that.
    HurriesRetries,
    /// What has failed is tried once more than was asked for.
    RetriesTooOften,
    /// What is in its state does not get its tries back.
    NeverForgives,
    /// What is in its state gets its tries back, though nobody asked for that.
    ForgivesAll,
    /// A vertex is demoted when one more repair would be in its budget.
    TiresEarly,
    /// An event is lost on something that has settled.
    HearsLate,
    /// A blocked vertex names itself.
    BlamesWrong,
    /// What has failed and is declared in another way stays failed.
    KeepsFailed,
    /// Everything is said to be at rest.
    ClaimsRest,
    /// A batch is taken apart.
    SplitsBatches,
    /// The second time through a seed, commands come in another order.
    Wavers,
}

impl Fault {
    /// Each bug, and the property that notices it.
    pub const ALL: [(Fault, Property); 32] = [
        (Fault::LosesEvents, Property::Converges),
        (Fault::WatchesTooLate, Property::Watched),
        (Fault::OwesNothing, Property::Refreshes),
        (Fault::ChangesUnrecorded, Property::Refreshes),
        (Fault::NeverTires, Property::Limits),
        (Fault::SwapsBlindly, Property::OneAtATime),
        (Fault::WatchesBeside, Property::Watched),
        (Fault::WatchesNotWhilePaused, Property::Watched),
        (Fault::SwallowsEvents, Property::Watched),
        (Fault::IgnoresPause, Property::Entitled),
        (Fault::WakesDependants, Property::Entitled),
        (Fault::SwapsWhole, Property::Entitled),
        (Fault::SwapsLate, Property::Begins),
        (Fault::StartsEarly, Property::ParentsFirst),
        (Fault::PaysEarly, Property::Refreshes),
        (Fault::ForgetsSemaphores, Property::Limits),
        (Fault::FreesEarly, Property::Limits),
        (Fault::ForgetsLimits, Property::Limits),
        (Fault::ForgetsBackoff, Property::Retries),
        (Fault::ForgetsWakes, Property::Begins),
        (Fault::ForgetsContests, Property::Converges),
        (Fault::HurriesRetries, Property::Retries),
        (Fault::RetriesTooOften, Property::Retries),
        (Fault::NeverForgives, Property::Retries),
        (Fault::ForgivesAll, Property::Retries),
        (Fault::TiresEarly, Property::Limits),
        (Fault::HearsLate, Property::ParentsFirst),
        (Fault::BlamesWrong, Property::Blocking),
        (Fault::KeepsFailed, Property::Begins),
        (Fault::ClaimsRest, Property::Rests),
        (Fault::SplitsBatches, Property::Batches),
        (Fault::Wavers, Property::Determinism),
    ];
}

/// Simulates one seed twice, since the second time must give the same commands.
///
/// # Errors
/// The first property that does not hold.
pub fn simulate_held(seed: u64) -> Result<Report, Violation> {
    simulate_held_with(seed, None)
}

/// Simulates one seed with a bug.
///
/// # Errors
/// The first property that does not hold.
pub fn simulate_held_with(seed: u64, fault: Option<Fault>) -> Result<Report, Violation> {
    let report = once(seed, fault.filter(|fault| *fault != Fault::Wavers))?;
    if report == once(seed, fault)? {
        return Ok(report);
    }
    Err(Violation::of(Property::Determinism, "the commands of the same seed differ"))
}

fn once(seed: u64, fault: Option<Fault>) -> Result<Report, Violation> {
    let mut rng = Rng::with_seed(seed);
    let site = Site::random(&mut rng);
    let system = System::random(&mut rng, &site.plain_world());
    let journal = Journal::default();
    let stream = FxHasher::default();
    let mut lasting = Lasting {
        site,
        system,
        journal,
        notified: BTreeMap::new(),
        rng,
        tick: 0,
        counts: Counts::default(),
        stream,
        fault,
    };
    for _ in 0..lasting.rng.u32(1..4) {
        let length = lasting.rng.u32(5..160);
        Driver::new(&mut lasting).hostile(length)?;
    }
    let length = lasting.rng.u32(0..160);
    Driver::new(&mut lasting).peaceful(length)?;
    Ok(Report { counts: lasting.counts, stream: lasting.stream.finish() })
}
