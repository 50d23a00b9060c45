//! Drawings for programs (docs/reference/json.md).

use serde_json::{Value as Json, json};

use super::{Drawing, From};

/// Returns the resources in manifest order, and the edges between them.
pub(crate) fn json(drawing: &Drawing) -> Json {
    let edges = drawing.edges.iter().map(|edge| {
        let (key, value) = match &edge.from {
            From::Written(word) => ("word", *word),
            From::Value(attribute) => ("attribute", attribute.as_str()),
            From::Automatic(reason) => ("reason", *reason),
        };
        json!({
            "first": drawing.nodes[edge.first].label(),
            "second": drawing.nodes[edge.second].label(),
            "notify": edge.notify,
            "origin": edge.from.word(),
            key: value,
        })
    });
    let mut json = json!({
        "resources": drawing.nodes.iter().map(super::DrawnNode::label).collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "left_out": drawing.left_out,
    });
    let states = drawing.nodes.iter().filter_map(|node| Some((node.label(), Json::from(node.state.clone()?))));
    let states: serde_json::Map<String, Json> = states.collect();
    if !states.is_empty() {
        json["states"] = states.into();
    }
    json
}
