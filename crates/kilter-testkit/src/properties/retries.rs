//! Properties of retries.

use kilter_engine::{Disposition, ResourceId, Timestamp};

use super::{Property, Violation, ensure};
use crate::observed::Observed;

/// Checks that a failed vertex waits for the configured delay, while retries are left.
pub(crate) fn waits_as_told(run: &Observed<'_>, vertex: ResourceId, at: Timestamp) -> Result<(), Violation> {
    let (seen, told) = (run.of(vertex), run.world.vertex(vertex));
    let tries = told.retry < 0 || seen.failures <= told.retry.unsigned_abs();
    ensure(tries, Property::Retries, vertex, || {
        format!("it is to be tried again after {} failures, {} retries were asked for", seen.failures, told.retry)
    })?;
    let due = Timestamp(seen.answered.0 + told.delay);
    ensure(at == due, Property::Retries, vertex, || format!("it waits until {}, not {}", at.0, due.0))
}

/// Checks that no call for a failed vertex starts during its delay.
pub(crate) fn its_time_has_come(run: &Observed<'_>, vertex: ResourceId) -> Result<(), Violation> {
    let wake = run.of(vertex).wake;
    ensure(wake.is_none(), Property::Retries, vertex, || format!("it is taken in hand before its time {wake:?}"))
}

/// Checks that a vertex fails only when its retries are used up.
pub(crate) fn fails_after_its_tries(
    run: &Observed<'_>,
    vertex: ResourceId,
    settlement: Disposition,
) -> Result<(), Violation> {
    let (seen, told) = (run.of(vertex), run.world.vertex(vertex));
    if settlement != Disposition::Failed || run.interrupted {
        return Ok(());
    }
    let used_up = told.retry >= 0 && seen.failures == told.retry.unsigned_abs() + 1;
    ensure(used_up, Property::Retries, vertex, || {
        format!("it has failed after {} failures, {} retries were asked for", seen.failures, told.retry)
    })
}
