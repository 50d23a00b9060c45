//! The path of a value in a document, and values without their notation.

use std::fmt;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value};

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Name(EcoString),
    Index(usize),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Name(name) => write!(f, "key `{name}`"),
            Key::Index(index) => write!(f, "item {index}"),
        }
    }
}

/// Returns the path that the attribute `key` declares: a name, or a list of names and indexes.
///
/// # Errors
/// If it is empty, or an index is negative.
pub(super) fn path(key: Option<&Value>) -> Result<Vec<Key>, EcoString> {
    let steps = key.map(Value::as_list).unwrap_or_default();
    if steps.is_empty() {
        return Err("a path has at least one key".into());
    }
    let step = |step: &Value| match (step.as_str(), step.as_integer().map(usize::try_from)) {
        (Some(name), _) => Ok(Key::Name(name.into())),
        (None, Some(Ok(index))) => Ok(Key::Index(index)),
        _ => Err(eco_format!("`{step}` is not a key: write a text, or an index that counts from 0")),
    };
    steps.iter().map(step).collect()
}

/// Returns a path for messages: `a.b[0]`, `"a.b"[0]`. Different paths have different texts.
pub(super) fn shown(path: &[Key]) -> EcoString {
    let mut text = EcoString::new();
    for key in path {
        match key {
            Key::Name(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                match name.is_empty() || name.contains(['.', '[', '"']) {
                    true => text.push_str(&eco_format!("{name:?}")),
                    false => text.push_str(name),
                }
            }
            Key::Index(index) => text.push_str(&eco_format!("[{index}]")),
        }
    }
    text
}

/// Returns the value at a path.
pub(super) fn get<'v>(value: &'v Value, path: &[Key]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| match key {
        Key::Name(name) => value.as_hash()?.get(name),
        Key::Index(index) => value.as_array()?.get(*index),
    })
}

/// Returns a value with another one at a path. All parents must exist.
pub(super) fn with(value: &Value, path: &[Key], new: Option<&Value>) -> Value {
    let Some((key, rest)) = path.split_first() else { return new.cloned().unwrap_or_default() };
    match (value, key) {
        (Value::Hash(entries), Key::Name(name)) => {
            let mut entries: Hash = (**entries).clone();
            match (entries.get(name), rest) {
                (_, []) if new.is_none() => drop(entries.shift_remove(name)),
                (old, _) => {
                    let changed = with(&old.cloned().unwrap_or_default(), rest, new);
                    entries.insert(name.clone(), changed);
                }
            }
            Value::Hash(Arc::new(entries))
        }
        (Value::Array(items), Key::Index(index)) => {
            let mut items = items.to_vec();
            match (items.get(*index), rest) {
                (Some(_), []) if new.is_none() => drop(items.remove(*index)),
                (Some(old), _) => items[*index] = with(old, rest, new),
                (None, _) => items.push(with(&Value::Undef, rest, new)),
            }
            Value::array(items)
        }
        _ => value.clone(),
    }
}

/// Wraps a value in the mappings and lists of a path.
///
/// # Errors
/// If the path skips items of a list.
pub(super) fn wrapped(path: &[Key], value: &Value) -> Result<Value, EcoString> {
    path.iter().rev().try_fold(value.clone(), |value, key| match key {
        Key::Name(name) => Ok(Value::hash([(name.clone(), value)])),
        Key::Index(0) => Ok(Value::array([value])),
        Key::Index(index) => Err(eco_format!("item {index} cannot be added to a list without items")),
    })
}

/// Returns the part of a value that another value declares: of mappings, the declared keys.
pub(super) fn restricted(is: &Value, should: &Value) -> Value {
    match (is, should.as_hash()) {
        (Value::Hash(entries), Some(declared)) => Value::hash(
            declared.iter().filter_map(|(key, should)| Some((key.clone(), restricted(entries.get(key)?, should)))),
        ),
        _ => is.clone(),
    }
}

/// Returns the kind of a value for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Undef => "null",
        Value::Boolean(_) => "a boolean",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Array(_) => "a list",
        Value::Hash(_) => "a mapping",
        _ => "a text",
    }
}
