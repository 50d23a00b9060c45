//! Values on the command line, as libral reads them.

use kilter_model::{AttributeSchema, Attributes, Behaviour, DataType, TypeSchema, Value};
use kilter_provider::Provider;

use super::error::Error;
use super::lookup;
use crate::parse_value;

/// Returns the attributes of words `ATTRIBUTE=VALUE`. The last value of a repeated attribute wins.
///
/// # Errors
/// If a word has another form.
pub(super) fn attributes(provider: &dyn Provider, words: &[String]) -> Result<Attributes, Error> {
    let mut attributes = Attributes::new();
    for word in words {
        let pair = word.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, text) =
            pair.ok_or_else(|| Error::new(format!("failed to read '{word}': it is not of the form ATTRIBUTE=VALUE")))?;
        let value = settable(provider.schema(), name).and_then(|attribute| value(attribute, text));
        let value = value.map_err(|why| {
            let hint = "to get a list of attributes and valid values";
            Error::new(format!("failed to read attribute {name}: {why}"))
                .hint(format!("run 'ralsh -e {}' {hint}", lookup::qualified(provider)))
        })?;
        attributes.set(name, value);
    }
    Ok(attributes)
}

fn settable<'s>(schema: &'s TypeSchema, name: &str) -> Result<&'s AttributeSchema, String> {
    let attribute = schema.find(name).ok_or_else(|| format!("there is no attribute '{name}'"))?;
    match attribute.behaviour {
        Behaviour::ReadOnly => Err("it can only be read".to_owned()),
        Behaviour::Namevar if schema.namevars().count() == 1 => {
            Err("it is what names the resource, and is given as NAME".to_owned())
        }
        _ => Ok(attribute),
    }
}

fn value(attribute: &AttributeSchema, text: &str) -> Result<Value, String> {
    match &*attribute.data_type.open() {
        DataType::Boolean(_) if !attribute.data_type.is_sensitive() => match text.to_lowercase().parse() {
            Ok(truth) => Ok(Value::Boolean(truth)),
            Err(_) => Err("invalid boolean: must be either 'true' or 'false'".to_owned()),
        },
        DataType::Array(of, ..) if matches!(**of, DataType::String(..)) && !attribute.data_type.is_sensitive() => {
            let list = list(text)?;
            attribute.data_type.check(&list).map_err(|mismatch| mismatch.to_string())?;
            Ok(list)
        }
        _ => parse_value::value_of(attribute, &[text]).map_err(|error| match error.hint() {
            Some(hint) => format!("{error} ({hint})"),
            None => error.to_string(),
        }),
    }
}

/// Returns elements separated by commas; an empty text has none.
fn list(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::array([]));
    }
    let elements: Vec<&str> = text.split(',').map(str::trim).collect();
    match elements.contains(&"") {
        true => Err(format!("bad array: entries in '{text}' can not be blank")),
        false => Ok(Value::strings(elements)),
    }
}
