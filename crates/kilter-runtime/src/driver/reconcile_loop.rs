//! State of a run that holds the declared state.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ecow::EcoString;
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::{Poll, Resource};
use kilter_provider::Purpose;
use rustc_hash::FxHashMap;

use super::event_buffer::EventBuffer;
use super::manifest_source::{ManifestSource, Reading};
use super::message::Message;
use super::pause_state::{Pause, PauseState};
use super::pending_refreshes::JournalFailure;
use super::polls::{PollReason, Polls};
use super::provider_watches::ProviderWatches;
use super::status_handle::StatusHandle;
use super::watch_plan::{NotifyScope, WatchPlan};
use crate::conditions::Conditions;
use crate::options::Options;
use crate::prepare::Prepared;
use crate::process_tracker::ProcessTracker;
use crate::state_dir::StateDir;
use crate::step::ResolvedInputs;
use crate::watch::{Hub, NonFileWatcher, PathWatch, Scope, Subscriber, WatchCounts, WatchError, WatchEvent, WatchLost};

/// Subscriber number of the manifest. No resource has this number.
pub(super) const DECLARED: Subscriber = Subscriber(u64::MAX);

/// Subscriber number of the path that status clients need.
pub(super) const STATUS_SOCKET: Subscriber = Subscriber(u64::MAX - 1);

/// Returns the subscriber number of a resource.
pub(super) fn subscriber(vertex: ResourceId) -> Subscriber {
    Subscriber(vertex.to_bits())
}

/// Settings of a run that holds a state.
pub struct Hold<'a> {
    /// Time without activity after which the run counts as converged.
    pub converged: Option<Duration>,
    /// True if the run ends when it has converged.
    pub until_converged: bool,
    /// Maximum duration of the run.
    pub longest: Option<Duration>,
    /// Source of the declared state.
    pub declared: &'a mut (dyn ManifestSource + 'a),
    /// Interval of the signs of life.
    pub watchdog_interval: Option<Duration>,
    /// Pause at the start.
    pub paused: Option<&'a Pause>,
    /// Receiver of status requests.
    pub status_handle: Option<&'a StatusHandle>,
    /// Path of the status socket. The driver reports `Event::StatusSocketChanged` after each event on it.
    pub status_socket: Option<&'a Path>,
}

/// Minimum interval between two flushes, in milliseconds.
pub(super) const FLUSH: u64 = 1000;
/// Longest interval after a failed flush, in milliseconds.
pub(super) const FLUSH_AGAIN: u64 = 60_000;

/// Failed flushes since the last successful one.
#[derive(Default)]
pub(super) struct FlushFailure {
    /// Messages of the last flush.
    pub(super) why: Vec<EcoString>,
    /// Interval until the next flush, in milliseconds.
    pub(super) pause: u64,
}

impl FlushFailure {
    /// Records the messages of a flush, and doubles the interval up to [`FLUSH_AGAIN`]. Returns true if they are new.
    pub(super) fn record(&mut self, why: &[EcoString]) -> bool {
        self.pause = self.pause.saturating_mul(2).clamp(FLUSH, FLUSH_AGAIN);
        let is_new = self.why != why;
        self.why = why.to_vec();
        is_new
    }
}

/// Mutable state of a run that holds a state.
pub(super) struct ReconcileLoop<'hold> {
    pub(super) hold: Hold<'hold>,
    pub(super) reading: Reading,
    pub(super) hub: Hub,
    pub(super) non_file_watcher: NonFileWatcher,
    pub(super) watch_events: EventBuffer,
    /// Polled resources.
    pub(super) polls: Polls,
    /// Received outputs with which the watches of a resource were registered.
    pub(super) followed: FxHashMap<ResourceId, Arc<ResolvedInputs>>,
    /// Watches of the providers themselves.
    pub(super) provider_watches: ProviderWatches,
    /// Earliest time of the next flush.
    pub(super) flush_after: Timestamp,
    /// Failure of the last flush.
    pub(super) flush_failure: Option<FlushFailure>,
    /// Time of the next sign of life.
    pub(super) alive_at: Timestamp,
    /// Number of settlements at the last report that nothing is left to do; none while there is work.
    pub(super) quiet_at: Option<usize>,
    pub(super) is_converged: bool,
    /// Conditions that were reported last.
    pub(super) conditions: Conditions,
    pub(super) is_enough: bool,
    /// Reason why the journal cannot be written.
    pub(super) journal: Option<JournalFailure>,
    /// Pause of the run, if it is paused.
    pub(super) paused: Option<PauseState>,
}

