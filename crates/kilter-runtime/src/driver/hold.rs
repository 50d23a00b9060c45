//! Holding a state: start, idle work and end.

mod watched;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ecow::EcoString;
use kilter_engine::{Input, RepairBudget, ResourceId, Timestamp};
use kilter_model::{Poll, Resource};
use kilter_provider::Purpose;
use rustc_hash::FxHashMap;

use super::debts::JournalFailure;
use super::listening::ProviderWatches;
use super::paused::{Pause, PauseState};
use super::polls::{PollReason, Polls};
use super::reading::{ManifestSource, Reading};
use super::stop::Message;
use super::tidings::EventBuffer;
use super::window::StatusHandle;
use super::{Conditions, Driver, Options, millis};
use crate::observer::Event;
use crate::opponent::own_path;
use crate::prepare::Prepared;
use crate::state_dir::StateDir;
use crate::step::ResolvedInputs;
use crate::watch::{Hub, NonFileWatcher, PathWatch, Scope, Subscriber, WatchCounts, WatchEvent};
use watched::{NotifyScope, WatchPlan};

/// Subscriber number of the manifest. No resource has this number.
const DECLARED: Subscriber = Subscriber(u64::MAX);

/// Subscriber number of the path that status clients need.
const STATUS_SOCKET: Subscriber = Subscriber(u64::MAX - 1);

/// Returns the subscriber number of a resource.
fn subscriber(vertex: ResourceId) -> Subscriber {
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
    pub window: Option<&'a StatusHandle>,
    /// Path that status clients need: the driver reports [`Event::StatusSocketChanged`] after each event on it.
    pub status_socket: Option<&'a Path>,
}

/// Minimum interval between two flushes, in milliseconds.
const FLUSH: u64 = 1000;
/// Longest interval after a failed flush, in milliseconds.
const FLUSH_AGAIN: u64 = 60_000;

/// Failed flushes since the last successful one.
#[derive(Default)]
struct FlushFailure {
    /// Messages of the last flush.
    why: Vec<EcoString>,
    /// Interval until the next flush, in milliseconds.
    pause: u64,
}

