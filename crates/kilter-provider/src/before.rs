//! What is there before something is changed, as what would have to be declared to bring it back.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, State, TypeSchema, Value};

/// The values of what is declared, or that it is absent.
///
/// # Errors
/// When it could not be brought back.
pub fn of_declared(schema: &TypeSchema, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
    let mut before = namevars(schema, should);
    if !is.exists {
        return absent(schema, before);
    }
    for (attribute, declared) in should.iter() {
        let is_property = schema.find(attribute.as_str()).is_some_and(|known| known.behaviour == Behaviour::Property);
        if !is_property {
            continue;
        }
        let value = is.attributes.get(attribute.as_str());
        let value = value.ok_or_else(|| eco_format!("what its `{attribute}` is now cannot be told"))?;
        before.set(attribute.clone(), sealed_like(declared, value));
    }
    Ok(before)
}

/// What names it.
pub fn namevars(schema: &TypeSchema, should: &Attributes) -> Attributes {
    let given =
        schema.namevars().filter_map(|namevar| Some((namevar.name.as_str(), should.get(namevar.name.as_str())?)));
    given.map(|(name, value)| (name, value.clone())).collect()
}

/// That it is not there.
///
/// # Errors
/// When it cannot be removed.
pub fn absent(schema: &TypeSchema, mut before: Attributes) -> Result<Attributes, EcoString> {
    if !schema.is_ensurable() {
        return Err("it is not there, and could not be removed".into());
    }
    before.set("ensure", "absent");
    Ok(before)
}

/// A value that is a secret where the declared one is.
pub fn sealed_like(declared: &Value, value: &Value) -> Value {
    match declared.holds_sensitive() && !value.holds_sensitive() {
        true => Value::sensitive(value.clone()),
        false => value.clone(),
    }
}
