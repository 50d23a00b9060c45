//! Effects of resources that run earlier, as far as a dry run can know them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kilter_engine::{Disposition, Graph, Origin, Reason, ResourceId};
use kilter_model::{Attributes, Because, Meta, RelationKind, Resource};
use kilter_provider::{Account, Direction, Forecast, Match, PathState, SideEffects};

use crate::edges::is_declared_absent;
use crate::options::Mode;
use crate::predict::PredictedWorld;
use crate::prepare::Prepared;

/// Resources with unpredictable effects, and the order of others relative to them.
///
/// An unordered resource may run at any time, independent of the order of the checks: the same manifest on the same
/// machine gives the same plan.
pub(crate) struct RunPreview {
    prepared: Arc<Prepared>,
    unbounded: Vec<Unbounded>,
    /// Predictions of a plan; none in a run that changes resources or holds a state.
    predicted: Option<PredictedWorld>,
}

struct Unbounded {
    vertex: ResourceId,
    /// True if it was found in sync and no resource refreshes it.
    at_rest: AtomicBool,
    before: OnceLock<Vec<bool>>,
    after: OnceLock<Vec<bool>>,
}

impl Unbounded {
    /// Returns true if this always runs after `vertex`.
    fn is_after(&self, vertex: ResourceId, graph: &Graph) -> bool {
        let first_of = |at| graph.incoming(at).iter().map(|id| graph.edge(*id).from).collect();
        self.before.get_or_init(|| reached(self.vertex, graph.slots(), &first_of))[vertex.slot()]
    }

    /// Returns true if this always runs before `vertex`.
    fn is_before(&self, vertex: ResourceId, graph: &Graph) -> bool {
        let second_of = |at| graph.children(at).collect();
        self.after.get_or_init(|| reached(self.vertex, graph.slots(), &second_of))[vertex.slot()]
    }
}

/// Returns the vertices that can be reached from a vertex.
fn reached(from: ResourceId, count: usize, next: &dyn Fn(ResourceId) -> Vec<ResourceId>) -> Vec<bool> {
    let mut seen = vec![false; count];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for vertex in next(at) {
            if !std::mem::replace(&mut seen[vertex.slot()], true) {
                open.push(vertex);
            }
        }
    }
    seen
}

impl RunPreview {
    /// Creates the preview of a run. A run without noop resources needs none.
    pub(crate) fn new(prepared: &Arc<Prepared>, mode: Mode) -> RunPreview {
        let reaches = |vertex: &ResourceId| {
            let predict = prepared.provider(*vertex).capabilities().predict();
            predict.side_effects(&prepared.resource(*vertex).attributes) == SideEffects::Anything
        };
        let is_noop = |resource: &Arc<Resource>| resource.meta().is_some_and(Meta::is_observe_only);
        let looks = mode == Mode::Noop || prepared.resources().iter().any(is_noop);
        let unbounded = match looks {
            true => prepared.graph.vertices().filter(reaches).map(Unbounded::new).collect(),
            false => Vec::new(),
        };
        RunPreview { prepared: Arc::clone(prepared), unbounded, predicted: None }
    }

    /// Adds predictions of the effects of earlier resources, for a plan.
    pub(crate) fn predicting(self) -> RunPreview {
        RunPreview { predicted: Some(PredictedWorld::new(&self.prepared)), ..self }
    }

    /// Returns the prediction of a plan.
    pub(crate) fn predicted(&self) -> Option<&PredictedWorld> {
        self.predicted.as_ref()
    }

    /// Records the settlement of a resource. The driver calls this before it checks the dependents.
    pub(crate) fn settled(&self, vertex: ResourceId, settlement: Disposition) {
        let place = |vertex| self.prepared.graph.place(vertex);
        if settlement == Disposition::InSync
            && let Ok(at) = self.unbounded.binary_search_by_key(&place(vertex), |unbounded| place(unbounded.vertex))
        {
            self.unbounded[at].at_rest.store(true, Ordering::Release);
        }
        if let Some(predicted) = &self.predicted {
            predicted.settled(vertex, settlement);
        }
    }

    /// Returns a resource that always runs before `vertex`, may change anything, and is not in sync yet.
    /// Prefers one that a type relates to `vertex`, then the first that a relation names, then the first one.
    pub(crate) fn pending_before(&self, vertex: ResourceId) -> Option<ResourceId> {
        let graph = &self.prepared.graph;
        let is_pending = |other: &&Unbounded| {
            other.vertex != vertex && !other.at_rest.load(Ordering::Acquire) && other.is_before(vertex, graph)
        };
        let is_named = |other: &&Unbounded| {
            let mut edges = graph.incoming(vertex).iter().map(|id| graph.edge(*id));
            edges.any(|edge| edge.from == other.vertex && edge.origin != Origin::Automatic(Reason::Suitability))
        };
        let pending: Vec<&Unbounded> = self.unbounded.iter().filter(is_pending).collect();
        let required = || {
            let mut required = self.required(vertex).into_iter();
            required.find(|first| pending.iter().any(|other| other.vertex == *first))
        };
        let precedes =
            |other: &ResourceId| self.related(*other, [RelationKind::Before, RelationKind::Notify]).contains(&vertex);
        let named = || pending.iter().find(|other| is_named(other)).or(pending.first()).map(|other| other.vertex);
        required().or_else(|| pending.iter().map(|other| other.vertex).find(precedes)).or_else(named)
    }

