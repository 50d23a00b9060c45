//! Laws about `get`: of all resources, of none, and of resources that do not exist.

use std::time::{Duration, Instant};

use kilter_model::{Attributes, State};

use super::reading::{MissingAttribute, declared, unlike_attributes};
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, not_applicable, untried,
};
use crate::conformance::subject::Unsupported;
use kilter_provider::Strictness;
use kilter_provider::{Query, Wanted};

/// Duration above which a list gets a note.
const SLOW_LIST: Duration = Duration::from_secs(5);

/// Maximum number of listed resources that are also read individually, because a machine may have very many.
const LOOKED_AT: usize = 50;

pub(super) fn unknown_is_absent(bench: &Harness) -> Trial {
    // The sandbox stays without specimens, because a provider without absent states may be unable to create any.
    let world = bench.world()?;
    world.needs(Unsupported::Unknown)?;
    if world.subject.unknown_names().is_empty() {
        return untried("the subject has neither names that do not exist nor a reason for their absence");
    }
    for name in world.subject.unknown_names() {
        let wanted = Wanted::new(name, None);
        let many = world.get(Query::Named(&[wanted]));
        let many = many.or_else(|why| broken(format!("a get of `{name}` is an error: {why}")))?;
        let one = world.state(world.provider(), wanted);
        let one = one.or_else(|why| broken(format!("a get of `{name}` alone is an error: {why}")))?;
        if one.exists || many.iter().any(|state| state.name == *name && state.exists) {
            return broken(format!("`{name}` exists"));
        }
    }
    Ok(None)
}

pub(super) fn none_is_no_error(bench: &Harness) -> Trial {
    let world = bench.made()?;
    match world.provider().get(&world.cx(), Query::Named(&[])) {
        Ok(_) => Ok(None),
        Err(error) => broken(format!("it is an error: {error}")),
    }
}

/// Lists all resources of a sandbox with all specimens.
fn all(world: &ProviderUnderTest) -> Result<Vec<State>, EarlyEnd> {
    world.needs(Unsupported::Listing)?;
    world.get(Query::All).or_else(|why| broken(format!("a get of all is an error: {why}")))
}

pub(super) fn some_among_all(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let all = all(&world)?;
    for one in declared(&world)? {
        let Some(listed) = all.iter().find(|state| state.name == one.name && state.exists) else {
            return broken(format!("{} exists, but a get of all does not return it", one.name));
        };
        let looked =
            world.read_undeclared(&one).or_else(|why| untried(format!("{} cannot be read: {why}", one.name)))?;
        if let Some(what) = unlike_attributes(&listed.attributes, &looked.attributes, MissingAttribute::MayBe) {
            return broken(format!("{}, in a get of all and in a get by name: {what}", one.name));
        }
    }
    Ok(None)
}

pub(super) fn once(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let begun = Instant::now();
    let all = all(&world)?;
    let took = begun.elapsed();
    // A strict context also rejects minor faults, such as a list that contains a resource twice with the same
    // values.
    let strict = world.provider().get(&world.cx().with_strictness(Strictness::Error), Query::All);
    let strict = strict.or_else(|error| broken(format!("a get of all is an error: {error}")))?;
    if let Some((state, why)) = strict.iter().find_map(|state| Some((state, state.unreadable.as_ref()?))) {
        return broken(format!("{} is not listed as it should be: {why}", state.name));
    }
    for (at, state) in all.iter().enumerate().filter(|(_, state)| state.exists) {
        if all[..at].iter().any(|other| other.name == state.name) {
            return broken(format!("{} is listed twice", state.name));
        }
    }
    for state in all.iter().filter(|state| state.exists).take(LOOKED_AT) {
        let listed = DeclaredCase { name: state.name.clone(), should: state.attributes.clone() };
        match world.read_undeclared(&listed) {
            Err(why) => return broken(format!("{} is listed, but a get by name fails: {why}", state.name)),
            Ok(state) if !state.exists => {
                return broken(format!("{} is listed, but a get by name does not find it", state.name));
            }
            Ok(_) => {}
        }
    }
    Ok(remark(&all, &strict, took))
}

