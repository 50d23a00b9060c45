//! Check of resources: read, validate, compare.

use ecow::eco_format;
use kilter_model::{Attributes, Difference, Feature, ResourceRef, State, TypeSchema};

use crate::compare::compare;
use crate::context::Context;
use crate::contract::{Provider, ProviderError, Query, Wanted, get_one};
use crate::validate_states::accept;

/// Result of checking a resource.
#[derive(Clone, Debug)]
pub struct Found {
    /// Current state.
    pub state: State,
    /// Attributes that are out of sync. Empty if the resource is in sync.
    pub differences: Vec<Difference>,
    /// True if a refresh has an effect after the differences are repaired: see
    /// [`Refresh::acts_on_refresh`](crate::Refresh::acts_on_refresh).
    pub acts_on_refresh: bool,
}

/// Reads resources and compares each with its desired state.
///
/// The results are in the order of `wanted`. If the provider as a whole fails, each result has that error.
pub fn check(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Vec<Result<Found, ProviderError>> {
    if provider.capabilities().read_one.is_some() {
        return wanted.iter().map(|&one| check_one(provider, cx, one)).collect();
    }
    let mut found = match read(provider, cx, wanted) {
        Ok(found) => found,
        Err(error) => return wanted.iter().map(|_| Err(error.clone())).collect(),
    };
    let in_order = found.len() == wanted.len() && found.iter().zip(wanted).all(|(s, w)| s.name == *w.name);
    if !in_order {
        let mut by_name: rustc_hash::FxHashMap<_, _> =
            found.into_iter().map(|state| (state.name.clone(), state)).collect();
        let mut state = |wanted: &Wanted<'_>| by_name.remove(wanted.name);
        found = wanted.iter().map(|w| state(w).unwrap_or_else(|| State::absent(w.name.clone()))).collect();
    }
    let accepted = accept(provider, cx, &mut found, &|at| wanted[at].should);
    let states = found.into_iter().zip(accepted).zip(wanted);
    states.map(|((state, accepted), wanted)| self::found(provider, cx, accepted.map(|()| state)?, *wanted)).collect()
}

/// Reads a resource and compares it with its desired state.
///
/// # Errors
/// If the resource cannot be read, or cannot reach its desired state.
pub fn check_one(provider: &dyn Provider, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<Found, ProviderError> {
    found(provider, cx, get_one(provider, cx, wanted)?, wanted)
}

/// Reads resources with as few calls as possible: the requested ones if the provider can filter, otherwise all.
/// May return more resources than requested.
///
/// # Errors
/// If the provider as a whole cannot read.
pub fn read(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, ProviderError> {
    let query = match provider.schema().has(Feature::SimpleGetFilter) {
        true => Query::Named(wanted),
        false => Query::All,
    };
    let mut states = provider.get(cx, query)?;
    states.iter_mut().try_for_each(|state| named(provider, state))?;
    Ok(states)
}

/// Compares a state returned by [`read`] with the desired state.
///
/// # Errors
/// If the state is invalid by the schema, or the resource cannot reach its desired state.
pub fn check_state(
    provider: &dyn Provider,
    cx: &Context<'_>,
    state: State,
    wanted: Wanted<'_>,
) -> Result<Found, ProviderError> {
    let mut states = [state];
    accept(provider, cx, &mut states, &|_| wanted.should).pop().unwrap_or(Ok(()))?;
    let [state] = states;
    found(provider, cx, state, wanted)
}

/// Returns true if the type has several namevars.
pub(crate) fn is_composite(schema: &TypeSchema) -> bool {
    schema.namevars().nth(1).is_some()
}

/// Sets the name of a resource with several namevars to its key.
///
/// # Errors
/// If an existing resource lacks a namevar and so cannot be identified.
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
    let mut differences = compare(provider, cx, &state, wanted.should.unwrap_or(&none))?;
    let capabilities = provider.capabilities();
    if let Some(generator) = capabilities.generate.filter(|_| state.exists || !differences.is_empty()) {
        let children = generator.generate(cx, wanted, &state)?;
        differences.extend(children.iter().filter(|child| is_stray(cx, child)).map(removal));
    }
    let should = wanted.should.unwrap_or(&none);
    let acts_on_refresh = capabilities.refresh.is_none_or(|refresh| refresh.acts_on_refresh(&state, should));
    Ok(Found { state, differences, acts_on_refresh })
}

/// Returns true if a resource on the system is not declared.
fn is_stray(cx: &Context<'_>, child: &ResourceRef) -> bool {
    cx.preview_context().declared(child.type_name.as_str(), child.title.as_str()).is_none()
}

fn removal(child: &ResourceRef) -> Difference {
    Difference::new("ensure", "present".into(), "absent".into()).of_entry(eco_format!("{child}"))
}
