//! Preparation of a run from a catalog: canonical attributes and the complete graph.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use kilter_engine::{Cycle, Graph, ResourceId};
use kilter_model::{
    AttributeName, Attributes, Behaviour, Catalog, Feature, Relation, RelationKind, Resource, ResourceRef, Span,
    TypeName, Value,
};
use kilter_provider::{
    Context, Provider, Purpose, Registry, RevertTo, ValidationError, canonical_name, canonicalize, canonicalize_one,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::edges;
use crate::lookup::{Indexes, Lookup};
use crate::plan::Plan;
use crate::step::catch_panic;

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

/// Returns the provider of each resource, and all problems. Makes the resources canonical.
fn surveyed(
    catalog: &mut Catalog,
    registry: &Registry,
    cx: &Context<'_>,
) -> (Vec<u16>, Vec<(ResourceId, ValidationError)>) {
    let mut providers = Vec::with_capacity(catalog.resources.len());
    let mut problems = Vec::new();
    let mut particular = vec![None; registry.len()];
    let mut valid: Vec<Vec<(ResourceId, &mut Resource)>> = Vec::new();
    valid.resize_with(registry.len(), Vec::new);
    let mut invalid: Vec<(usize, ResourceId, &mut Resource, Vec<ValidationError>)> = Vec::new();
    for (resource, vertex) in catalog.resources.iter_mut().map(Arc::make_mut).zip((0..).map(ResourceId::first)) {
        let at = match registry
            .choose(resource.reference.type_name.as_str(), resource.provider().map(|name| name.as_str()))
        {
            Ok(at) => at,
            Err(error) => {
                problems.push((vertex, ValidationError::new(error.to_string())));
                // Another provider of the type finds the other problems.
                registry.first(resource.reference.type_name.as_str()).unwrap_or_default()
            }
        };
        providers.push(at as u16);
        if resource.is_hidden() {
            continue;
        }
        let provider = registry.at(at).as_ref();
        let particular = *particular[at].get_or_insert_with(|| is_particular(provider));
        match faults(provider, resource, particular) {
            found if found.is_empty() => valid[at].push((vertex, resource)),
            found => invalid.push((at, vertex, resource, found)),
        }
    }
    let cx = cx.with_hostname(registry.hostname()).with_device(registry.device());
    for (at, vertex, resource, found) in invalid {
        let found = both(found, unusable(registry.at(at).as_ref(), &cx, resource));
        problems.extend(reportable(resource, found).into_iter().map(|problem| (vertex, problem)));
    }
    let mut renamed = Vec::new();
    for (at, resources) in valid.into_iter().enumerate().filter(|(_, resources)| !resources.is_empty()) {
        make_canonical(registry.at(at).as_ref(), &cx, resources, &mut renamed, &mut problems);
    }
    renamed.sort_unstable();
    problems.sort_by_key(|(vertex, _)| *vertex);
    problems.extend(hidden_senders(catalog));
    problems.extend(duplicate_names(catalog, registry, &providers, &renamed));
    problems.extend(duplicate_resources(catalog, registry, &providers));
    let is_left_out = |vertex: ResourceId| {
        let resource = &catalog.resources[vertex.slot()];
        resource.is_hidden() || !resource.broken().is_empty()
    };
    problems.extend(conflicts(catalog, registry, &providers, &is_left_out));
    (providers, problems)
}

/// Reports values from hidden resources, which never run.
fn hidden_senders(catalog: &Catalog) -> Vec<(ResourceId, ValidationError)> {
    let hidden: Vec<&ResourceRef> =
        catalog.resources.iter().filter(|one| one.is_hidden()).map(|one| &one.reference).collect();
    let mut problems = Vec::new();
    if hidden.is_empty() {
        return problems;
    }
    for (resource, vertex) in catalog.resources.iter().zip((0..).map(ResourceId::first)) {
        for deferred in resource.deferred() {
            let sender = deferred.template.references().into_iter().find(|reference| hidden.contains(&reference));
            if let Some(sender) = sender {
                let problem = ValidationError::with(
                    deferred.attribute.as_str(),
                    format!("{sender} is hidden, and sends nothing"),
                );
                problems.push((vertex, problem.hint("take `hidden` out of its `meta`, or give a value")));
            }
        }
    }
    problems
}

/// Reports resources with equal canonical names, such as `0xa123` and `A123`. Hidden resources do not count.
fn duplicate_names(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    renamed: &[ResourceId],
) -> Vec<(ResourceId, ValidationError)> {
    let mut problems = Vec::new();
    if renamed.is_empty() {
        return problems;
    }
    let mut owners: FxHashMap<(u16, &str), ResourceId> = FxHashMap::default();
    for ((resource, at), vertex) in catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first)) {
        if resource.is_hidden() {
            continue;
        }
        let name = resource.name.as_str();
        let Some(first) = owners.insert((registry.slot(usize::from(*at)), name), vertex) else { continue };
        let is_news = renamed.binary_search(&first).is_ok() || renamed.binary_search(&vertex).is_ok();
        if is_news {
            let first = &catalog.resources[first.slot()].reference;
            problems.push((vertex, ValidationError::new(format!("{first} manages the same `{name}`"))));
        }
    }
    problems
}

