//! Laws about several changes in one call.

use kilter_model::{Change, Difference, Outcome, State};

use super::reading::declared;
use crate::conformance::fingerprint;
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, not_applicable, untried,
};
use crate::conformance::subject::Unsupported;
use kilter_provider::compare;
use kilter_provider::{Batch, Mode};

/// A pending change of a resource.
struct PendingChange {
    declared: DeclaredCase,
    is: State,
    differences: Vec<Difference>,
}

impl PendingChange {
    fn of(world: &ProviderUnderTest, declared: DeclaredCase) -> Result<PendingChange, EarlyEnd> {
        // A specimen that must fail may be unreadable.
        let is = world.see(&declared).unwrap_or_else(|_| State::absent(declared.name.clone()));
        let differences = compare(world.provider(), &world.cx(), &is, &declared.should)
            .or_else(|e| untried(e.message.to_string()))?;
        Ok(PendingChange { declared, is, differences })
    }

    fn change(&self) -> Change<'_> {
        Change::new(&self.declared.name, &self.is, Some(&self.declared.should), &self.differences)
    }
}

fn set(world: &ProviderUnderTest, ways: &[PendingChange]) -> Vec<Outcome> {
    let changes: Vec<Change<'_>> = ways.iter().map(PendingChange::change).collect();
    world.set(&changes, Mode::Apply)
}

/// Returns the changes of all specimens. The failing specimen, if any, comes first.
fn ways(world: &ProviderUnderTest) -> Result<Vec<PendingChange>, EarlyEnd> {
    let mut all = Vec::new();
    if let Some(failing) = world.subject.failing_specimen() {
        let failing = world.complete(failing, failing.first()).or_else(untried)?;
        // A value without a canonical form is used unchanged.
        all.push(world.canonical(failing.clone()).unwrap_or(failing));
    }
    all.extend(declared(world)?);
    all.into_iter().map(|one| PendingChange::of(world, one)).collect()
}

pub(super) fn each_is_answered(bench: &Harness) -> Trial {
    let world = bench.world()?;
    let ways = ways(&world)?;
    let outcomes = set(&world, &ways);
    if outcomes.len() != ways.len() {
        return broken(format!("{} changes, {} outcomes", ways.len(), outcomes.len()));
    }
    for (way, outcome) in ways.iter().zip(&outcomes) {
        let is_so = world.check(&way.declared).is_ok_and(|(_, left)| left.is_empty());
        match &outcome.failure {
            Some(failure) if is_so => {
                return broken(format!("{} is as declared, but its change failed: {failure}", way.declared.name));
            }
            Some(failure) if failure.trim().is_empty() => {
                return broken(format!("the change of {} failed without a word", way.declared.name));
            }
            None if !is_so => {
                return broken(format!("{} is not as declared, but its change did not fail", way.declared.name));
            }
            _ => {}
        }
    }
    Ok(None)
}

pub(super) fn one_by_one(bench: &Harness) -> Trial {
    let world = bench.world()?;
    if world.provider().capabilities().scheduling().batch_size() == Batch::One {
        return not_applicable("the provider accepts one change at a time");
    }
    let [world, made] = bench.fingerprinted_one_by_one()?;
    let ways: Vec<PendingChange> =
        declared(&world)?.into_iter().map(|one| PendingChange::of(&world, one)).collect::<Result<_, _>>()?;
    if ways.len() < 2 {
        return untried("the subject has only one specimen");
    }
    set(&world, &ways);
    match fingerprint::unlike(&made.subject.fingerprint(), &world.subject.fingerprint()) {
        None => Ok(None),
        Some(change) => broken(format!("the batch changed the fingerprint of the sandbox{change}")),
    }
}

pub(super) fn failure_is_alone(bench: &Harness) -> Trial {
    let world = bench.world()?;
    world.needs(Unsupported::Failing)?;
    if world.subject.failing_specimen().is_none() {
        return untried("the subject has neither a failing change nor a reason for its absence");
    }
    let ways = ways(&world)?;
    set(&world, &ways);
    if world.check(&ways[0].declared).is_ok_and(|(_, left)| left.is_empty()) {
        return untried(format!("{} was to fail, but is as declared", ways[0].declared.name));
    }
    for way in &ways[1..] {
        match world.check(&way.declared) {
            Ok((_, left)) if left.is_empty() => {}
            _ => return broken(format!("{} was not made in a call in which another change failed", way.declared.name)),
        }
    }
    Ok(None)
}
