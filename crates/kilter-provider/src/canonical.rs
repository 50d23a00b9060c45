//! What was declared, in the form that `get` returns: values, and the name that follows from them.

use ecow::EcoString;
use kilter_model::{Attributes, DataType, Feature, Value};

use crate::contract::{Problem, Provider};

/// Brings what was declared into the form that `get` returns, the name of the resource included.
///
/// The namevar is an attribute like the others (Puppet Resource API, "canonicalize", whose example is
/// one): it is lent to the provider where it was left to the title, and kept if its form is another. The
/// name of a resource is what its namevars amount to then.
///
/// # Errors
/// When a value has no such form; nothing is known of the values then.
pub fn canonicalize(provider: &dyn Provider, name: &mut EcoString, should: &mut Attributes) -> Result<(), Problem> {
    let schema = provider.schema();
    if !schema.has(Feature::Canonicalize) {
        return provider.canonicalize(name, should);
    }
    let lent = lend(provider, name, should);
    let has_secrets = should.iter().any(|(_, value)| value.holds_sensitive());
    provider.canonicalize(name, should)?;
    // What was made anew of a value with secrets has lost their seals.
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

/// The name that a declared resource has in its canonical form, and its namevars. None where the
/// provider changes no names, or this one has no such form.
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

/// Puts the only namevar among the values if it is not there; tells which.
fn lend(provider: &dyn Provider, name: &EcoString, should: &mut Attributes) -> Option<EcoString> {
    let schema = provider.schema();
    let mut namevars = schema.namevars();
    let (Some(namevar), None) = (namevars.next(), namevars.next()) else { return None };
    if !schema.title_patterns.is_empty() || should.get(namevar.name.as_str()).is_some() {
        return None;
    }
    // A name that is no value of the namevar's type was a problem before; most are texts.
    let value = match &*namevar.data_type.open() {
        DataType::String(..) | DataType::Pattern(_) | DataType::Enum(_) => Value::String(name.clone()),
        _ => schema.parse_title(name).ok()?.pop()?.1,
    };
    should.push(namevar.name.clone(), value);
    Some(namevar.name.text().clone())
}
