//! The system that a simulated run manages: what is in its state, and what goes wrong.

use fastrand::Rng;
use kilter_engine::{Machine, Verdict, VertexId};

use crate::world::{World, chance, temper};

/// How something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing happens and a failure is reported.
    Clean,
    /// Everything happens and a failure is reported.
    Acts,
    /// Something happens, not what was asked for, and a failure is reported.
    Half,
    /// Nothing happens and success is reported.
    Lies,
}

/// What a provider says of an apply or a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was done.
    Done {
        /// Whether the change served an owed refresh too.
        refreshed: bool,
    },
    /// It was not.
    Failed,
}

/// For ever, as a number of failures.
const ALWAYS: u32 = u32::MAX;

/// One managed thing.
#[derive(Clone, Debug)]
struct Part {
    in_sync: bool,
    /// Whether it cannot be told what it should be.
    unknown: bool,
    /// Failures that are left of a check, an apply and a refresh.
    bad_checks: u32,
    bad_applies: u32,
    bad_refreshes: u32,
    fault: Fault,
    /// How often an apply serves a refresh too, in percent.
    serves: u32,
    /// When it was really changed last; 0 for never.
    changed: u64,
    /// When its last successful refresh began; 0 for never.
    served: u64,
}

/// The managed things, and when they were changed and refreshed for real.
#[derive(Clone, Debug)]
pub(crate) struct System {
    parts: Vec<Part>,
}

fn spend(failures: &mut u32) -> bool {
    let fails = *failures > 0;
    if *failures != ALWAYS {
        *failures = failures.saturating_sub(1);
    }
    fails
}

fn failures(rng: &mut Rng, percent: u32) -> u32 {
    match (chance(rng, percent), rng.u32(..4)) {
        (false, _) => 0,
        (true, 0) => ALWAYS,
        (true, _) => rng.u32(1..4),
    }
}

/// What is told of a check: half of what fails behind an interrupt was ended by it.
pub(crate) fn told(verdict: Verdict, machine: &Machine, rng: &mut Rng) -> Verdict {
    match verdict {
        Verdict::Failed if machine.is_interrupted() && rng.bool() => Verdict::Ended,
        other => other,
    }
}

impl System {
    /// A random system for a world.
    pub(crate) fn random(rng: &mut Rng, world: &World) -> System {
        let [drift, unknown, checks, applies, refreshes, serves] = [(); 6].map(|()| temper(rng));
        let mut part = || Part {
            in_sync: !chance(rng, drift + 20),
            unknown: chance(rng, unknown / 2),
            bad_checks: failures(rng, checks),
            bad_applies: failures(rng, applies),
            bad_refreshes: failures(rng, refreshes),
            fault: [Fault::Clean, Fault::Acts, Fault::Half, Fault::Lies][rng.usize(..4)],
            serves,
            changed: 0,
            served: 0,
        };
        System { parts: world.graph.vertices().map(|_| part()).collect() }
    }

    fn part(&mut self, vertex: VertexId) -> &mut Part {
        &mut self.parts[vertex.0 as usize]
    }

    /// Everything works from now on, and everything is known.
    pub(crate) fn heal(&mut self) {
        for part in &mut self.parts {
            part.unknown = false;
            part.bad_checks = 0;
            part.bad_applies = 0;
            part.bad_refreshes = 0;
        }
    }

    /// Somebody else takes a part out of its state.
    pub(crate) fn drift(&mut self, vertex: VertexId) {
        self.part(vertex).in_sync = false;
    }

    /// Somebody else brings a part to its state.
    pub(crate) fn mend(&mut self, vertex: VertexId) {
        self.part(vertex).in_sync = true;
    }

    /// Whether a part is in its state.
    pub(crate) fn is_in_sync(&self, vertex: VertexId) -> bool {
        self.parts[vertex.0 as usize].in_sync
    }

    /// Whether a part fails at something for ever.
    pub(crate) fn is_hopeless(&self, vertex: VertexId) -> bool {
        let part = &self.parts[vertex.0 as usize];
        [part.bad_checks, part.bad_applies, part.bad_refreshes].contains(&ALWAYS)
    }

    /// When a part was really changed, or a refresh acted on it; 0 for never.
    pub(crate) fn changed(&self, vertex: VertexId) -> u64 {
        self.parts[vertex.0 as usize].changed
    }

    /// When the last successful refresh of a part began; 0 for never.
    pub(crate) fn served(&self, vertex: VertexId) -> u64 {
        self.parts[vertex.0 as usize].served
    }

    /// What a check says now.
    pub(crate) fn check(&mut self, vertex: VertexId) -> Verdict {
        let part = self.part(vertex);
        match (spend(&mut part.bad_checks), part.unknown, part.in_sync) {
            (true, ..) => Verdict::Failed,
            (_, true, _) => Verdict::Unknown,
            (.., true) => Verdict::InSync,
            (.., false) => Verdict::Differs,
        }
    }

    /// An apply that began at `began` happens at `now`.
    pub(crate) fn apply(&mut self, rng: &mut Rng, vertex: VertexId, began: u64, now: u64) -> Heard {
        let part = self.part(vertex);
        let fault = spend(&mut part.bad_applies).then_some(part.fault);
        match fault {
            Some(Fault::Clean | Fault::Lies) => {}
            Some(Fault::Half) => part.changed = now,
            Some(Fault::Acts) | None => {
                part.in_sync = true;
                part.changed = now;
            }
        }
        match fault {
            Some(Fault::Lies) => Heard::Done { refreshed: false },
            Some(_) => Heard::Failed,
            None => {
                let refreshed = chance(rng, part.serves);
                if refreshed {
                    part.served = began;
                }
                Heard::Done { refreshed }
            }
        }
    }

    /// A refresh that began at `began` happens at `now`. It is a change for what it notifies itself.
    pub(crate) fn refresh(&mut self, vertex: VertexId, began: u64, now: u64) -> Heard {
        let part = self.part(vertex);
        if !spend(&mut part.bad_refreshes) {
            part.changed = now;
            part.served = began;
            return Heard::Done { refreshed: true };
        }
        if matches!(part.fault, Fault::Acts | Fault::Half) {
            part.changed = now;
        }
        Heard::Failed
    }
}
