//! Layout of a graph: layers from left to right, few crossings, short edges.
//!
//! The method is that of Sugiyama, Tagawa and Toda (1981). The layer of a node is the length of the longest path to
//! it, and edges over several layers are split into short ones. Then sweeps sort each layer by the mean of its
//! neighbours. The last step sets the heights.

use super::{Drawing, order::order, place};

/// Number of sweeps from left to right and back.
const SWEEPS: usize = 8;

/// Maximum number of bends. Beyond that, edges over several layers are straight.
const MOST_BENDS: usize = 50_000;

/// Positions of nodes and edges, in layers and rows.
pub(super) struct Layout {
    /// Layer of each node and its height, in rows; none for nodes without edges.
    pub(super) nodes: Vec<Option<(usize, f64)>>,
    /// Bends of each edge, from its first node to its second.
    pub(super) bends: Vec<Vec<(usize, f64)>>,
    /// Number of layers.
    pub(super) layers: usize,
}

/// Item of a layer: a node, or a bend of an edge.
struct Item {
    layer: usize,
    before: Vec<usize>,
    after: Vec<usize>,
}

pub(super) fn layout(drawing: &Drawing) -> Layout {
    let layer = layers(drawing);
    let mut items: Vec<Item> =
        layer.iter().map(|layer| Item { layer: *layer, before: Vec::new(), after: Vec::new() }).collect();
    let bends = cut(drawing, &mut items);
    let is_drawn: Vec<bool> = items.iter().map(|item| !item.before.is_empty() || !item.after.is_empty()).collect();
    let mut rows = rows(&items, &is_drawn);
    for sweep in 0..SWEEPS {
        sort(&mut rows, &items, sweep % 2 == 0);
    }
    let heights = heights(&rows, &items);
    let at = |item: usize| (items[item].layer, heights[item]);
    Layout {
        nodes: (0..drawing.nodes.len()).map(|node| is_drawn[node].then(|| at(node))).collect(),
        bends: bends.into_iter().map(|items| items.into_iter().map(at).collect()).collect(),
        layers: rows.len(),
    }
}

/// Returns the layer of each node: one more than the highest layer of its predecessors.
fn layers(drawing: &Drawing) -> Vec<usize> {
    let mut layer = vec![0; drawing.nodes.len()];
    let mut after = vec![Vec::new(); drawing.nodes.len()];
    drawing.edges.iter().for_each(|edge| after[edge.first].push(edge.second));
    for node in order(drawing) {
        for &next in &after[node] {
            layer[next] = layer[next].max(layer[node] + 1);
        }
    }
    layer
}

/// Joins neighbours, with a bend in each layer that an edge passes; returns the bends of each edge.
fn cut(drawing: &Drawing, items: &mut Vec<Item>) -> Vec<Vec<usize>> {
    let span = |items: &[Item], edge: &super::Edge| items[edge.second].layer - items[edge.first].layer;
    let wanted: usize = drawing.edges.iter().map(|edge| span(items, edge) - 1).sum();
    let mut all = Vec::with_capacity(drawing.edges.len());
    for edge in &drawing.edges {
        let mut bends = Vec::new();
        let mut last = edge.first;
        if wanted <= MOST_BENDS {
            for layer in items[edge.first].layer + 1..items[edge.second].layer {
                items.push(Item { layer, before: vec![last], after: Vec::new() });
                let bend = items.len() - 1;
                items[last].after.push(bend);
                bends.push(bend);
                last = bend;
            }
        }
        items[last].after.push(edge.second);
        items[edge.second].before.push(last);
        all.push(bends);
    }
    all
}

/// Returns the items of each layer, in manifest order.
fn rows(items: &[Item], is_drawn: &[bool]) -> Vec<Vec<usize>> {
    let mut rows = Vec::new();
    for (at, item) in items.iter().enumerate().filter(|(at, _)| is_drawn[*at]) {
        if rows.len() <= item.layer {
            rows.resize_with(item.layer + 1, Vec::new);
        }
        rows[item.layer].push(at);
    }
    rows
}

/// Sorts each layer by the mean of its neighbours in the previous (or next) layer.
fn sort(rows: &mut [Vec<usize>], items: &[Item], rightward: bool) {
    let mut position = vec![0.0; items.len()];
    let note = |row: &[usize], position: &mut [f64]| {
        row.iter().enumerate().for_each(|(at, item)| position[*item] = at as f64);
    };
    rows.iter().for_each(|row| note(row, &mut position));
    let count = rows.len();
    for step in 0..count {
        let row = &mut rows[if rightward { step } else { count - 1 - step }];
        let middles: Vec<(f64, usize)> = row
            .iter()
            .map(|item| {
                let neighbours = if rightward { &items[*item].before } else { &items[*item].after };
                (middle(neighbours, &position).unwrap_or(position[*item]), *item)
            })
            .collect();
        let mut sorted = middles;
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        *row = sorted.into_iter().map(|(_, item)| item).collect();
        note(row, &mut position);
    }
}

fn middle(of: &[usize], position: &[f64]) -> Option<f64> {
    if of.is_empty() { None } else { Some(of.iter().map(|item| position[*item]).sum::<f64>() / of.len() as f64) }
}

/// Returns the height of each item: near its neighbours, one row from the next in its layer.
fn heights(rows: &[Vec<usize>], items: &[Item]) -> Vec<f64> {
    let mut height = vec![0.0; items.len()];
    for row in rows {
        row.iter().enumerate().for_each(|(at, item)| height[*item] = at as f64);
    }
    for sweep in 0..SWEEPS {
        let rightward = sweep % 2 == 0;
        for step in 0..rows.len() {
            let row = &rows[if rightward { step } else { rows.len() - 1 - step }];
            let wanted: Vec<f64> = row
                .iter()
                .map(|item| {
                    let neighbours = if rightward { &items[*item].before } else { &items[*item].after };
                    middle(neighbours, &height).unwrap_or(height[*item])
                })
                .collect();
            row.iter().zip(place::spread(&wanted)).for_each(|(item, at)| height[*item] = at);
        }
    }
    let top = rows.iter().flatten().map(|item| height[*item]).fold(f64::INFINITY, f64::min);
    if top.is_finite() {
        height.iter_mut().for_each(|at| *at -= top);
    }
    height
}
