//! Functions and methods of the expression language.

use std::cmp::Ordering;
use std::sync::Arc;

use ecow::{EcoString, eco_format};

use super::operators::{OperatorError, kind, trouble};
use super::{MAX_ELEMENTS, MAX_TEXT, version};
use crate::pattern;
use crate::value::Value;

/// A function, called as `f(x)` or as `x.f()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Has,
    Default,
    String,
    Int,
    Double,
    Versioncmp,
    StartsWith,
    EndsWith,
    Contains,
    Matches,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
}

use Function::*;

/// Table of functions: usage, and minimum and maximum number of arguments. The receiver of a method counts as
/// an argument.
const FUNCTIONS: [(Function, &str, &str, (usize, usize)); 7] = [
    (Size, "size", "size(x)", (1, 1)),
    (Has, "has", "has(x.name)", (1, 1)),
    (Default, "default", "default(x, otherwise)", (2, 2)),
    (String, "string", "string(x)", (1, 1)),
    (Int, "int", "int(x)", (1, 1)),
    (Double, "double", "double(x)", (1, 1)),
    (Versioncmp, "versioncmp", "versioncmp(a, b)", (2, 2)),
];

const METHODS: [(Function, &str, &str, (usize, usize)); 11] = [
    (Size, "size", "x.size()", (1, 1)),
    (StartsWith, "startsWith", "text.startsWith(text)", (2, 2)),
    (EndsWith, "endsWith", "text.endsWith(text)", (2, 2)),
    (Contains, "contains", "text.contains(text)", (2, 2)),
    (Matches, "matches", "text.matches(regex)", (2, 2)),
    (LowerAscii, "lowerAscii", "text.lowerAscii()", (1, 1)),
    (UpperAscii, "upperAscii", "text.upperAscii()", (1, 1)),
    (Trim, "trim", "text.trim()", (1, 1)),
    (Split, "split", "text.split(separator)", (2, 2)),
    (Join, "join", "list.join(separator)", (1, 2)),
    (Replace, "replace", "text.replace(old, new)", (3, 3)),
];

impl Function {
    pub(super) fn free(name: &str) -> Option<Function> {
        FUNCTIONS.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    pub(super) fn method(name: &str) -> Option<Function> {
        METHODS.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    pub(super) fn functions() -> Vec<&'static str> {
        FUNCTIONS.iter().map(|known| known.1).collect()
    }

    pub(super) fn methods() -> Vec<&'static str> {
        METHODS.iter().map(|known| known.1).collect()
    }

    fn entry(self) -> &'static (Function, &'static str, &'static str, (usize, usize)) {
        let found = FUNCTIONS.iter().chain(&METHODS).find(|known| known.0 == self);
        found.expect("every function is in one of the tables")
    }

    pub(super) fn usage(self) -> &'static str {
        self.entry().2
    }

    pub(super) fn arity(self) -> (usize, usize) {
        self.entry().3
    }

    /// Calls the function with known arguments in clear. `has` and `default` are evaluated elsewhere, because
    /// they accept arguments without a value.
    pub(super) fn call(self, arguments: &[Value]) -> Result<Value, OperatorError> {
        let text = |index: usize| self.text(arguments, index);
        Ok(match self {
            Has | Default => return Err(trouble("has() and default() take a name")),
            Size => return size(&arguments[0]),
            String => Value::String(text_of(&arguments[0])?),
            Int => return int(&arguments[0]),
            Double => return double(&arguments[0]),
            Versioncmp => Value::Integer(match version::compare(text(0)?, text(1)?) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            }),
            StartsWith => Value::Boolean(text(0)?.starts_with(text(1)?)),
            EndsWith => Value::Boolean(text(0)?.ends_with(text(1)?)),
            Contains => Value::Boolean(text(0)?.contains(text(1)?)),
            Matches => Value::Boolean(matches(text(0)?, text(1)?)?),
            LowerAscii => Value::from(text(0)?.to_ascii_lowercase()),
            UpperAscii => Value::from(text(0)?.to_ascii_uppercase()),
            Trim => Value::from(text(0)?.trim()),
            Split => return split(text(0)?, text(1)?),
            Join => return join(&arguments[0], if arguments.len() > 1 { text(1)? } else { "" }),
            Replace => return replace(text(0)?, text(1)?, text(2)?),
        })
    }

    fn text(self, arguments: &[Value], index: usize) -> Result<&str, OperatorError> {
        match &arguments[index] {
            Value::String(text) => Ok(text),
            other => Err(trouble(eco_format!("{} takes texts, not {}", self.usage(), kind(other)))),
        }
    }
}

