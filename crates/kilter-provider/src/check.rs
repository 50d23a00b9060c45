//! The engine's check: what differs between what is and what should be.

use kilter_model::{AttributeSchema, Attributes, Behaviour, Difference, State, TypeSchema, Value};

use crate::context::Context;
use crate::contract::{Insync, Provider, ProviderError, Query, Wanted};

/// What a check of one resource found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The state.
    pub state: State,
    /// What is not as it should be; empty when all is.
    pub differences: Vec<Difference>,
}

/// Reads the resources that are wanted and compares each with what should be.
///
/// The answers come in the order of `wanted`. An error of the provider as a whole is the error of
/// each of them.
pub fn check(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Vec<Result<Found, ProviderError>> {
    if provider.reads_singly() || wanted.len() == 1 {
        return wanted.iter().map(|&one| check_one(provider, cx, one)).collect();
    }
    let states = states(provider, cx, wanted).into_iter().zip(wanted);
    states.map(|(state, wanted)| found(provider, state?, *wanted)).collect()
}

/// Reads one resource and compares it with what should be.
///
/// # Errors
/// When it cannot be read, or cannot be brought to what should be.
pub fn check_one(provider: &dyn Provider, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<Found, ProviderError> {
    found(provider, provider.get_one(cx, wanted)?, wanted)
}

fn found(provider: &dyn Provider, state: State, wanted: Wanted<'_>) -> Result<Found, ProviderError> {
    let none = Attributes::new();
    let differences = compare(provider, &state, wanted.should.unwrap_or(&none))?;
    Ok(Found { state, differences })
}

fn states(provider: &dyn Provider, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Vec<Result<State, ProviderError>> {
    let mut found = match provider.get(cx, Query::Named(wanted)) {
        Ok(found) => found,
        Err(error) => return wanted.iter().map(|_| Err(error.clone())).collect(),
    };
    let in_order = found.len() == wanted.len() && found.iter().zip(wanted).all(|(s, w)| s.name == *w.name);
    if in_order {
        return found.into_iter().map(Ok).collect();
    }
    let mut by_name: rustc_hash::FxHashMap<_, _> = found.drain(..).map(|state| (state.name.clone(), state)).collect();
    wanted
        .iter()
        .map(|wanted| Ok(by_name.remove(wanted.name).unwrap_or_else(|| State::absent(wanted.name.clone()))))
        .collect()
}

/// All resources of a provider, each valid by the schema.
///
/// # Errors
/// When the provider cannot read, or returns what its own schema does not allow (Puppet Resource
/// API: "It is an error to return values not matching the type").
pub fn get_checked(provider: &dyn Provider, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
    let states = provider.get(cx, query)?;
    let schema = provider.schema();
    for state in &states {
        for (name, value) in state.attributes.iter().filter(|(_, value)| !value.is_undef()) {
            let attribute = schema.find(name.as_str()).ok_or_else(|| {
                ProviderError::new(format!(
                    "provider returned the unknown attribute `{name}` for {}[{}]",
                    schema.name, state.name
                ))
            })?;
            attribute.data_type.check(value).map_err(|mismatch| {
                ProviderError::new(format!(
                    "provider returned data that does not match the schema for {}[{}]: {name} {mismatch}",
                    schema.name, state.name
                ))
            })?;
        }
    }
    Ok(states)
}

/// What differs between a state and what should be.
///
/// Of a resource that is to be removed only that is told; of one that is to be created, what it will
/// be as well. Attributes that only steer the provider or are never set are left out; so are those
/// that nothing was said of.
///
/// # Errors
/// When what should be cannot be reached: an `init_only` attribute of a resource that exists.
pub fn compare(provider: &dyn Provider, is: &State, should: &Attributes) -> Result<Vec<Difference>, ProviderError> {
    let schema = provider.schema();
    let mut differences = Vec::new();
    if let Some(wanted) = should.get("ensure")
        && let Some(attribute) = schema.find("ensure")
    {
        differences.extend(compare_one(provider, attribute, is, should, wanted));
        let is_created = !is.exists && !differences.is_empty();
        if wanted.as_str() == Some("absent") || !(differences.is_empty() || is_created) {
            return Ok(differences);
        }
    } else if !is.exists && schema.is_ensurable() {
        return Ok(Vec::new());
    }
    for (name, wanted) in should.iter() {
        if wanted.is_undef() || *name == "ensure" {
            continue;
        }
        let Some(attribute) = schema.find(name.as_str()) else { continue };
        if !matches!(attribute.behaviour, Behaviour::Property | Behaviour::InitOnly) {
            continue;
        }
        if let Some(difference) = compare_one(provider, attribute, is, should, wanted) {
            if attribute.behaviour == Behaviour::InitOnly && is.exists {
                return Err(init_only(schema, is, &difference));
            }
            differences.push(difference);
        }
    }
    differences.extend(is.drift.iter().cloned());
    Ok(differences)
}

fn compare_one(
    provider: &dyn Provider,
    attribute: &AttributeSchema,
    is: &State,
    should: &Attributes,
    wanted: &Value,
) -> Option<Difference> {
    let name = attribute.name.as_str();
    let absent = Value::from("absent");
    let found = match is.attributes.get(name) {
        None if name == "ensure" => &absent,
        found => found.unwrap_or(&Value::Undef),
    };
    let message = match provider.insync(name, is, should) {
        Insync::Default if found.unwrap_sensitive() == wanted.unwrap_sensitive() => return None,
        Insync::Default => None,
        Insync::Same => return None,
        Insync::Differs(message) => message,
    };
    let sealed = wanted.holds_sensitive() || attribute.data_type.is_sensitive();
    let seal = |value: &Value| match sealed && !value.is_undef() {
        true => Value::sensitive(value.clone()),
        false => value.clone(),
    };
    let diff = if sealed { None } else { provider.diff(name, is, should) };
    Some(Difference {
        attribute: attribute.name.clone(),
        entry: None,
        is: seal(found),
        should: seal(wanted),
        message,
        diff,
    })
}

fn init_only(schema: &TypeSchema, is: &State, difference: &Difference) -> ProviderError {
    ProviderError::new(format!(
        "cannot change the init_only attribute `{}` of {}[{}] from {} to {}: it can only be set when the resource is created",
        difference.attribute, schema.name, is.name, difference.is, difference.should
    ))
}
