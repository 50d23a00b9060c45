//! Texts in values of attributes.

use ecow::EcoString;
use kilter_model::Value;

/// Returns the texts of a list, or of a single value.
pub(crate) fn texts(list: Option<&Value>) -> Vec<EcoString> {
    let list = list.map(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(EcoString::from).collect()
}

/// Returns a new value, sensitive if the old value is or contains a sensitive value.
pub(crate) fn sealed_like(old: &Value, new: impl Into<Value>) -> Value {
    if old.holds_sensitive() { Value::sensitive(new.into()) } else { new.into() }
}

/// Returns a scalar as text for a program, sensitive values in clear text.
pub(crate) fn word(value: &Value) -> String {
    value.to_text().unwrap_or_default().into()
}