fn size(value: &Value) -> Result<Value, OperatorError> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Binary(bytes) => bytes.len(),
        Value::Array(values) => values.len(),
        Value::Hash(entries) => entries.len(),
        other => return Err(trouble(eco_format!("{} has no size", kind(other)))),
    };
    Ok(Value::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// Returns the text of a value for interpolation.
pub(super) fn text_of(value: &Value) -> Result<EcoString, OperatorError> {
    match value.unwrap_sensitive() {
        Value::String(text) => Ok(text.clone()),
        Value::Boolean(_) | Value::Integer(_) | Value::Float(_) => Ok(eco_format!("{value}", value = value.expose())),
        Value::Undef => Err(trouble("null has no text").with("default(x, \"…\") gives one")),
        Value::Binary(_) => Err(trouble("these bytes are not text").with("let the whole value be one `${…}`")),
        other => {
            Err(trouble(eco_format!("{} has no text", kind(other)))
                .with("pick one element, or join a list: .join(\", \")"))
        }
    }
}

fn int(value: &Value) -> Result<Value, OperatorError> {
    match value {
        Value::Integer(number) => Ok(Value::Integer(*number)),
        Value::Float(number) if number.is_finite() && number.abs() < 9.2e18 => Ok(Value::Integer(*number as i64)),
        Value::String(text) => {
            text.trim().parse().map(Value::Integer).map_err(|_| trouble("the text is not a whole number of 64 bits"))
        }
        Value::Float(_) => Err(trouble("the number does not fit in 64 bits")),
        other => Err(trouble(eco_format!("{} is not a number", kind(other)))),
    }
}

fn double(value: &Value) -> Result<Value, OperatorError> {
    match value {
        Value::Integer(number) => Ok(Value::Float(*number as f64)),
        Value::Float(number) => Ok(Value::Float(*number)),
        Value::String(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|n: &f64| n.is_finite())
            .map(Value::Float)
            .ok_or_else(|| trouble("the text is not a number")),
        other => Err(trouble(eco_format!("{} is not a number", kind(other)))),
    }
}

fn matches(text: &str, regex: &str) -> Result<bool, OperatorError> {
    pattern::is_match(regex, text)
        .map_err(|error| trouble(eco_format!("the regular expression does not work: {}", error.reason())))
}

fn split(text: &str, separator: &str) -> Result<Value, OperatorError> {
    if separator.is_empty() {
        return Err(trouble("split takes a separator that is not empty"));
    }
    let parts: Vec<Value> = text.split(separator).take(MAX_ELEMENTS + 1).map(Value::from).collect();
    if parts.len() > MAX_ELEMENTS {
        return Err(trouble("the list is too long"));
    }
    Ok(Value::Array(Arc::from(parts)))
}

fn join(list: &Value, separator: &str) -> Result<Value, OperatorError> {
    let Value::Array(values) = list else {
        return Err(trouble(eco_format!("join takes a list, not {}", kind(list))));
    };
    let mut text = EcoString::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            text.push_str(separator);
        }
        text.push_str(&text_of(value)?);
        if text.len() > MAX_TEXT {
            return Err(too_long());
        }
    }
    Ok(Value::String(text))
}

fn replace(text: &str, old: &str, new: &str) -> Result<Value, OperatorError> {
    let grown = text.len().saturating_add(text.matches(old).count().saturating_mul(new.len()));
    if grown > MAX_TEXT {
        return Err(too_long());
    }
    Ok(Value::String(text.replace(old, new).into()))
}

pub(super) fn too_long() -> OperatorError {
    trouble("the text becomes longer than 16 MiB")
}
