//! Converts requests to command-line arguments.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeName, Value};
use kilter_process::Invocation;
use kilter_provider::Mode;

use crate::coerce::written;
use crate::convention::{Refusal, Request, Update, size};

/// Maximum length of a command-line argument in Linux in bytes, without the final NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;

pub(super) fn encode(base: &Invocation, request: &Request<'_>) -> Result<Invocation, Refusal> {
    let invocation = size::limited(base, request);
    match request {
        Request::Describe => Ok(invocation.arg("ral_action=describe")),
        Request::List => Ok(invocation.arg("ral_action=list")),
        Request::Watch => Ok(invocation.arg("ral_action=watch")),
        Request::Find([name]) | Request::FindAs([name], _) => {
            Ok(invocation.arg(word("name", name.as_bytes())?).arg("ral_action=find"))
        }
        Request::Find(names) | Request::FindAs(names, _) => Err(Refusal::Several(names.len())),
        Request::Refresh(of) => Ok(words(invocation, of)?.arg("ral_action=refresh")),
        Request::Update([update], mode) => {
            let mut invocation = words(invocation, update)?;
            if *mode == Mode::Preview {
                invocation = invocation.arg("ral_noop='true'");
            }
            Ok(invocation.arg("ral_action=update"))
        }
        Request::Update(updates, _) => Err(Refusal::Several(updates.len())),
    }
}

/// Adds the name of a resource, its attributes in alphabetical order, and the attributes with values from other
/// resources.
fn words(invocation: Invocation, update: &Update<'_>) -> Result<Invocation, Refusal> {
    let mut attributes: Vec<(&AttributeName, &Value)> =
        update.should.iter().filter(|(name, value)| **name != "name" && !value.is_undef()).collect();
    attributes.sort_unstable_by_key(|(name, _)| *name);
    let mut invocation = invocation.arg(word("name", update.name.as_bytes())?);
    for (name, value) in attributes {
        invocation = invocation.arg(word(name.as_str(), &written(value))?);
    }
    if !update.received.is_empty() {
        let changed = update.received.iter().filter(|receipt| receipt.changed);
        let names: Vec<&str> = changed.map(|receipt| receipt.attribute.as_str()).collect();
        invocation = invocation.arg(word("ral_received", names.join(" ").as_bytes())?);
    }
    Ok(invocation)
}

/// Returns the argument `key='value'`, quoted so that a shell expands and runs no part of it.
fn word(key: &str, value: &[u8]) -> Result<OsString, Refusal> {
    let what = || -> EcoString { eco_format!("the value of `{key}`") };
    if value.contains(&0) {
        return Err(Refusal::Nul(what()));
    }
    let mut word = Vec::with_capacity(key.len() + value.len() + 3);
    word.extend_from_slice(key.as_bytes());
    word.extend_from_slice(b"='");
    for (at, part) in value.split(|byte| *byte == b'\'').enumerate() {
        if at > 0 {
            word.extend_from_slice(b"'\\''");
        }
        word.extend_from_slice(part);
    }
    word.push(b'\'');
    match word.len() > MAX_ARGUMENT_BYTES {
        true => Err(Refusal::TooLong { what: what(), bytes: word.len(), most: MAX_ARGUMENT_BYTES }),
        false => Ok(OsString::from_vec(word)),
    }
}
