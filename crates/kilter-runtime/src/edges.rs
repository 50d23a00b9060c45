//! Edges of a catalog: written, by outputs, and automatic.

use kilter_engine::{Edge, Origin, Reason, ResourceId};
use kilter_model::{Attributes, Catalog, RelationKind, Resource, TypeSchema};
use kilter_provider::{AutoEdge, Direction, Match, Registry};

use crate::lookup::Lookup;
use crate::owners::PathClaims;

/// Returns all edges of `catalog`.
pub(crate) fn edges(catalog: &Catalog, registry: &Registry, providers: &[u16], lookup: &Lookup<'_>) -> Vec<Edge> {
    let mut edges: Vec<Edge> = catalog.relations.iter().map(written).collect();
    for (resource, second) in catalog.resources.iter().zip((0..).map(ResourceId::first)) {
        for deferred in resource.deferred() {
            for reference in deferred.template.references() {
                if let Some(first) = lookup.referred(&reference) {
                    let origin = Origin::Output { span: deferred.span };
                    edges.push(Edge { from: first, to: second, notify: false, origin });
                }
            }
        }
    }
    if !catalog.is_undo {
        automatic(catalog, registry, providers, lookup, &mut edges);
    }
    // For a resource that cannot be refreshed, a notification is only an order.
    for edge in edges.iter_mut().filter(|edge| edge.notify) {
        edge.notify = is_refreshable(catalog, registry, providers, edge.to);
    }
    edges
}

/// Returns true if a change of another resource can refresh this one.
pub(crate) fn is_refreshable(catalog: &Catalog, registry: &Registry, providers: &[u16], vertex: ResourceId) -> bool {
    let (resource, provider) = (&catalog.resources[vertex.slot()], providers[vertex.slot()]);
    registry.at(usize::from(provider)).capabilities().refresh.is_some() && !resource.is_hidden()
}

fn written(relation: &kilter_model::Relation) -> Edge {
    Edge {
        from: ResourceId::first(relation.first),
        to: ResourceId::first(relation.second),
        notify: relation.kind.refreshes(),
        origin: Origin::Written { kind: relation.kind, span: relation.span },
    }
}

fn automatic(catalog: &Catalog, registry: &Registry, providers: &[u16], lookup: &Lookup<'_>, edges: &mut Vec<Edge>) {
    let mut nearest = Nearest::default();
    let mut every = Every::default();
    let mut claims = PathClaims::new(catalog, registry, providers);
    let opted_out = |v: ResourceId| catalog.resources[v.slot()].meta().is_some_and(|meta| meta.no_autoedge);
    for ((resource, provider), me) in catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first)) {
        if opted_out(me) {
            continue;
        }
        if let Some(claims) = &mut claims {
            claims.lies(me, *provider, resource);
        }
        let provider = registry.at(usize::from(*provider));
        provider.capabilities().relations().auto_edges(&resource.name, &resource.attributes, &mut |edge| {
            if let Some(claims) = &mut claims
                && edge.direction != Direction::After
                && edge.by != Match::Ancestor
                && let Some(target) = registry.index(edge.type_name)
            {
                claims.claim(me, target as u16, edge.name);
            }
            if edge.by == Match::Every {
                let others = every.of(edge.type_name, registry, lookup).iter();
                let others = others.filter(|other| **other != me && !opted_out(**other));
                edges.extend(others.map(|other| {
                    let (from, to) = if edge.direction == Direction::After { (me, *other) } else { (*other, me) };
                    Edge { from, to, notify: false, origin: Origin::Automatic(Reason::Type) }
                }));
                return;
            }
            let Some((other, reason)) = granted(edge, registry, lookup, &mut nearest) else { return };
            if other == me || opted_out(other) {
                return;
            }
            // When both are removed, the content of a directory goes before the directory.
            let is_reversed = reason == Reason::Directory || edge.direction == Direction::BeforeUnlessRemoved;
            let both_go = is_reversed && is_to_go(catalog, me) && is_to_go(catalog, other);
            let (first, second) = match edge.direction == Direction::After || both_go {
                true => (me, other),
                false => (other, me),
            };
            edges.push(Edge { from: first, to: second, notify: false, origin: Origin::Automatic(reason) });
        });
        if !provider.schema().relations.is_empty() {
            declared(
                provider.schema(),
                resource,
                me,
                &mut |kind, name, title| {
                    let at = registry.index(name)? as u16;
                    if let (Some(claims), RelationKind::Require | RelationKind::Subscribe) = (&mut claims, kind) {
                        claims.claim(me, at, title);
                    }
                    lookup.titled(at, name, title).filter(|other| *other != me && !opted_out(*other))
                },
                edges,
            );
        }
    }
    if let Some(claims) = claims {
        edges.extend(claims.edges(&|vertex| is_to_go(catalog, vertex)));
        unsuitable(catalog, registry, providers, &opted_out, edges);
    }
}

/// Maximum number of edges to resources whose providers are not suitable.
const MAX_SUITABILITY_EDGES: usize = 100_000;

