//! Simulated system that a run manages, with its failures.

use fastrand::Rng;
use kilter_engine::{CheckResult, Machine, ResourceId};

use crate::world::{GeneratedGraph, chance, temper};

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No effect, and a failure is reported.
    Clean,
    /// Full effect, but a failure is reported.
    Acts,
    /// A wrong effect, and a failure is reported.
    Half,
    /// No effect, but success is reported.
    Lies,
}

/// Result of an apply or a refresh, as the provider reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyAnswer {
    Done {
        /// True if the change also served a pending refresh.
        refreshed: bool,
    },
    Failed,
}

/// Number of failures that means "always".
const ALWAYS: u32 = u32::MAX;

/// A managed object.
#[derive(Clone, Debug)]
struct SystemPart {
    in_sync: bool,
    /// True if its desired state is unknown.
    unknown: bool,
    /// Remaining failures of checks, applies and refreshes.
    bad_checks: u32,
    bad_applies: u32,
    bad_refreshes: u32,
    fault: FailureKind,
    /// Probability that an apply also serves a refresh, in percent.
    serves: u32,
    /// Tick of the last real change; 0 for never.
    changed: u64,
    /// Tick of the start of the last successful refresh; 0 for never.
    served: u64,
}

/// All managed objects, with the times of their real changes and refreshes.
#[derive(Clone, Debug)]
pub(crate) struct System {
    parts: Vec<SystemPart>,
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

/// Returns the reported result of a check. After an interrupt, half of the failed checks count as cancelled.
pub(crate) fn reported(verdict: CheckResult, machine: &Machine, rng: &mut Rng) -> CheckResult {
    match verdict {
        CheckResult::Failed if machine.is_interrupted() && rng.bool() => CheckResult::Cancelled,
        other => other,
    }
}

impl System {
    /// Creates a random system for a world.
    pub(crate) fn random(rng: &mut Rng, world: &GeneratedGraph) -> System {
        let [drift, unknown, checks, applies, refreshes, serves] = [(); 6].map(|()| temper(rng));
        let mut part = || SystemPart {
            in_sync: !chance(rng, drift + 20),
            unknown: chance(rng, unknown / 2),
            bad_checks: failures(rng, checks),
            bad_applies: failures(rng, applies),
            bad_refreshes: failures(rng, refreshes),
            fault: [FailureKind::Clean, FailureKind::Acts, FailureKind::Half, FailureKind::Lies][rng.usize(..4)],
            serves,
            changed: 0,
            served: 0,
        };
        System { parts: world.graph.vertices().map(|_| part()).collect() }
    }

    fn part(&mut self, vertex: ResourceId) -> &mut SystemPart {
        &mut self.parts[vertex.slot()]
    }

    /// Removes all failures and unknown states.
    pub(crate) fn heal(&mut self) {
        for part in &mut self.parts {
            part.unknown = false;
            part.bad_checks = 0;
            part.bad_applies = 0;
            part.bad_refreshes = 0;
        }
    }

    /// Changes a part from outside, so that it is no longer in sync.
    pub(crate) fn drift(&mut self, vertex: ResourceId) {
        self.part(vertex).in_sync = false;
    }

    /// Brings a part in sync from outside.
    pub(crate) fn repair(&mut self, vertex: ResourceId) {
        self.part(vertex).in_sync = true;
    }

    /// Returns true if a part is in sync.
    pub(crate) fn is_in_sync(&self, vertex: ResourceId) -> bool {
        self.parts[vertex.slot()].in_sync
    }

    /// Returns true if an operation on a part always fails.
    pub(crate) fn is_hopeless(&self, vertex: ResourceId) -> bool {
        let part = &self.parts[vertex.slot()];
        [part.bad_checks, part.bad_applies, part.bad_refreshes].contains(&ALWAYS)
    }

    /// Returns the time of the last change of a part, or of a refresh with an effect; 0 for never.
    pub(crate) fn changed(&self, vertex: ResourceId) -> u64 {
        self.parts[vertex.slot()].changed
    }

    /// Returns the start of the last successful refresh of a part; 0 for never.
    pub(crate) fn served(&self, vertex: ResourceId) -> u64 {
        self.parts[vertex.slot()].served
    }

    /// Returns the result of a check.
    pub(crate) fn check(&mut self, vertex: ResourceId) -> CheckResult {
        let part = self.part(vertex);
        match (spend(&mut part.bad_checks), part.unknown, part.in_sync) {
            (true, ..) => CheckResult::Failed,
            (_, true, _) => CheckResult::Unknown,
            (.., true) => CheckResult::InSync,
            (.., false) => CheckResult::Differs,
        }
    }

    /// Performs an apply that started at `began` and takes effect at `now`.
    pub(crate) fn apply(&mut self, rng: &mut Rng, vertex: ResourceId, began: u64, now: u64) -> ApplyAnswer {
        let part = self.part(vertex);
        let fault = spend(&mut part.bad_applies).then_some(part.fault);
        match fault {
            Some(FailureKind::Clean | FailureKind::Lies) => {}
            Some(FailureKind::Half) => part.changed = now,
            Some(FailureKind::Acts) | None => {
                part.in_sync = true;
                part.changed = now;
            }
        }
        match fault {
            Some(FailureKind::Lies) => ApplyAnswer::Done { refreshed: false },
            Some(_) => ApplyAnswer::Failed,
            None => {
                let refreshed = chance(rng, part.serves);
                if refreshed {
                    part.served = began;
                }
                ApplyAnswer::Done { refreshed }
            }
        }
    }

    /// Performs a refresh that started at `began` and takes effect at `now`. It counts as a change for the vertices
    /// that the part notifies.
    pub(crate) fn refresh(&mut self, vertex: ResourceId, began: u64, now: u64) -> ApplyAnswer {
        let part = self.part(vertex);
        if !spend(&mut part.bad_refreshes) {
            part.changed = now;
            part.served = began;
            return ApplyAnswer::Done { refreshed: true };
        }
        if matches!(part.fault, FailureKind::Acts | FailureKind::Half) {
            part.changed = now;
        }
        ApplyAnswer::Failed
    }
}
