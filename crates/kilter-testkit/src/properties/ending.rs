//! Properties of the end of a run: it ends, and its settlements are true.

use kilter_engine::{CheckResult, Disposition, Machine, ResourceId};

use super::{Property, Violation, ensure};
use crate::observed::Observed;
use crate::system::System;

/// Checks that a vertex settles once per start.
pub(crate) fn settles_once(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    let seen = run.of(vertex);
    ensure(seen.settles <= seen.retakes, Property::Ending, vertex, || {
        format!("it settles once more, after {} times", seen.settles)
    })
}

/// Checks that a check is the first one, or follows a failure, an event or the restart of a parent. So a run must
/// end.
pub(crate) fn a_check_has_a_reason(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    let seen = run.of(vertex);
    let parents: u32 = run.world.parents(vertex).map(|parent| run.of(parent).retakes).sum();
    let reasons = 1 + seen.failures + seen.events + parents;
    ensure(seen.checks < reasons, Property::Ending, vertex, || {
        format!("it is checked once more, after {} times for {reasons} reasons", seen.checks)
    })?;
    ensure(seen.settled().is_none(), Property::Ending, vertex, || {
        format!("it is checked and has settled as {:?}", seen.settlement)
    })
}

/// Checks that a settlement agrees with the answer to the last check, apply or refresh.
pub(crate) fn the_settlement_says_what_was_found(
    run: &Observed<'_>,
    vertex: ResourceId,
    settlement: Disposition,
) -> Result<(), Violation> {
    let (seen, told) = (run.of(vertex), run.world.vertex(vertex));
    let in_sync = seen.found == Some(CheckResult::InSync);
    let agrees = match settlement {
        Disposition::InSync => in_sync && !seen.changed && !seen.refreshed,
        Disposition::Changed => in_sync && seen.changed && !told.noop,
        Disposition::Refreshed => in_sync && !seen.changed && seen.refreshed && !told.noop,
        Disposition::WouldChange => seen.found == Some(CheckResult::Differs) && told.noop,
        Disposition::WouldRefresh => in_sync && told.refreshable && !seen.changed && !seen.refreshed,
        Disposition::Unknown => seen.found == Some(CheckResult::Unknown) || in_sync && may_be_refreshed(run, vertex),
        Disposition::Failed => seen.failures > 0,
        Disposition::Blocked(_) => true,
        Disposition::Interrupted => run.interrupted,
    };
    ensure(agrees, Property::Ending, vertex, || format!("it settles as {settlement:?} and {:?} was found", seen.found))
}

/// Checks at the end that each vertex has settled, and that the machine agrees with its commands.
pub(crate) fn everything_has_settled(run: &Observed<'_>, machine: &Machine) -> Result<(), Violation> {
    for vertex in run.world.graph.vertices() {
        let seen = run.of(vertex);
        let once = seen.settles == seen.retakes + 1;
        ensure(once, Property::Ending, vertex, || {
            format!("it settled {} times and was taken up anew {} times", seen.settles, seen.retakes)
        })?;
        let told = machine.settlement(vertex);
        ensure(told == seen.settlement, Property::Ending, vertex, || {
            format!("it was said to settle as {:?} and is {told:?}", seen.settlement)
        })?;
    }
    Ok(())
}

/// Checks at the end of a complete run that vertices reported as in sync really are, also after events.
pub(crate) fn what_is_said_to_be_in_its_state_is(run: &Observed<'_>, system: &System) -> Result<(), Violation> {
    use Disposition::{Changed, InSync, Refreshed, WouldRefresh};
    for vertex in run.world.graph.vertices() {
        let settled = run.of(vertex).settled();
        let claims = matches!(settled, Some(InSync | Changed | Refreshed | WouldRefresh));
        ensure(!claims || system.is_in_sync(vertex), Property::Ending, vertex, || {
            format!("it has settled as {settled:?} and is not in its state: an event was lost")
        })?;
    }
    Ok(())
}

/// Returns true if a noop vertex acts on a refresh that an unknown vertex may send.
fn may_be_refreshed(run: &Observed<'_>, vertex: ResourceId) -> bool {
    let told = run.world.vertex(vertex);
    let is_unknown = |parent| run.of(parent).settlement == Some(Disposition::Unknown);
    told.noop && told.refreshable && run.world.notifying(vertex).any(|edge| is_unknown(edge.from))
}
