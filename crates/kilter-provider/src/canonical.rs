//! Canonical form of declared values and names.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, DataType, Feature, TypeSchema, Value};

use crate::context::Context;
use crate::contract::{Declaration, Provider, ValidationError};

/// Converts declared resources, including their names, to the form that `get` returns. Returns the problems of each
/// resource. The values of a resource with problems are undefined.
///
/// The namevar is an attribute like any other (see the example of "canonicalize" in the Puppet Resource API).
/// If the declaration omits it, it is added for the call, and kept only if the canonical form differs. The name
/// of the resource follows from the canonical namevars.
pub fn canonicalize(
    provider: &dyn Provider,
    cx: &Context<'_>,
    resources: &mut [(&mut EcoString, &mut Attributes)],
) -> Vec<Vec<ValidationError>> {
    let schema = provider.schema();
    if resources.is_empty() || !schema.has(Feature::Canonicalize) {
        return vec![Vec::new(); resources.len()];
    }
    let prepared: Vec<(Option<EcoString>, bool)> = resources
        .iter_mut()
        .map(|(name, should)| (lend(schema, name, should), should.iter().any(|(_, value)| value.holds_sensitive())))
        .collect();
    let mut declarations: Vec<Declaration<'_>> =
        resources.iter_mut().map(|(name, should)| Declaration { name, should }).collect();
    let problems = provider.canonicalize(cx, &mut declarations);
    if problems.len() != resources.len() {
        let (of, made) = (resources.len(), problems.len());
        let message = eco_format!("the provider `{}` canonicalised {made} of {of} resources", provider.name());
        return vec![vec![ValidationError::new(message)]; of];
    }
    for (((name, should), (lent, has_secrets)), problems) in resources.iter_mut().zip(prepared).zip(&problems) {
        if problems.is_empty() {
            settle(schema, name, should, lent, has_secrets);
        }
    }
    problems
}

/// Seals secrets that the provider rebuilt, and derives the name.
fn settle(schema: &TypeSchema, name: &mut EcoString, should: &mut Attributes, lent: Option<EcoString>, secrets: bool) {
    for (name, value) in should.iter_mut().filter(|_| secrets) {
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
}

/// Canonicalises one resource.
///
/// # Errors
/// All problems of the resource. The values are then undefined.
pub fn canonicalize_one(
    provider: &dyn Provider,
    cx: &Context<'_>,
    name: &mut EcoString,
    should: &mut Attributes,
) -> Result<(), Vec<ValidationError>> {
    let problems = canonicalize(provider, cx, &mut [(name, should)]).pop().unwrap_or_default();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Returns the canonical name of a declared resource, and its namevars. None if the name does not change or has
/// no canonical form.
pub fn canonical_name(
    provider: &dyn Provider,
    cx: &Context<'_>,
    name: &EcoString,
    should: &Attributes,
) -> Option<(EcoString, Attributes)> {
    if !provider.schema().has(Feature::Canonicalize) {
        return None;
    }
    let (mut canonical, mut values) = (name.clone(), should.clone());
    canonicalize_one(provider, cx, &mut canonical, &mut values).ok()?;
    let named = |namevar: &str| values.get(namevar).map(|value| (namevar.to_owned(), value.clone()));
    let namevars = provider.schema().namevars().filter_map(|namevar| named(namevar.name.as_str())).collect();
    (canonical != *name).then_some((canonical, namevars))
}

/// Adds the only namevar to the values if it is missing. Returns its name.
fn lend(schema: &TypeSchema, name: &EcoString, should: &mut Attributes) -> Option<EcoString> {
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
