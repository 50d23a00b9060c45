//! Replaces the running graph: changed resources restart, unchanged ones keep their state, watches and timers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use kilter_engine::{Disposition, Machine, Timestamp, VertexId};
use kilter_model::expr::{Name, Template};
use kilter_model::{Attributes, Catalog, Meta, Resource, Value};
use kilter_provider::Found;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Conditions;
use super::board::{BoardContest, Counters, PendingReport};
use super::calls::Calls;
use super::debts::JournalFailure;
use super::listening::{Asked, ProviderWatches};
use super::opened::OpenProviders;
use super::paused::PauseState;
use super::polls::Polls;
use super::provider_watch::Names;
use super::stop::Message;
use super::tidings::EventBuffer;
use super::timeout::RunningDeadline;
use crate::journal::Journal;
use crate::lookup::Lookup;
use crate::prepare::Prepared;
use crate::report::{Counts, ResourceReport};
use crate::state_dir::Lock;
use crate::step::ResolvedInputs;
use crate::watch::{Hub, NonFileWatcher, Subscriber};

/// State that the driver of one graph passes to the driver of the next.
pub struct SuspendedRun {
    pub(super) parts: SuspendedParts,
    pub(super) opened: Arc<OpenProviders>,
}

/// Handover with the mapping of old to new resources.
pub struct ResumePlan {
    pub(super) parts: SuspendedParts,
    pub(super) opened: Arc<OpenProviders>,
    pub(super) kept: Kept,
}

impl std::fmt::Debug for SuspendedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handover")
    }
}

/// State that a driver leaves to the next one.
pub(super) struct SuspendedParts {
    /// Lock on the state directory. A run without changes has none.
    pub(super) lock: Option<Lock>,
    pub(super) machine: Option<Machine>,
    pub(super) watching: Option<Watching>,
    pub(super) board: Option<CarriedState>,
    /// Open journal. Pending refreshes may not be on disk yet.
    pub(super) journal: Option<Journal>,
    /// Vertices that were refused because the journal could not be written.
    pub(super) refused: BTreeSet<VertexId>,
    pub(super) wakes: Vec<(Timestamp, VertexId)>,
    pub(super) calls: Calls,
    pub(super) timed: Vec<RunningDeadline>,
    pub(super) sender: Sender<Message>,
    pub(super) receiver: Receiver<Message>,
    pub(super) start: Instant,
}

impl SuspendedParts {
    /// Returns the initial state of the first driver.
    pub(super) fn first() -> SuspendedParts {
        let (sender, receiver) = channel();
        SuspendedParts {
            lock: None,
            machine: None,
            watching: None,
            board: None,
            journal: None,
            refused: BTreeSet::new(),
            wakes: Vec::new(),
            calls: Calls::default(),
            timed: Vec::new(),
            sender,
            receiver,
            start: Instant::now(),
        }
    }
}

/// Watches, subscriptions and polls.
pub(super) struct Watching {
    pub(super) hub: Hub,
    pub(super) bells: NonFileWatcher,
    pub(super) tidings: EventBuffer,
    pub(super) subscribers: Subscribers,
    pub(super) polls: Polls,
    pub(super) followed: FxHashMap<VertexId, Arc<ResolvedInputs>>,
    pub(super) listening: ProviderWatches,
    /// Names that providers were asked to watch.
    pub(super) asked: BTreeMap<Asked, Names>,
    pub(super) flush_after: Timestamp,
    pub(super) alive_at: Timestamp,
    pub(super) is_converged: bool,
    pub(super) conditions: Conditions,
    pub(super) journal: Option<JournalFailure>,
    pub(super) paused: Option<PauseState>,
}

impl Watching {
    /// Creates the state of a first graph, without watches.
    pub(super) fn new(count: usize, sender: &Sender<Message>) -> Watching {
        let tidings = EventBuffer::default();
        let tell = || {
            let (tidings, sender) = (tidings.clone(), sender.clone());
            move |told| tidings.add(told, &sender)
        };
        Watching {
            hub: Hub::start_or_disabled(tell()),
            bells: NonFileWatcher::new(tell()),
            tidings,
            subscribers: Subscribers::of_first(count),
            polls: Polls::default(),
            followed: FxHashMap::default(),
            listening: ProviderWatches::default(),
            asked: BTreeMap::new(),
            flush_after: Timestamp::default(),
            alive_at: Timestamp::default(),
            is_converged: false,
            conditions: Conditions::default(),
            journal: None,
            paused: None,
        }
    }

    /// Converts to the vertices of the next graph, and ends the watches of resources that are not kept.
    pub(super) fn renumbered(self, kept: &Kept) -> Watching {
        let (subscribers, gone) = self.subscribers.renumbered(kept);
        gone.into_iter().for_each(|subscriber| {
            self.hub.unwatch(subscriber);
            self.bells.unwatch(subscriber);
        });
        let of_kept = |names: Names| -> Names {
            names.into_iter().filter_map(|(name, old)| Some((name, kept.new_of(old)?))).collect()
        };
        let asked = self.asked.into_iter().map(|(of, names)| (of, of_kept(names)));
        Watching {
            subscribers,
            polls: self.polls.renumbered(kept),
            followed: kept.map(self.followed),
            asked: asked.filter(|(_, names)| !names.is_empty()).collect(),
            ..self
        }
    }
}

