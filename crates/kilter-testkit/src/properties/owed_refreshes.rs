//! Properties of pending refreshes.

use kilter_engine::{Machine, RefreshToken, ResourceId};

use super::{Property, Violation, ensure};
use crate::journal::Journal;
use crate::observed::{Observed, RunMode};
use crate::system::System;

/// Checks that refreshes become pending only along notify edges to vertices that handle them.
pub(crate) fn owes_only_what_acts(run: &Observed<'_>, tokens: &[RefreshToken]) -> Result<(), Violation> {
    writes_nothing_when_calm(run, tokens, "is owed a refresh")?;
    for token in tokens {
        let known = run.world.refreshing(token.first).any(|edge| edge.to == token.second);
        ensure(known, Property::Refreshes, token.second, || format!("it cannot owe {} to it", token.first.slot()))?;
    }
    Ok(())
}

/// Checks that only pending refreshes are paid, and only if a refresh started after the last change.
pub(crate) fn pays_only_what_was_served(
    run: &Observed<'_>,
    tokens: &[RefreshToken],
    journal: &Journal,
    system: &System,
) -> Result<(), Violation> {
    writes_nothing_when_calm(run, tokens, "is paid a refresh")?;
    for token in tokens {
        let owed = journal.owes(*token);
        let RefreshToken { first, second } = *token;
        ensure(owed, Property::Refreshes, second, || format!("it is paid what {} did not owe", first.slot()))?;
        let served = system.changed(first) <= system.served(second) || !run.world.vertex(second).refreshable;
        ensure(served, Property::Refreshes, second, || {
            format!("the change of {} came after the refresh that pays for it began", first.slot())
        })?;
    }
    Ok(())
}

fn writes_nothing_when_calm(run: &Observed<'_>, tokens: &[RefreshToken], what: &str) -> Result<(), Violation> {
    match tokens.first() {
        Some(token) if matches!(run.mode, RunMode::Plan | RunMode::Calm) => {
            Err(Violation::at(Property::Calm, token.second, format!("it {what} in a run that has nothing to do")))
        }
        _ => Ok(()),
    }
}

/// Checks that the refreshes of a change are in the journal.
pub(crate) fn is_journalled(run: &Observed<'_>, vertex: ResourceId, journal: &Journal) -> Result<(), Violation> {
    match run.world.refreshing(vertex).find(|edge| !journal.owes(Observed::token(edge))) {
        None => Ok(()),
        Some(edge) => {
            let what = format!("it is changed before what it owes to {} is in the journal", edge.to.slot());
            Err(Violation::at(Property::Refreshes, vertex, what))
        }
    }
}

/// Checks that the replayed journal equals the pending refreshes of the machine.
pub(crate) fn the_journal_is_what_is_owed(machine: &Machine, journal: &Journal) -> Result<(), Violation> {
    let owed = machine.owed();
    if journal.is_exactly(&owed) {
        return Ok(());
    }
    let what = format!("the machine owes {owed:?}, the journal {:?}", journal.owed());
    Err(Violation::of(Property::Refreshes, what))
}

/// Checks that refreshes served by an apply or a refresh are no longer pending, unless they became pending again
/// since its start.
pub(crate) fn what_was_served_is_paid(run: &Observed<'_>, journal: &Journal) -> Result<(), Violation> {
    for second in run.world.graph.vertices() {
        let unpaid = run.of(second).served.iter().find(|first| journal.owes(RefreshToken { first: **first, second }));
        ensure(unpaid.is_none(), Property::Refreshes, second, || {
            format!("it was refreshed and {unpaid:?} still owes")
        })?;
    }
    Ok(())
}

/// Checks, after a run without failures, that each vertex was refreshed after the last change of each notifier.
pub(crate) fn every_change_was_followed_by_a_refresh(run: &Observed<'_>, system: &System) -> Result<(), Violation> {
    for vertex in run.world.graph.vertices() {
        for edge in run.world.refreshing(vertex).filter(|edge| !run.world.vertex(edge.to).noop) {
            let served = system.changed(vertex) <= system.served(edge.to);
            ensure(served, Property::Refreshes, edge.to, || {
                format!("it was never refreshed after the change of {}", vertex.slot())
            })?;
        }
    }
    Ok(())
}
