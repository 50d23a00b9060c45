//! Watch registration, incoming watch events, and the polling fallback.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kilter_engine::{Input, Timestamp, VertexId};
use kilter_model::Poll;
use kilter_provider::{POLL, Watch};

use super::{DECLARED, DOOR, Holder, is_watched, poll_of};
use crate::driver::polls::Missing;
use crate::driver::reading::LOOK_AT_DECLARED;
use crate::driver::{Driver, millis};
use crate::observer::Event;
use crate::state_dir::StateDir;
use crate::step::{Item, Received, Should};
use crate::watch::{Bell, Lost, PathWatch, Scope, Subscriber, Told, Why};

/// Sources of events for a resource.
#[derive(Default)]
pub(super) struct Ways {
    pub(super) paths: Vec<PathWatch>,
    pub(super) rings: Vec<Bell>,
    /// Poll interval in milliseconds.
    pub(super) interval: Option<u64>,
    /// Events of the provider, by the name of the resource.
    pub(super) telling: Option<Telling>,
}

/// Selection of a provider's events: all of its resources, or one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    All,
    Alone,
}

impl Ways {
    pub(super) fn of(watches: Vec<Watch>, state_dir: Option<&Path>) -> Ways {
        let mut ways = Ways::default();
        for watch in watches {
            match watch {
                Watch::Path { path, scope } => ways.paths.push(PathWatch { path, scope }),
                Watch::Kept(path) => {
                    ways.paths.extend(state_dir.map(|kept| PathWatch { path: kept.join(path), scope: Scope::This }));
                }
                Watch::Network(what) => ways.rings.push(Bell::Network(what)),
                Watch::Process(file) => {
                    ways.paths.push(PathWatch { path: file.clone(), scope: Scope::This });
                    ways.rings.push(Bell::Process(file));
                }
                Watch::Every(interval) => {
                    let interval = millis(interval).max(1);
                    ways.interval = Some(ways.interval.map_or(interval, |known| interval.min(known)));
                }
                Watch::Told => ways.telling = Some(Telling::All),
                Watch::ToldAlone => ways.telling = Some(Telling::Alone),
            }
        }
        ways
    }
}

impl Holder<'_> {
    /// Replaces the path and process watches of a resource after its received outputs have changed. Its check
    /// follows.
    fn follow(&mut self, vertex: VertexId, received: Arc<Received>, ways: Ways, now: Timestamp) -> Vec<Lost> {
        let subscriber = self.subscribers.of(vertex);
        let mut lost = self.hub.watch(subscriber, ways.paths);
        self.bells.unwatch(subscriber);
        if !ways.rings.is_empty() {
            lost.extend(self.bells.watch(subscriber, ways.rings).err());
        }
        for former in [Missing::Limit, Missing::Process, Missing::Other] {
            self.polls.misses_no_longer(vertex, former);
        }
        self.polls.declare(vertex, ways.interval, now);
        self.followed.insert(vertex, received);
        lost
    }

    /// Handles a lost watch; returns true if it must be reported.
    fn lost(&mut self, subscriber: Subscriber, why: &Why, now: Timestamp) -> bool {
        if subscriber == DECLARED {
            let is_news = !std::mem::replace(&mut self.reading.is_unwatched, true);
            self.reading.looked(now);
            return is_news;
        }
        let Some(vertex) = self.subscribers.vertex(subscriber) else { return false };
        let what = match why {
            Why::Process(_) => Missing::Process,
            why if why.is_limit() => Missing::Limit,
            _ => Missing::Other,
        };
        // The limit is reached many times.
        let is_news = !(why.is_limit() && self.polls.is_missing(vertex, what));
        self.polls.misses(vertex, what, now);
        is_news
    }

    /// Retries watches that failed because of a limit; returns true if they work now.
    pub(super) fn finds(&mut self, vertex: VertexId) -> bool {
        let is_found = self.polls.is_missing(vertex, Missing::Limit)
            && self.hub.watch_again(self.subscribers.of(vertex)).is_empty();
        if is_found {
            self.polls.misses_no_longer(vertex, Missing::Limit);
        }
        is_found
    }

    /// Retries the watch of the manifest, if it failed.
    pub(in super::super) fn finds_declared(&mut self) {
        self.reading.is_unwatched = self.reading.is_unwatched && !self.hub.watch_again(DECLARED).is_empty();
    }
}

impl<'run: 'scope, 'scope> Driver<'run, '_, 'scope, '_> {
    /// Handles the queued events of the hub.
    pub(in super::super) fn take_tidings(&mut self) {
        for told in self.holder.as_ref().map(|holder| holder.tidings.take()).unwrap_or_default() {
            self.told(told);
        }
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Changed(subscribers) => {
                for subscriber in subscribers {
                    self.changed(subscriber);
                }
            }
            Told::Everything => {
                for vertex in self.prepared.graph.vertices() {
                    // An unwatched resource has missed no event.
                    if poll_of(self.prepared.resource(vertex)) == Poll::Watched {
                        self.is_stale(vertex);
                    }
                }
                self.changed(DECLARED);
                self.changed(DOOR);
            }
            Told::Lost(Lost { subscribers, why }) => self.lost(&subscribers, &why),
        }
    }

    /// Reports lost watches and starts polling.
    fn lost(&mut self, subscribers: &[Subscriber], why: &Why) {
        let Some(holder) = &mut self.holder else { return };
        let news: Vec<Subscriber> =
            subscribers.iter().copied().filter(|subscriber| holder.lost(*subscriber, why, self.now)).collect();
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
        } else if subscriber == DOOR {
            self.tell_door();
        } else if let Some(vertex) = holder.subscribers.vertex(subscriber) {
            match holder.bells.look(subscriber) {
                Ok(()) => holder.polls.misses_no_longer(vertex, Missing::Process),
                Err(Lost { why, .. }) => {
                    if holder.polls.misses(vertex, Missing::Process, self.now) {
                        self.observer.event(Event::Unwatched { count: 1, why: &why.to_string(), every: Some(POLL) });
                    }
                }
            }
            self.is_stale(vertex);
        }
    }

    /// Reports that the path of status clients may have changed.
    pub(in super::super) fn tell_door(&mut self) {
        if self.holder.as_ref().is_some_and(|holder| holder.hold.door.is_some()) {
            self.observer.event(Event::Door);
            self.look_at_journal();
        }
    }

    /// Updates the watches of a resource whose received outputs have changed.
    pub(in super::super) fn follow(&mut self, item: &Item<'_>) {
        let (Some(holder), Should::Resolved(received)) = (&mut self.holder, &item.should) else { return };
        let vertex = item.vertex;
        let resource = self.prepared.resource(vertex);
        let followed = holder.followed.get(&vertex);
        if followed.is_some_and(|followed| followed.attributes == received.attributes) || !is_watched(resource) {
            return;
        }
        let watches = self.prepared.provider(vertex).watches(&resource.name, &received.attributes);
        let ways = Ways::of(watches, self.options.state_dir.as_ref().map(StateDir::path));
        for lost in holder.follow(vertex, Arc::clone(received), ways, self.now) {
            self.told(Told::Lost(lost));
        }
    }

    /// Handles an event on a resource.
    pub(in super::super) fn is_stale(&mut self, vertex: VertexId) {
        self.board.is_stale(vertex);
        self.machine.input(self.now, Input::Stale(vertex));
    }
}
