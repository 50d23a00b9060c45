//! Watch registration, incoming watch events, and the polling fallback.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kilter_engine::{Input, ResourceId, Timestamp};
use kilter_model::Poll;
use kilter_provider::{POLL, WatchSource};

use super::{DECLARED, ReconcileLoop, STATUS_SOCKET, is_watched, poll_of, subscriber};
use crate::driver::polls::PollReason;
use crate::driver::reading::LOOK_AT_DECLARED;
use crate::driver::{Driver, millis};
use crate::observer::Event;
use crate::state_dir::StateDir;
use crate::step::{Job, ResolvedInputs, Should};
use crate::watch::{EventSource, PathWatch, Scope, Subscriber, WatchError, WatchEvent, WatchLost};

/// Sources of events for a resource.
#[derive(Default)]
pub(super) struct WatchPlan {
    pub(super) paths: Vec<PathWatch>,
    pub(super) rings: Vec<EventSource>,
    /// Poll interval in milliseconds.
    pub(super) interval: Option<u64>,
    /// Events of the provider, by the name of the resource.
    pub(super) telling: Option<NotifyScope>,
}

/// Selection of a provider's events: all of its resources, or one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotifyScope {
    All,
    Alone,
}

impl WatchPlan {
    pub(super) fn of(watches: Vec<WatchSource>, state_dir: Option<&Path>) -> WatchPlan {
        let mut ways = WatchPlan::default();
        for watch in watches {
            match watch {
                WatchSource::Path { path, scope } => ways.paths.push(PathWatch { path, scope }),
                WatchSource::StateFile(path) => {
                    ways.paths.extend(state_dir.map(|kept| PathWatch { path: kept.join(path), scope: Scope::This }));
                }
                WatchSource::Network(what) => ways.rings.push(EventSource::Network(what)),
                WatchSource::Process(file) => {
                    ways.paths.push(PathWatch { path: file.clone(), scope: Scope::This });
                    ways.rings.push(EventSource::Process(file));
                }
                WatchSource::Poll(interval) => {
                    let interval = millis(interval).max(1);
                    ways.interval = Some(ways.interval.map_or(interval, |known| interval.min(known)));
                }
                WatchSource::Provider => ways.telling = Some(NotifyScope::All),
                WatchSource::ProviderPerResource => ways.telling = Some(NotifyScope::Alone),
            }
        }
        ways
    }
}

impl ReconcileLoop<'_> {
    /// Replaces the path and process watches of a resource after its received outputs have changed. Its check
    /// follows.
    fn follow(
        &mut self,
        vertex: ResourceId,
        received: Arc<ResolvedInputs>,
        ways: WatchPlan,
        now: Timestamp,
    ) -> Vec<WatchLost> {
        let subscriber = subscriber(vertex);
        let mut lost = self.hub.watch(subscriber, ways.paths);
        self.bells.unwatch(subscriber);
        if !ways.rings.is_empty() {
            lost.extend(self.bells.watch(subscriber, ways.rings).err());
        }
        for former in [PollReason::Limit, PollReason::Process, PollReason::Other] {
            self.polls.remove_reason(vertex, former);
        }
        self.polls.declare(vertex, ways.interval, now);
        self.followed.insert(vertex, received);
        lost
    }

    /// Handles a lost watch; returns true if it must be reported.
    fn lost(&mut self, subscriber: Subscriber, why: &WatchError, now: Timestamp) -> bool {
        if subscriber == DECLARED {
            let is_news = !std::mem::replace(&mut self.reading.is_unwatched, true);
            self.reading.looked(now);
            return is_news;
        }
        let vertex = ResourceId::from_bits(subscriber.0);
        let what = match why {
            WatchError::Process(_) => PollReason::Process,
            why if why.is_limit() => PollReason::Limit,
            _ => PollReason::Other,
        };
        // The limit is reached many times.
        let is_news = !(why.is_limit() && self.polls.is_missing(vertex, what));
        self.polls.add_reason(vertex, what, now);
        is_news
    }

    /// Retries watches that failed because of a limit; returns true if they work now.
    pub(super) fn finds(&mut self, vertex: ResourceId) -> bool {
        let is_found =
            self.polls.is_missing(vertex, PollReason::Limit) && self.hub.watch_again(subscriber(vertex)).is_empty();
        if is_found {
            self.polls.remove_reason(vertex, PollReason::Limit);
        }
        is_found
    }

    /// Retries the watch of the manifest, if it failed.
    pub(in super::super) fn finds_declared(&mut self) {
        self.reading.is_unwatched = self.reading.is_unwatched && !self.hub.watch_again(DECLARED).is_empty();
    }
}

impl Driver<'_, '_, '_, '_> {
    /// Handles the queued events of the hub.
    pub(in super::super) fn take_tidings(&mut self) {
        for told in self.holder.as_ref().map(|holder| holder.tidings.take()).unwrap_or_default() {
            self.told(told);
        }
    }

    fn told(&mut self, told: WatchEvent) {
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
            WatchEvent::Lost(WatchLost { subscribers, why }) => self.lost(&subscribers, &why),
        }
    }

    /// Reports lost watches and starts polling.
    fn lost(&mut self, subscribers: &[Subscriber], why: &WatchError) {
        let Some(holder) = &mut self.holder else { return };
        let graph = &self.prepared.graph;
        let is_known =
            |subscriber: &Subscriber| *subscriber == DECLARED || graph.contains(ResourceId::from_bits(subscriber.0));
        let known = subscribers.iter().copied().filter(is_known);
        let news: Vec<Subscriber> = known.filter(|subscriber| holder.lost(*subscriber, why, self.now)).collect();
        let why = &why.to_string();
        if news.contains(&DECLARED) {
            self.observer.event(Event::DeclaredUnwatched { why, every: Duration::from_millis(LOOK_AT_DECLARED) });
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
            match holder.bells.look(subscriber) {
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
    pub(in super::super) fn tell_door(&mut self) {
        if self.holder.as_ref().is_some_and(|holder| holder.hold.status_socket.is_some()) {
            self.observer.event(Event::StatusSocketChanged);
            self.look_at_journal();
        }
    }

    /// Updates the watches of a resource whose received outputs have changed.
    pub(in super::super) fn follow(&mut self, item: &Job) {
        let (Some(holder), Should::Resolved(received)) = (&mut self.holder, &item.should) else { return };
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
            self.told(WatchEvent::Lost(lost));
        }
    }

    /// Handles an event on a resource.
    pub(in super::super) fn is_stale(&mut self, vertex: ResourceId) {
        self.board.is_stale(vertex);
        self.machine.input(self.now, Input::Stale(vertex));
    }
}
