//! Laws about removal.

use super::reading::{declared, seen};
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, not_applicable, untried,
};
use crate::conformance::subject::Unsupported;

/// Returns all specimens declared as absent.
///
/// # Errors
/// If the type has no `ensure: absent`.
fn absences(world: &ProviderUnderTest) -> Result<Vec<DeclaredCase>, EarlyEnd> {
    let absences = world.subject.specimens().iter().map(|specimen| world.absence(specimen));
    let absences: Vec<DeclaredCase> = absences.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    if absences.is_empty() { not_applicable("the type has no `ensure: absent`") } else { Ok(absences) }
}

pub(super) fn ensure_absent(bench: &Harness) -> Trial {
    let world = bench.made()?;
    world.needs(Unsupported::Removal)?;
    for absent in absences(&world)? {
        match world.converge(&absent) {
            Err(why) => return broken(why),
            Ok(false) => return broken(format!("{} exists, and its absence is in sync", absent.name)),
            Ok(true) => gone(&world, &absent)?,
        }
    }
    Ok(None)
}

fn gone(world: &ProviderUnderTest, declared: &DeclaredCase) -> Result<(), EarlyEnd> {
    match world.read_removed(declared) {
        Ok(state) if !state.exists => Ok(()),
        Ok(_) => broken(format!("{} still exists", declared.name)),
        Err(why) => broken(format!("{} cannot be read since it was removed: {why}", declared.name)),
    }
}

pub(super) fn no_should(bench: &Harness) -> Trial {
    let world = bench.made()?;
    for one in declared(&world)? {
        let before = seen(&world, &one)?;
        match (world.remove(&before), world.subject.reason(Unsupported::Removal)) {
            (Ok(()), None) => gone(&world, &one)?,
            (Err(why), None) => return broken(format!("{} was not removed: {why}", one.name)),
            (Ok(()), Some(_)) => {
                return broken(format!("{} cannot be removed, but the change without `should` did not fail", one.name));
            }
            (Err(_), Some(_)) if seen(&world, &one)? != before => {
                return broken(format!("{} is another one since its removal failed", one.name));
            }
            (Err(_), Some(_)) => {}
        }
    }
    Ok(None)
}

pub(super) fn absent_stays(bench: &Harness) -> Trial {
    let world = bench.world()?;
    for absent in absences(&world)? {
        match world.check(&absent) {
            Err(why) => return broken(format!("{} does not exist and cannot be checked: {why}", absent.name)),
            Ok((state, _)) if state.exists => return untried(format!("{} exists in a fresh sandbox", absent.name)),
            Ok((_, differences)) if !differences.is_empty() => {
                let told = crate::conformance::harness::differences_text(&differences);
                return broken(format!(
                    "{} does not exist, but is not in sync with `ensure: absent`: {told}",
                    absent.name
                ));
            }
            Ok(_) => {}
        }
    }
    Ok(None)
}
