//! The providers that are listened to, as the driver sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use ecow::{EcoString, eco_format};
use kilter_engine::{Timestamp, VertexId};
use kilter_model::Meta;
use kilter_provider::POLL;

use super::listen::{Listened, Listener, Names, News, State, Status, WatchedResource};
use super::polls::Missing;
use super::stop::{Message, Stop};
use super::{Driver, Mode};
use crate::observer::Event;
use crate::prepare::Prepared;

/// So many milliseconds a watch has until it has to say that it has begun. Its resources are not looked at before that.
const TO_BEGIN: u64 = 10_000;

/// What a provider is asked to tell of: all of its resources, or one alone, by its name.
pub(super) type Asked = (u16, Option<EcoString>);

/// The providers that are listened to. All have ended when this has been dropped.
#[derive(Debug, Default)]
pub(super) struct Listening {
    listeners: Vec<Listener>,
    /// Those that are to end, until they have.
    ending: Vec<Listener>,
    /// Single resources of which it has been told that nobody watches them, and why.
    unwatched: BTreeMap<VertexId, EcoString>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.iter().for_each(Listener::end);
        self.listeners.drain(..).chain(self.ending.drain(..)).for_each(Listener::wait);
    }
}

impl Listening {
    /// What is asked of whom.
    pub(super) fn asked(&self) -> BTreeMap<Asked, Names> {
        let asked = |listener: &Listener| (listener.told.asked(), listener.told.names());
        self.listeners.iter().map(asked).collect()
    }

    /// Goes on with another graph: whoever is asked for the same goes on, the others end without being waited for.
    pub(super) fn renumbered(
        mut self,
        asked: BTreeMap<Asked, Names>,
        prepared: &Prepared<'_>,
        now: Timestamp,
    ) -> Listening {
        let mut former = std::mem::take(&mut self.listeners);
        let unwatched = std::mem::take(&mut self.unwatched);
        for ((provider, alone), names) in asked {
            let of = |(name, (_, vertex)): (&EcoString, &(_, VertexId))| {
                let resource = prepared.resource(*vertex);
                let noop = resource.meta().is_some_and(Meta::only_looks);
                WatchedResource { name: name.clone(), should: resource.attributes.clone(), noop }
            };
            let alone = alone.as_ref().zip(names.first()).map(of);
            let found = former.iter().position(|listener| listener.told.is_asked(provider, alone.as_ref()));
            let found = found.map(|at| former.swap_remove(at));
            let anew = || Listener::new(provider, alone.clone(), now);
            let listener = match found {
                // It is tried again at once.
                Some(lost) if lost.state == State::Lost => {
                    former.push(lost);
                    let mut listener = anew();
                    listener.state = State::Lost;
                    listener
                }
                Some(listener) => listener,
                None => anew(),
            };
            let before = listener.told.tells_of(names);
            for (name, why) in before.iter().filter_map(|(name, old)| Some((name, unwatched.get(old)?))) {
                self.unwatched.extend(listener.told.named(name).into_iter().map(|vertex| (vertex, why.clone())));
            }
            self.listeners.push(listener);
        }
        former.iter().for_each(Listener::end);
        self.ending.extend(former);
        self
    }

    /// Begins to listen to those that nobody listens to yet.
    pub(super) fn begin(&mut self, prepared: &Prepared<'_>, mode: Mode, sender: &Sender<Message>, stop: &Stop) {
        self.listeners.iter_mut().for_each(|listener| listener.begin(prepared.registry, mode, sender, stop));
    }

    /// The one that tells this, unless it is listened to no longer.
    fn find(&mut self, told: &Arc<Listened>) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| Arc::ptr_eq(&listener.told, told))
    }

    fn of_state(&self, state: State) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(move |listener| listener.state == state)
    }

    /// All resources that providers tell of.
    pub(super) fn vertices(&self) -> Vec<VertexId> {
        self.listeners.iter().flat_map(|listener| listener.told.vertices()).collect()
    }

    /// The resources whose watch has yet to begin.
    pub(super) fn silent(&self) -> BTreeSet<VertexId> {
        self.of_state(State::Silent).flat_map(|listener| listener.told.vertices()).collect()
    }

    /// The resources of which nobody tells, though somebody should.
    pub(super) fn unheard(&self) -> Vec<VertexId> {
        let lost = self.of_state(State::Lost).flat_map(|listener| listener.told.vertices());
        lost.chain(self.unwatched.keys().copied()).collect()
    }

    /// Whether the provider that tells of a resource has not said anything yet.
    pub(super) fn is_silent(&self, vertex: VertexId) -> bool {
        self.of_state(State::Silent).any(|listener| listener.told.has(vertex))
    }

    /// Why a provider does not tell of a resource of which it should.
    pub(super) fn why_unwatched(&self, vertex: VertexId) -> Option<&EcoString> {
        self.unwatched.get(&vertex)
    }

    /// When those that say nothing are taken for lost.
    pub(super) fn patience(&self) -> Option<Timestamp> {
        let since = self.of_state(State::Silent).map(|listener| listener.since).min()?;
        Some(Timestamp(since.0.saturating_add(TO_BEGIN)))
    }

    /// A watch has ended, or is about to in a moment.
    fn left(&mut self, told: &Arc<Listened>) {
        if let Some(at) = self.ending.iter().position(|listener| Arc::ptr_eq(&listener.told, told)) {
            self.ending.swap_remove(at).wait();
        }
    }
}

