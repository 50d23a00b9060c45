//! Converts requests to JSON.

use kilter_model::{Attributes, ReceivedValue, to_json_clear};
use kilter_process::Invocation;
use kilter_provider::Mode;
use serde_json::{Map, Value as Json, json};

use crate::convention::{Request, Update, size};

pub(super) fn encode(base: &Invocation, request: &Request<'_>) -> Invocation {
    let invocation = size::limited(base, request);
    let (action, input) = match request {
        Request::Describe => return invocation.arg("ral_action=describe"),
        Request::Watch => return invocation.arg("ral_action=watch"),
        Request::List => ("get", json!({ "names": [] })),
        Request::Find(names) => ("get", json!({ "names": names })),
        Request::FindAs(names, declared) => {
            let entries = names.iter().zip(*declared).filter(|(_, declared)| !declared.is_empty());
            let should: Map<String, Json> =
                entries.map(|(name, declared)| ((*name).to_owned(), object(declared, Some("name")))).collect();
            ("get", json!({ "names": names, "should": should }))
        }
        Request::Update(updates, mode) => {
            let updates: Vec<Json> = updates.iter().map(update).collect();
            ("set", json!({ "ral": { "noop": *mode == Mode::Preview }, "updates": updates }))
        }
        Request::Refresh(of) => {
            let mut entry = json!({ "name": of.name, "should": object(of.should, Some("name")) });
            receive(of, &mut entry);
            ("refresh", json!({ "refreshes": [entry] }))
        }
    };
    invocation.arg(format!("ral_action={action}")).stdin(input.to_string())
}

fn update(update: &Update<'_>) -> Json {
    let is = update.is.map(|is| object(is, None)).unwrap_or_else(|| {
        // With this entry, the provider need not test if the resource exists.
        let absent = update.should.get("ensure").map(|_| ("ensure".to_owned(), Json::from("absent")));
        Json::Object(absent.into_iter().collect())
    });
    let mut json = json!({ "name": update.name, "is": is, "should": object(update.should, Some("name")) });
    receive(update, &mut json);
    json
}

/// Adds the attributes with values from other resources.
fn receive(update: &Update<'_>, json: &mut Json) {
    if !update.received.is_empty() {
        let entry = |receipt: &ReceivedValue| {
            (receipt.attribute.to_string(), json!({ "from": receipt.sources(), "changed": receipt.changed }))
        };
        json["received"] = Json::Object(update.received.iter().map(entry).collect());
    }
}

/// Returns attributes in alphabetical order, with secrets in clear.
fn object(attributes: &Attributes, without: Option<&str>) -> Json {
    let known = attributes.iter().filter(|(name, value)| !value.is_undef() && Some(name.as_str()) != without);
    let mut entries: Vec<(String, Json)> =
        known.map(|(name, value)| (name.to_string(), to_json_clear(value))).collect();
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Json::Object(entries.into_iter().collect::<Map<String, Json>>())
}
