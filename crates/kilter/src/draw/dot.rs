//! The DOT language of Graphviz.

use super::{Drawing, Edge, From};

const HEAD: &str = "\
digraph kilter {
  rankdir=LR;
  node [shape=box, style=rounded, fontname=\"monospace\"];
  edge [fontname=\"sans-serif\", fontsize=10];
";

/// Returns the drawing as DOT.
pub(crate) fn dot(drawing: &Drawing) -> String {
    let mut text = HEAD.to_owned();
    for (at, node) in drawing.nodes.iter().enumerate() {
        let fill = node.colour().map(|colour| format!(", style=\"rounded,filled\", fillcolor=\"{colour}\""));
        text += &format!("  r{at} [label={}{}];\n", quoted(&node.caption()), fill.unwrap_or_default());
    }
    for edge in &drawing.edges {
        text += &format!("  r{} -> r{} [{}];\n", edge.first, edge.second, attributes(edge));
    }
    text + "}\n"
}

fn attributes(edge: &Edge) -> String {
    let mut look = format!("label={}", quoted(&edge.label()));
    if edge.notify {
        look += ", style=dashed";
    }
    match edge.from {
        From::Written(_) => {}
        From::Value(_) => look += ", color=\"blue\"",
        From::Automatic(_) => look += ", color=\"gray\"",
    }
    look
}

/// Returns a string of the DOT language, in which a backslash begins an escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
