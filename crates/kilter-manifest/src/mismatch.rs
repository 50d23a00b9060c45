//! Problems of values that do not match the type of their attribute, each with a suggestion.

use ecow::{EcoString, eco_format};
use kilter_model::{DataType, Mismatch, Value};

use crate::diagnostic::{Diagnostic, choose, list};
use crate::scalar::{has_leading_zero, typed};
use crate::tree::{NodeKind, View};

/// Creates the problem of a value that does not match the type of its attribute. It contains no secret.
pub(crate) fn mismatched(
    name: &str,
    wanted: &DataType,
    value: &Value,
    mismatch: &Mismatch,
    view: Option<View<'_>>,
) -> Diagnostic {
    if value.holds_sensitive() {
        return Diagnostic::new(eco_format!("`{name}` expects {wanted}, got a sensitive value of another type"));
    }
    let problem = Diagnostic::new(eco_format!("`{name}` {mismatch}"));
    problem.hint_if(advice(wanted, value, view))
}

/// Suggests a correction of a value.
fn advice(wanted: &DataType, value: &Value, view: Option<View<'_>>) -> Option<EcoString> {
    let wanted = &*wanted.open();
    let quoted = view.is_some_and(|view| view.kind() != NodeKind::Plain);
    let allowed = wanted.allowed();
    match (wanted, value) {
        (DataType::Boolean(_), Value::String(text)) => match text.to_lowercase().as_str() {
            "yes" | "on" | "true" | "y" => Some("write true, without quotes".into()),
            "no" | "off" | "false" | "n" => Some("write false, without quotes".into()),
            _ => Some("write true or false".into()),
        },
        (_, Value::String(text)) if !allowed.is_empty() => Some(choose(text, &allowed, "allowed are")),
        (_, _) if !allowed.is_empty() => Some(list(&allowed, "allowed are")),
        (DataType::Integer(..) | DataType::Float(..) | DataType::Numeric, Value::String(text)) => {
            if !quoted && has_leading_zero(text) {
                let digits = text.trim_start_matches('0');
                let digits = if digits.is_empty() { "0" } else { digits };
                Some(eco_format!("a number has no zeros in front: write {digits}, or 0o{digits} for an octal one"))
            } else if typed(text).is_some_and(|v| wanted.check(&v).is_ok()) {
                Some(eco_format!("write {text}, without quotes"))
            } else {
                None
            }
        }
        (DataType::Array(..), Value::String(_) | Value::Integer(_)) => Some("write a list: [x, y]".into()),
        (DataType::String(..) | DataType::Pattern(_), Value::Integer(_) | Value::Float(_) | Value::Boolean(_)) => {
            Some("string(x) converts a value to text; quotes make a literal a text".into())
        }
        (DataType::String(..), Value::Array(_)) => Some("one text is expected, not a list".into()),
        _ => None,
    }
}
