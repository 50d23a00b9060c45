//! Measures the engine alone: CPU time to build and check a graph and to plan over it.
//!
//! `cargo run --profile bench -p kilter-engine --example graph_bench`

use kilter_engine::{
    CheckResult, Command, Edge, Graph, Group, Input, Machine, Origin, Reason, RefreshToken, ResourceId, Timestamp,
    Vertex,
};
use kilter_model::{RelationKind, SourceId, Span};
use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this process in milliseconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Returns the result of `work` and its CPU time in milliseconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu();
    let result = work();
    (result, cpu() - before)
}

fn edge(first: u32, second: u32, kind: Option<RelationKind>) -> Edge {
    let origin = match kind {
        Some(kind) => Origin::Written { kind, span: Span::new(SourceId(0), first, second) },
        None => Origin::Automatic(Reason::Directory),
    };
    let notify = kind.is_some_and(RelationKind::refreshes);
    Edge { from: ResourceId::first(first), to: ResourceId::first(second), notify, origin }
}

/// Three edges for each vertex, as manifests have them: a tree of directories, one hub that much
/// depends on, neighbours, and some across the whole; a tenth notify. In no order.
fn edges(count: u32) -> Vec<Edge> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut edges: Vec<Edge> = (1..count).map(|v| edge((v - 1) / 50, v, None)).collect();
    while edges.len() < count as usize * 3 {
        let second = rng.u32(1..count);
        let first = match rng.u32(..10) {
            0 => 0,
            1..7 => second.saturating_sub(rng.u32(1..20)),
            _ => rng.u32(..second),
        };
        let kind = if rng.u32(..10) == 0 { RelationKind::Notify } else { RelationKind::Require };
        if first != second {
            edges.push(edge(first, second, Some(kind)));
        }
    }
    rng.shuffle(&mut edges);
    edges
}

fn vertices(count: u32) -> Vec<Vertex> {
    let vertex = |v: u32| Vertex {
        group: Group { provider: (v % 16) as u16, ..Group::default() },
        noop: true,
        refreshable: v.is_multiple_of(5),
        ..Vertex::default()
    };
    (0..count).map(vertex).collect()
}

/// Plans over a graph in which everything is in its state; how many checks that took.
fn plan(graph: Graph, vertices: Vec<Vertex>, owed: &[RefreshToken]) -> usize {
    let mut machine = Machine::new(graph, vertices, owed);
    let mut checks = 0;
    while !machine.is_finished() {
        for command in machine.commands() {
            let Command::Check(batch) = command else { continue };
            for vertex in batch.vertices {
                checks += 1;
                machine.input(Timestamp(0), Input::Checked(vertex, CheckResult::InSync));
            }
        }
    }
    checks
}

/// Milliseconds of CPU of the parts.
struct Cost {
    build: f64,
    refuse: f64,
    plan: f64,
    owed: f64,
}

fn cost(count: u32) -> Cost {
    let edges = edges(count);
    let (graph, build) = timed({
        let edges = edges.clone();
        || Graph::new(count, edges).expect("every edge leads forward")
    });
    let mut cyclic = edges;
    cyclic.push(edge(count - 1, count / 2, Some(RelationKind::Before)));
    cyclic.push(edge(count / 2, count - 1, Some(RelationKind::Before)));
    let (refused, refuse) = timed(|| Graph::new(count, cyclic));
    assert!(refused.is_err(), "a cycle is refused");
    let tokens: Vec<RefreshToken> =
        graph.edges().iter().filter(|e| e.notify).map(|e| RefreshToken { first: e.from, second: e.to }).collect();
    let (other, vertices) = (graph.clone(), vertices(count));
    let again = vertices.clone();
    let (checks, plan_time) = timed(|| plan(graph, vertices, &[]));
    assert_eq!(checks, count as usize, "each vertex is checked once");
    let (checks, owed) = timed(|| plan(other, again, &tokens));
    assert_eq!(checks, count as usize, "each vertex is checked once");
    Cost { build, refuse, plan: plan_time, owed }
}

/// The cheapest of a few tries of each part.
fn best(count: u32) -> Cost {
    let least = |a: Cost, b: Cost| Cost {
        build: a.build.min(b.build),
        refuse: a.refuse.min(b.refuse),
        plan: a.plan.min(b.plan),
        owed: a.owed.min(b.owed),
    };
    (0..5).map(|_| cost(count)).reduce(least).expect("five tries were made")
}

fn main() {
    println!("vertices   edges  build+check   refuse     plan  plan+owed  µs/vertex (build+check+plan)");
    for count in [1_000, 3_000, 10_000, 30_000, 100_000] {
        let Cost { build, refuse, plan, owed } = best(count);
        let each = (build + plan) * 1e3 / f64::from(count);
        println!(
            "{count:>8} {:>7} {build:>9.2} ms {refuse:>5.2} ms {plan:>5.2} ms {owed:>7.2} ms  {each:.3}",
            count * 3
        );
    }
}
