//! What happens to one run from outside.

use fastrand::Rng;

/// How a run is disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chaos {
    /// How many events there are at most.
    pub(crate) events: u32,
    /// How often an event comes at a step, in percent.
    pub(crate) event: u32,
    /// How often something has really changed when an event comes, in percent.
    pub(crate) drift: u32,
    /// The step at which the run is interrupted.
    pub(crate) interrupt: Option<u32>,
    /// After how many commands the driver dies.
    pub(crate) crash: Option<u32>,
    /// How often everything that is in flight is answered at once, in percent.
    pub(crate) together: u32,
    /// Whether refreshes take long, and events come before what is under way.
    pub(crate) slow: bool,
}

impl Chaos {
    /// A random disturbance of a run over a world of `count` vertices.
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

    /// Nothing comes in between.
    pub(crate) fn none(rng: &mut Rng) -> Chaos {
        Chaos { together: [0, 20, 100][rng.usize(..3)], ..Chaos::default() }
    }
}
