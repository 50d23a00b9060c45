//! Running watches of providers, as the driver owns them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use ecow::{EcoString, eco_format};
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::Meta;
use kilter_provider::{POLL, Purpose};

use super::polls::PollReason;
use super::provider_watch::{Listener, Names, PendingEvents, State, WatchChannel, WatchStatus, WatchedResource};
use super::stop::{Message, ShutdownHandle};
use super::{Driver, Mode};
use crate::observer::Event;
use crate::prepare::Prepared;

/// Time in milliseconds in which a watch must confirm its start. Its resources are not checked before that.
const WATCH_START_TIMEOUT: u64 = 10_000;

/// Arguments of a watch: a provider, and the name of the resource if it watches only one.
pub(super) type WatchKey = (u16, Option<EcoString>);

/// Running watches of providers. All of them have ended when this has been dropped.
#[derive(Debug, Default)]
pub(super) struct ProviderWatches {
    listeners: Vec<Listener>,
    /// Watches that were requested to end and still run.
    ending: Vec<Listener>,
    /// Single resources that their provider does not watch, with the reason.
    unwatched: BTreeMap<ResourceId, EcoString>,
}

impl Drop for ProviderWatches {
    fn drop(&mut self) {
        self.listeners.iter().for_each(Listener::end);
        self.listeners.drain(..).chain(self.ending.drain(..)).for_each(Listener::wait);
    }
}

impl ProviderWatches {
    /// Returns the arguments and names of all watches.
    pub(super) fn asked(&self) -> BTreeMap<WatchKey, Names> {
        let asked = |listener: &Listener| (listener.told.asked(), listener.told.names());
        self.listeners.iter().map(asked).collect()
    }

    /// Replaces the watches. Those with the same arguments continue; the others end in the background.
    pub(super) fn declare(&mut self, asked: BTreeMap<WatchKey, Names>, prepared: &Prepared, now: Timestamp) {
        let mut former = std::mem::take(&mut self.listeners);
        let unwatched = std::mem::take(&mut self.unwatched);
        for ((provider, alone), names) in asked {
            let of = |(name, (_, vertex)): (&EcoString, &(_, ResourceId))| {
                let resource = prepared.resource(*vertex);
                let noop = resource.meta().is_some_and(Meta::is_observe_only);
                WatchedResource { name: name.clone(), should: resource.attributes.clone(), noop }
            };
            let alone = alone.as_ref().zip(names.first()).map(of);
            let found = former.iter().position(|listener| listener.told.is_asked(provider, alone.as_ref()));
            let found = found.map(|at| former.swap_remove(at));
            let anew = || Listener::new(provider, alone.clone(), now);
            let listener = match found {
                // A lost watch restarts at once.
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
    }

    /// Starts the watches that do not run yet.
    pub(super) fn begin(&mut self, prepared: &Prepared, mode: Mode, sender: &Sender<Message>, stop: &ShutdownHandle) {
        self.listeners.iter_mut().for_each(|listener| listener.begin(&prepared.registry, mode, sender, stop));
    }

    /// Returns the listener of a watch; none if the watch is about to end.
    fn find(&mut self, told: &Arc<WatchChannel>) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| Arc::ptr_eq(&listener.told, told))
    }

    fn of_state(&self, state: State) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(move |listener| listener.state == state)
    }

    /// Returns all resources that providers watch.
    pub(super) fn vertices(&self) -> Vec<ResourceId> {
        self.listeners.iter().flat_map(|listener| listener.told.vertices()).collect()
    }

    /// Returns the resources whose watch has not confirmed its start.
    pub(super) fn silent(&self) -> BTreeSet<ResourceId> {
        self.of_state(State::Silent).flat_map(|listener| listener.told.vertices()).collect()
    }

    /// Returns the resources whose watch is lost.
    pub(super) fn unwatched(&self) -> Vec<ResourceId> {
        let lost = self.of_state(State::Lost).flat_map(|listener| listener.told.vertices());
        lost.chain(self.unwatched.keys().copied()).collect()
    }

    /// Returns true if the watch of a resource has no status yet.
    pub(super) fn is_silent(&self, vertex: ResourceId) -> bool {
        self.of_state(State::Silent).any(|listener| listener.told.has(vertex))
    }

    /// Returns the reason why a provider does not watch a resource.
    pub(super) fn why_unwatched(&self, vertex: ResourceId) -> Option<&EcoString> {
        self.unwatched.get(&vertex)
    }

    /// Returns the time at which the next watch without a status counts as lost.
    pub(super) fn patience(&self) -> Option<Timestamp> {
        let since = self.of_state(State::Silent).map(|listener| listener.since).min()?;
        Some(Timestamp(since.0.saturating_add(WATCH_START_TIMEOUT)))
    }

    /// Joins a watch that has ended or is about to.
    fn left(&mut self, told: &Arc<WatchChannel>) {
        if let Some(at) = self.ending.iter().position(|listener| Arc::ptr_eq(&listener.told, told)) {
            self.ending.swap_remove(at).wait();
        }
    }
}

