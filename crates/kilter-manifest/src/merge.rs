//! Merge rules for values of several layers: those of Hiera 5.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value};

/// Rule that merges the values of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeRule {
    /// The value of the highest layer.
    First,
    /// A list of all values and elements of lists, without duplicates; those of the highest layer first.
    Unique,
    /// A mapping with the keys of all mappings; for each key, the value of the highest layer.
    Hash,
    /// Mappings are merged recursively, and lists are united. Of other values, that of the highest layer counts.
    Deep,
}

impl MergeRule {
    pub(crate) const NAMES: [&str; 4] = ["first", "unique", "hash", "deep"];

    pub(crate) fn parse(name: &str) -> Option<MergeRule> {
        let rules = [MergeRule::First, MergeRule::Unique, MergeRule::Hash, MergeRule::Deep];
        MergeRule::NAMES.iter().zip(rules).find(|(known, _)| **known == name).map(|(_, rule)| rule)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            MergeRule::First => "first",
            MergeRule::Unique => "unique",
            MergeRule::Hash => "hash",
            MergeRule::Deep => "deep",
        }
    }

    /// Returns true if the values of all layers contribute.
    pub(crate) fn takes_all(self) -> bool {
        self != MergeRule::First
    }

    /// Merges values, that of the highest layer first. A sensitive value makes the result sensitive.
    ///
    /// # Errors
    /// The index of a value that the rule cannot merge, and the reason.
    pub(crate) fn merge(self, values: &[Value]) -> Result<Value, (usize, EcoString)> {
        let is_sealed = values.iter().any(|value| matches!(value, Value::Sensitive(_)));
        let open: Vec<&Value> = values.iter().map(Value::unwrap_sensitive).collect();
        let merged = match self {
            MergeRule::First => open.first().map_or(Value::Undef, |value| (*value).clone()),
            MergeRule::Unique => {
                let mut all = Vec::new();
                for (at, value) in open.iter().enumerate() {
                    if matches!(value, Value::Hash(_)) {
                        return Err((at, self.refusal("lists and single values", value)));
                    }
                    flatten(value, &mut all);
                }
                Value::array(all)
            }
            MergeRule::Hash => self.mappings(&open)?,
            MergeRule::Deep => {
                let mut merged = open.last().map_or(Value::Undef, |value| (*value).clone());
                for higher in open.iter().rev().skip(1) {
                    merged = deep(higher, &merged);
                }
                merged
            }
        };
        Ok(if is_sealed { Value::sensitive(merged) } else { merged })
    }

    fn mappings(self, values: &[&Value]) -> Result<Value, (usize, EcoString)> {
        let mut merged = Hash::default();
        // The keys have the order of the lowest layer, as in Hiera.
        for (at, value) in values.iter().enumerate().rev() {
            let Value::Hash(entries) = value else { return Err((at, self.refusal("mappings", value))) };
            merged.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok(Value::Hash(Arc::new(merged)))
    }

    fn refusal(self, wanted: &str, found: &Value) -> EcoString {
        eco_format!("the merge rule `{}` expects {wanted}, got {}", self.name(), found.kind())
    }
}

/// Adds a value, or the elements of a list at any depth, without duplicates.
fn flatten(value: &Value, all: &mut Vec<Value>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| flatten(value, all)),
        value if all.contains(value) => {}
        value => all.push(value.clone()),
    }
}

/// Merges a value of a higher layer with one of a lower layer.
fn deep(higher: &Value, lower: &Value) -> Value {
    match (higher.unwrap_sensitive(), lower.unwrap_sensitive()) {
        (Value::Hash(higher), Value::Hash(lower)) => {
            let mut merged = Hash::clone(lower);
            for (key, value) in higher.iter() {
                let value = merged.get(key).map_or_else(|| value.clone(), |below| deep(value, below));
                merged.insert(key.clone(), value);
            }
            Value::Hash(Arc::new(merged))
        }
        (Value::Array(higher), Value::Array(lower)) => {
            let mut merged: Vec<Value> = Vec::with_capacity(lower.len() + higher.len());
            for value in lower.iter().chain(higher.iter()) {
                if !merged.contains(value) {
                    merged.push(value.clone());
                }
            }
            Value::array(merged)
        }
        _ => higher.clone(),
    }
}