/// Orders resources whose provider is not suitable after the packages of the catalog.
///
/// One of the packages may install the program that the provider needs. Which one is known only after the
/// installation.
fn unsuitable(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    opted_out: &dyn Fn(ResourceId) -> bool,
    edges: &mut Vec<Edge>,
) {
    let mut known: Vec<Option<bool>> = vec![None; registry.len()];
    let mut is_suitable = |at: u16| {
        let at = usize::from(at);
        *known[at].get_or_insert_with(|| registry.at(at).suitable().is_suitable())
    };
    let (mut packages, mut waiting) = (Vec::new(), Vec::new());
    for (at, vertex) in providers.iter().zip((0..).map(ResourceId::first)) {
        if opted_out(vertex) || catalog.resources[vertex.slot()].is_hidden() {
            continue;
        }
        match is_suitable(*at) {
            true if registry.at(usize::from(*at)).capabilities().owner.is_some() && !is_to_go(catalog, vertex) => {
                packages.push(vertex)
            }
            true => {}
            false => waiting.push(vertex),
        }
    }
    let pairs = waiting.iter().flat_map(|second| packages.iter().map(move |first| (*first, *second)));
    let origin = Origin::Automatic(Reason::Suitability);
    edges.extend(pairs.take(MAX_SUITABILITY_EDGES).map(|(first, second)| Edge {
        from: first,
        to: second,
        notify: false,
        origin,
    }));
}

/// Returns true if a resource is declared absent.
fn is_to_go(catalog: &Catalog, vertex: ResourceId) -> bool {
    is_declared_absent(&catalog.resources[vertex.slot()].attributes)
}

/// Returns true if a declaration removes its resource.
pub(crate) fn is_declared_absent(should: &Attributes) -> bool {
    // mold's types use `exists` instead of `ensure`.
    should.text("ensure") == Some("absent") || should.get_bool("exists") == Some(false)
}

/// Adds the edges that the type declares, such as `autorequire`. Unusable titles have been reported earlier and are
/// ignored.
fn declared(
    schema: &TypeSchema,
    resource: &Resource,
    me: ResourceId,
    find: &mut dyn FnMut(RelationKind, &str, &str) -> Option<ResourceId>,
    edges: &mut Vec<Edge>,
) {
    schema.auto_relations(&resource.attributes, &resource.name, &mut |kind, type_name, title| {
        let Some(other) = find(kind, type_name.as_str(), title) else { return };
        let (first, second) = match kind {
            RelationKind::Require | RelationKind::Subscribe => (other, me),
            RelationKind::Before | RelationKind::Notify => (me, other),
        };
        edges.push(Edge { from: first, to: second, notify: kind.refreshes(), origin: Origin::Automatic(Reason::Name) });
    });
}

/// Cache of the last search of each provider for a resource above a directory: most resources lie in the same directory
/// as the previous one.
#[derive(Default)]
struct Nearest(Vec<LastSearch>);

struct LastSearch {
    provider: u16,
    directory: String,
    found: Option<ResourceId>,
}

impl Nearest {
    fn above(&mut self, lookup: &Lookup<'_>, provider: u16, path: &str) -> Option<ResourceId> {
        let directory = path.rfind('/').map_or("", |slash| &path[..slash]);
        if directory.is_empty() {
            return lookup.above(provider, path);
        }
        let last = self.0.iter_mut().find(|last| last.provider == provider);
        if let Some(last) = last.as_ref().filter(|last| last.directory == directory) {
            return last.found;
        }
        let found = lookup.above(provider, path);
        match last {
            Some(last) => {
                directory.clone_into(&mut last.directory);
                last.found = found;
            }
            None => self.0.push(LastSearch { provider, directory: directory.to_owned(), found }),
        }
        found
    }
}

fn granted(
    edge: AutoEdge<'_>,
    registry: &Registry,
    lookup: &Lookup<'_>,
    nearest: &mut Nearest,
) -> Option<(ResourceId, Reason)> {
    let provider = registry.index(edge.type_name)? as u16;
    let by_name = || lookup.identified(provider, edge.name).map(|v| (v, Reason::Name));
    let mut above = || nearest.above(lookup, provider, edge.name).map(|v| (v, Reason::Directory));
    match edge.by {
        Match::Name => by_name(),
        Match::Number => by_name().map(|(other, _)| (other, Reason::Number)),
        Match::Member => by_name().map(|(other, _)| (other, Reason::Member)),
        Match::Ancestor => above(),
        Match::PathOrAncestor => by_name().or_else(above),
        Match::Owner | Match::Every => None,
    }
}

/// Cache of the last list of all resources of a type.
#[derive(Default)]
struct Every {
    type_name: String,
    found: Vec<ResourceId>,
}

impl Every {
    /// Returns the resources of a type that the run manages.
    fn of(&mut self, type_name: &str, registry: &Registry, lookup: &Lookup<'_>) -> &[ResourceId] {
        if self.type_name != type_name {
            let provider = registry.first(type_name).map(|at| at as u16);
            self.found = provider.map(|provider| lookup.all(provider).collect()).unwrap_or_default();
            type_name.clone_into(&mut self.type_name);
        }
        &self.found
    }
}
