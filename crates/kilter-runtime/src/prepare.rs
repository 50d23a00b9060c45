//! From a catalog to a run: canonical attributes, the whole graph.

use kilter_engine::{Cycle, Graph, VertexId};
use kilter_model::{Catalog, Resource};
use kilter_provider::{Problem, Provider, Registry};

use crate::edges;
use crate::lookup::Lookup;

/// A catalog that can be carried out: every resource has its provider, every value its canonical
/// form, the graph no cycle.
pub struct Prepared<'r> {
    pub(crate) catalog: Catalog,
    pub(crate) registry: &'r Registry,
    /// The index of each resource's provider.
    pub(crate) providers: Vec<u16>,
    pub(crate) graph: Graph,
}

/// Why a catalog cannot be carried out. Nothing was touched.
#[derive(Debug)]
pub struct Rejected {
    /// The catalog.
    pub catalog: Catalog,
    /// What providers say is wrong with their resources.
    pub problems: Vec<(VertexId, Problem)>,
    /// Resources that wait for each other.
    pub cycles: Vec<Cycle>,
}

/// Prepares a run of `catalog`.
///
/// # Errors
/// Every problem of every resource, or else every cycle.
pub fn plan_of(mut catalog: Catalog, registry: &Registry) -> Result<Prepared<'_>, Box<Rejected>> {
    let mut providers = Vec::with_capacity(catalog.resources.len());
    let mut problems = Vec::new();
    for (resource, vertex) in catalog.resources.iter_mut().zip((0..).map(VertexId)) {
        let Some(at) = registry.index(resource.reference.type_name.as_str()) else {
            let message = format!("there is no provider for the type `{}`", resource.reference.type_name);
            problems.push((vertex, Problem::new(message)));
            continue;
        };
        providers.push(at as u16);
        problems.extend(faults(registry.at(at).as_ref(), resource).into_iter().map(|problem| (vertex, problem)));
    }
    if !problems.is_empty() {
        return Err(Box::new(Rejected { catalog, problems, cycles: Vec::new() }));
    }
    let lookup = Lookup::new(&catalog.resources, &providers, registry.len());
    let edges = edges::edges(&catalog, registry, &providers, &lookup);
    match Graph::new(catalog.resources.len() as u32, edges) {
        Ok(graph) => Ok(Prepared { catalog, registry, providers, graph }),
        Err(cycles) => Err(Box::new(Rejected { catalog, problems: Vec::new(), cycles })),
    }
}

/// What is wrong with one resource; makes it canonical if nothing is. Values that are only known
/// during the run are made canonical then.
fn faults(provider: &dyn Provider, resource: &mut Resource) -> Vec<Problem> {
    let deferred: Vec<&str> = resource.deferred.iter().map(|deferred| deferred.attribute.as_str()).collect();
    let mut problems = provider.validate(&resource.name, &resource.attributes, &deferred);
    if problems.is_empty() && deferred.is_empty() {
        problems.extend(provider.canonicalize(&resource.name, &mut resource.attributes).err());
        resource.attributes.shrink();
    }
    problems
}

impl Prepared<'_> {
    /// The graph, for drawing.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The resource of a vertex.
    pub fn resource(&self, vertex: VertexId) -> &Resource {
        &self.catalog.resources[vertex.0 as usize]
    }

    /// All resources in manifest order.
    pub fn resources(&self) -> &[Resource] {
        &self.catalog.resources
    }

    pub(crate) fn provider(&self, vertex: VertexId) -> &dyn Provider {
        self.registry.at(usize::from(self.providers[vertex.0 as usize])).as_ref()
    }
}
