//! Order of work: predecessors first, ties by place in the manifest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Drawing;

/// Returns all nodes so that each follows its predecessors.
pub(super) fn order(drawing: &Drawing) -> Vec<usize> {
    let count = drawing.nodes.len();
    let mut waiting = vec![0usize; count];
    let mut after = vec![Vec::new(); count];
    for edge in &drawing.edges {
        waiting[edge.second] += 1;
        after[edge.first].push(edge.second);
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(|node| waiting[*node] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &next in &after[node] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    order
}
