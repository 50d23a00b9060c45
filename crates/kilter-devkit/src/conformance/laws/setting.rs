//! Laws about `set` and `refresh`.

use kilter_model::{AttributeName, AttributeSchema, Attributes, Behaviour, Change, State, Value};

use super::reading::{declared, seen};
use crate::conformance::fingerprint;
use crate::conformance::harness::{
    DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, not_applicable, untried,
};
use crate::conformance::subject::Unsupported;
use kilter_provider::Mode;
use kilter_provider::compare;

pub(super) fn makes_what_was_asked(bench: &Harness) -> Trial {
    let fresh = bench.world()?;
    let (mut made, mut changed) = (0, 0);
    for at in 0..fresh.subject.specimens().len() {
        let world = bench.world()?;
        let specimen = &world.subject.specimens()[at];
        let first = world.first(specimen)?;
        made += usize::from(converge(&world, &first)?);
        for other in specimen.others() {
            changed += usize::from(converge(&world, &world.valid_declaration(specimen, other)?)?);
        }
        made += usize::from(converge(&world, &first)?);
    }
    let attributes = &fresh.schema().attributes;
    // An attribute with a default may be one that is known only while there is something to do.
    let can_change =
        attributes.iter().any(|attribute| is_free(&fresh, attribute.name.as_str()) && attribute.default.is_none());
    let has_state = attributes.iter().any(|attribute| attribute.behaviour.is_compared() && attribute.default.is_none());
    match (made, changed) {
        (0, 0) if !has_state => not_applicable("the type has no attribute that a set could bring to another value"),
        (0, 0) => untried("nothing had to be set: every specimen is in sync already; declare other values"),
        (_, 0) if can_change => untried(
            "no change of a resource that exists was tried: give a specimen `changed`, with another value than in \
             `present`",
        ),
        _ => Ok(None),
    }
}

/// Brings a resource to a declaration. Returns whether anything had to be set.
fn converge(world: &ProviderUnderTest, declared: &DeclaredCase) -> Result<bool, EarlyEnd> {
    world.converge(declared).or_else(broken)
}

pub(super) fn again_changes_nothing(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let before = world.subject.fingerprint();
    for one in declared(&world)? {
        let is = seen(&world, &one)?;
        let change = Change::new(&one.name, &is, Some(&one.should), &[]);
        let outcome = world.set(&[change], Mode::Apply).into_iter().next().unwrap_or_default();
        if let Some(failure) = outcome.failure {
            return broken(format!("{}: the second set failed: {failure}", one.name));
        }
        if let Some(change) = fingerprint::unlike(&before, &world.subject.fingerprint()) {
            return broken(format!("{}: the second set changed the fingerprint of the sandbox{change}", one.name));
        }
    }
    Ok(None)
}

pub(super) fn leaves_others(bench: &Harness) -> Trial {
    let count = bench.world()?.subject.specimens().len();
    if count < 2 {
        return untried("the subject has only one specimen");
    }
    let mut tried = 0;
    for changed in 0..count {
        let world = bench.made()?;
        let all = declared(&world)?;
        let states = |world: &ProviderUnderTest| {
            all.iter().map(|one| seen(world, one)).collect::<Result<Vec<State>, EarlyEnd>>()
        };
        let before = states(&world)?;
        let specimen = &world.subject.specimens()[changed];
        if let Some(other) = specimen.others().first() {
            world.arrange(&world.valid_declaration(specimen, other)?)?;
            tried += 1;
            unchanged(&all, changed, &before, &states(&world)?, "was changed")?;
        }
        // Other laws cover removal.
        tried += usize::from(world.remove(&before[changed]).is_ok());
        unchanged(&all, changed, &before, &states(&world)?, "was removed")?;
    }
    match (tried, bench.world()?.subject.reason(Unsupported::Removal)) {
        (0, Some(reason)) => not_applicable(reason),
        (0, None) => untried("no specimen could be changed or removed"),
        _ => Ok(None),
    }
}

fn unchanged(all: &[DeclaredCase], but: usize, before: &[State], after: &[State], how: &str) -> Result<(), EarlyEnd> {
    let other = (0..all.len()).find(|&at| at != but && before[at] != after[at]);
    match other {
        Some(at) => broken(format!("{} is another one since {} {how}", all[at].name, all[but].name)),
        None => Ok(()),
    }
}

pub(super) fn leaves_other_attributes(bench: &Harness) -> Trial {
    let fresh = bench.world()?;
    let mut tried = 0;
    for (at, specimen) in fresh.subject.specimens().iter().enumerate() {
        let first = fresh.first(specimen)?;
        for other in specimen.others() {
            for (changed, value) in other.iter().filter(|(name, _)| is_free(&fresh, name.as_str())) {
                if first.should.get(changed.as_str()).is_none_or(|declared| declared.is_same(value)) {
                    continue;
                }
                let others = first.should.iter().map(|(name, _)| name.as_str());
                let others: Vec<&str> =
                    others.filter(|name| *name != changed.as_str() && is_free(&fresh, name)).collect();
                tried += usize::from(!others.is_empty() && alone(bench, at, (changed.as_str(), value), &others)?);
            }
        }
    }
    let free = fresh.schema().attributes.iter().filter(|attribute| is_free(&fresh, attribute.name.as_str()));
    match tried {
        0 if free.count() < 2 => not_applicable("the type has fewer than two attributes that can be changed"),
        0 => untried("no specimen declares two attributes, and changes one of them"),
        _ => Ok(None),
    }
}

