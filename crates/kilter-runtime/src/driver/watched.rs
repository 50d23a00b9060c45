//! Watch events, and the watches of resources with received outputs.

use std::sync::Arc;
use std::time::Duration;

use kilter_engine::{Input, ResourceId};
use kilter_model::Poll;
use kilter_provider::POLL;

use super::Driver;
use super::polls::PollReason;
use super::reconcile_loop::{DECLARED, STATUS_SOCKET, is_watched, poll_of};
use super::watch_plan::WatchPlan;
use crate::driver::manifest_source::MANIFEST_POLL_MILLIS;
use crate::observer::Event;
use crate::state_dir::StateDir;
use crate::step::Job;
use crate::watch::{Subscriber, WatchError, WatchEvent, WatchLost};

impl Driver<'_, '_, '_, '_> {
    /// Handles the queued events of the hub.
    pub(super) fn take_watch_events(&mut self) {
        for told in self.holder.as_ref().map(|holder| holder.watch_events.take()).unwrap_or_default() {
            self.on_watch_event(told);
        }
    }

    fn on_watch_event(&mut self, told: WatchEvent) {
        match told {
            WatchEvent::Changed(subscribers) => {
                for subscriber in subscribers {
                    self.changed(subscriber);
                }
            }
            WatchEvent::Everything => {
                let prepared = Arc::clone(&self.prepared);
                for (resource, vertex) in prepared.each() {
                    // An unwatched resource has missed no event.
                    if poll_of(resource) == Poll::Watched {
                        self.is_stale(vertex);
                    }
                }
                self.changed(DECLARED);
                self.changed(STATUS_SOCKET);
            }
            WatchEvent::Lost(WatchLost { subscribers, why }) => self.on_watch_lost(&subscribers, &why),
        }
    }

    /// Reports lost watches and starts polling.
    fn on_watch_lost(&mut self, subscribers: &[Subscriber], why: &WatchError) {
        let Some(holder) = &mut self.holder else { return };
        let graph = &self.prepared.graph;
        let is_known =
            |subscriber: &Subscriber| *subscriber == DECLARED || graph.contains(ResourceId::from_bits(subscriber.0));
        let known = subscribers.iter().copied().filter(is_known);
        let news: Vec<Subscriber> =
            known.filter(|subscriber| holder.on_watch_lost(*subscriber, why, self.now)).collect();
        let why = &why.to_string();
        if news.contains(&DECLARED) {
            self.observer.event(Event::DeclaredUnwatched { why, every: Duration::from_millis(MANIFEST_POLL_MILLIS) });
        }
        let count = news.iter().filter(|subscriber| **subscriber != DECLARED).count();
        if count > 0 {
            self.observer.event(Event::Unwatched { count, why, every: Some(POLL) });
        }
        subscribers.iter().for_each(|subscriber| self.changed(*subscriber));
    }

    fn changed(&mut self, subscriber: Subscriber) {
        let Some(holder) = &mut self.holder else { return };
        if subscriber == DECLARED {
            holder.reading.touched(self.now);
        } else if subscriber == STATUS_SOCKET {
            self.tell_door();
        } else if let vertex = ResourceId::from_bits(subscriber.0)
            && self.prepared.graph.contains(vertex)
        {
            match holder.non_file_watcher.reread_pid_files(subscriber) {
                Ok(()) => holder.polls.remove_reason(vertex, PollReason::Process),
                Err(WatchLost { why, .. }) => {
                    if holder.polls.add_reason(vertex, PollReason::Process, self.now) {
                        self.observer.event(Event::Unwatched { count: 1, why: &why.to_string(), every: Some(POLL) });
                    }
                }
            }
            self.is_stale(vertex);
        }
    }

    /// Reports that the path of status clients may have changed.
    pub(super) fn tell_door(&mut self) {
        if self.holder.as_ref().is_some_and(|holder| holder.hold.status_socket.is_some()) {
            self.observer.event(Event::StatusSocketChanged);
            self.look_at_journal();
        }
    }

    /// Updates the watches of a resource whose received outputs have changed.
    pub(super) fn follow(&mut self, item: &Job) {
        let (Some(holder), Some(received)) = (&mut self.holder, &item.resolved) else { return };
        let vertex = item.vertex;
        let resource = self.prepared.resource(vertex);
        let followed = holder.followed.get(&vertex);
        if followed.is_some_and(|followed| followed.attributes == received.attributes) || !is_watched(resource) {
            return;
        }
        let watches =
            self.prepared.provider(vertex).capabilities().watch().watches(&resource.name, &received.attributes);
        let ways = WatchPlan::of(watches, self.options.state_dir.as_ref().map(StateDir::path));
        for lost in holder.follow(vertex, Arc::clone(received), ways, self.now) {
            self.on_watch_event(WatchEvent::Lost(lost));
        }
    }

    /// Handles an event on a resource.
    pub(super) fn is_stale(&mut self, vertex: ResourceId) {
        tracing::debug!(resource = %self.prepared.resource(vertex).reference, "event");
        if let Some(held_status) = self.state.standing_mut() {
            held_status.end_poll(vertex);
        }
        self.state.has_event(vertex);
        self.machine.input(self.now, Input::Stale(vertex));
    }
}
