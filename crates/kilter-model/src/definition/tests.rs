mod cases;
mod faults;
mod good;
mod mutated;

use super::*;
use crate::json::from_json;

/// A definition that is written in JSON.
fn value(text: &str) -> Value {
    from_json(&serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// What is wrong with a definition, as people read it.
fn told(text: &str) -> Vec<String> {
    read(&value(text)).faults.iter().map(ToString::to_string).collect()
}
