//! Indexes of resources by reference and by name.

use std::sync::{Arc, OnceLock};

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::{Resource, ResourceRef};
use kilter_provider::{Footprint, Registry};
use rustc_hash::{FxHashMap, FxHashSet};

/// Indexes of resources in manifest order, each created at its first use.
pub(crate) struct Indexes {
    of_types: Vec<TypeIndexes>,
    by_reference: OnceLock<FxHashMap<ResourceRef, u32>>,
}

/// Indexes of the resources of one type. Any provider of a type identifies the type.
#[derive(Default)]
struct TypeIndexes {
    by_name: OnceLock<FxHashMap<EcoString, u32>>,
    /// Additional identities.
    by_identity: OnceLock<FxHashMap<EcoString, u32>>,
    /// Directories above names that are paths.
    above: OnceLock<FxHashSet<EcoString>>,
    /// Paths that resources of other types write, and the directories above them.
    written: OnceLock<FxHashSet<EcoString>>,
}

impl Indexes {
    pub(crate) fn new(registry: &Registry) -> Indexes {
        let of_types = (0..registry.len()).map(|_| TypeIndexes::default()).collect();
        Indexes { of_types, by_reference: OnceLock::new() }
    }
}

/// Finds resources by reference and by name.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    resources: &'a [Arc<Resource>],
    providers: &'a [u16],
    registry: &'a Registry,
    indexes: &'a Indexes,
    /// Ids in manifest order; none if all resources have the first ids.
    ids: Option<&'a [ResourceId]>,
}

impl<'a> Lookup<'a> {
    /// Creates a lookup of `resources`; `providers[v]` is the provider of each.
    pub(crate) fn new(
        resources: &'a [Arc<Resource>],
        providers: &'a [u16],
        registry: &'a Registry,
        indexes: &'a Indexes,
    ) -> Lookup<'a> {
        Lookup { resources, providers, registry, indexes, ids: None }
    }

    pub(crate) fn with_ids(self, ids: &'a [ResourceId]) -> Lookup<'a> {
        Lookup { ids: Some(ids), ..self }
    }

    fn id(&self, place: u32) -> ResourceId {
        self.ids.map_or(ResourceId::first(place), |ids| ids[place as usize])
    }

    /// Returns the type of a provider.
    fn slot(&self, provider: u16) -> u16 {
        self.registry.slot(usize::from(provider))
    }

    /// Returns the resources of a type, with their vertices.
    fn of_type(&self, slot: u16) -> impl Iterator<Item = (&'a Resource, u32)> {
        let all = self.resources.iter().zip(self.providers).zip(0u32..);
        all.filter(move |((_, provider), _)| self.slot(**provider) == slot).map(|((resource, _), v)| (&**resource, v))
    }

    /// Returns the resources of a provider's type that are not hidden.
    pub(crate) fn all(&self, provider: u16) -> impl Iterator<Item = ResourceId> {
        let held = self.of_type(self.slot(provider)).filter(|(resource, _)| !resource.is_hidden());
        held.map(|(_, v)| self.id(v))
    }

    /// Returns the resource of a provider's type with a name on the system. If there are several, the one that is
    /// not hidden wins.
    pub(crate) fn named(&self, provider: u16, name: &str) -> Option<ResourceId> {
        let slot = self.slot(provider);
        let index = self.indexes.of_types[usize::from(slot)].by_name.get_or_init(|| {
            let mut index = FxHashMap::default();
            for (resource, v) in self.of_type(slot) {
                match resource.is_hidden() {
                    true => _ = index.entry(resource.name.clone()).or_insert(v),
                    false => _ = index.insert(resource.name.clone(), v),
                }
            }
            index
        });
        index.get(name).map(|v| self.id(*v))
    }

    /// Returns the resource of a provider's type with a name on the system, or with an
    /// [identity](kilter_provider::Relations::identities). Resources that are not hidden come first.
    pub(crate) fn identified(&self, provider: u16, name: &str) -> Option<ResourceId> {
        if let Some(named) = self.named(provider, name) {
            return Some(named);
        }
        let slot = self.slot(provider);
        let index = self.indexes.of_types[usize::from(slot)].by_identity.get_or_init(|| {
            let mut index = FxHashMap::default();
            let (hidden, held): (Vec<_>, Vec<_>) = self.of_type(slot).partition(|(resource, _)| resource.is_hidden());
            for (resource, v) in held.into_iter().chain(hidden) {
                let provider = self.registry.at(usize::from(self.providers[v as usize]));
                provider.capabilities().relations().identities(&resource.name, &resource.attributes, &mut |name| {
                    index.entry(name.into()).or_insert(v);
                });
            }
            index
        });
        index.get(name).map(|v| self.id(*v))
    }

    /// Returns the resource of a type with a name on the system, another identity or a title, in this order.
    pub(crate) fn titled(&self, provider: u16, type_name: &str, title: &str) -> Option<ResourceId> {
        self.identified(provider, title).or_else(|| self.referred(&ResourceRef::new(type_name, title)))
    }

    /// Returns the resource of a reference.
    pub(crate) fn referred(&self, reference: &ResourceRef) -> Option<ResourceId> {
        let index = self
            .indexes
            .by_reference
            .get_or_init(|| self.resources.iter().zip(0..).map(|(r, v)| (r.reference.clone(), v)).collect());
        index.get(reference).map(|v| self.id(*v))
    }

    /// Returns true if a resource of a provider's type has a path below this one as its name.
    pub(crate) fn has_below(&self, provider: u16, path: &str) -> bool {
        let slot = self.slot(provider);
        let index = self.indexes.of_types[usize::from(slot)].above.get_or_init(|| {
            let names = self.of_type(slot).map(|(resource, _)| resource.name.trim_end_matches('/'));
            names.flat_map(|name| name.match_indices('/').map(move |(at, _)| EcoString::from(&name[..at]))).collect()
        });
        index.contains(path.trim_end_matches('/'))
    }

    /// Returns true if a resource of another type than the provider's writes a path or a path below it.
    pub(crate) fn is_written(&self, provider: u16, path: &str) -> bool {
        let slot = self.slot(provider);
        let index = self.indexes.of_types[usize::from(slot)].written.get_or_init(|| {
            let mut index = FxHashSet::default();
            let others = self.resources.iter().zip(self.providers).filter(|(_, by)| self.slot(**by) != slot);
            for (resource, by) in others {
                let predict = self.registry.at(usize::from(*by)).capabilities().predict();
                predict.footprint(&resource.name, &resource.attributes, &mut |part| {
                    let (Footprint::Writes { path, .. } | Footprint::Makes { path }) = part else { return };
                    let path = path.trim_end_matches('/');
                    index.extend(path.match_indices('/').map(|(at, _)| EcoString::from(&path[..at])));
                    index.insert(path.into());
                });
            }
            index
        });
        index.contains(path.trim_end_matches('/'))
    }

    /// Returns the nearest resource above a path by name or identity, the path itself excluded.
    pub(crate) fn above(&self, provider: u16, path: &str) -> Option<ResourceId> {
        let mut path = path;
        while let Some(slash) = path.rfind('/') {
            let parent = if slash == 0 { "/" } else { &path[..slash] };
            if parent == path {
                return None;
            }
            if let Some(found) = self.identified(provider, parent) {
                return Some(found);
            }
            path = parent;
        }
        None
    }
}
