//! Parses resources and changes in JSON.

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeName, Attributes, from_json};
use serde_json::{Map, Value as Json};

use crate::convention::{
    AttributeChange, ChangeReport, ErrorKind, ProtocolError, Record, RecordError, attribute_name, beginning,
    message_text,
};

/// Parses the resources of a reply to `get`.
pub(super) fn resources(json: &Json) -> Result<Vec<Record>, ProtocolError> {
    let reply = reply(json)?;
    let Some(list) = reply.get("resources") else {
        return Err(shape("the reply", "`resources` is missing"));
    };
    let Json::Array(list) = list else { return Err(expected("resources", "an array", list)) };
    list.iter().enumerate().map(|(at, entry)| record(entry, at)).collect()
}

fn record(entry: &Json, at: usize) -> Result<Record, ProtocolError> {
    let (entry, name) = named(entry, "resources", at)?;
    let mut attributes = Attributes::with_capacity(entry.len().saturating_sub(1));
    let mut error = None;
    for (key, value) in entry {
        match key.as_str() {
            "name" => {}
            "error" => error = Some(parse_error(value, &eco_format!("resources[{at}].error"))?),
            key => attributes.push(AttributeName::from(key), from_json(value)),
        }
    }
    Ok(Record { name, attributes, error, ..Record::default() })
}

/// Parses the changes of a reply to `set`.
pub(super) fn changes(json: &Json) -> Result<ChangeReport, ProtocolError> {
    let reply = reply(json)?;
    let mut report = ChangeReport::default();
    match reply.get("derive") {
        None | Some(Json::Null) => {}
        Some(Json::Bool(derive)) => report.derive = *derive,
        Some(other) => return Err(expected("derive", "true or false", other)),
    }
    let list = match reply.get("changes") {
        None | Some(Json::Null) => return Ok(report),
        Some(Json::Array(list)) => list,
        Some(other) => return Err(expected("changes", "an array", other)),
    };
    for (at, entry) in list.iter().enumerate() {
        let (entry, name) = named(entry, "changes", at)?;
        for (key, value) in entry.iter().filter(|(key, _)| *key != "name") {
            let place = eco_format!("changes[{at}].{key}");
            match key.as_str() {
                "error" if is_error(value) => report.errors.push((name.clone(), parse_error(value, &place)?)),
                key => {
                    attribute_name(key).map_err(|why| shape(&place, &why))?;
                    report.changes.push(change(&name, key, value, &place)?);
                }
            }
        }
        report.told.push(name);
    }
    Ok(report)
}

/// Returns true if an entry `error` is an error. It is a change of an attribute with that name if it has `is`
/// and `was`.
fn is_error(value: &Json) -> bool {
    !(value.get("is").is_some() && value.get("was").is_some())
}

fn change(name: &EcoString, key: &str, value: &Json, place: &EcoString) -> Result<AttributeChange, ProtocolError> {
    let Json::Object(entry) = value else { return Err(expected(place, "an object with `is` and `was`", value)) };
    let of = |side: &str| match entry.get(side) {
        Some(value) => Ok(from_json(value)),
        None => Err(shape(place, &eco_format!("there is no `{side}`"))),
    };
    Ok(AttributeChange { name: name.clone(), attribute: key.into(), is: of("is")?, was: of("was")? })
}

/// Returns the object of a reply, or the error that it contains.
fn reply(json: &Json) -> Result<&Map<String, Json>, ProtocolError> {
    let Json::Object(reply) = json else { return Err(expected("the reply", "an object", json)) };
    match reply.get("error") {
        None => Ok(reply),
        Some(error) => {
            let RecordError { kind, message } = parse_error(error, "error")?;
            Err(ProtocolError::Reported { kind, message })
        }
    }
}

/// Returns an entry and its name.
fn named<'j>(entry: &'j Json, list: &str, at: usize) -> Result<(&'j Map<String, Json>, EcoString), ProtocolError> {
    let place = || eco_format!("{list}[{at}]");
    let Json::Object(object) = entry else { return Err(expected(&place(), "an object", entry)) };
    match object.get("name") {
        Some(Json::String(name)) if !name.is_empty() => Ok((object, name.into())),
        Some(Json::String(_)) => Err(shape(&eco_format!("{list}[{at}].name"), "it is empty")),
        Some(other) => Err(expected(&eco_format!("{list}[{at}].name"), "a text", other)),
        None => Err(shape(&place(), "`name` is missing")),
    }
}

/// Kind of an error of a device that does not answer. A transport retries a connection after it.
pub(crate) const UNREACHABLE: &str = "unreachable";

/// Parses an error: `{"message": …, "kind": …}`. A message may be a list of lines.
fn parse_error(error: &Json, place: &str) -> Result<RecordError, ProtocolError> {
    let Json::Object(error) = error else { return Err(expected(place, "an object with `message` and `kind`", error)) };
    let mut message: EcoString = match error.get("message") {
        None | Some(Json::Null) => "it failed without a reason".into(),
        Some(Json::String(message)) => message.trim().into(),
        Some(Json::Array(parts)) if parts.iter().all(Json::is_string) => {
            parts.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("\n").into()
        }
        Some(other) => return Err(expected(&eco_format!("{place}.message"), "a text", other)),
    };
    let kind = match error.get("kind") {
        None | Some(Json::Null) => ErrorKind::Failed,
        Some(Json::String(word)) if word == UNREACHABLE => ErrorKind::Failed,
        Some(Json::String(word)) => ErrorKind::from_word(word).unwrap_or_else(|| {
            message.push_str(&eco_format!(" (of the unknown kind `{word}`)"));
            ErrorKind::Failed
        }),
        Some(other) => return Err(expected(&eco_format!("{place}.kind"), "unknown, forbidden or failed", other)),
    };
    if kind == ErrorKind::Forbidden {
        message = eco_format!("forbidden: {message}");
    }
    Ok(RecordError { kind, message: message_text(&message) })
}

fn shape(at: &str, why: &str) -> ProtocolError {
    // The path contains names chosen by the script.
    ProtocolError::Shape { at: beginning(at, 80), why: why.into() }
}

fn expected(at: &str, what: &str, found: &Json) -> ProtocolError {
    let found = match found {
        Json::Null => "null",
        Json::Bool(_) => "a truth",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    shape(at, &eco_format!("{what} is expected, not {found}"))
}
