//! Properties of failures and blocked vertices.

use kilter_engine::{Disposition, ResourceId};

use super::{Property, Violation, ensure};
use crate::observed::Observed;

/// Checks that a blocked vertex names the failed ancestor that blocked it first. Proof by induction: the first
/// parent that failed or was blocked is that ancestor, or names it.
pub(crate) fn the_blocker_is_a_failed_ancestor(
    run: &Observed<'_>,
    vertex: ResourceId,
    settlement: Disposition,
) -> Result<(), Violation> {
    let Disposition::Blocked(by) = settlement else { return Ok(()) };
    let failed = run.seen.get(by.slot()).and_then(|seen| seen.settled()) == Some(Disposition::Failed);
    ensure(failed, Property::Blocking, vertex, || format!("it is blocked by {}, which has not failed", by.slot()))?;
    let blamed = |parent| match run.of(parent).settled() {
        Some(Disposition::Failed) => Some((run.of(parent).settled_at, parent)),
        Some(Disposition::Blocked(by)) => Some((run.of(parent).settled_at, by)),
        _ => None,
    };
    let first = run.world.parents(vertex).filter_map(blamed).min().map(|(_, blamed)| blamed);
    ensure(first == Some(by), Property::Blocking, vertex, || {
        format!("it is blocked by {}, {first:?} is what its parents heard of first", by.slot())
    })
}

/// Checks that exactly the descendants of failures are blocked. Exception: a vertex that had started before the
/// failure, which requires that a parent was restarted.
pub(crate) fn blocked_exactly_behind_failures(run: &Observed<'_>) -> Result<(), Violation> {
    for vertex in run.world.graph.vertices() {
        let seen = run.of(vertex);
        match seen.settled() {
            Some(Disposition::Blocked(_)) => continue,
            Some(Disposition::Interrupted) if !run.interrupted => {
                return Err(Violation::at(
                    Property::Blocking,
                    vertex,
                    "it was not its turn and nothing interrupted it",
                ));
            }
            _ => {}
        }
        for parent in run.world.parents(vertex) {
            let before = run.of(parent);
            if !matches!(before.settled(), Some(Disposition::Failed | Disposition::Blocked(_))) {
                continue;
            }
            let began = seen.began > 0 && seen.began < before.settled_at && before.retakes > 0;
            ensure(began, Property::Blocking, vertex, || {
                format!("it settled as {:?} behind {}, which is {:?}", seen.settled(), parent.slot(), before.settled())
            })?;
        }
    }
    Ok(())
}