/// Returns true if an attribute can be changed independently of the others.
fn is_free(world: &ProviderUnderTest, name: &str) -> bool {
    let is_spared = world.subject.spared().iter().any(|(spared, _)| spared == name);
    let is_property = |attribute: &AttributeSchema| attribute.behaviour == Behaviour::Property;
    // mold uses `exists` instead of `ensure`.
    !matches!(name, "ensure" | "exists") && !is_spared && world.schema().find(name).is_some_and(is_property)
}

/// Changes an attribute of a specimen, with only its parameters declared in addition. Returns false if this
/// declaration is invalid.
fn alone(bench: &Harness, at: usize, (changed, value): (&str, &Value), others: &[&str]) -> Result<bool, EarlyEnd> {
    let world = bench.made()?;
    let specimen = &world.subject.specimens()[at];
    let first = world.first(specimen)?;
    let given = specimen.first().iter().filter(|(name, _)| {
        let of = world.schema().find(name.as_str());
        of.is_some_and(|of| of.behaviour == Behaviour::Parameter) || *name == "ensure"
    });
    let mut given: Attributes = given.map(|(name, value)| (name.clone(), value.clone())).collect();
    given.set(changed, value.clone());
    // An attribute that depends on others cannot be changed alone.
    let Ok(mut only) = world.declare(specimen, &given) else { return Ok(false) };
    only.should = only.should.iter().filter(|(name, _)| !others.contains(&name.as_str())).map(owned).collect();
    let before = seen(&world, &first)?;
    if world.converge(&only).is_err() {
        return Ok(false);
    }
    let after = seen(&world, &first)?;
    for name in others {
        let (before, after) = (before.attributes.get(name), after.attributes.get(name));
        let is_same = match (before, after) {
            (Some(before), Some(after)) => before.is_same(after),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            return broken(format!(
                "a change of `{changed}` of {} alone has changed `{name}` too: {} before, {} after",
                first.name,
                before.map_or("nothing".to_owned(), |value| format!("{value:?}")),
                after.map_or("nothing".to_owned(), |value| format!("{value:?}"))
            ));
        }
    }
    Ok(true)
}

fn owned((name, value): (&AttributeName, &Value)) -> (AttributeName, Value) {
    (name.clone(), value.clone())
}

pub(super) fn absence_in_any_form(bench: &Harness) -> Trial {
    let world = bench.world()?;
    let mut tried = false;
    for (at, one) in declared(&world)?.iter().enumerate() {
        if seen(&world, one)?.exists {
            continue;
        }
        tried = true;
        for is in forms_of_absence(&world, one) {
            let world = bench.world()?;
            let one = world.first(&world.subject.specimens()[at])?;
            created(&world, &one, State { name: one.name.clone(), ..is })?;
        }
    }
    if tried { Ok(None) } else { not_applicable("the specimens exist before the trial creates them") }
}

fn forms_of_absence(world: &ProviderUnderTest, one: &DeclaredCase) -> Vec<State> {
    let mut forms = vec![State::absent(one.name.clone())];
    let absent = kilter_model::Value::from("absent");
    if world.schema().find("ensure").is_some_and(|ensure| ensure.data_type.check(&absent).is_ok()) {
        let mut said = State::absent(one.name.clone());
        said.attributes.push("ensure", absent);
        forms.push(said);
    }
    forms
}

fn created(world: &ProviderUnderTest, one: &DeclaredCase, is: State) -> Result<(), EarlyEnd> {
    let differences =
        compare(world.provider(), &world.cx(), &is, &one.should).or_else(|error| untried(error.message.to_string()))?;
    let change = Change::new(&one.name, &is, Some(&one.should), &differences);
    let how = if is.attributes.is_empty() { "nothing" } else { "`ensure: absent`" };
    let outcome = world.set(&[change], Mode::Apply).into_iter().next().unwrap_or_default();
    if let Some(failure) = outcome.failure {
        return broken(format!("{}, whose absence was passed as {how}, was not created: {failure}", one.name));
    }
    match world.check(one) {
        Ok((_, left)) if left.is_empty() => Ok(()),
        Ok(_) => broken(format!("{}, whose absence was passed as {how}, is not as declared after set", one.name)),
        Err(why) => broken(format!("{}, whose absence was passed as {how}, cannot be read after set: {why}", one.name)),
    }
}

pub(super) fn refreshes(bench: &Harness) -> Trial {
    let world = bench.made()?;
    let Some(refresh) = world.provider().capabilities().refresh else {
        return not_applicable("the provider does not have the feature `refresh`");
    };
    for one in declared(&world)? {
        let outcome = refresh.refresh(&world.cx(), one.wanted());
        match outcome.failure {
            Some(failure) => return broken(format!("the refresh of {} failed: {failure}", one.name)),
            None if !outcome.refreshed => return broken(format!("{} was not refreshed, without a reason", one.name)),
            None => {}
        }
        match world.check(&one) {
            Ok((_, left)) if left.is_empty() => {}
            _ => return broken(format!("{} is not as declared after its refresh", one.name)),
        }
    }
    Ok(None)
}
