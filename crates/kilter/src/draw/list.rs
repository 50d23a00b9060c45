//! Drawings for people: the order of resources, with the reasons.

use super::{Drawing, Edge, order::order};
use crate::style::{FAILED, FAINT, NAME, styled};
use crate::visible::visible;

/// Returns the resources in the order of work, each with its predecessors.
pub(crate) fn list(drawing: &Drawing) -> String {
    let mut before: Vec<Vec<&Edge>> = vec![Vec::new(); drawing.nodes.len()];
    drawing.edges.iter().for_each(|edge| before[edge.second].push(edge));
    let mut text = String::new();
    for node in order(drawing) {
        let state = match drawing.nodes[node].state.as_deref() {
            Some(state @ ("failed" | "skipped")) => format!(": {}", styled(FAILED, state)),
            Some(state) => format!(": {state}"),
            None => String::new(),
        };
        text += &format!("{}{state}\n", styled(NAME, visible(&drawing.nodes[node].label())));
        for edge in &before[node] {
            let first = visible(&drawing.nodes[edge.first].label());
            let refreshed = if edge.notify { ", refreshed by its changes" } else { "" };
            text += &format!("    after {first} {}{refreshed}\n", styled(FAINT, format!("({})", edge.label())));
        }
    }
    text + &totals(drawing)
}

fn totals(drawing: &Drawing) -> String {
    let count = |word: &str| drawing.edges.iter().filter(|edge| edge.from.word() == word).count();
    let origins: Vec<String> = ["written", "value", "automatic"]
        .into_iter()
        .map(|word| (count(word), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let origins = if origins.is_empty() { String::new() } else { format!(": {}", origins.join(", ")) };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (nodes, edges) = (drawing.nodes.len(), drawing.edges.len());
    let left_out = match drawing.left_out {
        0 => String::new(),
        left_out => format!("; {left_out} left out by `when`"),
    };
    format!("{nodes} resource{}, {edges} edge{}{origins}{left_out}\n", plural(nodes), plural(edges))
}
