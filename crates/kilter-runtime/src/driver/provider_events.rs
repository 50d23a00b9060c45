//! Running watches of providers, as the driver owns them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_engine::ResourceId;
use kilter_provider::{POLL, Purpose};

use super::Driver;
use super::polls::PollReason;
use super::provider_watch::{Listener, ListenerState};
use super::provider_watches::WATCH_START_TIMEOUT;
use super::watch_channel::{PendingEvents, WatchChannel, WatchStatus};
use crate::observer::Event;

impl Driver<'_, '_, '_, '_> {
    /// Handles the events of a provider.
    pub(super) fn on_provider_events(&mut self, told: &Arc<WatchChannel>) {
        if self.holder.as_mut().is_none_or(|holder| holder.provider_watches.find(told).is_none()) {
            return;
        }
        let PendingEvents { status, any, changed, of } = told.news();
        match status {
            Some(WatchStatus::Watching) => self.on_watch_established(told),
            Some(WatchStatus::Lost(why)) => self.on_provider_watch_lost(told, &why),
            None => {}
        }
        // Each resource once, in the order of the ids.
        let named = |name: &EcoString| told.named(name).into_iter();
        let of: BTreeMap<ResourceId, &WatchStatus> =
            of.iter().flat_map(|(name, status)| named(name).map(move |vertex| (vertex, status))).collect();
        of.into_iter().for_each(|(vertex, status)| self.on_resource_watch(vertex, status));
        let stale: BTreeSet<ResourceId> = match any {
            true => told.vertices().into_iter().collect(),
            false => changed.iter().flat_map(named).collect(),
        };
        stale.into_iter().for_each(|vertex| self.is_stale(vertex));
    }

    /// Handles the end of a watch that was requested to end.
    pub(super) fn on_watch_ended(&mut self, told: &Arc<WatchChannel>) {
        if let Some(holder) = &mut self.holder {
            holder.provider_watches.on_watch_ended(told);
        }
    }

    /// Handles the start or restart of a watch.
    fn on_watch_established(&mut self, told: &Arc<WatchChannel>) {
        let Some(holder) = &mut self.holder else { return };
        let Some(listener) = holder.provider_watches.find(told) else { return };
        let was_lost = std::mem::replace(&mut listener.state, ListenerState::Watching) == ListenerState::Lost;
        let vertices = told.vertices();
        let is_watched = |vertex: &&ResourceId| !holder.provider_watches.unwatched.contains_key(*vertex);
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
    fn on_resource_watch(&mut self, vertex: ResourceId, status: &WatchStatus) {
        let is_state = self.is_state(vertex);
        let Some(holder) = &mut self.holder else { return };
        let WatchStatus::Lost(why) = status else {
            if holder.provider_watches.unwatched.remove(&vertex).is_some() {
                holder.polls.remove_reason(vertex, PollReason::Provider);
                self.observer.event(Event::Rewatched { count: 1 });
            }
            return;
        };
        let resource = self.prepared.resource(vertex);
        if is_state {
            holder.polls.add_reason(vertex, PollReason::Provider, self.now);
        }
        let why = self.state.sealed(resource.reference.type_name.as_str(), &resource.name, why.to_string());
        if holder.provider_watches.unwatched.insert(vertex, why.as_str().into()).is_none() {
            let why = &format!("{}: {why}", resource.reference);
            self.observer.event(Event::Unwatched { count: 1, why, every: is_state.then_some(POLL) });
        }
    }

    /// Polls resources while the watch of their provider is lost.
    fn on_provider_watch_lost(&mut self, told: &Arc<WatchChannel>, why: &str) {
        let vertices = told.vertices();
        let states: Vec<ResourceId> = vertices.iter().copied().filter(|vertex| self.is_state(*vertex)).collect();
        let Some(holder) = &mut self.holder else { return };
        let Some(listener) = holder.provider_watches.find(told) else { return };
        let is_news = std::mem::replace(&mut listener.state, ListenerState::Lost) != ListenerState::Lost;
        for vertex in &vertices {
            holder.provider_watches.unwatched.remove(vertex);
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
            let why = &self.state.sealed(type_name.as_str(), "", why.to_owned());
            self.observer.event(Event::Unwatched { count, why, every: Some(POLL) });
        }
    }

    /// Gives up waiting for watches that have not confirmed their start in time.
    pub(super) fn check_watch_starts(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        if holder.provider_watches.patience().is_none_or(|until| until > self.now) {
            return;
        }
        let is_over = |listener: &&Listener| listener.since.0.saturating_add(WATCH_START_TIMEOUT) <= self.now.0;
        let silent = holder.provider_watches.of_state(ListenerState::Silent).filter(is_over);
        let silent: Vec<Arc<WatchChannel>> = silent.map(|listener| Arc::clone(&listener.told)).collect();
        for told in silent {
            let provider = self.prepared.registry.at(usize::from(told.provider));
            let seconds = WATCH_START_TIMEOUT / 1000;
            let why = eco_format!(
                "the watch of the provider `{}` does not say that it has begun, for {seconds} s now",
                provider.name()
            );
            self.on_provider_watch_lost(&told, &why);
        }
    }
}
