//! Edges by ownership: the owner of a path comes before resources at or below the path, and before resources that
//! use it.

use std::borrow::Cow;
use std::cell::OnceCell;

use kilter_engine::{Edge, Origin, Reason, ResourceId};
use kilter_model::{Catalog, Resource};
use kilter_provider::{Owner, Registry};
use rustc_hash::{FxHashMap, FxHashSet};

/// Directories that are links into `/usr` on a merged system, as on nearly all systems: a file there has two names.
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Relation of a resource to a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathRelation {
    /// The resource is at the path, or below. If the owner is removed, the resource is removed with it.
    Lies,
    /// The resource uses the object at the path. It has to run before the owner is removed.
    Uses,
}

/// Owner of a path.
#[derive(Clone, Copy, Default)]
enum PathOwner {
    #[default]
    Nobody,
    One(ResourceId),
    /// The path has several owners, and belongs to none of them.
    Several,
}

/// Returns true for each provider of the registry that has resources.
fn used_providers(registry: &Registry, providers: &[u16]) -> Vec<bool> {
    let mut is_used = vec![false; registry.len()];
    providers.iter().for_each(|at| is_used[usize::from(*at)] = true);
    is_used
}

/// Paths of a catalog that may have an owner in it.
pub(crate) struct PathClaims<'a> {
    catalog: &'a Catalog,
    registry: &'a Registry,
    owners: Vec<(ResourceId, &'a dyn Owner)>,
    /// True for each provider whose resources have paths as names.
    paths: Vec<OnceCell<bool>>,
    claims: Vec<(ResourceId, Cow<'a, str>, PathRelation)>,
}

impl<'a> PathClaims<'a> {
    /// Returns none if no resource owns paths, or all owners have opted out of automatic edges.
    pub(crate) fn new(catalog: &'a Catalog, registry: &'a Registry, providers: &[u16]) -> Option<PathClaims<'a>> {
        // A provider that is not used need not build its schema.
        let owner = |(at, is_used)| if is_used { registry.at(at).capabilities().owner } else { None };
        let by_provider: Vec<Option<&dyn Owner>> =
            used_providers(registry, providers).into_iter().enumerate().map(owner).collect();
        if by_provider.iter().all(Option::is_none) {
            return None;
        }
        let resources = catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first));
        let owners: Vec<_> = resources
            .filter(|((resource, _), _)| !resource.is_hidden() && !resource.meta().is_some_and(|meta| meta.no_autoedge))
            .filter_map(|((_, provider), vertex)| Some((vertex, by_provider[usize::from(*provider)]?)))
            .collect();
        if owners.is_empty() {
            return None;
        }
        let paths = vec![OnceCell::new(); registry.len()];
        Some(PathClaims { catalog, registry, owners, paths, claims: Vec::new() })
    }

    /// Returns true if the resources of a provider have paths as names.
    fn has_paths(&self, provider: u16) -> bool {
        let at = usize::from(provider);
        *self.paths[at].get_or_init(|| self.registry.at(at).capabilities().relations().names_are_paths())
    }

    /// Adds a resource that may be at a path.
    pub(crate) fn lies(&mut self, me: ResourceId, provider: u16, resource: &'a Resource) {
        if self.has_paths(provider) {
            self.claims.push((me, canonical(&resource.name), PathRelation::Lies));
        }
    }

    /// Adds a resource that requires a resource of a provider with this name.
    pub(crate) fn claim(&mut self, me: ResourceId, provider: u16, name: &str) {
        if name.starts_with('/') && self.has_paths(provider) {
            self.claims.push((me, Cow::Owned(canonical(name).into_owned()), PathRelation::Uses));
        }
    }

    /// Returns the edges.
    pub(crate) fn edges(self, is_to_go: &dyn Fn(ResourceId) -> bool) -> Vec<Edge> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let declared = self.claims.iter().filter(|(_, _, bond)| *bond == PathRelation::Lies);
        let mut wanted =
            RequestedPaths { declared: declared.map(|(_, path, _)| &**path).collect(), ..RequestedPaths::default() };
        // Paths of resources come first: if a directory is known, then all directories above it are known as well.
        let of = |which: PathRelation| self.claims.iter().filter(move |(_, _, bond)| *bond == which);
        of(PathRelation::Lies).for_each(|(_, path, _)| wanted.add(path));
        of(PathRelation::Uses).for_each(|(_, path, _)| _ = wanted.name(path));
        for (vertex, owner) in &self.owners {
            let resource = &self.catalog.resources[vertex.slot()];
            let is_wanted = |path: &str| wanted.found.contains_key(path);
            for path in owner.owned(&resource.name, &resource.attributes, &is_wanted) {
                wanted.owned(&path, *vertex);
            }
        }
        let owned = self.claims.iter().filter_map(|(me, path, bond)| {
            let owner = wanted.owner(path, *bond).filter(|owner| owner != me)?;
            let (first, second) = match *bond == PathRelation::Uses && is_to_go(owner) {
                true => (*me, owner),
                false => (owner, *me),
            };
            Some(Edge { from: first, to: second, notify: false, origin: Origin::Automatic(Reason::Owner) })
        });
        owned.collect()
    }
}

