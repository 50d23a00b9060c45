//! Converts schemas to data.

use std::sync::Arc;

use ecow::EcoString;

use super::attribute::is_mandatory;
use super::relations::{KINDS, word};
use crate::data_type::DataType;
use crate::schema::{AttributeSchema, Behaviour, Comparison, OutputSchema, PartOf, TypeSchema};
use crate::value::{Hash, Value};

/// Returns a definition that [`from_value`](super::from_value) converts back to the schema.
///
/// Types are written without the aliases of the definition.
pub fn to_value(schema: &TypeSchema) -> Value {
    let mut entries = Hash::default();
    let mut set = |key: &str, value: Value| entries.insert(key.into(), value);
    set("name", Value::from(schema.name.as_str()));
    set("desc", Value::String(schema.desc.clone()));
    if !schema.aliases.is_empty() {
        set("aliases", texts(&schema.aliases));
    }
    let features = schema.features.iter().map(|feature| EcoString::from(feature.word()));
    let features: Vec<EcoString> = features.chain(schema.own_features.iter().cloned()).collect();
    if !features.is_empty() {
        set("features", Value::strings(features));
    }
    if !schema.title_patterns.is_empty() {
        let patterns = schema.title_patterns.iter();
        let patterns =
            patterns.map(|p| texts(&[("pattern".into(), p.pattern.source().clone()), ("desc".into(), p.desc.clone())]));
        set("title_patterns", Value::array(patterns));
    }
    set("attributes", attributes(schema));
    for kind in KINDS {
        let mut types: indexmap::IndexMap<EcoString, Vec<EcoString>> = indexmap::IndexMap::new();
        for relation in schema.relations.iter().filter(|relation| relation.kind == kind) {
            let titles = types.entry(relation.type_name.text().clone()).or_default();
            titles.extend(relation.titles.iter().map(crate::schema::AutoTitle::source));
        }
        if !types.is_empty() {
            set(&word(kind), Value::hash(types.into_iter().map(|(name, titles)| (name, Value::strings(titles)))));
        }
    }
    if let Some(PartOf { type_name, by, into }) = &schema.part_of {
        let words = [("type", type_name.as_str()), ("by", by.as_str()), ("into", into.as_str())];
        set("part_of", Value::hash(words.map(|(key, word)| (key, Value::from(word)))));
    }
    if !schema.outputs.is_empty() {
        set("outputs", Value::hash(schema.outputs.iter().map(|one| (one.name.clone(), output(one)))));
    }
    entries.extend(schema.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Hash(Arc::new(entries))
}

/// Returns the attributes of a type by name, each with its whole definition (`context.type.attributes` of the
/// Puppet Resource API).
pub fn attributes(schema: &TypeSchema) -> Value {
    let is_ensurable = schema.find("ensure").is_some();
    Value::hash(schema.attributes.iter().map(|one| (one.name.text().clone(), attribute(one, is_ensurable))))
}

fn attribute(attribute: &AttributeSchema, is_ensurable: bool) -> Value {
    let mut entries = Hash::default();
    let mut set = |key: &str, value: Value| entries.insert(key.into(), value);
    set("type", Value::from(attribute.data_type.to_string()));
    set("desc", Value::String(attribute.desc.clone()));
    if let Some(default) = &attribute.default {
        set("default", default.clone());
    }
    if attribute.behaviour != Behaviour::Property {
        set("behaviour", Value::from(attribute.behaviour.word()));
    }
    if attribute.required != is_mandatory(attribute, is_ensurable) {
        set("required", Value::Boolean(attribute.required));
    }
    if attribute.comparison != Comparison::Equal {
        set("comparison", Value::from(attribute.comparison.word()));
    }
    if attribute.lazy {
        set("lazy", Value::Boolean(true));
    }
    for (key, words) in [("providers", &attribute.providers), ("required_features", &attribute.required_features)] {
        if !words.is_empty() {
            set(key, Value::strings(words.iter().cloned()));
        }
    }
    entries.extend(attribute.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Hash(Arc::new(entries))
}

fn output(output: &OutputSchema) -> Value {
    let desc = Value::String(output.desc.clone());
    match &output.data_type {
        DataType::Any => desc,
        known => Value::hash([("type", Value::from(known.to_string())), ("desc", desc)]),
    }
}

fn texts(entries: &[(EcoString, EcoString)]) -> Value {
    Value::hash(entries.iter().map(|(name, text)| (name.clone(), Value::String(text.clone()))))
}