/// Reports resources whose identity is the name of another one, such as `/etc/motd` and `/etc/motd/`.
///
/// A shared identity that is no name, such as a uid, is permitted (`allowdupe`).
fn duplicate_resources(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
) -> Vec<(ResourceId, ValidationError)> {
    let mut problems = Vec::new();
    let indexes = Indexes::new(registry);
    let lookup = Lookup::new(&catalog.resources, providers, registry, &indexes);
    let resource_of = |vertex: ResourceId| &catalog.resources[vertex.slot()];
    for ((resource, at), vertex) in catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first)) {
        if resource.is_hidden() {
            continue;
        }
        let provider = registry.at(usize::from(*at));
        provider.capabilities().relations().identities(&resource.name, &resource.attributes, &mut |name| {
            let other = lookup.named(*at, name).filter(|other| *other != vertex).map(resource_of);
            if let Some(other) = other.filter(|other| !other.is_hidden()) {
                let message = format!("{} manages the same `{name}`", other.reference);
                problems.push((vertex, ValidationError::new(message)));
            }
        });
    }
    problems
}

/// Reports resources that would undo each other in every run, each pair once.
fn conflicts(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    is_left_out: &dyn Fn(ResourceId) -> bool,
) -> Vec<(ResourceId, ValidationError)> {
    let indexes = Indexes::new(registry);
    let lookup = Lookup::new(&catalog.resources, providers, registry, &indexes);
    // Usually the same type as in the last call.
    let last = RefCell::new((TypeName::from(""), None));
    let index = |type_name: &str| {
        let mut last = last.borrow_mut();
        if last.0 != *type_name {
            *last = (type_name.into(), registry.index(type_name));
        }
        last.1
    };
    let declared = |type_name: &str, name: &str| {
        let vertex = lookup.named(index(type_name)? as u16, name)?;
        let other = &catalog.resources[vertex.slot()];
        (!is_left_out(vertex)).then_some(&other.attributes)
    };
    let all = catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first));
    all.filter(|(_, vertex)| !is_left_out(*vertex))
        .flat_map(|((resource, at), vertex)| {
            let provider = registry.at(usize::from(*at));
            let problems =
                provider.capabilities().relations().conflicts(&resource.name, &resource.attributes, &declared);
            problems.into_iter().map(move |problem| (vertex, sealed(problem, &resource.attributes)))
        })
        .collect()
}

/// Returns the state that a provider restores for a resource that is no longer declared; none if it cannot.
pub(crate) fn reverts_to(provider: &dyn Provider) -> Option<RevertTo> {
    let usual = || {
        let mut attributes = provider.schema().attributes.iter();
        // An attribute with a default, such as the exit code of a command, is no state by itself.
        let is_state = attributes.any(|one| {
            let is_settable = matches!(one.behaviour, Behaviour::Property | Behaviour::InitOnly);
            is_settable && (one.default.is_none() || matches!(one.name.as_str(), "ensure" | "exists"))
        });
        is_state.then_some(RevertTo::Values)
    };
    provider.capabilities().revert.map(|revert| revert.revert_to()).or_else(usual)
}

