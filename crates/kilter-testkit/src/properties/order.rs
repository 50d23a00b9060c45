//! What comes before what.

use kilter_engine::{Batch, Settlement, VertexId};

use super::{Property, Violation, ensure};
use crate::observed::{Observed, Seen};

/// Nothing is done to a vertex before every parent has settled and lets pass.
pub(crate) fn parents_let_pass(run: &Observed<'_>, vertex: VertexId) -> Result<(), Violation> {
    let passes = |parent: &VertexId| run.of(*parent).settled().is_some_and(Settlement::lets_pass);
    match run.world.parents(vertex).find(|parent| !passes(parent)) {
        None => Ok(()),
        Some(parent) => {
            let stands = run.of(parent).settled();
            let what = format!("it is taken in hand while its parent {} has settled as {stands:?}", parent.0);
            Err(Violation::at(Property::ParentsFirst, vertex, what))
        }
    }
}

/// The vertices of a batch are in manifest order.
pub(crate) fn batch_is_in_manifest_order(batch: &Batch) -> Result<(), Violation> {
    match batch.vertices.windows(2).find(|pair| pair[0] >= pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let what = format!("it comes before {} in a batch of group {}", pair[1].0, batch.group);
            Err(Violation::at(Property::ManifestOrder, pair[0], what))
        }
    }
}

/// Of what is ready nothing is held back: an earlier vertex is never handed over after a later one,
/// and independent branches go on.
pub(crate) fn nothing_ready_is_held_back(run: &Observed<'_>) -> Result<(), Violation> {
    let idle = |seen: &Seen| seen.flight.is_none() && seen.wake.is_none() && seen.settled().is_none();
    for vertex in run.world.graph.vertices().filter(|vertex| idle(run.of(*vertex))) {
        let waits = run.world.parents(vertex).any(|parent| run.of(parent).settled().is_none());
        ensure(waits, Property::ManifestOrder, vertex, || "it is ready and was not handed over".into())?;
    }
    Ok(())
}
