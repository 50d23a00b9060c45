//! Drawings in SVG, without another program.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::layout::{Layout, layout};
use super::{Drawing, DrawnNode, Edge, From};

/// Sizes in pixels: width of a character, height of a box, distance of rows, distance of layers, and margin.
const CHARACTER: f64 = 7.3;
const BOX: f64 = 24.0;
const ROW: f64 = 40.0;
const GAP: f64 = 130.0;
const MARGIN: f64 = 20.0;

/// Maximum number of characters of a title; the tooltip shows all.
const MAX_TITLE_CHARS: usize = 48;

const STYLE: &str = "\
<style>
  text { font: 12px monospace; fill: #1a1a1a }
  .label { font: 10px sans-serif; fill: #555; text-anchor: middle }
  .node { stroke: #666; rx: 5 }
  .edge { fill: none; stroke: #333; stroke-width: 1.2; marker-end: url(#tip) }
  .automatic { stroke: #aaa } .value { stroke: #2563eb }
  .notify { stroke-dasharray: 6 4 }
</style>
<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
orient=\"auto\">\
<path d=\"M0 0 L8 4 L0 8 z\" fill=\"context-stroke\"/></marker></defs>
";

/// Returns the drawing as SVG.
pub(crate) fn svg(drawing: &Drawing) -> String {
    let sheet = SvgWriter::new(drawing);
    let (width, height) = sheet.size;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 \
         {width:.0} {height:.0}\">\n{STYLE}<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, edge) in drawing.edges.iter().enumerate() {
        sheet.edge(&mut out, at, edge);
    }
    for (at, node) in drawing.nodes.iter().enumerate() {
        let (x, y) = sheet.places[at];
        let label = node.caption();
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect class=\"node\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BOX}\" \
             fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escaped(&label),
            y - BOX / 2.0,
            sheet.widths[at],
            node.colour().map_or_else(|| colour(&node.type_name), str::to_owned),
            x + 8.0,
            y + 4.0,
            escaped(&shown(node)),
        );
    }
    out + "</svg>\n"
}

/// Positions in pixels: the left end of a box and the middle of its height.
struct SvgWriter {
    layout: Layout,
    widths: Vec<f64>,
    places: Vec<(f64, f64)>,
    /// Left end of each layer, and the width of its widest box.
    layers: Vec<(f64, f64)>,
    size: (f64, f64),
}

impl SvgWriter {
    fn new(drawing: &Drawing) -> SvgWriter {
        let layout = layout(drawing);
        let widths: Vec<f64> = drawing.nodes.iter().map(|node| shown(node).width() as f64 * CHARACTER + 16.0).collect();
        let layers = layers(&layout, &widths);
        let rows = layout.nodes.iter().flatten().chain(layout.bends.iter().flatten());
        let lowest = rows.map(|(_, row)| row + 1.0).fold(0.0, f64::max);
        let right = layers.last().map_or(0.0, |(x, width)| x + width);
        let mut sheet = SvgWriter { layout, widths, places: Vec::new(), layers, size: (right, 0.0) };
        sheet.places = sheet.layout.nodes.iter().map(|at| at.map_or((0.0, 0.0), |at| sheet.point(at))).collect();
        sheet.size.1 = lowest * ROW;
        sheet.lone();
        sheet.size = (sheet.size.0 + MARGIN, sheet.size.1 + 2.0 * MARGIN);
        sheet
    }

    fn point(&self, (layer, row): (usize, f64)) -> (f64, f64) {
        (self.layers[layer].0, MARGIN + (row + 0.5) * ROW)
    }

    /// Places the nodes without edges below the others, side by side.
    fn lone(&mut self) {
        let limit = self.size.0.max(900.0);
        let (mut x, mut y) = (MARGIN, MARGIN + self.size.1 + ROW / 2.0);
        let lone: Vec<usize> = (0..self.places.len()).filter(|node| self.layout.nodes[*node].is_none()).collect();
        for &node in &lone {
            let width = self.widths[node];
            if x > MARGIN && x + width > limit {
                (x, y) = (MARGIN, y + ROW);
            }
            self.places[node] = (x, y);
            x += width + MARGIN;
            self.size.0 = self.size.0.max(x - MARGIN);
        }
        if !lone.is_empty() {
            self.size.1 = y + ROW / 2.0 - MARGIN;
        }
    }

    fn edge(&self, out: &mut String, at: usize, edge: &Edge) {
        let (x, y) = self.places[edge.first];
        let mut from = (x + self.widths[edge.first], y);
        let mut path = format!("M{:.1} {:.1}", from.0, from.1);
        let mut middle = None;
        let bends = self.layout.bends[at].iter().flat_map(|&(layer, row)| {
            let (x, y) = self.point((layer, row));
            [(x, y), (x + self.layers[layer].1, y)]
        });
        for (step, to) in bends.chain([self.places[edge.second]]).enumerate() {
            if step % 2 == 0 {
                let half = (from.0 + to.0) / 2.0;
                let _ = write!(path, " C{half:.1} {:.1} {half:.1} {:.1} {:.1} {:.1}", from.1, to.1, to.0, to.1);
                middle.get_or_insert((half, (from.1 + to.1) / 2.0));
            } else {
                let _ = write!(path, " L{:.1} {:.1}", to.0, to.1);
            }
            from = to;
        }
        let class = match (&edge.from, edge.notify) {
            (_, true) => "edge notify".to_owned(),
            (From::Written(_), false) => "edge".to_owned(),
            (other, false) => format!("edge {}", other.word()),
        };
        let (x, y) = middle.unwrap_or(from);
        let label = escaped(&edge.label());
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"{path}\"/><text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
            y - 4.0
        );
    }
}

/// Returns the left end of each layer and the width of its widest box.
fn layers(layout: &Layout, widths: &[f64]) -> Vec<(f64, f64)> {
    let mut widest = vec![0.0_f64; layout.layers];
    for (at, width) in layout.nodes.iter().zip(widths) {
        if let Some((layer, _)) = at {
            widest[*layer] = widest[*layer].max(*width);
        }
    }
    let mut x = MARGIN;
    let place = |width: f64| {
        let layer = (x, width);
        x += width + GAP;
        layer
    };
    widest.into_iter().map(place).collect()
}

/// Returns a light colour for a type, always the same.
fn colour(type_name: &str) -> String {
    let hash = type_name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    format!("hsl({} 60% 93%)", hash % 360)
}

/// Returns the text of a box: titles may be cut, states are not.
fn shown(node: &DrawnNode) -> String {
    let state = node.state.as_deref().map(|state| format!(": {state}")).unwrap_or_default();
    short(&node.label()) + &state
}

fn short(label: &str) -> String {
    match label.char_indices().nth(MAX_TITLE_CHARS) {
        Some((cut, _)) => format!("{}…", &label[..cut]),
        None => label.to_owned(),
    }
}

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
