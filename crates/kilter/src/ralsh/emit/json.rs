//! Output as JSON, on one line.

use kilter_model::{AttributeSchema, Difference, to_json};
use kilter_provider::Provider;
use serde_json::{Map, Value as Json, json};

use super::ShownAttributes;
use crate::ralsh::error::Error;
use crate::ralsh::explain;
use crate::ralsh::lookup;

/// Returns providers with their attributes.
pub(super) fn providers(providers: &[&dyn Provider], source: &dyn Fn(&dyn Provider) -> String) -> Json {
    let provider = |provider: &&dyn Provider| {
        let schema = provider.schema();
        let attributes: Vec<Json> = explain::in_order(schema).into_iter().map(attribute).collect();
        json!({
            "name": lookup::qualified(*provider),
            "type": schema.name.as_str(),
            "source": source(*provider),
            "desc": schema.desc.as_str(),
            "suitable": true,
            "attributes": attributes,
        })
    };
    json!({ "providers": providers.iter().map(provider).collect::<Vec<_>>() })
}

fn attribute(attribute: &AttributeSchema) -> Json {
    json!({
        "name": attribute.name.as_str(),
        "desc": explain::desc(attribute),
        "type": explain::type_word(&attribute.data_type),
        "kind": explain::kind(attribute.behaviour),
    })
}

/// Returns resources.
pub(super) fn list<'a>(
    provider: &dyn Provider,
    resources: impl Iterator<Item = (&'a str, ShownAttributes<'a>)>,
) -> Json {
    let resources: Vec<Json> = resources.map(|(name, shown)| resource(provider, name, &shown)).collect();
    json!({ "resources": resources })
}

/// Returns a resource, or an empty object.
pub(super) fn found(provider: &dyn Provider, found: Option<(&str, ShownAttributes<'_>)>) -> Json {
    match found {
        Some((name, shown)) => json!({ "resource": resource(provider, name, &shown) }),
        None => json!({}),
    }
}

/// Returns a resource and its changes.
pub(super) fn updated(
    provider: &dyn Provider,
    (name, shown): (&str, ShownAttributes<'_>),
    changes: &[Difference],
) -> Json {
    let changes: Vec<Json> = changes.iter().map(change).collect();
    json!({ "result": [{ "resource": resource(provider, name, &shown), "changes": changes }] })
}

fn change(change: &Difference) -> Json {
    let mut told = Map::new();
    told.insert("attr".to_owned(), change.attribute.as_str().into());
    if let Some(entry) = &change.entry {
        told.insert("entry".to_owned(), entry.as_str().into());
    }
    told.insert("is".to_owned(), to_json(&change.should));
    told.insert("was".to_owned(), to_json(&change.is));
    Json::Object(told)
}

fn resource(provider: &dyn Provider, name: &str, shown: &ShownAttributes<'_>) -> Json {
    let mut told = Map::new();
    told.insert("name".to_owned(), name.into());
    told.extend(shown.iter().map(|(name, value)| ((*name).to_owned(), to_json(value))));
    let ral = json!({ "type": provider.schema().name.as_str(), "provider": lookup::qualified(provider) });
    told.insert("ral".to_owned(), ral);
    Json::Object(told)
}

/// Returns an error.
pub(super) fn error(trouble: &Error) -> Json {
    let hint = trouble.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    json!({ "error": { "message": format!("{}{hint}", trouble.message) } })
}