    /// Returns a resource of a plan that always runs before `vertex`, has a pending change, and is one that the type of
    /// `vertex` requires, such as the unit file of a service.
    pub(crate) fn required_before(&self, vertex: ResourceId) -> Option<ResourceId> {
        let predicted = self.predicted.as_ref()?;
        self.required(vertex).into_iter().find(|first| predicted.is_pending_before(*first, vertex))
    }

    /// Returns a resource of a plan that a relation of the manifest puts before `vertex`, and that has a pending change.
    pub(crate) fn declared_before(&self, vertex: ResourceId) -> Option<ResourceId> {
        let (predicted, graph) = (self.predicted.as_ref()?, &self.prepared.graph);
        let written = graph.incoming(vertex).iter().map(|id| graph.edge(*id));
        let mut written = written.filter(|edge| matches!(edge.origin, Origin::Written { .. })).map(|edge| edge.from);
        written.find(|first| predicted.is_pending_before(*first, vertex))
    }

    fn required(&self, vertex: ResourceId) -> Vec<ResourceId> {
        self.related(vertex, [RelationKind::Require, RelationKind::Subscribe])
    }

    /// Returns the resources that the type of `vertex` relates to it, in the order of its definition, such as the
    /// packages that install a program.
    fn related(&self, vertex: ResourceId, kinds: [RelationKind; 2]) -> Vec<ResourceId> {
        let (prepared, lookup) = (&self.prepared, self.prepared.lookup());
        let resource = prepared.resource(vertex);
        let mut related = Vec::new();
        prepared.provider(vertex).schema().auto_relations(
            &resource.attributes,
            &resource.name,
            &mut |kind, type_name, title| {
                if kinds.contains(&kind)
                    && let Some(provider) = prepared.registry.index(type_name.as_str())
                {
                    related.extend(lookup.titled(provider as u16, type_name.as_str(), title));
                }
            },
        );
        related
    }

    /// Returns the first resource that may change anything before a vertex runs.
    fn open_before(&self, vertex: ResourceId) -> Option<ResourceId> {
        let graph = &self.prepared.graph;
        let is_open = |other: &&Unbounded| {
            let rests = other.at_rest.load(Ordering::Acquire) && other.is_before(vertex, graph);
            other.vertex != vertex && !rests && !other.is_after(vertex, graph)
        };
        self.unbounded.iter().find(is_open).map(|other| other.vertex)
    }
}

impl Unbounded {
    fn new(vertex: ResourceId) -> Unbounded {
        Unbounded { vertex, at_rest: AtomicBool::new(false), before: OnceLock::new(), after: OnceLock::new() }
    }
}

/// RunPreview of the current catalog. An edit replaces it.
pub(crate) struct CurrentPreview(Mutex<Arc<RunPreview>>);

impl CurrentPreview {
    pub(crate) fn new(preview_context: Arc<RunPreview>) -> CurrentPreview {
        CurrentPreview(Mutex::new(preview_context))
    }

    pub(crate) fn replace(&self, preview_context: Arc<RunPreview>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = preview_context;
    }

    pub(crate) fn get(&self) -> Arc<RunPreview> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers the questions of one call about other resources.
///
/// It takes the current preview at the first question, so that a call without questions keeps no catalog.
pub(crate) struct CallPreviewContext {
    current: Arc<CurrentPreview>,
    provider: u16,
    taken: OnceLock<Arc<RunPreview>>,
}

impl CallPreviewContext {
    pub(crate) fn new(current: &Arc<CurrentPreview>, provider: u16) -> CallPreviewContext {
        CallPreviewContext { current: Arc::clone(current), provider, taken: OnceLock::new() }
    }

    /// Makes the call keep a preview, unless it has taken one.
    pub(crate) fn keep(&self, preview_context: &Arc<RunPreview>) {
        self.taken.get_or_init(|| Arc::clone(preview_context));
    }

    fn preview_context(&self) -> &RunPreview {
        self.taken.get_or_init(|| self.current.get())
    }

    fn prepared(&self) -> &Prepared {
        &self.preview_context().prepared
    }

    /// Returns true if a resource of the provider's type manages the object `name`.
    pub(crate) fn manages(&self, name: &str) -> bool {
        self.prepared().lookup().named(self.provider, name).is_some()
    }

    /// Returns true if a resource of the provider's type manages an object below `path`.
    pub(crate) fn manages_below(&self, path: &str) -> bool {
        self.prepared().lookup().has_below(self.provider, path)
    }

