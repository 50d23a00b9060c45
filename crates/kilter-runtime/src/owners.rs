//! Edges by what resources own: whoever owns a path comes before what lies there, and before what works with it.

use std::borrow::Cow;

use kilter_engine::{Edge, Origin, Reason, VertexId};
use kilter_model::{Catalog, Resource};
use kilter_provider::{Owner, Registry};
use rustc_hash::{FxHashMap, FxHashSet};

/// What is a link into `/usr` where that holds everything, as it nearly always does: one file has two names there.
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What a resource has to do with a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bond {
    /// It is what lies there, or below: an owner that goes takes its own along before.
    Lies,
    /// It works with what lies there, and has to be done before the owner goes.
    Uses,
}

/// Who owns a path.
#[derive(Clone, Copy, Default)]
enum Found {
    #[default]
    Nobody,
    One(VertexId),
    /// It is the place of several, and nobody's own.
    Several,
}

/// The paths of a catalog that may have an owner in it.
pub(crate) struct Claims<'a> {
    catalog: &'a Catalog,
    owners: Vec<(VertexId, &'a dyn Owner)>,
    /// Whether the names of a provider's resources are paths.
    paths: Vec<bool>,
    claims: Vec<(VertexId, Cow<'a, str>, Bond)>,
}

impl<'a> Claims<'a> {
    /// None where no resource owns anything, or wants automatic edges.
    pub(crate) fn new(catalog: &'a Catalog, registry: &'a Registry, providers: &[u16]) -> Option<Claims<'a>> {
        let by_provider: Vec<Option<&dyn Owner>> = (0..registry.len()).map(|at| registry.at(at).owner()).collect();
        if by_provider.iter().all(Option::is_none) {
            return None;
        }
        let resources = catalog.resources.iter().zip(providers).zip((0..).map(VertexId));
        let owners: Vec<_> = resources
            .filter(|((resource, _), _)| !resource.is_hidden() && !resource.meta().is_some_and(|meta| meta.no_autoedge))
            .filter_map(|((_, provider), vertex)| Some((vertex, by_provider[usize::from(*provider)]?)))
            .collect();
        if owners.is_empty() {
            return None;
        }
        let paths = (0..registry.len()).map(|at| registry.at(at).names_paths()).collect();
        Some(Claims { catalog, owners, paths, claims: Vec::new() })
    }

    /// A resource of a provider: it may be what lies somewhere.
    pub(crate) fn lies(&mut self, me: VertexId, provider: u16, resource: &'a Resource) {
        if self.paths[usize::from(provider)] {
            self.claims.push((me, canonical(&resource.name), Bond::Lies));
        }
    }

    /// A resource that wants one of a provider, by this name, before it.
    pub(crate) fn wants(&mut self, me: VertexId, provider: u16, name: &str) {
        if self.paths[usize::from(provider)] && name.starts_with('/') {
            self.claims.push((me, Cow::Owned(canonical(name).into_owned()), Bond::Uses));
        }
    }

    /// The edges.
    pub(crate) fn edges(self, is_to_go: &dyn Fn(VertexId) -> bool) -> Vec<Edge> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let declared = self.claims.iter().filter(|(_, _, bond)| *bond == Bond::Lies);
        let mut wanted = Wanted { declared: declared.map(|(_, path, _)| &**path).collect(), ..Wanted::default() };
        // What lies somewhere comes first: of a directory that is known by then, those above are known as well.
        let of = |which: Bond| self.claims.iter().filter(move |(_, _, bond)| *bond == which);
        of(Bond::Lies).for_each(|(_, path, _)| wanted.add(path));
        of(Bond::Uses).for_each(|(_, path, _)| _ = wanted.name(path));
        for (vertex, owner) in &self.owners {
            let resource = &self.catalog.resources[vertex.0 as usize];
            let is_wanted = |path: &str| wanted.found.contains_key(path);
            for path in owner.owned(&resource.name, &resource.attributes, &is_wanted) {
                wanted.owned(&path, *vertex);
            }
        }
        let owned = self.claims.iter().filter_map(|(me, path, bond)| {
            let owner = wanted.owner(path, *bond).filter(|owner| owner != me)?;
            let (first, second) = match *bond == Bond::Uses && is_to_go(owner) {
                true => (*me, owner),
                false => (owner, *me),
            };
            Some(Edge { first, second, notify: false, origin: Origin::Automatic(Reason::Owner) })
        });
        owned.collect()
    }
}

/// The owners of the paths that somebody asks for.
#[derive(Default)]
struct Wanted<'c> {
    /// What has a resource of its own: who lies below waits for that one.
    declared: FxHashSet<&'c str>,
    slots: Vec<Found>,
    /// By each name that a path has.
    found: FxHashMap<String, usize>,
}

impl Wanted<'_> {
    /// Where something lies, and the directories above.
    fn add(&mut self, path: &str) {
        self.name(path);
        for directory in above(path) {
            if self.declared.contains(directory) || !self.name(directory) {
                break;
            }
        }
    }

    /// Whether it is new.
    fn name(&mut self, path: &str) -> bool {
        if self.found.contains_key(path) {
            return false;
        }
        let slot = self.slots.len();
        self.slots.push(Found::Nobody);
        if let Some(short) = path.strip_prefix("/usr").filter(|short| is_merged(short)) {
            self.found.insert(short.to_owned(), slot);
        }
        self.found.insert(path.to_owned(), slot);
        true
    }

    fn owned(&mut self, path: &str, by: VertexId) {
        let Some(&slot) = self.found.get(path) else { return };
        self.slots[slot] = match self.slots[slot] {
            Found::Nobody => Found::One(by),
            Found::One(other) if other == by => Found::One(by),
            Found::One(_) | Found::Several => Found::Several,
        };
    }

    /// Who owns a path, or, of what lies there, the nearest directory above it that anybody owns.
    fn owner(&self, path: &str, bond: Bond) -> Option<VertexId> {
        let above = above(path).take_while(|directory| bond == Bond::Lies && !self.declared.contains(directory));
        let found = [path].into_iter().chain(above).filter_map(|path| self.found.get(path));
        let mut found = found.map(|slot| self.slots[*slot]);
        match found.find(|found| !matches!(found, Found::Nobody))? {
            Found::One(owner) => Some(owner),
            Found::Nobody | Found::Several => None,
        }
    }
}

/// The directories above a path, the nearest first, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let parent = |path: &&'_ str| path.rfind('/').filter(|slash| *slash > 0);
    std::iter::successors(Some(path), move |path| parent(path).map(|slash| &path[..slash])).skip(1)
}

/// Whether that is, without `/usr`, a path below one of the directories that are links into it.
fn is_merged(path: &str) -> bool {
    let rest = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    rest.is_some_and(|(directory, _)| MERGED.contains(&directory))
}

/// A path as it is compared: in `/usr`, and without slashes at its end.
fn canonical(path: &str) -> Cow<'_, str> {
    let path = path.trim_end_matches('/');
    if is_merged(path) { Cow::Owned(format!("/usr{path}")) } else { Cow::Borrowed(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_name_however_it_is_written() {
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
