//! Laws about previews.

use kilter_model::{Change, Feature};

use super::canonical::all_declared;
use super::reading::seen;
use crate::conformance::fingerprint;
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, not_applicable, untried,
};
use kilter_provider::Mode;
use kilter_provider::compare;

/// Returns the failure of a preview of a declaration. None if it succeeded or if the resource is in sync.
fn previewed(world: &ProviderUnderTest, one: &DeclaredCase) -> Result<Option<String>, EarlyEnd> {
    let is = seen(world, one)?;
    let differences =
        compare(world.provider(), &world.cx(), &is, &one.should).or_else(|error| untried(error.message.to_string()))?;
    if differences.is_empty() {
        return Ok(None);
    }
    let change = Change::new(&one.name, &is, Some(&one.should), &differences);
    let outcome = world.set(&[change], Mode::Preview).into_iter().next().unwrap_or_default();
    Ok(outcome.failure.map(|failure| failure.to_string()))
}

/// Ends the trial if the provider has no previews.
fn needs_previews(world: &ProviderUnderTest) -> Result<(), EarlyEnd> {
    match world.schema().has(Feature::SupportsNoop) {
        true => Ok(()),
        false => {
            not_applicable("the provider does not have the feature `supports_noop`, so kilter requests no preview")
        }
    }
}

pub(super) fn changes_nothing(bench: &Harness) -> Trial {
    needs_previews(&bench.world()?)?;
    for world in bench.fingerprinted()? {
        let before = world.subject.fingerprint();
        for one in all_declared(&world)? {
            let state = seen(&world, &one)?;
            drop(world.subject.tried());
            previewed(&world, &one)?;
            let removal = Change::new(&one.name, &state, None, &[]);
            world.set(&[removal], Mode::Preview);
            if let Some(change) = fingerprint::unlike(&before, &world.subject.fingerprint()) {
                return broken(format!("the preview of {} changed the fingerprint of the sandbox{change}", one.name));
            }
            if let Some(tried) = world.subject.tried() {
                return broken(format!("the preview of {} tried to {tried}, and was refused", one.name));
            }
            if seen(&world, &one)? != state {
                return broken(format!("{} has another found state after its preview", one.name));
            }
        }
    }
    Ok(None)
}

pub(super) fn foresees_rightly(bench: &Harness) -> Trial {
    let fresh = bench.world()?;
    needs_previews(&fresh)?;
    let made = bench.made()?;
    for at in 0..fresh.subject.specimens().len() {
        let mut ways: Vec<(&ProviderUnderTest, DeclaredCase)> =
            vec![(&fresh, fresh.first(&fresh.subject.specimens()[at])?)];
        let specimen = &made.subject.specimens()[at];
        for other in specimen.others() {
            ways.push((&made, made.valid_declaration(specimen, other)?));
        }
        for (world, one) in ways {
            if let Some(failure) = previewed(world, &one)? {
                // The preview must not fail for a change that succeeds.
                if world.converge(&one).is_ok() {
                    return broken(format!("the preview of {} failed, the change did not: {failure}", one.name));
                }
            }
        }
    }
    Ok(None)
}
