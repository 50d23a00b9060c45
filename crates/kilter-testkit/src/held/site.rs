//! The parts of a system, and graphs over some of them.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use kilter_engine::{
    Backoff, Edge, Graph, Group, HoldConfig, Origin, RateLimit, RepairBudget, ResourceId, Semaphores, Vertex,
};
use kilter_model::{RelationKind, SourceId, Span};

use super::SeededBug;
use crate::graph_gen;
use crate::world::{GeneratedGraph, chance, temper};

/// A graph over some of the parts, in some order.
#[derive(Clone, Debug)]
pub(super) struct GraphVersion {
    pub(super) graph: Graph,
    pub(super) vertices: Vec<Vertex>,
    /// Part of each vertex.
    pub(super) part_of: Vec<u32>,
    /// Version of the declaration of each vertex. Different numbers mean different declarations.
    pub(super) version: Vec<u32>,
}

impl GraphVersion {
    pub(super) fn vertex_of(&self, part: u32) -> Option<ResourceId> {
        self.part_of.iter().position(|known| *known == part).map(|place| self.graph.order()[place])
    }

    /// Returns the part of a vertex.
    pub(super) fn part(&self, vertex: ResourceId) -> u32 {
        self.part_of[self.graph.place(vertex)]
    }

    /// Returns the properties of a vertex.
    pub(super) fn described(&self, vertex: ResourceId) -> &Vertex {
        &self.vertices[self.graph.place(vertex)]
    }

    pub(super) fn parents(&self, vertex: ResourceId) -> impl Iterator<Item = ResourceId> + '_ {
        self.graph.incoming(vertex).iter().map(|edge| self.graph.edge(*edge).from)
    }

    /// Returns the vertices that handle a refresh from a vertex.
    pub(super) fn refreshing(&self, vertex: ResourceId) -> impl Iterator<Item = ResourceId> + '_ {
        let edges = self.graph.outgoing(vertex).map(|edge| self.graph.edge(edge)).filter(|edge| edge.notify);
        edges.map(|edge| edge.to).filter(|second| self.described(*second).refreshable)
    }
}

/// Configuration that is the same for all runs and graphs.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// For each part, true if it has a watch that must start first.
    pub(super) is_watched: Vec<bool>,
    pub(super) budget: RepairBudget,
    pub(super) backoff: Backoff,
    pub(super) limits: BTreeMap<u32, RateLimit>,
    pub(super) counts: Vec<u32>,
    pub(super) semaphores: BTreeMap<u32, Vec<u16>>,
    retry_reset: BTreeSet<u32>,
    /// Parts without a budget.
    pub(super) exempt_from_budget: BTreeSet<u32>,
    /// Parts that are only watched when their budget is used up.
    pub(super) yielding: BTreeSet<u32>,
    /// Current declarations of the parts, with versions.
    declared: Vec<(u32, Vertex)>,
    notifying: u32,
    noop: u32,
}

fn backoff(rng: &mut Rng) -> Backoff {
    let first = rng.u64(1..50) * 10;
    Backoff { first, min_after_event: rng.u64(1..=first), longest: rng.u64(50..500) * 10 }
}

impl Site {
    pub(super) fn random(rng: &mut Rng) -> Site {
        let count = match rng.u32(..50) {
            0 => rng.u32(20..60),
            1..20 => rng.u32(5..16),
            _ => rng.u32(1..8),
        };
        let [watched, limited, semaphored, retry_reset] = [(); 4].map(|()| [0, 20, 60, 100][rng.usize(..4)]);
        let counts = (0..rng.u32(1..4)).map(|_| rng.u32(1..3)).collect::<Vec<_>>();
        let noop = temper(rng) / 2;
        let mut site = Site {
            is_watched: (0..count).map(|_| chance(rng, watched)).collect(),
            budget: RepairBudget {
                repairs: rng.u32(1..12),
                within: rng.u64(1..20) * 500,
                first: rng.u64(1..20) * 50,
                longest: rng.u64(1..100) * 50,
            },
            backoff: backoff(rng),
            limits: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            retry_reset: (0..count).filter(|_| chance(rng, retry_reset)).collect(),
            exempt_from_budget: (0..count).filter(|_| chance(rng, 10)).collect(),
            yielding: (0..count).filter(|_| chance(rng, 30)).collect(),
            declared: Vec::new(),
            notifying: [10, 50, 100][rng.usize(..3)],
            noop,
            counts,
        };
        for part in 0..count {
            if chance(rng, limited) {
                site.limits.insert(part, RateLimit { interval: rng.u64(1..400), burst: rng.u32(1..4) });
            }
            if chance(rng, semaphored) {
                let all = 0..site.counts.len() as u16;
                site.semaphores.insert(part, all.filter(|_| rng.bool()).collect());
            }
            let vertex = vertex(rng, noop);
            site.declared.push((0, vertex));
        }
        site
    }

    pub(super) fn parts(&self) -> u32 {
        self.declared.len() as u32
    }

