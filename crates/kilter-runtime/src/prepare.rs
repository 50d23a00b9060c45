//! Preparation of a run from a catalog: canonical attributes and the complete graph.

mod choice;
mod problems;

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use kilter_engine::{Cycle, Graph, ResourceId};
use kilter_model::{Attributes, Catalog, Feature, Relation, RelationKind, Resource, Span};
use kilter_provider::{Context, Provider, Purpose, Registry, ValidationError, canonical_name};
use rustc_hash::FxHashSet;

use crate::edges;
use crate::lookup::{Indexes, Lookup};
use crate::plan::Plan;
use problems::surveyed;
pub(crate) use problems::{both, reverts_to, sealed};

/// Catalog that is ready for a run: every resource has a provider, every value its canonical form, and the graph
/// has no cycle. Clones share their data.
#[derive(Clone)]
pub struct Prepared {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) registry: Arc<Registry>,
    /// Index of each resource's provider, in manifest order.
    pub(crate) providers: Arc<[u16]>,
    /// The graph, with the ids of the resources.
    pub(crate) graph: Arc<Graph>,
    indexes: Arc<Indexes>,
    /// Plan that the run carries out, if there is one.
    pub(crate) plan: Option<Arc<Plan>>,
    /// True if the run makes a plan that is saved.
    pub(crate) is_kept: bool,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({} resources)", self.resources().len())
    }
}

/// A `notify` or `subscribe` relation whose target cannot be refreshed: it only sets an order.
#[derive(Clone, Copy, Debug)]
pub struct IneffectiveNotification<'a> {
    /// The resource that cannot be refreshed.
    pub target: &'a Resource,
    /// Its provider.
    pub provider: &'static str,
    /// Keyword of the relation.
    pub kind: RelationKind,
    /// Place of the relation.
    pub span: Span,
}

/// Rejected catalog, with the reasons. The system is unchanged.
#[derive(Debug)]
pub struct Rejected {
    /// The catalog.
    pub catalog: Catalog,
    /// Problems that providers found.
    pub problems: Vec<(ResourceId, ValidationError)>,
    /// Cycles of the graph.
    pub cycles: Vec<Cycle>,
}

/// Prepares a run of `catalog`. The providers canonicalise its resources with the context `cx`.
///
/// # Errors
/// Every problem of every resource, and every cycle.
pub fn plan_of(mut catalog: Catalog, registry: &Registry, cx: &Context<'_>) -> Result<Prepared, Box<Rejected>> {
    let (providers, problems) = surveyed(&mut catalog, registry, cx);
    let graph = graph_of(&catalog, registry, &providers);
    match graph {
        Ok(graph) if problems.is_empty() => {
            let (registry, indexes) = (Arc::new(registry.clone()), Arc::new(Indexes::new(registry)));
            let (catalog, providers, graph) = (Arc::new(catalog), providers.into(), Arc::new(graph));
            Ok(Prepared { catalog, registry, providers, graph, indexes, plan: None, is_kept: false })
        }
        graph => Err(Box::new(Rejected { catalog, problems, cycles: graph.err().unwrap_or_default() })),
    }
}

/// Finds further problems of a catalog that has some already.
///
/// If attributes of a resource are [broken](Resource::broken), it only reports problems of the other attributes. A
/// problem of the resource as a whole may be a result of the broken ones.
pub fn survey(mut catalog: Catalog, registry: &Registry, cx: &Context<'_>) -> Rejected {
    let (providers, problems) = surveyed(&mut catalog, registry, cx);
    let graph = graph_of(&catalog, registry, &providers);
    Rejected { catalog, problems, cycles: graph.err().unwrap_or_default() }
}

fn graph_of(catalog: &Catalog, registry: &Registry, providers: &[u16]) -> Result<Graph, Vec<Cycle>> {
    let indexes = Indexes::new(registry);
    let lookup = Lookup::new(&catalog.resources, providers, registry, &indexes);
    let edges = edges::edges(catalog, registry, providers, &lookup);
    Graph::new(catalog.resources.len() as u32, edges)
}

impl Prepared {
    /// Returns the graph, for drawing.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Makes a plan that is saved: the report contains the basis of each change.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// Carries out the steps of a plan, and no other changes.
    #[must_use]
    pub fn following(mut self, plan: Plan) -> Self {
        self.plan = Some(Arc::new(plan));
        self
    }