impl<'run: 'scope, 'scope> Driver<'run, '_, 'scope, '_> {
    /// Takes what a provider has told.
    pub(super) fn heard(&mut self, told: &Arc<Listened>) {
        if self.holder.as_mut().is_none_or(|holder| holder.listening.find(told).is_none()) {
            return;
        }
        let News { status, any, changed, of } = told.news();
        match status {
            Some(Status::Watching) => self.heard_again(told),
            Some(Status::Lost(why)) => self.unheard(told, &why),
            None => {}
        }
        // In the order in which they are declared, as all else.
        let named = |name: &EcoString| told.named(name).into_iter();
        let of: BTreeMap<VertexId, &Status> =
            of.iter().flat_map(|(name, status)| named(name).map(move |vertex| (vertex, status))).collect();
        of.into_iter().for_each(|(vertex, status)| self.heard_of(vertex, status));
        let stale: BTreeSet<VertexId> = match any {
            true => told.vertices().into_iter().collect(),
            false => changed.iter().flat_map(named).collect(),
        };
        stale.into_iter().for_each(|vertex| self.is_stale(vertex));
    }

    /// A watch has ended that nobody listens to any more.
    pub(super) fn left(&mut self, told: &Arc<Listened>) {
        if let Some(holder) = &mut self.holder {
            holder.listening.left(told);
        }
    }

    /// A provider tells from now on.
    fn heard_again(&mut self, told: &Arc<Listened>) {
        let Some(holder) = &mut self.holder else { return };
        let Some(listener) = holder.listening.find(told) else { return };
        let was_lost = std::mem::replace(&mut listener.state, State::Watching) == State::Lost;
        let vertices = told.vertices();
        let is_watched = |vertex: &&VertexId| !holder.listening.unwatched.contains_key(*vertex);
        let watched: Vec<VertexId> = vertices.iter().filter(is_watched).copied().collect();
        watched.into_iter().for_each(|vertex| holder.polls.misses_no_longer(vertex, Missing::Provider));
        if was_lost {
            self.observer.event(Event::Rewatched { count: vertices.len() });
        }
        for vertex in vertices {
            self.begins_to_be_watched(vertex);
            // Nobody has listened meanwhile.
            if was_lost && self.is_state(vertex) {
                self.is_stale(vertex);
            }
        }
    }

    /// Whether a resource has a state. What cannot be asked whether it has to run is not run since nobody tells of it.
    fn is_state(&self, vertex: VertexId) -> bool {
        !self.prepared.provider(vertex).acts_anew(&self.prepared.resource(vertex).attributes)
    }

    /// Takes what a provider has told of its watch of a single resource.
    fn heard_of(&mut self, vertex: VertexId, status: &Status) {
        let is_state = self.is_state(vertex);
        let Some(holder) = &mut self.holder else { return };
        let Status::Lost(why) = status else {
            if holder.listening.unwatched.remove(&vertex).is_some() {
                holder.polls.misses_no_longer(vertex, Missing::Provider);
                self.observer.event(Event::Rewatched { count: 1 });
            }
            return;
        };
        let resource = self.prepared.resource(vertex);
        if is_state {
            holder.polls.misses(vertex, Missing::Provider, self.now);
        }
        let why = self.board.sealed(resource.reference.type_name.as_str(), &resource.name, why.to_string());
        if holder.listening.unwatched.insert(vertex, why.as_str().into()).is_none() {
            let why = &format!("{}: {why}", resource.reference);
            self.observer.event(Event::Unwatched { count: 1, why, every: is_state.then_some(POLL) });
        }
    }

    /// Resources are looked at from time to time while their provider does not tell what changes.
    fn unheard(&mut self, told: &Arc<Listened>, why: &str) {
        let vertices = told.vertices();
        let states: Vec<VertexId> = vertices.iter().copied().filter(|vertex| self.is_state(*vertex)).collect();
        let Some(holder) = &mut self.holder else { return };
        let Some(listener) = holder.listening.find(told) else { return };
        let is_news = std::mem::replace(&mut listener.state, State::Lost) != State::Lost;
        for vertex in &vertices {
            holder.listening.unwatched.remove(vertex);
        }
        for vertex in states {
            holder.polls.misses(vertex, Missing::Provider, self.now);
        }
        let count = vertices.len();
        vertices.into_iter().for_each(|vertex| self.begins_to_be_watched(vertex));
        // It is tried again and again, which need not be told each time.
        if is_news {
            let type_name = &self.prepared.registry.at(usize::from(told.provider)).schema().name;
            // It may repeat what the script has read.
            let why = &self.board.sealed(type_name.as_str(), "", why.to_owned());
            self.observer.event(Event::Unwatched { count, why, every: Some(POLL) });
        }
    }

    /// Goes on without those that do not say whether they watch.
    pub(super) fn look_at_listening(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        if holder.listening.patience().is_none_or(|until| until > self.now) {
            return;
        }
        let is_over = |listener: &&Listener| listener.since.0.saturating_add(TO_BEGIN) <= self.now.0;
        let silent = holder.listening.of_state(State::Silent).filter(is_over);
        let silent: Vec<Arc<Listened>> = silent.map(|listener| Arc::clone(&listener.told)).collect();
        for told in silent {
            let provider = self.prepared.registry.at(usize::from(told.provider));
            let seconds = TO_BEGIN / 1000;
            let why = eco_format!(
                "the watch of the provider `{}` does not say that it has begun, for {seconds} s now",
                provider.name()
            );
            self.unheard(&told, &why);
        }
    }
}