impl<'hold> ReconcileLoop<'hold> {
    /// Starts the hub. It watches nothing yet.
    pub(super) fn begin(hold: Hold<'hold>, sender: &Sender<Message>) -> ReconcileLoop<'hold> {
        let watch_events = EventBuffer::default();
        let tell = || {
            let (watch_events, sender) = (watch_events.clone(), sender.clone());
            move |told| watch_events.add(told, &sender)
        };
        if let Some(status_handle) = hold.status_handle {
            status_handle.attach(Some(sender.clone()));
        }
        ReconcileLoop {
            reading: Reading::default(),
            hub: Hub::start_or_disabled(tell()),
            non_file_watcher: NonFileWatcher::new(tell()),
            watch_events,
            polls: Polls::default(),
            followed: FxHashMap::default(),
            provider_watches: ProviderWatches::default(),
            flush_after: Timestamp::default(),
            flush_failure: None,
            alive_at: Timestamp::default(),
            quiet_at: None,
            is_converged: false,
            conditions: Conditions::default(),
            is_enough: false,
            journal: None,
            paused: None,
            hold,
        }
    }

    /// Registers the watches of some resources and of the manifest, before any check of them starts.
    pub(super) fn watch(
        &mut self,
        prepared: &Prepared,
        some: &[ResourceId],
        options: &Options,
        tracker: &mut ProcessTracker,
        sender: &Sender<Message>,
        now: Timestamp,
    ) {
        let state_dir = options.state_dir.as_ref().map(StateDir::path);
        let (mut watches, mut non_file_watches) = (Vec::new(), Vec::new());
        let mut asked = self.provider_watches.asked();
        for names in asked.values_mut() {
            names.retain(|(_, vertex)| prepared.graph.contains(*vertex));
        }
        for &vertex in some {
            let resource = prepared.resource(vertex);
            if is_not_held(resource) {
                continue;
            }
            let poll = poll_of(resource);
            if poll == Poll::Once {
                continue;
            }
            let watches_of =
                prepared.provider(vertex).capabilities().watch().watches(&resource.name, &resource.attributes);
            tracker.hold(vertex, resource, &watches_of);
            if let Poll::Every(seconds) = poll {
                self.polls.declare(vertex, Some(u64::from(seconds) * 1000), now);
                continue;
            }
            let WatchPlan { paths, event_sources, interval, telling } = WatchPlan::of(watches_of, state_dir);
            self.polls.declare(vertex, interval, now);
            if let Some(telling) = telling {
                let alone = (telling == NotifyScope::Alone).then(|| resource.name.clone());
                let of = (prepared.provider_index(vertex), alone);
                asked.entry(of).or_default().push((resource.name.clone(), vertex));
            }
            if !paths.is_empty() {
                watches.push((subscriber(vertex), paths));
            }
            if !event_sources.is_empty() {
                non_file_watches.push((subscriber(vertex), event_sources));
            }
        }
        tracker.begin();
        asked.retain(|_, names| !names.is_empty());
        self.provider_watches.declare(asked, prepared, now);
        for vertex in self.provider_watches.unwatched() {
            if prepared.purpose(vertex) != Purpose::Action {
                self.polls.add_reason(vertex, PollReason::Provider, now);
            }
        }
        let files = self.hold.declared.files().into_iter().map(|path| PathWatch { path, scope: Scope::This });
        let trees = self.hold.declared.trees().into_iter().map(|path| PathWatch { path, scope: Scope::Tree });
        watches.push((DECLARED, files.chain(trees).collect()));
        let socket = self.hold.status_socket.map(|path| PathWatch { path: path.to_owned(), scope: Scope::This });
        watches.extend(socket.map(|socket| (STATUS_SOCKET, vec![socket])));
        for lost in self.hub.watch_all(watches) {
            // The driver handles it when it starts.
            self.watch_events.add(WatchEvent::Lost(lost), sender);
        }
        // The watch on the file starts before the search for its process.
        for lost in non_file_watches
            .into_iter()
            .filter_map(|(subscriber, event_sources)| self.non_file_watcher.watch(subscriber, event_sources).err())
        {
            self.watch_events.add(WatchEvent::Lost(lost), sender);
        }
        // The manifest may have changed between the read and the start of the watch.
        self.reading = Reading::begun();
        // The manifest may have errors already at the start, if an older one is held.
        self.reading.outdated = self.hold.declared.outdated();
        self.reading.is_wrong = self.reading.outdated.is_some();
        self.reading.read_again_after(self.hold.declared.reread_interval(), now);
        self.quiet_at = None;
    }

    /// Ends the watches and polls of resources that have changed or been removed.
    pub(super) fn forget(&mut self, gone: &[ResourceId]) {
        for vertex in gone {
            self.hub.unwatch(subscriber(*vertex));
            self.non_file_watcher.unwatch(subscriber(*vertex));
            self.polls.forget(*vertex);
            self.followed.remove(vertex);
        }
    }

    /// Returns true if the run has reached its end.
    pub(super) fn is_enough(&self) -> bool {
        self.is_enough
    }

    /// Returns the earliest time of the next flush. A paused run flushes at once, unless the last flush failed: its
    /// requester expects the changes on disk.
    pub(super) fn flush_due(&self) -> Timestamp {
        let is_at_once = self.paused.is_some() && self.flush_failure.is_none();
        if is_at_once { Timestamp::default() } else { self.flush_after }
    }

    /// Retries a failed flush at once.
    pub(super) fn hurry_flush(&mut self) {
        if let Some(failure) = &mut self.flush_failure {
            failure.pause = 0;
            self.flush_after = Timestamp::default();
        }
    }

    /// Returns the polled resources, each with the time of its next poll.
    pub(super) fn next_looks(&self) -> impl Iterator<Item = (Timestamp, ResourceId)> {
        self.polls.looks()
    }

    /// Returns the poll interval of a resource, if it is polled.
    pub(super) fn interval(&self, vertex: ResourceId) -> Option<Duration> {
        self.polls.interval(vertex).map(Duration::from_millis)
    }

    /// Returns the numbers of watches of the hub.
    pub(super) fn watches(&self) -> WatchCounts {
        self.hub.counts()
    }
}

impl ReconcileLoop<'_> {
    /// Replaces the path and process watches of a resource after its received outputs have changed. Its check
    /// follows.
    pub(super) fn follow(
        &mut self,
        vertex: ResourceId,
        received: Arc<ResolvedInputs>,
        ways: WatchPlan,
        now: Timestamp,
    ) -> Vec<WatchLost> {
        let subscriber = subscriber(vertex);
        let mut lost = self.hub.watch(subscriber, ways.paths);
        self.non_file_watcher.unwatch(subscriber);
        if !ways.event_sources.is_empty() {
            lost.extend(self.non_file_watcher.watch(subscriber, ways.event_sources).err());
        }
        for former in [PollReason::Limit, PollReason::Process, PollReason::Other] {
            self.polls.remove_reason(vertex, former);
        }
        self.polls.declare(vertex, ways.interval, now);
        self.followed.insert(vertex, received);
        lost
    }

