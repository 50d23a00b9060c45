//! Flowcharts of Mermaid, which Markdown pages show.

use super::Drawing;

/// Returns the drawing as a flowchart.
pub(crate) fn mermaid(drawing: &Drawing) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (at, node) in drawing.nodes.iter().enumerate() {
        text += &format!("  r{at}[\"{}\"]\n", escaped(&node.caption()));
        if let Some(colour) = node.colour() {
            text += &format!("  style r{at} fill:{colour}\n");
        }
    }
    for edge in &drawing.edges {
        let label = escaped(&edge.label());
        let line = if edge.notify { format!("-. \"{label}\" .->") } else { format!("-- \"{label}\" -->") };
        text += &format!("  r{} {line} r{}\n", edge.first, edge.second);
    }
    text
}

/// Escapes the special characters of Mermaid and HTML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out += "#quot;",
            '<' => out += "#lt;",
            '>' => out += "#gt;",
            '#' | '&' | '`' | '\\' => out += &format!("#{};", u32::from(c)),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
