//! The engine's check: read, hold against the schema, compare.

use ecow::eco_format;
use kilter_model::{Attributes, Difference, Feature, ResourceRef, State, TypeSchema};

use crate::accept::accepted_for;
use crate::compare::compare;
use crate::context::Context;
use crate::contract::{Provider, ProviderError, Query, Wanted};

/// What a check of one resource found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The state.
    pub state: State,
    /// What is not as it should be; empty when all is.
    pub differences: Vec<Difference>,
    /// Whether a refresh does something once the differences are gone ([`Provider::acts_on_refresh`]).
    pub acts_on_refresh: bool,
}

/// Reads the resources that are wanted and compares each with what should be.
///
/// The answers come in the order of `wanted`. An error of the provider as a whole is the error of
/// each of them.
pub fn check(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Vec<Result<Found, ProviderError>> {
    if provider.reads_singly() {
        return wanted.iter().map(|&one| check_one(provider, cx, one)).collect();
    }
    let mut found = match read(provider, cx, wanted) {
        Ok(found) => found,
        Err(error) => return wanted.iter().map(|_| Err(error.clone())).collect(),
    };
    let in_order = found.len() == wanted.len() && found.iter().zip(wanted).all(|(s, w)| s.name == *w.name);
    if in_order {
        let pairs = found.into_iter().zip(wanted);
        return pairs.map(|(state, wanted)| check_state(provider, cx, state, *wanted)).collect();
    }
    let mut by_name: rustc_hash::FxHashMap<_, _> = found.drain(..).map(|state| (state.name.clone(), state)).collect();
    let states = wanted.iter().map(|w| (by_name.remove(w.name).unwrap_or_else(|| State::absent(w.name.clone())), *w));
    states.map(|(state, wanted)| check_state(provider, cx, state, wanted)).collect()
}

/// Reads one resource and compares it with what should be.
///
/// # Errors
/// When it cannot be read, or cannot be brought to what should be.
pub fn check_one(provider: &dyn Provider, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<Found, ProviderError> {
    found(provider, cx, provider.get_one(cx, wanted)?, wanted)
}

/// Reads resources with as few calls as can be: those that are wanted where the provider can filter,
/// all of them otherwise. More may come back than were asked for.
///
/// # Errors
/// When the provider as a whole cannot read.
pub fn read(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, ProviderError> {
    let query = match provider.schema().has(Feature::SimpleGetFilter) {
        true => Query::Named(wanted),
        false => Query::All,
    };
    let mut states = provider.get(cx, query)?;
    states.iter_mut().try_for_each(|state| named(provider, state))?;
    Ok(states)
}

/// Compares a state that [`read`] returned with what should be.
///
/// # Errors
/// When the state is none that the schema allows, or cannot be brought to what should be.
pub fn check_state(
    provider: &dyn Provider,
    cx: &Context<'_>,
    state: State,
    wanted: Wanted<'_>,
) -> Result<Found, ProviderError> {
    found(provider, cx, accepted_for(provider, cx, state, wanted.should)?, wanted)
}

/// Whether resources of a type are identified by several namevars.
pub(crate) fn is_composite(schema: &TypeSchema) -> bool {
    schema.namevars().nth(1).is_some()
}

/// Resources with several namevars are known by the key that these amount to.
///
/// # Errors
/// When one that is there lacks a namevar: nobody can tell which it is.
fn named(provider: &dyn Provider, state: &mut State) -> Result<(), ProviderError> {
    let schema = provider.schema();
    if !is_composite(schema) {
        return Ok(());
    }
    match schema.key(&state.attributes) {
        Some(key) => state.name = key,
        None if state.exists => {
            let lacks = |name: &str| state.attributes.get(name).is_none_or(kilter_model::Value::is_undef);
            let missing = schema.namevars().map(|namevar| namevar.name.as_str()).find(|name| lacks(name));
            let what = missing.map_or("values of the namevars that can be shown".into(), |name| {
                eco_format!("a value for the namevar `{name}`")
            });
            return Err(ProviderError::new(eco_format!(
                "the provider `{}` does not keep its promises for {}: it did not return {what}",
                provider.name(),
                schema.name
            )));
        }
        None => {}
    }
    Ok(())
}

fn found(provider: &dyn Provider, cx: &Context<'_>, state: State, wanted: Wanted<'_>) -> Result<Found, ProviderError> {
    if let Some(why) = state.unreadable {
        return Err(ProviderError::new(why));
    }
    let none = Attributes::new();
    let mut differences = compare(provider, &state, wanted.should.unwrap_or(&none))?;
    if provider.schema().has(Feature::CustomGenerate) && (state.exists || !differences.is_empty()) {
        let children = provider.generate(cx, wanted, &state)?;
        differences.extend(children.iter().filter(|child| is_stray(cx, child)).map(removal));
    }
    let should = wanted.should.unwrap_or(&none);
    let acts_on_refresh = !provider.schema().has(Feature::Refresh) || provider.acts_on_refresh(&state, should);
    Ok(Found { state, differences, acts_on_refresh })
}

/// Whether nobody declares a resource that is on the system.
fn is_stray(cx: &Context<'_>, child: &ResourceRef) -> bool {
    cx.outlook().declared(child.type_name.as_str(), child.title.as_str()).is_none()
}

fn removal(child: &ResourceRef) -> Difference {
    Difference::new("ensure", "present".into(), "absent".into()).of_entry(eco_format!("{child}"))
}