impl FlushFailure {
    /// Records the messages of a flush, and doubles the interval up to [`FLUSH_AGAIN`]. Returns true if they are new.
    fn record(&mut self, why: &[EcoString]) -> bool {
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
    hub: Hub,
    bells: NonFileWatcher,
    tidings: EventBuffer,
    /// Polled resources.
    pub(super) polls: Polls,
    /// Received outputs with which the watches of a resource were registered.
    pub(super) followed: FxHashMap<ResourceId, Arc<ResolvedInputs>>,
    /// Watches of the providers themselves.
    pub(super) listening: ProviderWatches,
    /// Earliest time of the next flush.
    flush_after: Timestamp,
    /// Failure of the last flush.
    flush_failure: Option<FlushFailure>,
    /// Time of the next sign of life.
    alive_at: Timestamp,
    /// Number of settlements at the last report that nothing is left to do; none while there is work.
    quiet_at: Option<usize>,
    is_converged: bool,
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
        let tidings = EventBuffer::default();
        let tell = || {
            let (tidings, sender) = (tidings.clone(), sender.clone());
            move |told| tidings.add(told, &sender)
        };
        if let Some(window) = hold.window {
            window.attach(Some(sender.clone()));
        }
        ReconcileLoop {
            reading: Reading::default(),
            hub: Hub::start_or_disabled(tell()),
            bells: NonFileWatcher::new(tell()),
            tidings,
            polls: Polls::default(),
            followed: FxHashMap::default(),
            listening: ProviderWatches::default(),
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
        sender: &Sender<Message>,
        now: Timestamp,
    ) {
        let state_dir = options.state_dir.as_ref().map(StateDir::path);
        let (mut watches, mut rung) = (Vec::new(), Vec::new());
        let mut asked = self.listening.asked();
        for names in asked.values_mut() {
            names.retain(|(_, vertex)| prepared.graph.contains(*vertex));
        }
        for &vertex in some {
            let resource = prepared.resource(vertex);
            if is_not_held(resource) {
                continue;
            }
            match poll_of(resource) {
                Poll::Watched => {}
                Poll::Every(seconds) => {
                    self.polls.declare(vertex, Some(u64::from(seconds) * 1000), now);
                    continue;
                }
                Poll::Once => continue,
            }
            let watches_of =
                prepared.provider(vertex).capabilities().watch().watches(&resource.name, &resource.attributes);
            let WatchPlan { paths, rings, interval, telling } = WatchPlan::of(watches_of, state_dir);
            self.polls.declare(vertex, interval, now);
            if let Some(telling) = telling {
                let alone = (telling == NotifyScope::Alone).then(|| resource.name.clone());
                let of = (prepared.provider_index(vertex), alone);
                asked.entry(of).or_default().push((resource.name.clone(), vertex));
            }
            if !paths.is_empty() {
                watches.push((subscriber(vertex), paths));
            }
            if !rings.is_empty() {
                rung.push((subscriber(vertex), rings));
            }
        }
        asked.retain(|_, names| !names.is_empty());
        self.listening.declare(asked, prepared, now);
        for vertex in self.listening.unwatched() {
            if prepared.purpose(vertex) != Purpose::Action {
                self.polls.add_reason(vertex, PollReason::Provider, now);
            }
        }
        let files = self.hold.declared.files().into_iter().map(|path| PathWatch { path, scope: Scope::This });
        let trees = self.hold.declared.trees().into_iter().map(|path| PathWatch { path, scope: Scope::Tree });
        watches.push((DECLARED, files.chain(trees).collect()));
        let door = self.hold.status_socket.map(|path| PathWatch { path: path.to_owned(), scope: Scope::This });
        watches.extend(door.map(|door| (STATUS_SOCKET, vec![door])));
        for lost in self.hub.watch_all(watches) {
            // The driver handles it when it starts.
            self.tidings.add(WatchEvent::Lost(lost), sender);
        }
        // The watch on the file starts before the search for its process.
        for lost in rung.into_iter().filter_map(|(subscriber, rings)| self.bells.watch(subscriber, rings).err()) {
            self.tidings.add(WatchEvent::Lost(lost), sender);
        }
        // The manifest may have changed between the read and the start of the watch.
        self.reading = Reading::begun();
        self.reading.read_again_after(self.hold.declared.reread_interval(), now);
        self.quiet_at = None;
    }

    /// Ends the watches and polls of resources that have changed or been removed.
    pub(super) fn forget(&mut self, gone: &[ResourceId]) {
        for vertex in gone {
            self.hub.unwatch(subscriber(*vertex));
            self.bells.unwatch(subscriber(*vertex));
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
    fn flush_due(&self) -> Timestamp {
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

impl Driver<'_, '_, '_, '_> {
    /// Registers the watches of changed and added resources.
    pub(super) fn watch_anew(&mut self, fresh: &[ResourceId]) {
        let Some(holder) = &mut self.holder else { return };
        holder.watch(&self.prepared, fresh, self.options, &self.sender, self.now);
        holder.listening.begin(&self.prepared, self.options.mode, &self.sender, self.stop);
    }

    /// Starts to hold a catalog whose watches have been registered.
    pub(super) fn begin_holding(&mut self) {
        // It must converge again.
        if self.holder.as_mut().is_some_and(|holder| std::mem::take(&mut holder.is_converged)) {
            self.observer.event(Event::Converged(false));
        }
        // The manifest may have changed between the read and the start of the watch.
        self.tell_door();
        self.look_at_declared();
        self.go_on();
    }

    /// Does the idle work. Returns true if the loop must run again.
    pub(super) fn on_idle(&mut self) -> bool {
        self.flush_what_was_done();
        let quiet_since = self.quiet_since();
        let Some(holder) = &mut self.holder else { return false };
        let Some(since) = quiet_since else {
            holder.quiet_at = None;
            if std::mem::take(&mut holder.is_converged) {
                self.observer.event(Event::Converged(false));
            }
            return false;
        };
        // Checks on this thread start and end between two calls of this function.
        let settled = self.board.settled().total;
        if holder.quiet_at.replace(settled) != Some(settled) {
            self.observer.event(Event::Quiet(self.board.standing_counts()));
        }
        let quiet = Duration::from_millis(self.now.0.saturating_sub(since.0));
        // A repair between two checks also counts as activity.
        let is_converged = holder.hold.converged.is_some_and(|asked| quiet >= asked);
        if is_converged != std::mem::replace(&mut holder.is_converged, is_converged) {
            self.observer.event(Event::Converged(is_converged));
            holder.is_enough |= is_converged && holder.hold.until_converged;
            return holder.is_enough;
        }
        false
    }

    /// Flushes completed changes, also while a retry is pending, which may never succeed.
    ///
    /// A paused run flushes at once, because the administrator may be about to copy the disk. After a failed flush, a
    /// run waits for 1 second, then twice as long after each further failure, up to [`FLUSH_AGAIN`]. It reports a
    /// failure once, until the messages change.
    pub(super) fn flush_what_was_done(&mut self) {
        if !self.board.is_unflushed() || self.in_flight() > 0 {
            return;
        }
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.flush_due() <= self.now) else { return };
        let unflushed = self.board.flush_now(self.mail);
        self.board.give_room_back();
        self.observer.event(Event::Flushed);
        let mut is_new = false;
        let pause = if unflushed.is_empty() {
            holder.flush_failure = None;
            FLUSH
        } else {
            let failure = holder.flush_failure.get_or_insert_default();
            is_new = failure.record(&unflushed);
            failure.pause
        };
        holder.flush_after = Timestamp(self.now.0.saturating_add(pause));
        for why in unflushed.iter().filter(|_| is_new) {
            let (level, message) = (kilter_provider::Level::Err, why.as_str());
            self.observer.event(Event::Log { level, type_name: "", name: "", message });
        }
    }

    /// Reports a sign of life when it is due.
    pub(super) fn tell_alive(&mut self) {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.alive_at <= self.now) else { return };
        if let Some(interval) = holder.hold.watchdog_interval {
            let interval = millis(interval).max(1);
            holder.alive_at = Timestamp(self.now.0.saturating_add(interval));
            self.observer.event(Event::Watchdog);
        }
    }

    /// Returns the time of the last activity, calls of changed and removed resources included. Returns none while there
    /// is activity.
    pub(super) fn quiet_since(&self) -> Option<Timestamp> {
        self.machine.quiet_since().filter(|_| self.calls.is_empty()).map(|since| since.max(self.landed_at))
    }

    /// Returns the time until the next timer or poll.
    pub(super) fn next_time(&self) -> Option<Duration> {
        let holder = self.holder.as_ref()?;
        let until = |at: u64| Duration::from_millis(at.saturating_sub(self.now.0));
        let poll = holder.polls.next().map(|at| until(at.0));
        let asked = holder.hold.converged.filter(|_| !holder.is_converged);
        let converged =
            asked.zip(self.quiet_since()).map(|(asked, since)| until(since.0.saturating_add(millis(asked))));
        let longest = holder
            .hold
            .longest
            .filter(|_| !holder.is_enough)
            .map(|longest| longest.saturating_sub(self.start.elapsed()));
        let read = holder.reading.next().map(|at| until(at.0));
        let alive = holder.hold.watchdog_interval.map(|_| until(holder.alive_at.0));
        let heard = holder.listening.patience().map(|at| until(at.0));
        let resume = holder.paused.as_ref().and_then(PauseState::until).map(|at| until(at.0));
        let journal = holder.journal.as_ref().map(|failure| until(failure.next_try.0));
        let flush = (self.board.is_unflushed() && self.in_flight() == 0).then(|| until(holder.flush_due().0));
        poll.into_iter()
            .chain(converged)
            .chain(longest)
            .chain(read)
            .chain(alive)
            .chain(heard)
            .chain(resume)
            .chain(journal)
            .chain(flush)
            .min()
    }

    /// Polls what is due, and checks the time limits.
    pub(super) fn poll_timers(&mut self) {
        self.look_at_declared();
        self.look_at_listening();
        self.look_at_pause();
        self.look_at_journal();
        let Some(holder) = &mut self.holder else { return };
        let mut found = 0;
        while let Some(vertex) = holder.polls.due(self.now) {
            // The watch starts before the check.
            found += usize::from(holder.finds(vertex));
            // A running check counts as the poll: no event has arrived since its start.
            if self.machine.settlement(vertex).is_some() {
                self.board.is_polled(vertex);
                self.machine.input(self.now, Input::Stale(vertex));
            }
        }
        if found > 0 {
            self.observer.event(Event::Rewatched { count: found });
        }
        holder.is_enough |= holder.hold.longest.is_some_and(|longest| self.start.elapsed() >= longest);
    }

    /// Reports that another program undoes the repairs of a resource.
    pub(super) fn contested(&mut self, vertex: ResourceId) {
        // The contest may have ended with a command of the same batch.
        let Some(contest) = self.machine.contest(vertex) else { return };
        let holder = self.holder.as_ref();
        let (resource, followed) = (self.prepared.resource(vertex), holder.and_then(|of| of.followed.get(&vertex)));
        let attributes = followed.map_or(&resource.attributes, |received| &received.attributes);
        let watches = self.prepared.provider(vertex).capabilities().watch().watches(&resource.name, attributes);
        let opponent = self.board.record_contest(vertex, own_path(&resource.name, &watches));
        self.observer.event(Event::Contested {
            reference: &resource.reference,
            repairs: contest.repairs,
            next: Duration::from_millis(contest.next.0.saturating_sub(self.now.0)),
            differences: self.board.contested(vertex),
            opponent: opponent.as_ref(),
        });
    }

    /// Reports that the contest over a resource has ended.
    pub(super) fn uncontested(&mut self, vertex: ResourceId) {
        if self.board.end_contest(vertex) {
            self.observer.event(Event::Uncontested { reference: &self.prepared.resource(vertex).reference });
        }
    }

    /// Reports that a contested resource is no longer repaired.
    pub(super) fn demoted(&mut self, vertex: ResourceId) {
        let RepairBudget { repairs, within, .. } = RepairBudget::default();
        let reference = &self.prepared.resource(vertex).reference;
        let differences = self.board.repaired(vertex);
        self.observer.event(Event::Demoted { reference, repairs, within, differences });
    }
}

fn poll_of(resource: &Resource) -> Poll {
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