/// Owners of the requested paths.
#[derive(Default)]
struct RequestedPaths<'c> {
    /// Paths with a resource of their own: resources below have an edge to that one instead.
    declared: FxHashSet<&'c str>,
    slots: Vec<PathOwner>,
    /// Slot of each name of a path.
    found: FxHashMap<String, usize>,
}

impl RequestedPaths<'_> {
    /// Adds the path of a resource, and the directories above.
    fn add(&mut self, path: &str) {
        self.name(path);
        for directory in above(path) {
            if self.declared.contains(directory) || !self.name(directory) {
                break;
            }
        }
    }

    /// Adds a path; returns true if it is new.
    fn name(&mut self, path: &str) -> bool {
        if self.found.contains_key(path) {
            return false;
        }
        let slot = self.slots.len();
        self.slots.push(PathOwner::Nobody);
        if let Some(short) = path.strip_prefix("/usr").filter(|short| is_merged(short)) {
            self.found.insert(short.to_owned(), slot);
        }
        self.found.insert(path.to_owned(), slot);
        true
    }

    fn owned(&mut self, path: &str, by: ResourceId) {
        let Some(&slot) = self.found.get(path) else { return };
        self.slots[slot] = match self.slots[slot] {
            PathOwner::Nobody => PathOwner::One(by),
            PathOwner::One(other) if other == by => PathOwner::One(by),
            PathOwner::One(_) | PathOwner::Several => PathOwner::Several,
        };
    }

    /// Returns the owner of a path. For a resource at the path, the nearest directory above with an owner counts as
    /// well.
    fn owner(&self, path: &str, bond: PathRelation) -> Option<ResourceId> {
        let above =
            above(path).take_while(|directory| bond == PathRelation::Lies && !self.declared.contains(directory));
        let found = [path].into_iter().chain(above).filter_map(|path| self.found.get(path));
        let mut found = found.map(|slot| self.slots[*slot]);
        match found.find(|found| !matches!(found, PathOwner::Nobody))? {
            PathOwner::One(owner) => Some(owner),
            PathOwner::Nobody | PathOwner::Several => None,
        }
    }
}

/// Returns the directories above a path, the nearest first, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let parent = |path: &&'_ str| path.rfind('/').filter(|slash| *slash > 0);
    std::iter::successors(Some(path), move |path| parent(path).map(|slash| &path[..slash])).skip(1)
}

/// Returns true if a path without `/usr` is below a directory that is a link into `/usr`.
fn is_merged(path: &str) -> bool {
    let rest = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    rest.is_some_and(|(directory, _)| MERGED.contains(&directory))
}

/// Returns a path in its form for comparisons: in `/usr`, and without slashes at its end.
pub(crate) fn canonical(path: &str) -> Cow<'_, str> {
    let path = path.trim_end_matches('/');
    if is_merged(path) { Cow::Owned(format!("/usr{path}")) } else { Cow::Borrowed(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_normalised_to_one_name() {
        assert_eq!(canonical("/bin/sh"), "/usr/bin/sh");
        assert_eq!(canonical("/lib/systemd/system/"), "/usr/lib/systemd/system");
        assert_eq!(
            (canonical("/bin"), canonical("/binary/x"), canonical("/")),
            ("/bin".into(), "/binary/x".into(), "".into())
        );
    }

    #[test]
    fn directories_above_end_before_the_root() {
        assert_eq!(above("/etc/a/b").collect::<Vec<_>>(), ["/etc/a", "/etc"]);
        assert_eq!(above("/etc").count() + above("").count(), 0);
    }
}