    /// Returns the origin of its manifests.
    pub fn origin(&self) -> &EcoString {
        &self.catalog.origin
    }

    /// Returns true if it contains resources with `reverse`, or resources to restore.
    pub fn reverses(&self) -> bool {
        self.resources().iter().any(|one| one.is_reversal() || one.meta().is_some_and(|meta| meta.reverse))
    }

    /// Returns true if a change of another resource can refresh this one: its type and provider act on a refresh.
    pub fn is_refreshable(&self, vertex: ResourceId) -> bool {
        let provider = self.registry.at(usize::from(self.provider_index(vertex)));
        provider.schema().has(Feature::Refresh) && !self.resource(vertex).is_hidden()
    }

    /// Returns written `notify` and `subscribe` relations that only set an order, one for each target.
    ///
    /// A relation with a composite resource counts if none of its parts can be refreshed.
    pub fn ineffective_notifications(&self) -> Vec<IneffectiveNotification<'_>> {
        // Relations that were written as one: the parts of a composite resource share a place.
        let mut written: BTreeMap<Span, Vec<&Relation>> = BTreeMap::new();
        for relation in self.catalog.relations.iter().filter(|relation| relation.kind.refreshes()) {
            written.entry(relation.span).or_default().push(relation);
        }
        let mut seen = FxHashSet::default();
        let mut found = Vec::new();
        for relations in written.into_values() {
            let is_effective = |relation: &&&Relation| {
                let target = self.graph.order()[relation.second as usize];
                // Hidden resources never run, so that their relations are no mistakes.
                self.resource(target).is_hidden() || self.is_refreshable(target)
            };
            let Some(relation) = relations.first().filter(|_| !relations.iter().any(|one| is_effective(&one))) else {
                continue;
            };
            let target = self.graph.order()[relation.second as usize];
            if seen.insert(target) {
                let (kind, span) = (relation.kind, relation.span);
                let provider = self.provider(target).name();
                found.push(IneffectiveNotification { target: self.resource(target), provider, kind, span });
            }
        }
        found
    }

    /// Returns the resource of a vertex.
    pub fn resource(&self, vertex: ResourceId) -> &Arc<Resource> {
        &self.catalog.resources[self.graph.place(vertex)]
    }

    /// Returns the number of resources whose `when` was false.
    pub fn left_out(&self) -> usize {
        self.catalog.left_out
    }

    /// Returns all resources in manifest order.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.catalog.resources
    }

    /// Returns the canonical name of the resource that a title alone identifies.
    pub(crate) fn key_of(&self, provider: usize, title: &str) -> Option<EcoString> {
        let provider = self.registry.at(provider).as_ref();
        let cx = Context::empty().with_hostname(self.registry.hostname());
        let (name, namevars) = provider.schema().identify(title, &Attributes::default()).ok()?;
        Some(canonical_name(provider, &cx, &name, &namevars).map_or(name, |(name, _)| name))
    }

    /// Returns the purpose of the resource of a vertex.
    pub(crate) fn purpose(&self, vertex: ResourceId) -> Purpose {
        self.provider(vertex).capabilities().watch().purpose(&self.resource(vertex).attributes)
    }

    pub(crate) fn provider(&self, vertex: ResourceId) -> &dyn Provider {
        self.registry.at(usize::from(self.provider_index(vertex))).as_ref()
    }

    /// Returns the index of a resource's provider.
    pub(crate) fn provider_index(&self, vertex: ResourceId) -> u16 {
        self.providers[self.graph.place(vertex)]
    }

    /// Returns all resources with their ids, in manifest order.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Resource, ResourceId)> {
        self.resources().iter().map(Arc::as_ref).zip(self.graph.vertices())
    }

    /// Returns the indexes of the resources by reference and by name.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        let Prepared { catalog, registry, providers, indexes, .. } = self;
        Lookup::new(&catalog.resources, providers, registry, indexes).with_ids(self.graph.order())
    }

    /// Gives the resources other ids, in manifest order.
    pub(crate) fn set_ids(&mut self, ids: Vec<ResourceId>) {
        self.graph = Arc::new(self.graph.with_ids(ids));
    }
}
