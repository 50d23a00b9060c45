//! Composite resources in status snapshots. Their state follows from their parts.

use std::collections::BTreeSet;

use kilter_engine::ResourceId;
use kilter_model::{Composite, ResourceRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Driver;
use super::status_snapshot::CompositeStatus;

/// Words of the states, the worst first: failures and deviations, then activity, then rest.
const WORDS: [&str; 16] = [
    "failed",
    "skipped",
    "interrupted",
    "would_change",
    "would_refresh",
    "unknown",
    "delayed",
    "changing",
    "refreshing",
    "checking",
    "queued",
    "ready",
    "waiting",
    "unwatched",
    "in_sync",
    "hidden",
];

/// Resources of a status request.
#[derive(Default)]
pub(super) struct StatusScope {
    /// Indexes of the composite resources.
    pub(super) composites: BTreeSet<u32>,
    pub(super) vertices: Vec<ResourceId>,
    /// Names that the graph does not contain.
    pub(super) unknown: Vec<ResourceRef>,
}

impl Driver<'_, '_, '_, '_> {
    /// Returns all resources, and all composite resources.
    pub(super) fn all_asked(&self) -> StatusScope {
        let composites = (0..).zip(self.composites()).map(|(at, _)| at).collect();
        StatusScope { composites, vertices: self.prepared.graph.vertices().collect(), ..StatusScope::default() }
    }

    /// Returns some resources, and the composite resources that contain them.
    pub(super) fn asked_with_owners(&self, vertices: Vec<ResourceId>) -> StatusScope {
        let mut composites = BTreeSet::new();
        for vertex in &vertices {
            let mut next = self.prepared.catalog.owner_of(self.place(*vertex));
            while let Some(at) = next.filter(|at| composites.insert(*at)) {
                next = self.composites()[at as usize].owner;
            }
        }
        let mut all: Option<FxHashSet<u32>> = None;
        for (at, composite) in (0..).zip(self.composites()).filter(|(_, composite)| !composite.entries_in.is_empty()) {
            let all = all.get_or_insert_with(|| vertices.iter().map(|vertex| self.place(*vertex)).collect());
            if composite.entries_in.iter().any(|vertex| all.contains(vertex)) {
                composites.insert(at);
            }
        }
        StatusScope { composites, vertices, ..StatusScope::default() }
    }

    /// Returns the named resources, each once. A composite resource brings all its parts.
    pub(super) fn asked_by_name(&self, names: &[ResourceRef]) -> StatusScope {
        let mut asked = StatusScope::default();
        let mut seen = FxHashSet::default();
        // Only a name that is no resource needs the index.
        let mut by_name: Option<FxHashMap<&ResourceRef, u32>> = None;
        for name in names {
            if let Some(vertex) = self.prepared.lookup().referred(name) {
                asked.vertices.extend(seen.insert(vertex).then_some(vertex));
                continue;
            }
            let by_name = by_name.get_or_insert_with(|| {
                self.composites().iter().zip(0..).map(|(composite, at)| (&composite.reference, at)).collect()
            });
            match by_name.get(name) {
                // Its parts are included already.
                Some(at) if asked.composites.contains(at) => {}
                Some(at) => {
                    asked.composites.insert(*at);
                    asked.composites.extend(self.prepared.catalog.composites_within(*at));
                    let all = self.whole(*at);
                    asked.vertices.extend(all.filter(|vertex| seen.insert(*vertex)));
                }
                None => asked.unknown.push(name.clone()),
            }
        }
        asked
    }

    /// Returns the composite resource that contains a resource.
    pub(super) fn owner(&self, vertex: ResourceId) -> Option<ResourceRef> {
        let owner = self.prepared.catalog.owner_of(self.place(vertex))?;
        Some(self.composites()[owner as usize].reference.clone())
    }

    /// Returns the state of a composite resource; `queued` contains the vertices that wait for a worker.
    pub(super) fn composite_standing(&self, at: u32, queued: &FxHashSet<ResourceId>) -> CompositeStatus {
        let Composite { reference, owner, entries_in, .. } = &self.composites()[at as usize];
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for vertex in self.whole(at) {
            let word = self.word(vertex, queued);
            match counts.iter_mut().find(|(known, _)| *known == word) {
                Some((_, count)) => *count += 1,
                None => counts.push((word, 1)),
            }
        }
        counts.sort_unstable_by_key(|(word, _)| WORDS.iter().position(|known| known == word).unwrap_or(WORDS.len()));
        CompositeStatus {
            reference: reference.clone(),
            owner: owner.map(|owner| self.composites()[owner as usize].reference.clone()),
            word: counts.first().map_or("in_sync", |(word, _)| word),
            counts,
            parts: self.parts(at),
            entries_in: entries_in.iter().map(|at| self.prepared.resources()[*at as usize].reference.clone()).collect(),
        }
    }

    /// Returns the resources that determine the state of a composite: its parts, and the resources that contain its
    /// entries.
    fn whole(&self, at: u32) -> impl Iterator<Item = ResourceId> {
        let Composite { parts, entries_in, .. } = &self.composites()[at as usize];
        parts.clone().chain(entries_in.iter().copied()).map(|place| self.prepared.graph.order()[place as usize])
    }

    /// Returns the direct parts of a composite resource in manifest order. A nested composite resource stands for
    /// its own parts.
    fn parts(&self, at: u32) -> Vec<ResourceRef> {
        let resources = |parts: std::ops::Range<u32>| {
            parts.map(|place| self.prepared.resources()[place as usize].reference.clone())
        };
        let whole = &self.composites()[at as usize].parts;
        let (mut parts, mut from) = (Vec::new(), whole.start);
        for inner in self.prepared.catalog.composites_within(at) {
            let inner = &self.composites()[inner as usize];
            if inner.owner == Some(at) {
                parts.extend(resources(from..inner.parts.start));
                parts.push(inner.reference.clone());
                from = inner.parts.end;
            }
        }
        parts.extend(resources(from..whole.end));
        parts
    }

    fn composites(&self) -> &[Composite] {
        &self.prepared.catalog.composites
    }

    /// Returns the place of a resource in the manifest.
    fn place(&self, vertex: ResourceId) -> u32 {
        self.prepared.graph.place(vertex) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Status;

    #[test]
    fn status_out_of_sync_ranks_worse_than_in_sync() {
        let place = |word: &str| WORDS.iter().position(|known| *known == word);
        let at_rest = place("in_sync").expect("it is a word");
        let statuses = [
            Status::Failed,
            Status::Skipped,
            Status::Interrupted,
            Status::WouldChange,
            Status::WouldRefresh,
            Status::Unknown,
        ];
        assert!(statuses.iter().all(|status| place(status.word()).is_some_and(|at| at < at_rest)));
    }
}
