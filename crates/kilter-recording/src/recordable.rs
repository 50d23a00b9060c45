//! Conversion of answers to JSON and back.

use std::path::PathBuf;

use ecow::EcoString;
use kilter_model::{Value, from_canonical_json, to_canonical_json_clear};
use serde_json::{Value as Json, json};

/// Message of a replay for a missing answer.
pub(crate) const MISSING: &str = "the recording does not tell";

/// Answer that can be stored as JSON.
pub trait Recordable: Sized {
    /// Returns the answer as JSON, with secrets in clear.
    fn to_json(&self) -> Json;
    /// Returns the answer of a JSON value; none if the value has another form.
    fn from_json(json: &Json) -> Option<Self>;
    /// Returns a placeholder for a missing answer.
    fn missing() -> Self;
    /// Returns true if a recording need not have the answer.
    fn is_optional(what: &str) -> bool {
        what == "columns"
    }
}

impl Recordable for bool {
    fn to_json(&self) -> Json {
        (*self).into()
    }

    fn from_json(json: &Json) -> Option<bool> {
        json.as_bool()
    }

    fn missing() -> bool {
        false
    }
}

impl Recordable for usize {
    fn to_json(&self) -> Json {
        (*self).into()
    }

    fn from_json(json: &Json) -> Option<usize> {
        json.as_u64().and_then(|number| usize::try_from(number).ok())
    }

    fn missing() -> usize {
        0
    }
}

impl Recordable for () {
    fn to_json(&self) -> Json {
        Json::Null
    }

    fn from_json(_: &Json) -> Option<()> {
        Some(())
    }

    fn missing() {}
}

impl Recordable for String {
    fn to_json(&self) -> Json {
        self.as_str().into()
    }

    fn from_json(json: &Json) -> Option<String> {
        json.as_str().map(str::to_owned)
    }

    fn missing() -> String {
        MISSING.to_owned()
    }
}

impl Recordable for EcoString {
    fn to_json(&self) -> Json {
        self.as_str().into()
    }

    fn from_json(json: &Json) -> Option<EcoString> {
        json.as_str().map(EcoString::from)
    }

    fn missing() -> EcoString {
        MISSING.into()
    }
}

impl Recordable for Value {
    fn to_json(&self) -> Json {
        to_canonical_json_clear(self)
    }

    fn from_json(json: &Json) -> Option<Value> {
        from_canonical_json(json).ok()
    }

    fn missing() -> Value {
        Value::Undef
    }
}

/// A value is stored as a list with one element, which distinguishes none from null.
impl<T: Recordable> Recordable for Option<T> {
    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, |value| json!([value.to_json()]))
    }

    fn from_json(json: &Json) -> Option<Option<T>> {
        match json {
            Json::Null => Some(None),
            json => T::from_json(json.as_array()?.first()?).map(Some),
        }
    }

    fn missing() -> Option<T> {
        None
    }
}

impl<T: Recordable> Recordable for Vec<T> {
    fn to_json(&self) -> Json {
        self.iter().map(T::to_json).collect()
    }

    fn from_json(json: &Json) -> Option<Vec<T>> {
        json.as_array()?.iter().map(T::from_json).collect()
    }

    fn missing() -> Vec<T> {
        Vec::new()
    }
}

impl<T: Recordable, E: Recordable> Recordable for Result<T, E> {
    fn to_json(&self) -> Json {
        match self {
            Ok(value) => json!({ "ok": value.to_json() }),
            Err(error) => json!({ "error": error.to_json() }),
        }
    }

    fn from_json(json: &Json) -> Option<Result<T, E>> {
        match json.get("ok") {
            Some(value) => T::from_json(value).map(Ok),
            None => E::from_json(json.get("error")?).map(Err),
        }
    }

    fn missing() -> Result<T, E> {
        Err(E::missing())
    }
}

impl<A: Recordable, B: Recordable> Recordable for (A, B) {
    fn to_json(&self) -> Json {
        json!([self.0.to_json(), self.1.to_json()])
    }

    fn from_json(json: &Json) -> Option<(A, B)> {
        match json.as_array()?.as_slice() {
            [one, other] => Some((A::from_json(one)?, B::from_json(other)?)),
            _ => None,
        }
    }

    fn missing() -> (A, B) {
        (A::missing(), B::missing())
    }
}

impl Recordable for PathBuf {
    fn to_json(&self) -> Json {
        // The path of a provider is always valid text; other paths are only shown.
        self.to_string_lossy().into()
    }

    fn from_json(json: &Json) -> Option<PathBuf> {
        json.as_str().map(PathBuf::from)
    }

    fn missing() -> PathBuf {
        PathBuf::new()
    }
}
