//! Evaluates operators on known values in clear.

use std::cmp::Ordering;

use ecow::{EcoString, eco_format};

use super::ast::Operator;
use super::functions::too_long;
use super::{MAX_ELEMENTS, MAX_TEXT};
use crate::value::Value;

/// An error before its location is known. Never contains a value, which could be a secret.
pub(super) struct OperatorError {
    pub(super) message: EcoString,
    pub(super) hint: Option<EcoString>,
}

pub(super) fn trouble(message: impl Into<EcoString>) -> OperatorError {
    OperatorError { message: message.into(), hint: None }
}

impl OperatorError {
    pub(super) fn with(mut self, hint: impl Into<EcoString>) -> OperatorError {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns the kind of a value with an article, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value.unwrap_sensitive() {
        Value::Undef => "null",
        Value::Boolean(_) => "a boolean",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::String(_) => "a text",
        Value::Binary(_) => "bytes",
        Value::Array(_) => "a list",
        Value::Hash(_) => "a map",
        Value::Sensitive(_) => "a sensitive value",
        Value::Default => "default",
        Value::Timestamp(_) => "a point in time",
        Value::Timespan(_) => "a span of time",
        Value::Regexp(_) => "a regular expression",
        Value::SemVer(_) => "a version",
        Value::SemVerRange(_) => "a range of versions",
        Value::Type(_) => "a data type",
    }
}

/// Evaluates an operator other than `&&` and `||`.
pub(super) fn apply(operator: Operator, left: &Value, right: &Value) -> Result<Value, OperatorError> {
    use Operator::*;
    Ok(Value::Boolean(match operator {
        Equal => equal(left, right)?,
        NotEqual => !equal(left, right)?,
        Less => compare(left, right)? == Ordering::Less,
        LessEqual => compare(left, right)? != Ordering::Greater,
        Greater => compare(left, right)? == Ordering::Greater,
        GreaterEqual => compare(left, right)? != Ordering::Less,
        In => return within(left, right).map(Value::Boolean),
        Add => return add(left, right),
        Subtract | Multiply | Divide | Remainder => return calculate(operator, left, right),
        And | Or => return Err(trouble("&& and || take booleans")),
    }))
}

/// Tests values of the same kind for equality. Comparing a text with a number is an error, not false.
fn equal(left: &Value, right: &Value) -> Result<bool, OperatorError> {
    let comparable = left.is_undef() || right.is_undef() || kind(left) == kind(right);
    if comparable {
        return Ok(same(left, right));
    }
    let message = eco_format!("{} is never equal to {}", kind(left), kind(right));
    Err(match (left, right) {
        (Value::String(_), Value::Integer(_) | Value::Float(_))
        | (Value::Integer(_) | Value::Float(_), Value::String(_)) => {
            trouble(message).with("write the number in quotes, or make a number of the text: int(x)")
        }
        _ => trouble(message),
    })
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Integer(_) | Value::Float(_), Value::Integer(_) | Value::Float(_)) => {
            numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)),
        (Value::Hash(a), Value::Hash(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}

fn numbers(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(b)),
        _ => float(left)?.partial_cmp(&float(right)?),
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn compare(left: &Value, right: &Value) -> Result<Ordering, OperatorError> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => Ok(a.as_str().cmp(b.as_str())),
        (Value::Boolean(a), Value::Boolean(b)) => Ok(a.cmp(b)),
        _ => numbers(left, right).ok_or_else(|| {
            trouble(eco_format!("{} cannot be ordered against {}", kind(left), kind(right)))
                .with("int(x) makes a number of a text; versioncmp(a, b) compares versions")
        }),
    }
}

fn within(needle: &Value, haystack: &Value) -> Result<bool, OperatorError> {
    match (needle, haystack) {
        (_, Value::Array(values)) => Ok(values.iter().any(|value| same(needle, value))),
        (Value::String(key), Value::Hash(entries)) => Ok(entries.contains_key(key)),
        (Value::String(_), Value::String(_)) => {
            Err(trouble("`in` looks into a list or a map").with("a part of a text: text.contains(part)"))
        }
        _ => Err(trouble(eco_format!("{} cannot be in {}", kind(needle), kind(haystack)))),
    }
}

fn add(left: &Value, right: &Value) -> Result<Value, OperatorError> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => {
            if a.len() + b.len() > MAX_TEXT {
                return Err(too_long());
            }
            let mut text = EcoString::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Value::String(text))
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() + b.len() > MAX_ELEMENTS {
                return Err(trouble("the list is too long"));
            }
            Ok(Value::Array(a.iter().chain(b.iter()).cloned().collect()))
        }
        (Value::String(_), Value::Integer(_) | Value::Float(_) | Value::Boolean(_))
        | (Value::Integer(_) | Value::Float(_) | Value::Boolean(_), Value::String(_)) => {
            Err(trouble(eco_format!("{} cannot be added to {}", kind(right), kind(left)))
                .with("string(x) makes a text of a number"))
        }
        _ => calculate(Operator::Add, left, right),
    }
}

fn calculate(operator: Operator, left: &Value, right: &Value) -> Result<Value, OperatorError> {
    if let (Value::Integer(a), Value::Integer(b)) = (left, right) {
        let result = match operator {
            Operator::Add => a.checked_add(*b),
            Operator::Subtract => a.checked_sub(*b),
            Operator::Multiply => a.checked_mul(*b),
            _ if *b == 0 => return Err(trouble("division by zero")),
            Operator::Divide => a.checked_div(*b),
            _ => a.checked_rem(*b),
        };
        return result.map(Value::Integer).ok_or_else(|| trouble("the number does not fit in 64 bits"));
    }
    let (Some(a), Some(b)) = (float(left), float(right)) else {
        return Err(trouble(eco_format!(
            "`{}` takes numbers, not {} and {}",
            operator.symbol(),
            kind(left),
            kind(right)
        )));
    };
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        _ => a % b,
    };
    match result.is_finite() {
        true => Ok(Value::Float(result)),
        false => Err(trouble("the result is not a finite number")),
    }
}
