//! Properties of a plan and the following apply.

use kilter_engine::{Disposition, ResourceId};

use super::{Property, Violation, ensure};
use crate::journal::Journal;
use crate::observed::Observed;

/// Checks that an apply without failures makes the changes that the plan showed.
pub(crate) fn the_apply_did_what_the_plan_showed(
    planned: &[Option<Disposition>],
    applied: &[Option<Disposition>],
) -> Result<(), Violation> {
    for (at, (plan, apply)) in planned.iter().zip(applied).enumerate() {
        let same = plan.map(shown) == apply.map(shown);
        ensure(same, Property::Plan, ResourceId::first(at as u32), || {
            format!("the plan showed {plan:?}, then came {apply:?}")
        })?;
    }
    Ok(())
}

/// Checks that an apply with batches has the same result as without.
pub(crate) fn batches_change_nothing(
    together: &[Option<Disposition>],
    alone: &[Option<Disposition>],
) -> Result<(), Violation> {
    for (at, (together, alone)) in together.iter().zip(alone).enumerate() {
        let what = || format!("in a batch it came to {together:?}, alone to {alone:?}");
        ensure(together == alone, Property::Batches, ResourceId::first(at as u32), what)?;
    }
    Ok(())
}

/// Checks the refreshes that a plan shows for vertices in sync. A vertex must handle refreshes, and either have a
/// pending refresh or a noop parent that would send one.
pub(crate) fn a_refresh_is_shown_where_it_would_come(run: &Observed<'_>, journal: &Journal) -> Result<(), Violation> {
    let would = |settled| matches!(settled, Some(Disposition::WouldChange | Disposition::WouldRefresh));
    for vertex in run.world.graph.vertices().filter(|vertex| run.world.vertex(*vertex).refreshable) {
        let seen = run.of(vertex);
        let shown = match seen.settled() {
            Some(Disposition::InSync) => false,
            Some(Disposition::WouldRefresh) => true,
            _ => continue,
        };
        if run.world.parents(vertex).any(|parent| run.of(parent).settled_at > seen.began) {
            continue;
        }
        let mut notifying = run.world.notifying(vertex);
        let comes = notifying.any(|edge| journal.owes(Observed::token(edge)) || would(run.of(edge.from).settled()));
        ensure(shown == comes, Property::Plan, vertex, || format!("it settled as {:?}", seen.settled()))?;
    }
    Ok(())
}

/// Returns the settlement that a plan shows for a settlement of an apply.
fn shown(settlement: Disposition) -> Disposition {
    match settlement {
        Disposition::Changed => Disposition::WouldChange,
        Disposition::Refreshed => Disposition::WouldRefresh,
        other => other,
    }
}
