//! A plan and the apply after it.

use kilter_engine::{Settlement, VertexId};

use super::{Property, Violation, ensure};
use crate::journal::Journal;
use crate::observed::Observed;

/// What a plan said of each vertex is what an apply that met no failure did.
pub(crate) fn the_apply_did_what_the_plan_showed(
    planned: &[Option<Settlement>],
    applied: &[Option<Settlement>],
) -> Result<(), Violation> {
    for (at, (plan, apply)) in planned.iter().zip(applied).enumerate() {
        let same = plan.map(shown) == apply.map(shown);
        ensure(same, Property::Plan, VertexId(at as u32), || format!("the plan showed {plan:?}, then came {apply:?}"))?;
    }
    Ok(())
}

/// What an apply did with batches is what it does without.
pub(crate) fn batches_change_nothing(
    together: &[Option<Settlement>],
    alone: &[Option<Settlement>],
) -> Result<(), Violation> {
    for (at, (together, alone)) in together.iter().zip(alone).enumerate() {
        let what = || format!("in a batch it came to {together:?}, alone to {alone:?}");
        ensure(together == alone, Property::Batches, VertexId(at as u32), what)?;
    }
    Ok(())
}

/// A vertex that is in its state is shown as one that would be refreshed exactly when it acts on
/// that and is owed a refresh, or would be by a parent that is only looked at.
pub(crate) fn a_refresh_is_shown_where_it_would_come(run: &Observed<'_>, journal: &Journal) -> Result<(), Violation> {
    let would = |settled| matches!(settled, Some(Settlement::WouldChange | Settlement::WouldRefresh));
    for vertex in run.world.graph.vertices().filter(|vertex| run.world.vertex(*vertex).refreshable) {
        let seen = run.of(vertex);
        let shown = match seen.settled() {
            Some(Settlement::InSync) => false,
            Some(Settlement::WouldRefresh) => true,
            _ => continue,
        };
        if run.world.parents(vertex).any(|parent| run.of(parent).settled_at > seen.began) {
            continue;
        }
        let mut notifying = run.world.notifying(vertex);
        let comes = notifying.any(|edge| journal.owes(Observed::token(edge)) || would(run.of(edge.first).settled()));
        ensure(shown == comes, Property::Plan, vertex, || format!("it settled as {:?}", seen.settled()))?;
    }
    Ok(())
}

/// How a plan shows a settlement.
fn shown(settlement: Settlement) -> Settlement {
    match settlement {
        Settlement::Changed => Settlement::WouldChange,
        Settlement::Refreshed => Settlement::WouldRefresh,
        other => other,
    }
}
