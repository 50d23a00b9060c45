//! Documents that resource scripts read and print.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Difference, Hash, State, Value, from_json};
use kilter_provider::Mode;
use serde_json::Value as Json;

use super::error::MoldCause;
use crate::coerce::typed;
use crate::convention::{attribute_name, beginning};
use crate::metadata::{EXISTS, Metadata};

/// Returns the identity of a resource: kind, name, and the key attribute of the script. Without a declared key,
/// a name that is a path is also passed as `path`, as in mold's documentation.
pub(super) fn identity(kind: &Metadata, name: &str) -> Hash {
    let mut document = Hash::default();
    document.insert("kind".into(), Value::from(kind.schema.name.as_str()));
    document.insert("name".into(), Value::from(name));
    let key =
        if kind.schema.others.is_some() && kind.key() == "name" && name.starts_with('/') { "path" } else { kind.key() };
    document.insert(key.into(), Value::from(name));
    document
}

/// Returns the desired state of a resource, for a change or a preview.
pub(super) fn prescription(kind: &Metadata, name: &str, should: &Attributes, mode: Mode) -> Value {
    let mut document = identity(kind, name);
    if mode == Mode::Preview {
        document.insert("ral_noop".into(), Value::Boolean(true));
    }
    for (attribute, value) in should.iter().filter(|(name, value)| !value.is_undef() && *name != kind.key()) {
        document.insert(attribute.text().clone(), value.clone());
    }
    Value::hash(document)
}

/// Converts an observation to a state. Also returns the undeclared attributes. A value outside of its type
/// stays unchanged if its attribute `is_repairable`.
///
/// # Errors
/// The fault of the document, or the error that the script reports.
pub(super) fn state(
    kind: &Metadata,
    name: &EcoString,
    document: &Json,
    is_repairable: &dyn Fn(&str) -> bool,
) -> Result<(State, Vec<EcoString>), MoldCause> {
    let entries = checked(kind, name, document)?;
    if let Some(error) = entries.get("error").filter(|_| kind.schema.find("error").is_none()) {
        return Err(MoldCause::Reported(error_text(error)));
    }
    let exists = match entries.get(EXISTS) {
        None => true,
        Some(Json::Bool(exists)) => *exists,
        Some(other) => return Err(eco_format!("`exists` is true or false, not {}", shown(other)).into()),
    };
    let mut attributes = Attributes::new();
    attributes.push(EXISTS, Value::Boolean(exists));
    let mut outputs = Attributes::new();
    let (mut undeclared, mut wrong) = (Vec::new(), Vec::new());
    for (key, raw) in entries.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "name" | EXISTS)) {
        let raw = from_json(raw);
        if let Some(sent) = kind.sent(key, &raw) {
            match sent {
                Ok(Some(value)) => outputs.set(key.as_str(), value),
                Ok(None) => {}
                Err(why) => wrong.push(eco_format!("{key} {}", beginning(&why, 200))),
            }
            continue;
        }
        match kind.schema.find(key) {
            None if kind.schema.others.is_some() => attributes.set(key.as_str(), raw),
            None => undeclared.push(key.as_str().into()),
            Some(attribute) => match typed(&attribute.data_type, &raw) {
                Ok(Some(value)) => attributes.set(key.as_str(), value),
                Ok(None) => {}
                Err(_) if is_repairable(key) && attribute.data_type.may_hold_secrets() => {
                    attributes.set(key.as_str(), Value::sensitive(raw));
                }
                Err(_) if is_repairable(key) => attributes.set(key.as_str(), raw),
                Err(why) => wrong.push(eco_format!("{key} {}", beginning(&why, 200))),
            },
        }
    }
    if !wrong.is_empty() {
        return Err(eco_format!("it is not of its type: {}", wrong.join("; ")).into());
    }
    Ok((State { exists, outputs, ..State::present(name.clone(), attributes) }, undeclared))
}

/// Returns the changes reported by a conform script: `changed`, with `was` and `is` of each attribute. The
/// report is optional.
///
/// # Errors
/// The fault of the document, or the error that the script reports.
pub(super) fn changed(kind: &Metadata, name: &str, document: &Json) -> Result<Vec<Difference>, MoldCause> {
    let entries = checked(kind, name, document)?;
    if let Some(error) = entries.get("error").filter(|_| kind.schema.find("error").is_none()) {
        return Err(MoldCause::Reported(error_text(error)));
    }
    let Some(changed) = entries.get("changed").filter(|_| kind.schema.find("changed").is_none()) else {
        return Ok(Vec::new());
    };
    let changed = changed
        .as_object()
        .ok_or_else(|| EcoString::from("`changed` is an object of attributes, each with `was` and `is`"))?;
    let value = |of: &Json, key: &str| of.get(key).map(from_json).unwrap_or_default();
    changed.keys().try_for_each(|key| attribute_name(key).map(|_| ()))?;
    Ok(changed.iter().map(|(name, of)| Difference::new(name.as_str(), value(of, "was"), value(of, "is"))).collect())
}

/// Returns the entries of a document, and checks that it is about this resource.
fn checked<'d>(
    kind: &Metadata,
    name: &str,
    document: &'d Json,
) -> Result<&'d serde_json::Map<String, Json>, EcoString> {
    let entries = document.as_object().ok_or_else(|| eco_format!("an object is expected, not {}", shown(document)))?;
    for (key, asked) in [("kind", kind.schema.name.as_str()), ("name", name), (kind.key(), name)] {
        if let Some(told) = entries.get(key).filter(|told| told.as_str() != Some(asked)) {
            return Err(eco_format!("`{key}` is {}, but the request was for `{asked}`", shown(told)));
        }
    }
    Ok(entries)
}

fn error_text(error: &Json) -> EcoString {
    match error {
        Json::String(text) => beginning(text, 400),
        other => beginning(&other.to_string(), 400),
    }
}

pub(super) fn shown(json: &Json) -> EcoString {
    eco_format!("`{}`", beginning(&json.to_string(), 60))
}
