//! Indexes of resources by reference and by name.

use std::sync::OnceLock;

use kilter_engine::VertexId;
use kilter_model::{Resource, ResourceRef};
use kilter_provider::Registry;
use rustc_hash::{FxHashMap, FxHashSet};

/// Indexes of resources by reference, and by name for each type. Each index is created at its first use. Any
/// provider of a type identifies the type.
pub(crate) struct Lookup<'a> {
    resources: &'a [Resource],
    providers: &'a [u16],
    registry: &'a Registry,
    by_name: Vec<OnceLock<FxHashMap<&'a str, u32>>>,
    /// Additional identities.
    by_identity: Vec<OnceLock<FxHashMap<String, u32>>>,
    /// Directories above names that are paths.
    above: Vec<OnceLock<FxHashSet<&'a str>>>,
    by_reference: OnceLock<FxHashMap<&'a ResourceRef, u32>>,
}

impl<'a> Lookup<'a> {
    /// Creates an index over `resources`; `providers[v]` is the provider of each.
    pub(crate) fn new(resources: &'a [Resource], providers: &'a [u16], registry: &'a Registry) -> Lookup<'a> {
        let by_name = (0..registry.len()).map(|_| OnceLock::new()).collect();
        let by_identity = (0..registry.len()).map(|_| OnceLock::new()).collect();
        let above = (0..registry.len()).map(|_| OnceLock::new()).collect();
        Lookup { resources, providers, registry, by_name, by_identity, above, by_reference: OnceLock::new() }
    }

    /// Returns the type of a provider.
    fn slot(&self, provider: u16) -> u16 {
        self.registry.slot(usize::from(provider))
    }

    /// Returns the resources of a type, with their vertices.
    fn of_type(&self, slot: u16) -> impl Iterator<Item = (&'a Resource, u32)> {
        let all = self.resources.iter().zip(self.providers).zip(0u32..);
        all.filter(move |((_, provider), _)| self.slot(**provider) == slot).map(|((resource, _), v)| (resource, v))
    }

    /// Returns the resource of a provider's type with a name on the system. If there are several, the one that is
    /// not hidden wins.
    pub(crate) fn named(&self, provider: u16, name: &str) -> Option<VertexId> {
        let slot = self.slot(provider);
        let index = self.by_name[usize::from(slot)].get_or_init(|| {
            let mut index = FxHashMap::default();
            for (resource, v) in self.of_type(slot) {
                match resource.is_hidden() {
                    true => _ = index.entry(resource.name.as_str()).or_insert(v),
                    false => _ = index.insert(resource.name.as_str(), v),
                }
            }
            index
        });
        index.get(name).map(|v| VertexId(*v))
    }

    /// Returns the resource of a provider's type with a name on the system, or with an
    /// [identity](kilter_provider::Relations::identities). Resources that are not hidden come first.
    pub(crate) fn identified(&self, provider: u16, name: &str) -> Option<VertexId> {
        if let Some(named) = self.named(provider, name) {
            return Some(named);
        }
        let slot = self.slot(provider);
        let index = self.by_identity[usize::from(slot)].get_or_init(|| {
            let mut index = FxHashMap::default();
            let (hidden, held): (Vec<_>, Vec<_>) = self.of_type(slot).partition(|(resource, _)| resource.is_hidden());
            for (resource, v) in held.into_iter().chain(hidden) {
                let provider = self.registry.at(usize::from(self.providers[v as usize]));
                provider.capabilities().relations().identities(&resource.name, &resource.attributes, &mut |name| {
                    index.entry(name.to_owned()).or_insert(v);
                });
            }
            index
        });
        index.get(name).map(|v| VertexId(*v))
    }

    /// Returns the resource of a type with a name on the system, another identity or a title, in this order.
    pub(crate) fn titled(&self, provider: u16, type_name: &str, title: &str) -> Option<VertexId> {
        self.identified(provider, title).or_else(|| self.referred(&ResourceRef::new(type_name, title)))
    }

    /// Returns the resource of a reference.
    pub(crate) fn referred(&self, reference: &ResourceRef) -> Option<VertexId> {
        let index =
            self.by_reference.get_or_init(|| self.resources.iter().zip(0..).map(|(r, v)| (&r.reference, v)).collect());
        index.get(reference).map(|v| VertexId(*v))
    }

    /// Returns true if a resource of a provider's type has a path below this one as its name.
    pub(crate) fn has_below(&self, provider: u16, path: &str) -> bool {
        let slot = self.slot(provider);
        let index = self.above[usize::from(slot)].get_or_init(|| {
            let names = self.of_type(slot).map(|(resource, _)| resource.name.trim_end_matches('/'));
            names.flat_map(|name| name.match_indices('/').map(move |(at, _)| &name[..at])).collect()
        });
        index.contains(path.trim_end_matches('/'))
    }

    /// Returns the nearest resource above a path, the path itself excluded.
    pub(crate) fn above(&self, provider: u16, path: &str) -> Option<VertexId> {
        let mut path = path;
        while let Some(slash) = path.rfind('/') {
            let parent = if slash == 0 { "/" } else { &path[..slash] };
            if parent == path {
                return None;
            }
            if let Some(found) = self.named(provider, parent) {
                return Some(found);
            }
            path = parent;
        }
        None
    }
}