/// Returns a note about a list that is valid but inconvenient.
fn remark(first: &[State], second: &[State], took: Duration) -> Option<String> {
    let names = |states: &[State]| states.iter().map(|state| state.name.clone()).collect::<Vec<_>>();
    let sorted = |states: &[State]| {
        let mut names = names(states);
        names.sort_unstable();
        names
    };
    let is_shuffled = names(first) != names(second) && sorted(first) == sorted(second);
    let order = is_shuffled.then(|| "two lists in a row had different orders".to_owned());
    let slow = (took > SLOW_LIST).then(|| format!("a list took {:.1} s", took.as_secs_f32()));
    let remarks: Vec<String> = order.into_iter().chain(slow).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// Returns every readable state: from a list, with a desired state, and by name.
pub(super) fn every_state(world: &ProviderUnderTest) -> Result<Vec<State>, EarlyEnd> {
    let mut states = Vec::new();
    if world.subject.reason(Unsupported::Listing).is_none() {
        // Another law covers listing.
        states.extend(world.get(Query::All).unwrap_or_default());
    }
    for one in declared(world)? {
        let states_of = [world.see(&one), world.read_undeclared(&one)];
        for state in states_of {
            states.push(state.or_else(|why| untried(format!("{} cannot be read: {why}", one.name)))?);
        }
    }
    Ok(states)
}

pub(super) fn fits(bench: &Harness) -> Trial {
    let world = bench.made()?;
    for state in every_state(&world)? {
        for (name, value) in state.attributes.iter().filter(|(_, value)| !value.is_undef()) {
            let Some(attribute) = world.schema().find(name.as_str()) else {
                return broken(format!("{}: `{name}` is not an attribute of the type", state.name));
            };
            if let Err(mismatch) = attribute.data_type.check(value) {
                return broken(format!("{}: {name} {mismatch}", state.name));
            }
        }
        for (name, value) in state.outputs.iter() {
            let Some(output) = world.schema().find_output(name.as_str()) else {
                return broken(format!("{}: `{name}` is not an output of the type", state.name));
            };
            if let Err(mismatch) = output.data_type.check(value) {
                return broken(format!("{}: the output {name} {mismatch}", state.name));
            }
        }
    }
    Ok(None)
}

pub(super) fn titles_fit(bench: &Harness) -> Trial {
    let world = bench.made()?;
    if world.schema().namevars().nth(1).is_none() {
        return not_applicable("the type has one namevar");
    }
    let states = every_state(&world)?;
    for state in states.iter().filter(|state| state.exists) {
        let Some(title) = &state.title else { return broken(format!("{} is returned without a title", state.name)) };
        fits_title(&world, title, &state.attributes)?;
    }
    Ok(None)
}

fn fits_title(world: &ProviderUnderTest, title: &str, attributes: &Attributes) -> Result<(), EarlyEnd> {
    world.schema().check_title(title, attributes).or_else(|error| broken(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_in_another_order_or_slow_list_gets_a_note() {
        let states = |names: &[&str]| names.iter().map(|name| State::absent(*name)).collect::<Vec<_>>();
        let (first, shuffled, fewer) = (states(&["a", "b"]), states(&["b", "a"]), states(&["b"]));
        assert_eq!(remark(&first, &first, Duration::from_secs(5)), None);
        assert_eq!(remark(&first, &fewer, Duration::ZERO), None, "another one may have come or gone");
        assert_eq!(remark(&first, &shuffled, Duration::ZERO).unwrap(), "two lists in a row had different orders");
        assert_eq!(remark(&first, &first, Duration::from_millis(7200)).unwrap(), "a list took 7.2 s");
    }
}