/// Known state of resources.
#[derive(Default)]
pub(super) struct CarriedState {
    pub(super) senders: FxHashMap<VertexId, bool>,
    pub(super) outputs: FxHashMap<VertexId, Attributes>,
    pub(super) resolved: FxHashMap<VertexId, Arc<ResolvedInputs>>,
    pub(super) accepted: FxHashMap<VertexId, Arc<ResolvedInputs>>,
    pub(super) changed: FxHashMap<VertexId, Disposition>,
    /// True if the run changes nothing.
    pub(super) noop: bool,
    pub(super) sent: Vec<Value>,
    pub(super) found: FxHashMap<VertexId, Found>,
    pub(super) drafts: FxHashMap<VertexId, PendingReport>,
    pub(super) standing: BTreeMap<VertexId, ResourceReport>,
    pub(super) tallies: Counters,
    pub(super) contested: FxHashMap<VertexId, BoardContest>,
    pub(super) settled_once: Vec<bool>,
    pub(super) checked_at: Vec<u32>,
    pub(super) used: FxHashSet<u16>,
    pub(super) counts: Counts,
}

/// Mapping of unchanged resources between the old and the new vertices, in both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) old_of: Vec<Option<VertexId>>,
    pub(super) new_of: Vec<Option<VertexId>>,
    /// Old vertex of each changed resource, unless `reset` gives the resource all its retries again.
    pub(super) heirs: Vec<Option<VertexId>>,
}

impl Kept {
    /// Returns the new vertex of an old one.
    pub(super) fn new_of(&self, old: VertexId) -> Option<VertexId> {
        self.new_of.get(old.0 as usize).copied().flatten()
    }

    pub(super) fn is_kept(&self, new: VertexId) -> bool {
        self.old_of.get(new.0 as usize).is_some_and(Option::is_some)
    }

    /// Restarts a resource: it no longer counts as kept.
    pub(super) fn forget(&mut self, new: VertexId) {
        if let Some(old) = self.old_of.get_mut(new.0 as usize).and_then(Option::take) {
            self.new_of[old.0 as usize] = None;
        }
    }

    /// Converts a map of old vertices to a map of new ones.
    pub(super) fn map<T, M: FromIterator<(VertexId, T)>>(&self, old: impl IntoIterator<Item = (VertexId, T)>) -> M {
        old.into_iter().filter_map(|(vertex, value)| Some((self.new_of(vertex)?, value))).collect()
    }
}

impl SuspendedRun {
    /// Compares the new graph with the previous one.
    #[must_use]
    pub fn diff(self, before: &Prepared<'_>, after: &Prepared<'_>) -> ResumePlan {
        let SuspendedRun { parts, opened } = self;
        let lookup = Lookup::new(&before.catalog.resources, &before.providers, before.registry);
        let surroundings = TemplateInputs::of(&before.catalog, &after.catalog);
        let mut kept = Kept {
            old_of: Vec::with_capacity(after.resources().len()),
            new_of: vec![None; before.resources().len()],
            heirs: Vec::new(),
        };
        let settlement = |old: VertexId| parts.machine.as_ref().and_then(|machine| machine.settlement(old));
        let mut next = VertexId(0);
        for vertex in after.graph.vertices() {
            let resource = after.resource(vertex);
            // Most resources keep their order.
            let is_next = |next: &VertexId| {
                before.resources().get(next.0 as usize).is_some_and(|before| before.reference == resource.reference)
            };
            let of_reference = Some(next).filter(is_next).or_else(|| lookup.referred(&resource.reference));
            next = of_reference.map_or(next, |old| VertexId(old.0 + 1));
            let old = of_reference.filter(|old| {
                let provider = |prepared: &Prepared<'_>, vertex: VertexId| prepared.providers[vertex.0 as usize];
                provider(before, *old) == provider(after, vertex)
                    && is_same(before.resource(*old), resource, &surroundings)
                    // A vertex that was cancelled for the new graph restarts.
                    && settlement(*old) != Some(Disposition::Interrupted)
            });
            if let Some(old) = old {
                kept.new_of[old.0 as usize] = Some(vertex);
            }
            let tries = |resource: &Resource| resource.meta().is_some_and(|meta| meta.retry != 0 && !meta.reset);
            if let (Some(heir), None, true) = (of_reference, old, tries(resource)) {
                // Few resources have retries.
                kept.heirs.resize(kept.old_of.len(), None);
                kept.heirs.push(Some(heir));
            }
            kept.old_of.push(old);
        }
        ResumePlan { parts, opened, kept }
    }
}

/// Variables and facts of both graphs, for comparing templates.
struct TemplateInputs<'p> {
    before: &'p Catalog,
    after: &'p Catalog,
    are_same: bool,
}

