//! Laws about declared values and values read from the system.

use kilter_model::{Attributes, Behaviour, State};

use super::listing::every_state;
use super::reading::{MissingAttribute, declared, unlike_attributes};
use crate::conformance::harness::{DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, untried};
use kilter_provider::compare;

/// Returns every declaration of every specimen in canonical form.
pub(super) fn all_declared(world: &ProviderUnderTest) -> Result<Vec<DeclaredCase>, EarlyEnd> {
    let mut all = declared(world)?;
    for specimen in world.subject.specimens() {
        for other in specimen.others() {
            all.push(world.valid_declaration(specimen, other)?);
        }
        all.extend(world.absence(specimen)?);
    }
    Ok(all)
}

pub(super) fn is_final(bench: &Harness) -> Trial {
    let world = bench.world()?;
    for once in all_declared(&world)? {
        let twice = world.canonical(once.clone());
        let twice = twice.or_else(|why| broken(format!("{}: the second time it fails: {why}", once.name)))?;
        if let Some(what) = unlike_attributes(&once.should, &twice.should, MissingAttribute::Matters) {
            return broken(format!("{}, after one and two calls: {what}", once.name));
        }
    }
    Ok(None)
}

pub(super) fn read_is_canonical(bench: &Harness) -> Trial {
    let world = bench.made()?;
    for state in every_state(&world)?.into_iter().filter(|state| state.exists) {
        let read = DeclaredCase { name: state.name.clone(), should: state.attributes.clone() };
        let canonical = world.canonical(read);
        let canonical = canonical.or_else(|why| broken(format!("{} has no canonical form: {why}", state.name)))?;
        let returned = |name: &str| state.attributes.get(name).is_some();
        let kept = canonical.should.iter().filter(|(name, _)| returned(name.as_str()));
        let kept: Attributes = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(what) = unlike_attributes(&state.attributes, &kept, MissingAttribute::Matters) {
            return broken(format!("{}, as returned and as canonicalized: {what}", state.name));
        }
    }
    Ok(None)
}

pub(super) fn read_can_be_declared(bench: &Harness) -> Trial {
    let world = bench.made()?;
    for one in declared(&world)? {
        let state =
            world.read_undeclared(&one).or_else(|why| untried(format!("{} cannot be read: {why}", one.name)))?;
        if state.exists {
            holds_as_declared(&world, &one, &state)?;
        }
    }
    Ok(None)
}

/// Checks that a state can be declared as it was read. Parameters cannot be read. Some are required (the file
/// that contains an entry), others duplicate a value (the source of a content). The law holds if it holds with
/// or without them.
fn holds_as_declared(world: &ProviderUnderTest, one: &DeclaredCase, state: &State) -> Result<(), EarlyEnd> {
    match holds_with(world, one, state, Parameters::Kept) {
        Err(EarlyEnd::Broken(why)) => holds_with(world, one, state, Parameters::Dropped).or(broken(why)),
        held => held,
    }
}

/// Treatment of parameters in a declaration made from a state.
#[derive(Clone, Copy, PartialEq)]
enum Parameters {
    Kept,
    Dropped,
}

fn holds_with(
    world: &ProviderUnderTest,
    one: &DeclaredCase,
    state: &State,
    parameters: Parameters,
) -> Result<(), EarlyEnd> {
    let should = as_read(world, one, state, parameters);
    if let Some(problem) = world.provider().validate(&one.name, &should, &[]).first() {
        return broken(format!("{}, declared with its found state: {problem}", one.name));
    }
    let read = world.canonical(DeclaredCase { name: one.name.clone(), should });
    let read = read.or_else(|why| broken(format!("{} has no canonical form: {why}", one.name)))?;
    match world.check(&read) {
        Err(why) => broken(format!("{}, declared with its found state, cannot be checked: {why}", one.name)),
        Ok((_, differences)) if !differences.is_empty() => {
            let told = crate::conformance::harness::differences_text(&differences);
            broken(format!("{} differs from its own found state: {told}", one.name))
        }
        Ok(_) => Ok(()),
    }
}

/// Returns a declaration made from a state.
fn as_read(world: &ProviderUnderTest, one: &DeclaredCase, state: &State, parameters: Parameters) -> Attributes {
    let behaviour = |name: &str| world.schema().find(name).map(|attribute| attribute.behaviour);
    let is_given = |name: &str| match behaviour(name) {
        Some(Behaviour::Namevar) => true,
        Some(Behaviour::Parameter) => parameters == Parameters::Kept,
        _ => false,
    };
    let is_settable = |name: &str| !matches!(behaviour(name), None | Some(Behaviour::ReadOnly | Behaviour::Namevar));
    let given = one.should.iter().filter(|(name, _)| is_given(name.as_str()));
    let mut should: Attributes = given.map(|(name, value)| (name.clone(), value.clone())).collect();
    state.attributes.iter().filter(|(name, _)| is_settable(name.as_str())).for_each(|(name, value)| {
        should.set(name.clone(), value.clone());
    });
    should
}

pub(super) fn deferred_is_not_missed(bench: &Harness) -> Trial {
    let world = bench.world()?;
    for specimen in world.subject.specimens() {
        for (deferred, _) in specimen.first().iter() {
            let without: Attributes = specimen
                .first()
                .iter()
                .filter(|(name, _)| *name != deferred)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let rest = world.complete(specimen, &without).or_else(untried)?;
            let mut should = rest.should;
            should.remove(deferred.as_str());
            let problems = world.provider().validate(&rest.name, &should, &[deferred.as_str()]);
            if let Some(problem) = problems.first() {
                return broken(format!("{}, with `{deferred}` known later: {problem}", rest.name));
            }
        }
    }
    Ok(None)
}

pub(super) fn differences_are_named(bench: &Harness) -> Trial {
    let fresh = bench.world()?;
    let made = bench.made()?;
    let has_properties = fresh.schema().attributes.iter().any(|attribute| attribute.behaviour == Behaviour::Property);
    for world in [&fresh, &made] {
        for one in all_declared(world)? {
            let state = world.see(&one).or_else(|why| untried(format!("{} cannot be read: {why}", one.name)))?;
            let differences = compare(world.provider(), &world.cx(), &state, &one.should);
            let differences = differences.or_else(|error| untried(error.message.to_string()))?;
            let unknown = |name: &str| fresh.schema().find(name).is_none();
            let stray = differences.iter().find(|difference| unknown(difference.attribute.as_str()));
            if let Some(stray) = stray.filter(|_| has_properties) {
                return broken(format!("{}: `{}` is not an attribute of the type", one.name, stray.attribute));
            }
        }
    }
    Ok(None)
}
