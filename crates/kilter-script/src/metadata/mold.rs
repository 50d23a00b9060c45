//! Metadata keys of the mold convention.

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeSchema, Behaviour, DataType, Feature, TypeSchema};

use super::Actions;
use super::read::MetadataReader;
use crate::yaml::Node;

/// Keys that are valid only with `invoke: mold`.
pub(super) const KEYS: [&str; 3] = ["key", "refresh", "open"];

/// Attribute that is true if a resource exists.
pub(crate) const EXISTS: &str = "exists";

/// Default action for a refresh.
pub(crate) const REFRESH: &str = "refresh";

/// Keys of documents that are not attributes.
pub(super) const RESERVED: [&str; 2] = ["kind", "action"];

/// Returns true for a word of letters, digits, `_` and `-`.
pub(crate) fn is_word(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_part)
}

/// Returns true if a word is a valid one-time action.
pub(crate) fn is_action(word: &str) -> bool {
    is_word(word) && !matches!(word, "list" | "inspect" | "conform" | "watch")
}

/// Interprets the words of `actions` as supported actions and one-time actions. `inspect` is always supported.
/// `conform` is supported unless only `inspect` is listed.
pub(crate) fn of_words(words: Option<&[EcoString]>) -> (Actions, Option<Vec<EcoString>>) {
    let has = |word: &str| words.is_some_and(|words| words.iter().any(|one| one == word));
    let update = has("conform") || !has("inspect");
    let actions = Actions { list: has("list"), find: true, update, refresh: has(REFRESH), watch: has("watch") };
    (actions, words.map(|words| words.iter().filter(|word| is_action(word)).cloned().collect()))
}

/// Reads the attribute that names a resource in documents.
pub(super) fn key(provider: &Node, reader: &mut MetadataReader) -> EcoString {
    let Some(node) = provider.get("key") else { return "name".into() };
    match node.text() {
        Some(key) if is_word(key) && key != EXISTS && !RESERVED.contains(&key.as_str()) => key.clone(),
        _ => {
            reader.fault(node, eco_format!("`key` is the attribute that names a resource, not {}", node.what()));
            "name".into()
        }
    }
}

/// Reads the action for a refresh: the value of the key `refresh`, or the action with that name.
pub(super) fn refresh(
    provider: &Node,
    actions: Actions,
    one_time: Option<&[EcoString]>,
    reader: &mut MetadataReader,
) -> Option<EcoString> {
    let Some(node) = provider.get(REFRESH) else { return actions.refresh.then(|| REFRESH.into()) };
    match node.text() {
        Some(action) if !is_action(action) => {
            reader.fault(node, eco_format!("`{action}` cannot be a one-time action, which `refresh` is"));
        }
        Some(action) if one_time.is_some_and(|known| !known.contains(action)) => {
            reader.fault(node, eco_format!("`refresh` is `{action}`, which is none of the `actions`"));
        }
        Some(action) => return Some(action.clone()),
        None => reader.fault(node, eco_format!("`refresh` is a one-time action, not {}", node.what())),
    }
    None
}

/// Warns about keys that are valid only in the mold convention.
pub(super) fn misplaced(provider: &Node, reader: &mut MetadataReader) {
    for (key, _) in provider.entries().unwrap_or_default() {
        if let Some(name) = key.text().filter(|name| KEYS.contains(&name.as_str())) {
            let instead = if name == REFRESH { "; name `refresh` among the `actions`" } else { "" };
            reader.warn(key, eco_format!("the key `{name}` is valid only with `invoke: mold`{instead}"));
        }
    }
}

/// Adds the `exists` attribute and the features of all mold types.
pub(crate) fn complete(mut schema: TypeSchema, key: &str, refresh: Option<&EcoString>) -> TypeSchema {
    if schema.find(EXISTS).is_none() {
        let data_type = "Boolean".parse().unwrap_or(DataType::Any);
        let exists =
            AttributeSchema::new(EXISTS, data_type, Behaviour::Property, "State of the resource: `present`, `absent`.");
        let after = schema.attributes.iter().position(|one| one.name == *key).map_or(0, |at| at + 1);
        schema.attributes.insert(after, exists);
    }
    let refresh = refresh.map(|_| Feature::Refresh);
    for feature in [Feature::CustomInsync, Feature::SimpleGetFilter].into_iter().chain(refresh) {
        if !schema.has(feature) {
            schema.features.push(feature);
        }
    }
    schema
}

/// Returns the schema of undeclared attributes.
pub(crate) fn other() -> AttributeSchema {
    AttributeSchema::new("other", DataType::Any, Behaviour::Property, "An attribute that only the script knows.")
}
