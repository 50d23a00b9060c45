//! Canonical form of declared values and names.

use ecow::EcoString;
use kilter_model::{Attributes, DataType, Feature, Value};

use crate::contract::{Provider, ValidationError};

/// Converts a declared resource, including its name, to the form that `get` returns.
///
/// The namevar is an attribute like any other (see the example of "canonicalize" in the Puppet Resource API).
/// If the declaration omits it, it is added for the call, and kept only if the canonical form differs. The name
/// of the resource follows from the canonical namevars.
///
/// # Errors
/// If a value has no canonical form. The values are then undefined.
pub fn canonicalize(
    provider: &dyn Provider,
    name: &mut EcoString,
    should: &mut Attributes,
) -> Result<(), ValidationError> {
    let schema = provider.schema();
    if !schema.has(Feature::Canonicalize) {
        return provider.canonicalize(name, should);
    }
    let lent = lend(provider, name, should);
    let has_secrets = should.iter().any(|(_, value)| value.holds_sensitive());
    provider.canonicalize(name, should)?;
    // Values that the provider rebuilt are no longer sensitive.
    for (name, value) in should.iter_mut().filter(|_| has_secrets) {
        if let Some(attribute) = schema.known(name.as_str()) {
            *value = attribute.data_type.sealed(std::mem::take(value));
        }
    }
    match schema.key(should) {
        Some(key) if key != *name => *name = key,
        _ => {
            if let Some(namevar) = lent {
                should.remove(&namevar);
            }
        }
    }
    Ok(())
}

/// Returns the canonical name of a declared resource, and its namevars. None if the name does not change or has
/// no canonical form.
pub fn canonical_name(
    provider: &dyn Provider,
    name: &EcoString,
    should: &Attributes,
) -> Option<(EcoString, Attributes)> {
    if !provider.schema().has(Feature::Canonicalize) {
        return None;
    }
    let (mut canonical, mut values) = (name.clone(), should.clone());
    canonicalize(provider, &mut canonical, &mut values).ok()?;
    let named = |namevar: &str| values.get(namevar).map(|value| (namevar.to_owned(), value.clone()));
    let namevars = provider.schema().namevars().filter_map(|namevar| named(namevar.name.as_str())).collect();
    (canonical != *name).then_some((canonical, namevars))
}

/// Adds the only namevar to the values if it is missing. Returns its name.
fn lend(provider: &dyn Provider, name: &EcoString, should: &mut Attributes) -> Option<EcoString> {
    let schema = provider.schema();
    let mut namevars = schema.namevars();
    let (Some(namevar), None) = (namevars.next(), namevars.next()) else { return None };
    if !schema.title_patterns.is_empty() || should.get(namevar.name.as_str()).is_some() {
        return None;
    }
    // A name that the namevar does not accept has already been reported. Most names are texts.
    let value = match &*namevar.data_type.open() {
        DataType::String(..) | DataType::Pattern(_) | DataType::Enum(_) => Value::String(name.clone()),
        _ => schema.parse_title(name).ok()?.pop()?.1,
    };
    should.push(namevar.name.clone(), value);
    Some(namevar.name.text().clone())
}
