//! The simulation of machines that hold a state: events, watches, swaps of the graph, crashes, and peace at last.

mod driver;
mod site;

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
    /// A demoted vertex is given back its budget at once.
    NeverTires,
    /// What a swap does not change is begun anew with nothing known of what is under way.
    SwapsBlindly,
}

impl Fault {
    /// Each bug, and the property that notices it.
    pub const ALL: [(Fault, Property); 5] = [
        (Fault::LosesEvents, Property::Converges),
        (Fault::WatchesTooLate, Property::Watched),
        (Fault::OwesNothing, Property::Refreshes),
        (Fault::NeverTires, Property::Limits),
        (Fault::SwapsBlindly, Property::OneAtATime),
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
    let report = once(seed, fault)?;
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
    let mut lasting = Lasting { site, system, journal, rng, tick: 0, counts: Counts::default(), stream, fault };
    for _ in 0..lasting.rng.u32(1..4) {
        let length = lasting.rng.u32(5..160);
        Driver::new(&mut lasting).hostile(length)?;
    }
    let length = lasting.rng.u32(0..160);
    Driver::new(&mut lasting).peaceful(length)?;
    Ok(Report { counts: lasting.counts, stream: lasting.stream.finish() })
}