    /// Queries the prediction of a plan for a resource of the provider.
    fn predicted<T>(&self, name: &str, ask: impl FnOnce(&PredictedWorld, ResourceId) -> T) -> Option<T> {
        let predicted = self.preview_context().predicted.as_ref()?;
        Some(ask(predicted, self.prepared().lookup().named(self.provider, name)?))
    }

    /// Returns the resource of a type by its name, or by a title that gives all of its namevars.
    fn resource(&self, type_name: &str, name: &str) -> Option<&Resource> {
        let prepared = self.prepared();
        let provider = prepared.registry.index(type_name)?;
        let named = |name: &str| prepared.lookup().named(provider as u16, name);
        let vertex = named(name).or_else(|| named(&prepared.key_of(provider, name)?))?;
        Some(prepared.resource(vertex))
    }
}

impl kilter_provider::PreviewContext for CallPreviewContext {
    fn may_change_before(&self, name: &str) -> bool {
        // Nothing is known about resources outside of the catalog.
        let vertex = self.prepared().lookup().named(self.provider, name);
        let preview_context = self.preview_context();
        vertex.is_none_or(|vertex| {
            preview_context.open_before(vertex).or_else(|| preview_context.required_before(vertex)).is_some()
        })
    }

    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        self.resource(type_name, name).map(|resource| &resource.attributes)
    }

    fn declares(&self, type_name: &str, is_meant: &dyn Fn(&str, &Attributes) -> bool) -> bool {
        let prepared = self.prepared();
        prepared.graph.vertices().map(|vertex| prepared.resource(vertex)).any(|resource| {
            let reference = &resource.reference;
            reference.type_name == type_name && is_meant(reference.title.as_str(), &resource.attributes)
        })
    }

    fn required(&self, type_name: &str, add: &mut dyn FnMut(&str)) {
        let prepared = self.prepared();
        for vertex in prepared.graph.vertices() {
            let (resource, provider) = (prepared.resource(vertex), prepared.provider(vertex));
            if is_declared_absent(&resource.attributes) {
                continue;
            }
            provider.capabilities().relations().auto_edges(&resource.name, &resource.attributes, &mut |edge| {
                let is_one = matches!(edge.by, Match::Name | Match::Number | Match::Member);
                if edge.type_name == type_name && is_one && edge.direction != Direction::After {
                    add(edge.name);
                }
            });
            provider.schema().auto_relations(&resource.attributes, &resource.name, &mut |kind, of, title| {
                if of.as_str() == type_name && matches!(kind, RelationKind::Require | RelationKind::Subscribe) {
                    add(title);
                }
            });
        }
    }

    fn enforced(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        let enforced = self.resource(type_name, name);
        let enforced =
            enforced.filter(|resource| !resource.is_hidden() && !resource.meta().is_some_and(Meta::is_observe_only));
        enforced.map(|resource| &resource.attributes)
    }

    fn is_written(&self, path: &str) -> bool {
        self.prepared().lookup().is_written(self.provider, path)
    }

    fn own(&self, name: &str, path: &str) -> Forecast<PathState> {
        self.predicted(name, |predicted, vertex| predicted.own(vertex, path)).unwrap_or(Forecast::Unchanged)
    }

    fn node(&self, name: &str, path: &str) -> Forecast<PathState> {
        self.predicted(name, |predicted, vertex| predicted.node(vertex, path)).unwrap_or(Forecast::Unchanged)
    }

    fn below(&self, name: &str, path: &str, is_meant: &dyn Fn(&str) -> bool) -> Option<Because> {
        self.predicted(name, |predicted, vertex| predicted.below(vertex, path, is_meant)).flatten()
    }

    fn account(&self, name: &str, type_name: &str, account: &str) -> Forecast<Account> {
        let ask = |predicted: &PredictedWorld, vertex| predicted.account(vertex, type_name, account);
        self.predicted(name, ask).unwrap_or(Forecast::Unchanged)
    }

    fn command(&self, name: &str, text: &str, cwd: Option<&str>) -> Option<Because> {
        self.predicted(name, |predicted, vertex| predicted.command(vertex, text, cwd)).flatten()
    }

    fn writer(&self, name: &str, path: &str) -> Option<Because> {
        self.predicted(name, |predicted, vertex| predicted.writer(vertex, path)).flatten()
    }

    fn bringer(&self, name: &str) -> Option<Because> {
        let vertex =
            self.preview_context().predicted.as_ref().and(self.prepared().lookup().named(self.provider, name))?;
        let pending = self.predicted(name, |predicted, vertex| predicted.bringer(vertex)).flatten();
        pending.or_else(|| {
            let other = self.preview_context().open_before(vertex)?;
            let resource = self.prepared().resource(other).reference.clone();
            Some(Because { resource, is_ordered: false })
        })
    }
}