impl Driver<'_, '_, '_, '_> {
    /// Handles the events of a provider.
    pub(super) fn heard(&mut self, told: &Arc<WatchChannel>) {
        if self.holder.as_mut().is_none_or(|holder| holder.listening.find(told).is_none()) {
            return;
        }
        let PendingEvents { status, any, changed, of } = told.news();
        match status {
            Some(WatchStatus::Watching) => self.on_watch_established(told),
            Some(WatchStatus::Lost(why)) => self.unheard(told, &why),
            None => {}
        }
        // Each resource once, in the order of the ids.
        let named = |name: &EcoString| told.named(name).into_iter();
        let of: BTreeMap<ResourceId, &WatchStatus> =
            of.iter().flat_map(|(name, status)| named(name).map(move |vertex| (vertex, status))).collect();
        of.into_iter().for_each(|(vertex, status)| self.heard_of(vertex, status));
        let stale: BTreeSet<ResourceId> = match any {
            true => told.vertices().into_iter().collect(),
            false => changed.iter().flat_map(named).collect(),
        };
        stale.into_iter().for_each(|vertex| self.is_stale(vertex));
    }

    /// Handles the end of a watch that was requested to end.
    pub(super) fn left(&mut self, told: &Arc<WatchChannel>) {
        if let Some(holder) = &mut self.holder {
            holder.listening.left(told);
        }
    }

    /// Handles the start or restart of a watch.
    fn on_watch_established(&mut self, told: &Arc<WatchChannel>) {
        let Some(holder) = &mut self.holder else { return };
        let Some(listener) = holder.listening.find(told) else { return };
        let was_lost = std::mem::replace(&mut listener.state, State::Watching) == State::Lost;
        let vertices = told.vertices();
        let is_watched = |vertex: &&ResourceId| !holder.listening.unwatched.contains_key(*vertex);
        let watched: Vec<ResourceId> = vertices.iter().filter(is_watched).copied().collect();
        watched.into_iter().for_each(|vertex| holder.polls.remove_reason(vertex, PollReason::Provider));
        if was_lost {
            self.observer.event(Event::Rewatched { count: vertices.len() });
        }
        for vertex in vertices {
            self.begins_to_be_watched(vertex);
            // Events were lost while the watch did not run.
            if was_lost && self.is_state(vertex) {
                self.is_stale(vertex);
            }
        }
    }

    /// Returns true if a resource has a state. An action does not run because its watch was lost.
    fn is_state(&self, vertex: ResourceId) -> bool {
        self.prepared.purpose(vertex) != Purpose::Action
    }

    /// Handles the status of the watch of a single resource.
    fn heard_of(&mut self, vertex: ResourceId, status: &WatchStatus) {
        let is_state = self.is_state(vertex);
        let Some(holder) = &mut self.holder else { return };
        let WatchStatus::Lost(why) = status else {
            if holder.listening.unwatched.remove(&vertex).is_some() {
                holder.polls.remove_reason(vertex, PollReason::Provider);
                self.observer.event(Event::Rewatched { count: 1 });
            }
            return;
        };
        let resource = self.prepared.resource(vertex);
        if is_state {
            holder.polls.add_reason(vertex, PollReason::Provider, self.now);
        }
        let why = self.board.sealed(resource.reference.type_name.as_str(), &resource.name, why.to_string());
        if holder.listening.unwatched.insert(vertex, why.as_str().into()).is_none() {
            let why = &format!("{}: {why}", resource.reference);
            self.observer.event(Event::Unwatched { count: 1, why, every: is_state.then_some(POLL) });
        }
    }

    /// Polls resources while the watch of their provider is lost.
    fn unheard(&mut self, told: &Arc<WatchChannel>, why: &str) {
        let vertices = told.vertices();
        let states: Vec<ResourceId> = vertices.iter().copied().filter(|vertex| self.is_state(*vertex)).collect();
        let Some(holder) = &mut self.holder else { return };
        let Some(listener) = holder.listening.find(told) else { return };
        let is_news = std::mem::replace(&mut listener.state, State::Lost) != State::Lost;
        for vertex in &vertices {
            holder.listening.unwatched.remove(vertex);
        }
        for vertex in states {
            holder.polls.add_reason(vertex, PollReason::Provider, self.now);
        }
        let count = vertices.len();
        vertices.into_iter().for_each(|vertex| self.begins_to_be_watched(vertex));
        // A watch that is restarted repeatedly is reported once.
        if is_news {
            let type_name = &self.prepared.registry.at(usize::from(told.provider)).schema().name;
            // The reason may contain values that the script has read.
            let why = &self.board.sealed(type_name.as_str(), "", why.to_owned());
            self.observer.event(Event::Unwatched { count, why, every: Some(POLL) });
        }
    }

    /// Gives up waiting for watches that have not confirmed their start in time.
    pub(super) fn look_at_listening(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        if holder.listening.patience().is_none_or(|until| until > self.now) {
            return;
        }
        let is_over = |listener: &&Listener| listener.since.0.saturating_add(WATCH_START_TIMEOUT) <= self.now.0;
        let silent = holder.listening.of_state(State::Silent).filter(is_over);
        let silent: Vec<Arc<WatchChannel>> = silent.map(|listener| Arc::clone(&listener.told)).collect();
        for told in silent {
            let provider = self.prepared.registry.at(usize::from(told.provider));
            let seconds = WATCH_START_TIMEOUT / 1000;
            let why = eco_format!(
                "the watch of the provider `{}` does not say that it has begun, for {seconds} s now",
                provider.name()
            );
            self.unheard(&told, &why);
        }
    }
}
