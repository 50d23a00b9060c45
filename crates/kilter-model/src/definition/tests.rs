mod cases;
mod faults;
mod good;
mod mutated;

use super::*;
use crate::json::from_json;

/// Parses a definition in JSON.
fn value(text: &str) -> Value {
    from_json(&serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Returns the messages of all faults of a definition.
fn told(text: &str) -> Vec<String> {
    read(&value(text)).faults.iter().map(ToString::to_string).collect()
}
