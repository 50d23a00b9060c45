//! Properties of calls: each needs a reason.

use kilter_engine::{CheckResult, RefreshToken, ResourceId};

use super::{Property, Violation, ensure};
use crate::journal::Journal;
use crate::observed::{Observed, RunMode};

/// Checks that a vertex has no other call in flight, and none when it settles.
pub(crate) fn nothing_is_in_flight(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    let flight = run.of(vertex).flight;
    ensure(flight.is_none(), Property::OneAtATime, vertex, || format!("{flight:?} is still under way"))
}

/// Checks that no call starts after an interrupt.
pub(crate) fn nothing_begins_after_an_interrupt(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    ensure(!run.interrupted, Property::Entitled, vertex, || "it is taken in hand after an interrupt".into())
}

/// Checks that an apply follows a valid check that found a difference, and that the vertex is not noop.
pub(crate) fn an_apply_follows_a_difference(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    let noop = run.world.vertex(vertex).noop;
    ensure(!noop, Property::Entitled, vertex, || "it is changed and only to be looked at".into())?;
    let found = run.of(vertex).found;
    let differs = found == Some(CheckResult::Differs);
    ensure(differs, Property::Entitled, vertex, || format!("it is changed after a check that found {found:?}"))?;
    ensure(run.mode != RunMode::Calm, Property::Calm, vertex, || "it is changed and has not drifted".into())
}

/// Checks that a refresh is pending and follows a check that found the vertex in sync.
pub(crate) fn refresh_follows_an_owed_refresh(
    run: &Observed<'_>,
    vertex: ResourceId,
    journal: &Journal,
) -> Result<(), Violation> {
    let told = run.world.vertex(vertex);
    ensure(!told.noop, Property::Entitled, vertex, || "it is refreshed and only to be looked at".into())?;
    ensure(told.refreshable, Property::Entitled, vertex, || "it is refreshed and does not act on that".into())?;
    let found = run.of(vertex).found;
    let in_sync = found == Some(CheckResult::InSync);
    ensure(in_sync, Property::Entitled, vertex, || format!("it is refreshed after a check that found {found:?}"))?;
    let owed = run.world.parents(vertex).any(|first| journal.owes(RefreshToken { first, second: vertex }));
    ensure(owed, Property::Entitled, vertex, || "it is refreshed and nothing is owed".into())?;
    ensure(run.mode != RunMode::Calm, Property::Calm, vertex, || "it is refreshed and nothing has changed".into())
}