    /// Handles a lost watch; returns true if it must be reported.
    pub(super) fn on_watch_lost(&mut self, subscriber: Subscriber, why: &WatchError, now: Timestamp) -> bool {
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
    pub(super) fn finds_declared(&mut self) {
        self.reading.is_unwatched = self.reading.is_unwatched && !self.hub.watch_again(DECLARED).is_empty();
    }
}

pub(super) fn poll_of(resource: &Resource) -> Poll {
    resource.meta().map_or(Poll::Watched, |meta| meta.poll)
}

/// Returns true if a resource is watched, as far as possible.
pub(super) fn is_watched(resource: &Resource) -> bool {
    poll_of(resource) == Poll::Watched && !is_not_held(resource)
}

/// Returns true if a resource has no held state: it is hidden, or it is only restored once.
fn is_not_held(resource: &Resource) -> bool {
    resource.is_reversal() || resource.is_hidden()
}

#[cfg(test)]
mod tests {
    use super::FlushFailure;

    #[test]
    fn interval_after_failed_flushes_doubles_up_to_a_minute() {
        let mut failure = FlushFailure::default();
        let mut record = |why: &str| (failure.record(&[why.into()]), failure.pause / 1000);
        let intervals = [1, 2, 4, 8, 16, 32, 60, 60];
        let recorded = intervals.map(|_| record("stuck"));
        assert_eq!(recorded.map(|(_, pause)| pause), intervals);
        assert_eq!(recorded.map(|(is_new, _)| is_new), [true, false, false, false, false, false, false, false]);
        assert_eq!(record("full"), (true, 60));
    }
}
