//! Random disturbances of a run.

use fastrand::Rng;

/// Disturbances of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chaos {
    /// Maximum number of events.
    pub(crate) events: u32,
    /// Probability of an event per step, in percent.
    pub(crate) event: u32,
    /// Probability that an event reports a real change, in percent.
    pub(crate) drift: u32,
    /// Step at which the run is interrupted.
    pub(crate) interrupt: Option<u32>,
    /// Number of commands after which the driver crashes.
    pub(crate) crash: Option<u32>,
    /// Probability that all calls in flight are answered at once, in percent.
    pub(crate) together: u32,
    /// True if refreshes take long, and events hit the parents of vertices in flight.
    pub(crate) slow: bool,
}

impl Chaos {
    /// Returns random disturbances of a run over a world of `count` vertices.
    pub(crate) fn random(rng: &mut Rng, count: usize) -> Chaos {
        let length = count as u32 * 3 + 4;
        Chaos {
            events: [0, 0, 3, 10, 40][rng.usize(..5)],
            event: [5, 20, 60][rng.usize(..3)],
            drift: [0, 30, 100][rng.usize(..3)],
            interrupt: (rng.u32(..4) == 0).then(|| rng.u32(..length)),
            crash: (rng.u32(..3) == 0).then(|| rng.u32(..length)),
            together: [0, 20, 100][rng.usize(..3)],
            slow: rng.bool(),
        }
    }

    /// Returns a run without disturbances.
    pub(crate) fn none(rng: &mut Rng) -> Chaos {
        Chaos { together: [0, 20, 100][rng.usize(..3)], ..Chaos::default() }
    }
}
