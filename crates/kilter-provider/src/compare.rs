//! Differences between the current and the desired state.

use ecow::EcoString;
use kilter_model::{AttributeSchema, Attributes, Behaviour, Difference, Feature, State, TypeSchema, Value};

use crate::context::Context;
use crate::contract::{INSYNC_TRIGGER, Insync, Provider, ProviderError};
use crate::redact::Redactor;

/// Default message for a resource without properties that its provider reports as out of sync (Puppet Resource
/// API, "Using custom_insync in a resource without properties").
const TRIGGERED: &str = "Custom insync logic determined that this resource is out of sync";

/// Returns the differences between the current and the desired state.
///
/// For a removal, the only difference is `ensure`. For a creation, and for another change of `ensure`, the differences
/// include the new values of all attributes that will change. Parameters, read-only attributes and attributes that were
/// not declared are not compared.
///
/// # Errors
/// If the desired state is unreachable, because an `init_only` attribute of an existing resource differs.
pub fn compare(
    provider: &dyn Provider,
    cx: &Context<'_>,
    is: &State,
    should: &Attributes,
) -> Result<Vec<Difference>, ProviderError> {
    let schema = provider.schema();
    let mut differences = Vec::new();
    if let Some(wanted) = should.get("ensure")
        && let Some(attribute) = schema.find("ensure")
    {
        differences.extend(compare_one(provider, cx, attribute, is, should, wanted)?);
        if wanted.as_str() == Some("absent") {
            return Ok(differences);
        }
    } else if !is.exists && can_be_absent(schema) {
        return Ok(Vec::new());
    }
    for (name, wanted) in should.iter() {
        if wanted.is_undef() || *name == "ensure" {
            continue;
        }
        let Some(attribute) = schema.known(name.as_str()) else { continue };
        if !matches!(attribute.behaviour, Behaviour::Property | Behaviour::InitOnly) {
            continue;
        }
        if let Some(difference) = compare_one(provider, cx, &attribute, is, should, wanted)? {
            if attribute.behaviour == Behaviour::InitOnly && is.exists {
                return Err(init_only(schema, is, &difference));
            }
            differences.push(difference);
        }
    }
    let has_properties =
        schema.attributes.iter().any(|attribute| attribute.behaviour == Behaviour::Property) || schema.others.is_some();
    let is_there = is.exists || !can_be_absent(schema);
    if schema.has(Feature::CustomInsync) && !has_properties && is_there {
        differences.extend(triggered(provider, cx, is, should)?);
    }
    differences.extend(is.drift.iter().cloned());
    // A run may keep the differences of many resources until it repairs them.
    differences.shrink_to_fit();
    Ok(differences)
}

/// Returns true if `ensure` can be `absent`. Otherwise, `ensure` is an ordinary property, such as `running` of
/// a service.
fn can_be_absent(schema: &TypeSchema) -> bool {
    schema.find("ensure").is_some_and(|ensure| ensure.data_type.check(&Value::from("absent")).is_ok())
}

/// Asks the provider to compare the resource as a whole.
fn triggered(
    provider: &dyn Provider,
    cx: &Context<'_>,
    is: &State,
    should: &Attributes,
) -> Result<Option<Difference>, ProviderError> {
    let message = match provider.insync(cx, INSYNC_TRIGGER, is, should) {
        Insync::Default | Insync::Same => return Ok(None),
        Insync::Differs(message) => message.unwrap_or_else(|| TRIGGERED.into()),
        Insync::Failed(why) => return Err(uncompared(provider, is, None, &why)),
    };
    Ok(Some(Difference::new(INSYNC_TRIGGER, Value::Undef, Value::Undef).saying(message)))
}

fn uncompared(provider: &dyn Provider, is: &State, attribute: Option<&str>, why: &str) -> ProviderError {
    let attribute = attribute.map(|name| format!(" `{name}` of")).unwrap_or_default();
    ProviderError::new(format!("cannot compare{attribute} {}[{}]: {why}", provider.schema().name, is.name))
}

fn compare_one(
    provider: &dyn Provider,
    cx: &Context<'_>,
    attribute: &AttributeSchema,
    is: &State,
    should: &Attributes,
    wanted: &Value,
) -> Result<Option<Difference>, ProviderError> {
    let name = attribute.name.as_str();
    let absent = Value::from("absent");
    let found = match is.attributes.get(name) {
        None if name == "ensure" => &absent,
        found => found.unwrap_or(&Value::Undef),
    };
    // Only properties have custom comparisons. For an absent resource, only `ensure` has one.
    let is_there = is.exists || name == "ensure" || !can_be_absent(provider.schema());
    let asked = attribute.behaviour == Behaviour::Property && provider.schema().has(Feature::CustomInsync) && is_there;
    let answer = if asked { provider.insync(cx, name, is, should) } else { Insync::Default };
    let sealed = wanted.holds_sensitive() || found.holds_sensitive() || attribute.data_type.may_hold_secrets();
    let seal = |value: &Value| match sealed && !value.is_undef() {
        true => Value::sensitive(value.clone()),
        false => value.clone(),
    };
    // The current value is as secret as the desired value, and only this function knows both.
    let hidden = |text: EcoString| match sealed {
        true => Redactor::of_values([&seal(found), &seal(wanted)]).redact(text),
        false => text,
    };
    let explain = provider.capabilities().explain;
    let own = || explain.and_then(|explain| explain.message(name, is, should));
    let message = match answer {
        Insync::Default if attribute.comparison.holds(found, wanted) => return Ok(None),
        Insync::Default => own().or_else(|| attribute.comparison.explain(found, wanted)).map(hidden),
        Insync::Same => return Ok(None),
        Insync::Differs(message) => message.or_else(own).map(hidden),
        Insync::Failed(why) => return Err(uncompared(provider, is, Some(name), &hidden(why))),
    };
    let diff = explain.filter(|_| !sealed).and_then(|explain| explain.diff(name, is, should));
    Ok(Some(Difference {
        attribute: attribute.name.clone(),
        entry: None,
        is: seal(found),
        should: seal(wanted),
        message,
        diff,
    }))
}

fn init_only(schema: &TypeSchema, is: &State, difference: &Difference) -> ProviderError {
    ProviderError::new(format!(
        "cannot change the init_only attribute `{}` of {}[{}] from {} to {}: it can only be set when the resource is \
         created",
        difference.attribute, schema.name, is.name, difference.is, difference.should
    ))
}