/// Returns the problem of a resource with `reverse` whose state cannot be restored. A `reverse` from the defaults
/// of all types is switched off instead.
fn irreversible(provider: &dyn Provider, resource: &mut Resource) -> Option<ValidationError> {
    let meta = resource.meta().filter(|meta| meta.reverse)?;
    let why = match reverts_to(provider) {
        None => {
            let type_name = &provider.schema().name;
            format!("a resource of the type `{type_name}` cannot be restored (`reverse`)")
        }
        Some(RevertTo::Earlier | RevertTo::Values) if !resource.deferred().is_empty() => {
            "it receives outputs of other resources, and cannot be restored (`reverse`)".to_owned()
        }
        _ => return None,
    };
    if meta.reverse_of_all {
        resource.particulars_mut().meta.get_or_insert_default().reverse = false;
        return None;
    }
    Some(ValidationError::new(why).hint("take `reverse` out of its `meta`, or out of the `defaults` of its type"))
}

/// Returns the problems of one resource.
fn faults(provider: &dyn Provider, resource: &mut Resource, particular: bool) -> Vec<ValidationError> {
    let irreversible = irreversible(provider, resource);
    let deferred = unknown_attributes(resource);
    let mut problems = provider.validate(&resource.name, &resource.attributes, &deferred);
    problems.extend(irreversible);
    if particular {
        problems.extend(unsupported(provider, resource));
    }
    problems
}

/// Returns the problems that the provider finds when it canonicalises a resource that it does not accept. The resource
/// stays unchanged.
fn unusable(provider: &dyn Provider, cx: &Context<'_>, resource: &Resource) -> Vec<ValidationError> {
    // Without all values, a problem may be a result of the missing ones.
    if !unknown_attributes(resource).is_empty() {
        return Vec::new();
    }
    let (mut name, mut should) = (resource.name.clone(), resource.attributes.clone());
    // A provider may rely on values that it accepts: its panic says nothing new about the others.
    let result = catch_panic(provider, || canonicalize_one(provider, cx, &mut name, &mut should));
    result.ok().and_then(Result::err).unwrap_or_default()
}

/// Joins the problems of `validate` and of `canonicalize`. Of an attribute with both, those of `validate` count.
pub(crate) fn both(mut invalid: Vec<ValidationError>, unusable: Vec<ValidationError>) -> Vec<ValidationError> {
    let is_known = |one: &ValidationError| {
        let is_same = |known: &ValidationError| known.attribute.is_some() && known.attribute == one.attribute;
        invalid.iter().any(|known| is_same(known) || known.message == one.message)
    };
    let more: Vec<ValidationError> = unusable.into_iter().filter(|one| !is_known(one)).collect();
    invalid.extend(more);
    invalid
}

/// Returns the attributes without a known value: deferred and broken ones.
fn unknown_attributes(resource: &Resource) -> Vec<&str> {
    let deferred = resource.deferred().iter().map(|deferred| deferred.attribute.as_str());
    deferred.chain(resource.broken().iter().map(EcoString::as_str)).collect()
}

/// Returns the problems of a resource to report. If attributes are broken, a problem of the resource as a whole may be
/// a result of that.
fn reportable(resource: &Resource, problems: Vec<ValidationError>) -> Vec<ValidationError> {
    let is_of_a_value = |name: &AttributeName| resource.attributes.get(name.as_str()).is_some();
    let is_meant = |problem: &ValidationError| {
        resource.broken().is_empty() || problem.attribute.as_ref().is_some_and(is_of_a_value)
    };
    problems.into_iter().filter(is_meant).map(|problem| sealed(problem, &resource.attributes)).collect()
}

