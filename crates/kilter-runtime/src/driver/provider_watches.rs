//! Running watches of providers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use ecow::EcoString;
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::Meta;

use super::message::Message;
use super::provider_watch::{Listener, ListenerState};
use super::shutdown::ShutdownHandle;
use super::watch_channel::{Names, WatchChannel, WatchedResource};
use crate::options::Mode;
use crate::prepare::Prepared;

/// Time in milliseconds in which a watch must confirm its start. Its resources are not checked before that.
pub(super) const WATCH_START_TIMEOUT: u64 = 10_000;

/// Arguments of a watch: a provider, and the name of the resource if it watches only one.
pub(super) type WatchKey = (u16, Option<EcoString>);

/// Running watches of providers. All of them have ended when this has been dropped.
#[derive(Debug, Default)]
pub(super) struct ProviderWatches {
    listeners: Vec<Listener>,
    /// Watches that were requested to end and still run.
    ending: Vec<Listener>,
    /// Single resources that their provider does not watch, with the reason.
    pub(super) unwatched: BTreeMap<ResourceId, EcoString>,
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
                Some(lost) if lost.state == ListenerState::Lost => {
                    former.push(lost);
                    let mut listener = anew();
                    listener.state = ListenerState::Lost;
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
    pub(super) fn find(&mut self, told: &Arc<WatchChannel>) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| Arc::ptr_eq(&listener.told, told))
    }

    pub(super) fn of_state(&self, state: ListenerState) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(move |listener| listener.state == state)
    }

    /// Returns all resources that providers watch.
    pub(super) fn vertices(&self) -> Vec<ResourceId> {
        self.listeners.iter().flat_map(|listener| listener.told.vertices()).collect()
    }

    /// Returns the resources whose watch has not confirmed its start.
    pub(super) fn silent(&self) -> BTreeSet<ResourceId> {
        self.of_state(ListenerState::Silent).flat_map(|listener| listener.told.vertices()).collect()
    }

    /// Returns the resources whose watch is lost.
    pub(super) fn unwatched(&self) -> Vec<ResourceId> {
        let lost = self.of_state(ListenerState::Lost).flat_map(|listener| listener.told.vertices());
        lost.chain(self.unwatched.keys().copied()).collect()
    }

    /// Returns true if the watch of a resource has no status yet.
    pub(super) fn is_silent(&self, vertex: ResourceId) -> bool {
        self.of_state(ListenerState::Silent).any(|listener| listener.told.has(vertex))
    }

    /// Returns the reason why a provider does not watch a resource.
    pub(super) fn why_unwatched(&self, vertex: ResourceId) -> Option<&EcoString> {
        self.unwatched.get(&vertex)
    }

    /// Returns the time at which the next watch without a status counts as lost.
    pub(super) fn patience(&self) -> Option<Timestamp> {
        let since = self.of_state(ListenerState::Silent).map(|listener| listener.since).min()?;
        Some(Timestamp(since.0.saturating_add(WATCH_START_TIMEOUT)))
    }

    /// Joins a watch that has ended or is about to.
    pub(super) fn on_watch_ended(&mut self, told: &Arc<WatchChannel>) {
        if let Some(at) = self.ending.iter().position(|listener| Arc::ptr_eq(&listener.told, told)) {
            self.ending.swap_remove(at).wait();
        }
    }
}