impl<'p> TemplateInputs<'p> {
    fn of(before: &'p Catalog, after: &'p Catalog) -> TemplateInputs<'p> {
        let are_same = before.vars == after.vars && before.facts == after.facts;
        TemplateInputs { before, after, are_same }
    }

    /// Returns true if all variables and facts of a template are unchanged.
    fn are_same_for(&self, template: &Template) -> bool {
        let mut same = true;
        if !self.are_same {
            template.names(&mut |name, _| {
                same &= match name {
                    Name::Var(name) => self.before.vars.get(name) == self.after.vars.get(name),
                    Name::Fact(name) => self.before.facts.get(name) == self.after.facts.get(name),
                    Name::Own(_) | Name::Output(..) => true,
                }
            });
        }
        same
    }
}

/// Returns true if a resource is declared as before and needs no restart.
///
/// A template may have another value with other `surroundings`. The result of a noop resource may depend on other
/// resources, so that such a resource always restarts.
fn is_same(one: &Resource, other: &Resource, surroundings: &TemplateInputs<'_>) -> bool {
    one.name == other.name
        && one.attributes == other.attributes
        && one.meta() == other.meta()
        && !one.meta().is_some_and(Meta::is_observe_only)
        && one.deferred().len() == other.deferred().len()
        && one.deferred().iter().zip(other.deferred()).all(|(one, other)| {
            one.attribute == other.attribute
                && one.sensitive == other.sensitive
                && one.template == other.template
                && surroundings.are_same_for(&one.template)
        })
}

/// Numbers under which the hub knows the resources. They stay the same when the vertices change.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    of: Vec<Subscriber>,
    vertices: Vec<Option<VertexId>>,
}

impl Subscribers {
    /// Returns the numbers of the first graph.
    pub(super) fn of_first(count: usize) -> Subscribers {
        let vertices = (0..).map(VertexId).take(count);
        Subscribers {
            of: vertices.clone().map(|vertex| Subscriber(vertex.0)).collect(),
            vertices: vertices.map(Some).collect(),
        }
    }

    pub(super) fn of(&self, vertex: VertexId) -> Subscriber {
        self.of[vertex.0 as usize]
    }

    pub(super) fn vertex(&self, subscriber: Subscriber) -> Option<VertexId> {
        self.vertices.get(subscriber.0 as usize).copied().flatten()
    }

    /// Converts to the vertices of the next graph; returns the numbers that are no longer used.
    ///
    /// They are reused only by the graph after the next one, so that a queued event of a former resource reaches no
    /// other resource.
    pub(super) fn renumbered(self, kept: &Kept) -> (Subscribers, Vec<Subscriber>) {
        let mut vertices = self.vertices;
        let (mut gone, mut free) = (Vec::new(), Vec::new());
        for (number, vertex) in (0..).zip(vertices.iter_mut()) {
            let was_used = vertex.is_some();
            *vertex = vertex.and_then(|old| kept.new_of(old));
            match (was_used, *vertex) {
                (true, None) => gone.push(Subscriber(number)),
                (false, _) => free.push(number),
                (true, Some(_)) => {}
            }
        }
        let mut free = free.into_iter();
        let mut of = Vec::with_capacity(kept.old_of.len());
        for (vertex, old) in (0..).map(VertexId).zip(&kept.old_of) {
            let number = match old {
                Some(old) => self.of[old.0 as usize].0,
                None => free.next().unwrap_or_else(|| {
                    vertices.push(None);
                    vertices.len() as u32 - 1
                }),
            };
            vertices[number as usize] = Some(vertex);
            of.push(Subscriber(number));
        }
        (Subscribers { of, vertices }, gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_keep_their_numbers_and_leave_them_to_others() {
        let kept = |old_of: &[Option<u32>], count: usize| {
            let old_of: Vec<Option<VertexId>> = old_of.iter().map(|old| old.map(VertexId)).collect();
            let mut new_of = vec![None; count];
            for (vertex, old) in (0..).map(VertexId).zip(&old_of) {
                if let Some(old) = old {
                    new_of[old.0 as usize] = Some(vertex);
                }
            }
            Kept { old_of, new_of, heirs: Vec::new() }
        };
        let numbers = |subscribers: &Subscribers, count: u32| {
            (0..count).map(|at| subscribers.of(VertexId(at)).0).collect::<Vec<_>>()
        };
        let first = Subscribers::of_first(3);
        let (second, gone) = first.renumbered(&kept(&[Some(2), None, Some(0), None], 3));
        assert_eq!((numbers(&second, 4), gone), (vec![2, 3, 0, 4], vec![Subscriber(1)]));
        assert!((0..4).all(|at| second.vertex(second.of(VertexId(at))) == Some(VertexId(at))));
        let (third, gone) = second.renumbered(&kept(&[Some(3)], 4));
        assert_eq!((numbers(&third, 1), gone), (vec![4], vec![Subscriber(0), Subscriber(2), Subscriber(3)]));
        assert_eq!((third.vertex(Subscriber(1)), third.vertex(Subscriber(9))), (None, None));
        let (fourth, gone) = third.renumbered(&kept(&[None, Some(0)], 1));
        assert_eq!((numbers(&fourth, 2), gone), (vec![0, 4], Vec::new()));
    }
}