    /// Returns the parts as a world without edges.
    pub(super) fn plain_world(&self) -> GeneratedGraph {
        let graph = Graph::new(self.parts(), Vec::new()).expect("there are no edges");
        GeneratedGraph { graph, vertices: self.declared.iter().map(|(_, vertex)| *vertex).collect() }
    }

    /// Edits some declarations.
    pub(super) fn edit(&mut self, rng: &mut Rng) {
        for (version, declared) in &mut self.declared {
            if chance(rng, 20) {
                *version += 1;
                *declared = vertex(rng, self.noop);
            }
        }
    }

    /// Creates a graph of all declarations, or of some.
    pub(super) fn incarnate(&self, rng: &mut Rng, is_whole: bool) -> GraphVersion {
        let mut part_of: Vec<u32> = (0..self.parts()).filter(|_| is_whole || chance(rng, 85)).collect();
        if rng.bool() {
            rng.shuffle(&mut part_of);
        }
        let count = part_of.len() as u32;
        let edge = |rng: &mut Rng, (first, second): (u32, u32)| {
            let kind = if chance(rng, self.notifying) { RelationKind::Notify } else { RelationKind::Before };
            let origin = Origin::Written { kind, span: Span::new(SourceId(0), first, second) };
            Edge { from: ResourceId::first(first), to: ResourceId::first(second), notify: kind.refreshes(), origin }
        };
        let edges = graph_gen::edges(rng, count).into_iter().map(|pair| edge(rng, pair)).collect();
        GraphVersion {
            graph: Graph::new(count, edges).expect("the shapes have no cycles"),
            vertices: part_of.iter().map(|part| self.declared[*part as usize].1).collect(),
            version: part_of.iter().map(|part| self.declared[*part as usize].0).collect(),
            part_of,
        }
    }

    /// Returns the configuration of a graph. The watches of the vertices in `unwatched` have not started.
    pub(super) fn holding(
        &self,
        of: &GraphVersion,
        unwatched: BTreeSet<ResourceId>,
        fault: Option<SeededBug>,
    ) -> HoldConfig {
        let vertex = |part: &u32| of.vertex_of(*part);
        let forgets = |what: SeededBug| fault == Some(what);
        let limits = self.limits.iter().filter(|_| !forgets(SeededBug::ForgetsLimits));
        HoldConfig {
            budget: self.told_budget(fault),
            backoff: if forgets(SeededBug::ForgetsBackoff) {
                Backoff { first: 0, min_after_event: 0, longest: 0 }
            } else {
                self.backoff
            },
            awaiting_watch: unwatched,
            limits: limits.filter_map(|(part, limit)| Some((vertex(part)?, *limit))).collect(),
            retry_reset: (0..self.parts())
                .filter(|part| self.is_forgiving(*part, fault))
                .filter_map(|part| vertex(&part))
                .collect(),
            exempt_from_budget: self.exempt_from_budget.iter().filter_map(vertex).collect(),
            yielding: self.yielding.iter().filter_map(vertex).collect(),
        }
    }

    /// Returns the configured budget, with the bug applied.
    fn told_budget(&self, fault: Option<SeededBug>) -> RepairBudget {
        let less = u32::from(fault == Some(SeededBug::TiresEarly));
        RepairBudget { repairs: self.budget.repairs - less, ..self.budget }
    }

    /// Returns true if the retries of a part are reset when it is in sync, with the bug applied.
    pub(super) fn is_forgiving(&self, part: u32, fault: Option<SeededBug>) -> bool {
        match fault {
            Some(SeededBug::NeverForgives) => false,
            Some(SeededBug::ForgivesAll) => true,
            _ => self.retry_reset.contains(&part),
        }
    }

    /// Returns the vertices of a graph for the machine, with the bug applied.
    pub(super) fn vertices_for_machine(of: &GraphVersion, fault: Option<SeededBug>) -> Vec<Vertex> {
        let mut vertices = of.vertices.clone();
        for vertex in &mut vertices {
            match fault {
                Some(SeededBug::HurriesRetries) => vertex.delay = 0,
                Some(SeededBug::RetriesTooOften) => vertex.retry += 1,
                _ => {}
            }
        }
        vertices
    }

    /// Returns the semaphores of a graph.
    pub(super) fn shared(&self, of: &GraphVersion, fault: Option<SeededBug>) -> Semaphores {
        if fault == Some(SeededBug::ForgetsSemaphores) {
            return Semaphores::default();
        }
        let taken = self.semaphores.iter();
        let of = taken.filter_map(|(part, ids)| Some((of.vertex_of(*part)?, ids.clone()))).collect();
        Semaphores { counts: self.counts.clone(), of }
    }
}

fn vertex(rng: &mut Rng, noop: u32) -> Vertex {
    Vertex {
        group: Group { provider: rng.u16(..3), ..Group::default() },
        single: rng.bool(),
        noop: chance(rng, noop),
        refreshable: chance(rng, 60),
        retry: if chance(rng, 40) { rng.i32(0..4) } else { 0 },
        delay: rng.u64(..5) * 50,
        independent: false,
    }
}