/// Makes the resources of a provider canonical, in one call.
///
/// Names become canonical now, because other resources refer to them. The attributes of a resource with deferred values
/// become canonical during the run.
fn make_canonical(
    provider: &dyn Provider,
    cx: &Context<'_>,
    mut resources: Vec<(ResourceId, &mut Resource)>,
    renamed: &mut Vec<ResourceId>,
    problems: &mut Vec<(ResourceId, ValidationError)>,
) {
    if !provider.schema().has(Feature::Canonicalize) {
        resources.into_iter().for_each(|(_, resource)| resource.attributes.shrink(0));
        return;
    }
    let values = |resource: &mut Resource| match unknown_attributes(resource).is_empty() {
        true => std::mem::take(&mut resource.attributes),
        false => resource.attributes.clone(),
    };
    let mut declared: Vec<(EcoString, Attributes)> =
        resources.iter_mut().map(|(_, resource)| (resource.name.clone(), values(resource))).collect();
    let mut refs: Vec<(&mut EcoString, &mut Attributes)> =
        declared.iter_mut().map(|(name, should)| (name, should)).collect();
    let found = canonicalize(provider, cx, &mut refs);
    for (((vertex, resource), (name, should)), found) in resources.into_iter().zip(declared).zip(found) {
        let is_whole = unknown_attributes(resource).is_empty();
        if !found.is_empty() {
            // Without all values, a problem may be a result of the missing ones.
            if is_whole {
                resource.attributes = should;
                problems.extend(reportable(resource, found).into_iter().map(|problem| (vertex, problem)));
            }
            continue;
        }
        let is_renamed = name != resource.name;
        if is_renamed {
            renamed.push(vertex);
            resource.name = name;
        }
        if is_whole {
            resource.attributes = should;
            resource.attributes.shrink(0);
        } else if is_renamed {
            for namevar in provider.schema().namevars() {
                if let Some(value) = should.get(namevar.name.as_str()) {
                    resource.attributes.set(namevar.name.clone(), value.clone());
                }
            }
        }
    }
}

/// Returns true if a type has read-only attributes, attributes that only some providers support, or relations of
/// its own.
fn is_particular(provider: &dyn Provider) -> bool {
    let schema = provider.schema();
    let has_particular = |attribute: &kilter_model::AttributeSchema| {
        !attribute.providers.is_empty()
            || !attribute.required_features.is_empty()
            || attribute.behaviour == Behaviour::ReadOnly
    };
    !schema.relations.is_empty() || schema.attributes.iter().any(has_particular)
}

/// Reports attributes that the provider does not support, and relations of the type that cannot be determined.
fn unsupported(provider: &dyn Provider, resource: &Resource) -> Vec<ValidationError> {
    let schema = provider.schema();
    let has = |feature: &str| schema.has_word(feature);
    let mut problems = Vec::new();
    for (name, _) in resource.attributes.iter() {
        let Some(attribute) = schema.find(name.as_str()) else { continue };
        if attribute.behaviour == Behaviour::ReadOnly {
            let problem = ValidationError::with(name.as_str(), "it is read_only: it is reported, and cannot be set");
            problems.push(problem.hint("take it out"));
        }
        // Nearly all attributes are supported by all providers.
        let is_open = attribute.providers.is_empty() && attribute.required_features.is_empty();
        if is_open || attribute.is_supported_by(provider.name(), &has) || attribute.default.is_some() {
            continue;
        }
        let message = format!("the provider `{}` of {} does not support it", provider.name(), schema.name);
        let problem = ValidationError::with(name.as_str(), message);
        problems.push(match attribute.providers.is_empty() {
            true => problem.hint(format!("it needs {}", attribute.required_features.join(", "))),
            false => problem.hint(format!("name one with `provider:` that does: {}", attribute.providers.join(", "))),
        });
    }
    if !schema.relations.is_empty() {
        let errors = schema.auto_relations(&resource.attributes, &resource.name, &mut |_, _, _| {});
        problems.extend(errors.into_iter().map(|error| ValidationError::new(error.to_string())));
    }
    problems
}

/// Removes sensitive values from the message of a problem.
pub(crate) fn sealed(problem: ValidationError, attributes: &Attributes) -> ValidationError {
    let secret = |name: &AttributeName| attributes.get(name.as_str()).is_some_and(Value::holds_sensitive);
    match &problem.attribute {
        Some(name) if secret(name) => {
            ValidationError { message: "the attribute does not accept the sensitive value".into(), ..problem }
        }
        None if attributes.iter().any(|(name, _)| secret(name)) => ValidationError {
            message: "its attributes contradict each other; one is sensitive, so details are hidden".into(),
            ..problem
        },
        _ => problem,
    }
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
