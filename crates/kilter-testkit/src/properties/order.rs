//! Properties of the order of commands.

use kilter_engine::{Batch, Command, Disposition, ResourceId, Vertex};

use super::{Property, Violation, ensure};
use crate::observed::{Observed, Seen};

/// Checks that every parent has settled so that children may run.
pub(crate) fn parents_let_pass(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    let passes = |parent: &ResourceId| run.of(*parent).settled().is_some_and(Disposition::unblocks_dependents);
    match run.world.parents(vertex).find(|parent| !passes(parent)) {
        None => Ok(()),
        Some(parent) => {
            let stands = run.of(parent).settled();
            let what = format!("it is taken in hand while its parent {} has settled as {stands:?}", parent.slot());
            Err(Violation::at(Property::ParentsFirst, vertex, what))
        }
    }
}

/// Checks that the vertices of a batch are in manifest order.
pub(crate) fn batch_is_in_manifest_order(batch: &Batch) -> Result<(), Violation> {
    match batch.vertices.windows(2).find(|pair| pair[0] >= pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let what = format!("it comes before {} in a batch of group {:?}", pair[1].slot(), batch.group);
            Err(Violation::at(Property::ManifestOrder, pair[0], what))
        }
    }
}

/// Checks that the ready vertices of a group form one batch, and that single vertices have their own batches.
pub(crate) fn batches_are_whole<'a>(
    commands: &[Command],
    described: impl Fn(ResourceId) -> &'a Vertex,
) -> Result<(), Violation> {
    let mut whole = Vec::new();
    for command in commands {
        let (act, batch) = match command {
            Command::Check(batch) => (0, batch),
            Command::Apply(batch) => (1, batch),
            Command::Refresh(batch) => (2, batch),
            _ => continue,
        };
        let Some(first) = batch.vertices.first().copied() else { continue };
        let stranger = batch.vertices.iter().find(|vertex| described(**vertex).group != batch.group);
        ensure(stranger.is_none(), Property::Batches, first, || format!("{stranger:?} is of another group"))?;
        if batch.vertices.iter().any(|vertex| described(*vertex).single) {
            let count = batch.vertices.len();
            ensure(count == 1, Property::Batches, first, || format!("it is to be alone, in a batch of {count}"))?;
            continue;
        }
        let is_first = !whole.contains(&(act, batch.group));
        ensure(is_first, Property::Batches, first, || format!("its group {:?} is handed over in parts", batch.group))?;
        whole.push((act, batch.group));
    }
    Ok(())
}

/// Checks that no ready vertex is held back. So an earlier vertex never starts after a later one, and independent
/// branches continue.
pub(crate) fn nothing_ready_is_held_back(run: &Observed<'_>) -> Result<(), Violation> {
    let idle = |seen: &Seen| seen.flight.is_none() && seen.wake.is_none() && seen.settled().is_none();
    for vertex in run.world.graph.vertices().filter(|vertex| idle(run.of(*vertex))) {
        let waits = run.world.parents(vertex).any(|parent| run.of(parent).settled().is_none());
        ensure(waits, Property::Begins, vertex, || "it is ready and was not handed over".into())?;
    }
    Ok(())
}
