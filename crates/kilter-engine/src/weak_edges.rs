//! Weak edges: dropped if they would close a cycle.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cycle;
use crate::graph::{Edge, Graph, Origin, Reason};
use crate::resource_id::ResourceId;

/// Maximum number of steps in the search for cycles. Weak edges that have not been examined by then are dropped
/// too.
const MAX_STEPS: usize = 5_000_000;

fn is_weak(edge: &Edge) -> bool {
    matches!(
        edge.origin,
        Origin::Automatic(Reason::Number | Reason::Member | Reason::Owner | Reason::Suitability | Reason::Type)
    )
}

/// Returns the edges of a graph without the dropped ones, or none if no edge was dropped. Of two conflicting
/// edges, the one that was declared first stays.
pub(crate) fn yielded(graph: &Graph) -> Option<Vec<Edge>> {
    if !graph.edges().iter().any(is_weak) {
        return None;
    }
    let components = cycle::nontrivial_components(graph);
    let left_out: FxHashSet<(ResourceId, ResourceId)> =
        components.iter().flat_map(|component| Component::of(graph, component).closing()).collect();
    if left_out.is_empty() {
        return None;
    }
    let stays = |edge: &&Edge| !(is_weak(edge) && left_out.contains(&(edge.from, edge.to)));
    Some(graph.edges().iter().filter(stays).copied().collect())
}

/// The edges within a strongly connected component. Every cycle through one of its vertices lies within it.
struct Component {
    after: FxHashMap<ResourceId, Vec<ResourceId>>,
    giving_way: Vec<(ResourceId, ResourceId)>,
}

impl Component {
    fn of(graph: &Graph, vertices: &[ResourceId]) -> Component {
        let mut component = Component { after: FxHashMap::default(), giving_way: Vec::new() };
        for id in vertices.iter().flat_map(|&vertex| graph.outgoing(vertex)) {
            let edge = graph.edge(id);
            if vertices.binary_search(&edge.to).is_err() {
                continue;
            }
            match is_weak(edge) {
                true => component.giving_way.push((edge.from, edge.to)),
                false => component.after.entry(edge.from).or_default().push(edge.to),
            }
        }
        component
    }

    /// Returns the weak edges that would close a cycle if the weak edges were added in order.
    fn closing(mut self) -> Vec<(ResourceId, ResourceId)> {
        let mut closing = Vec::new();
        let mut steps_left = MAX_STEPS;
        for (first, second) in std::mem::take(&mut self.giving_way) {
            match self.leads(second, first, &mut steps_left) {
                true => closing.push((first, second)),
                false => self.after.entry(first).or_default().push(second),
            }
        }
        closing
    }

    /// Returns true if a path leads from `from` to `to`, or if the step limit is reached.
    fn leads(&self, from: ResourceId, to: ResourceId, steps_left: &mut usize) -> bool {
        let mut seen = FxHashSet::from_iter([from]);
        let mut open = vec![from];
        while let Some(vertex) = open.pop() {
            let next = self.after.get(&vertex).map(Vec::as_slice).unwrap_or_default();
            *steps_left = steps_left.saturating_sub(1 + next.len());
            if vertex == to || *steps_left == 0 {
                return true;
            }
            open.extend(next.iter().filter(|next| seen.insert(**next)));
        }
        false
    }
}
