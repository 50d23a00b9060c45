//! Holding a state: what it begins with, what is done when nothing is to be done, and when it is enough.

mod watched;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use kilter_engine::{Budget, Input, Timestamp, VertexId};
use kilter_model::{Poll, Resource};
use rustc_hash::FxHashMap;

use super::debts::JournalFailure;
use super::handover::{Kept, Subscribers, Watching};
use super::listening::Listening;
use super::paused::{Pause, PauseState};
use super::polls::{Missing, Polls};
use super::reading::{Declared, Reading};
use super::stop::Message;
use super::tidings::Tidings;
use super::window::Window;
use super::{Conditions, Driver, millis};
use crate::observer::Event;
use crate::prepare::Prepared;
use crate::step::Received;
use crate::watch::{Bells, Counts, Hub, PathWatch, Scope, Subscriber, Told};
use watched::{Telling, Ways};

/// Who subscribes to what is declared: no resource has this number.
const DECLARED: Subscriber = Subscriber(u32::MAX);

/// Who subscribes to the path that others need who look on.
const DOOR: Subscriber = Subscriber(u32::MAX - 1);

/// How a state is held, and for how long.
pub struct Hold<'a> {
    /// For how long everything has to have settled until it counts as converged.
    pub converged: Option<Duration>,
    /// Whether that is enough.
    pub until_converged: bool,
    /// The longest that the state is held.
    pub longest: Option<Duration>,
    /// Where it is declared.
    pub declared: &'a mut (dyn Declared + 'a),
    /// How often that is read anew though nobody has written it: what programs print and facts say may be something else.
    pub reread: Option<Duration>,
    /// How often it is told that the run is well.
    pub alive: Option<Duration>,
    /// A pause that the first graph begins with.
    pub paused: Option<&'a Pause>,
    /// Where others look on.
    pub window: Option<&'a Window>,
    /// A path that others need for that: [`Event::Door`] tells that something may have happened to it.
    pub door: Option<&'a Path>,
}

impl Hold<'_> {
    /// The same for a while.
    pub(super) fn borrowed(&mut self) -> Hold<'_> {
        Hold { declared: &mut *self.declared, ..*self }
    }
}

/// Milliseconds between two times at which what was done is made durable, at least.
const FLUSH: u64 = 1000;
/// The same where that failed.
const FLUSH_AGAIN: u64 = 60_000;

/// The changing part of holding a state.
pub(super) struct Holder<'hold> {
    pub(super) hold: Hold<'hold>,
    pub(super) reading: Reading,
    /// Lives as long as the state is held, over all graphs.
    hub: Hub,
    bells: Bells,
    tidings: Tidings,
    subscribers: Subscribers,
    /// What is looked at every so often.
    pub(super) polls: Polls,
    /// What others have sent to resources, as far as it is watched.
    pub(super) followed: FxHashMap<VertexId, Arc<Received>>,
    /// What providers tell themselves.
    pub(super) listening: Listening,
    /// When what was done is made durable, at the earliest.
    flush_after: Timestamp,
    /// When it is told next that the run is well.
    alive_at: Timestamp,
    /// How often anything had settled when it was told that nothing is left to be done; none while something is.
    quiet_at: Option<usize>,
    is_converged: bool,
    /// Conditions that were reported last.
    pub(super) conditions: Conditions,
    pub(super) is_enough: bool,
    pub(super) is_superseded: bool,
    /// Why the journal cannot be written.
    pub(super) journal: Option<JournalFailure>,
    /// Whether somebody wants nothing further to be begun.
    pub(super) paused: Option<PauseState>,
}

impl<'hold> Holder<'hold> {
    /// Has everything watched, before anything is looked at. What is kept is watched already.
    pub(super) fn begin(
        prepared: &Prepared<'_>,
        hold: Hold<'hold>,
        sender: &Sender<Message>,
        before: Option<Watching>,
        kept: &Kept,
        state_dir: Option<&Path>,
        now: Timestamp,
    ) -> Holder<'hold> {
        let Watching {
            hub,
            mut bells,
            tidings,
            subscribers,
            mut polls,
            followed,
            listening,
            mut asked,
            flush_after,
            alive_at,
            is_converged,
            conditions,
            journal,
            paused,
        } = match before {
            Some(before) => before.renumbered(kept),
            None => Watching::new(prepared.resources().len(), sender),
        };
        let (mut watches, mut rung) = (Vec::new(), Vec::new());
        for (resource, vertex) in prepared.resources().iter().zip((0..).map(VertexId)) {
            if kept.is_kept(vertex) || is_not_held(resource) {
                continue;
            }
            match poll_of(resource) {
                Poll::Watched => {}
                Poll::Every(seconds) => {
                    polls.declare(vertex, Some(u64::from(seconds) * 1000), now);
                    continue;
                }
                Poll::Once => continue,
            }
            let watches_of = prepared.provider(vertex).watches(&resource.name, &resource.attributes);
            let Ways { paths, rings, interval, telling } = Ways::of(watches_of, state_dir);
            polls.declare(vertex, interval, now);
            if let Some(telling) = telling {
                let alone = (telling == Telling::Alone).then(|| resource.name.clone());
                let of = (prepared.providers[vertex.0 as usize], alone);
                asked.entry(of).or_default().push((resource.name.clone(), vertex));
            }
            if !paths.is_empty() {
                watches.push((subscribers.of(vertex), paths));
            }
            if !rings.is_empty() {
                rung.push((subscribers.of(vertex), rings));
            }
        }
        let listening = listening.renumbered(asked, prepared, now);
        for vertex in listening.unheard() {
            let acts = prepared.provider(vertex).acts_anew(&prepared.resource(vertex).attributes);
            if !acts {
                polls.misses(vertex, Missing::Provider, now);
            }
        }
        let files = hold.declared.files().into_iter().map(|path| PathWatch { path, scope: Scope::This });
        let trees = hold.declared.trees().into_iter().map(|path| PathWatch { path, scope: Scope::Tree });
        watches.push((DECLARED, files.chain(trees).collect()));
        let door = hold.door.map(|path| PathWatch { path: path.to_owned(), scope: Scope::This });
        watches.extend(door.map(|door| (DOOR, vec![door])));
        for lost in hub.watch_all(watches) {
            // The driver takes it when it begins.
            tidings.add(Told::Lost(lost), sender);
        }
        // A process is looked for when its file is watched already.
        for lost in rung.into_iter().filter_map(|(subscriber, rings)| bells.watch(subscriber, rings).err()) {
            tidings.add(Told::Lost(lost), sender);
        }
        // It may have been edited since it was read, when nobody watched.
        let mut reading = Reading::begun();
        reading.read_again_after(hold.reread, now);
        let (quiet_at, is_enough, is_superseded) = (None, false, false);
        if let Some(window) = hold.window {
            window.opens(Some(sender.clone()));
        }
        Holder {
            hold,
            reading,
            hub,
            bells,
            tidings,
            subscribers,
            polls,
            followed,
            listening,
            flush_after,
            alive_at,
            quiet_at,
            is_converged,
            conditions,
            is_enough,
            is_superseded,
            journal,
            paused,
        }
    }

    /// Whether nothing further is to be done.
    pub(super) fn is_enough(&self) -> bool {
        self.is_enough
    }

    /// Whether it has been told that everything is converged, which it has to become anew.
    pub(super) fn begins_anew(&mut self) -> bool {
        std::mem::take(&mut self.is_converged)
    }

    /// Whether something else is declared, and nothing further is begun before that is held.
    pub(super) fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// What the holder of the next graph goes on with.
    pub(super) fn leave(self) -> Watching {
        let Holder {
            hub,
            bells,
            tidings,
            subscribers,
            polls,
            followed,
            listening,
            flush_after,
            alive_at,
            is_converged,
            conditions,
            journal,
            paused,
            ..
        } = self;
        let asked = listening.asked();
        Watching {
            hub,
            bells,
            tidings,
            subscribers,
            polls,
            followed,
            listening,
            asked,
            flush_after,
            alive_at,
            is_converged,
            conditions,
            journal,
            paused,
        }
    }

    /// The resources that are looked at every so often, each with the time of its next look.
    pub(super) fn next_looks(&self) -> impl Iterator<Item = (Timestamp, VertexId)> {
        self.polls.looks()
    }

    /// How often a resource is looked at, if nothing tells of it.
    pub(super) fn interval(&self, vertex: VertexId) -> Option<Duration> {
        self.polls.interval(vertex).map(Duration::from_millis)
    }

    /// What the hub holds.
    pub(super) fn watches(&self) -> Counts {
        self.hub.counts()
    }
}

impl<'run: 'scope, 'scope> Driver<'run, '_, 'scope, '_> {
    /// What is done when nothing is to be done now: whether that gave the machine something to do.
    pub(super) fn rest(&mut self) -> bool {
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
        // What was looked at by this thread itself began and ended between two rests.
        let settled = self.board.settled().total;
        if holder.quiet_at.replace(settled) != Some(settled) {
            self.observer.event(Event::Quiet(self.board.standing_counts()));
        }
        let quiet = Duration::from_millis(self.now.0.saturating_sub(since.0));
        // What was mended between two looks was activity as well.
        let is_converged = holder.hold.converged.is_some_and(|asked| quiet >= asked);
        if is_converged != std::mem::replace(&mut holder.is_converged, is_converged) {
            self.observer.event(Event::Converged(is_converged));
            holder.is_enough |= is_converged && holder.hold.until_converged;
            return holder.is_enough;
        }
        false
    }

    /// Whatever comes next, what was done so far is durable: also while something waits to be tried again, for ever perhaps.
    ///
    /// While the run is paused, at once: whoever pauses it may be about to copy the disk.
    pub(super) fn flush_what_was_done(&mut self) {
        if !self.board.is_unflushed() || self.in_flight() > 0 {
            return;
        }
        let is_time = |holder: &Holder<'_>| {
            let early = if holder.paused.is_some() { FLUSH } else { 0 };
            holder.flush_after.0.saturating_sub(early) <= self.now.0
        };
        let Some(holder) = self.holder.as_mut().filter(|holder| is_time(holder)) else { return };
        let unflushed = self.board.flush_now(self.mail);
        self.board.give_room_back();
        self.observer.event(Event::Flushed);
        let pause = if unflushed.is_empty() { FLUSH } else { FLUSH_AGAIN };
        holder.flush_after = Timestamp(self.now.0.saturating_add(pause));
        for why in unflushed {
            let (level, message) = (kilter_provider::Level::Err, why.as_str());
            self.observer.event(Event::Log { level, type_name: "", name: "", message });
        }
    }

    /// Tells that the run is well, when it is time to.
    pub(super) fn tell_alive(&mut self) {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.alive_at <= self.now) else { return };
        if let Some(interval) = holder.hold.alive {
            let interval = millis(interval).max(1);
            holder.alive_at = Timestamp(self.now.0.saturating_add(interval));
            self.observer.event(Event::Alive);
        }
    }

    /// Since when nothing happened. What was begun for a former graph is something that happens.
    pub(super) fn quiet_since(&self) -> Option<Timestamp> {
        self.machine.quiet_since().filter(|_| self.calls.is_empty()).map(|since| since.max(self.landed_at))
    }

    /// How long there is to wait, at most, until something is to be looked at.
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
        let alive = holder.hold.alive.map(|_| until(holder.alive_at.0));
        let heard = holder.listening.patience().map(|at| until(at.0));
        let resume = holder.paused.as_ref().and_then(PauseState::until).map(|at| until(at.0));
        let journal = holder.journal.as_ref().map(|failure| until(failure.next_try.0));
        let flush = (self.board.is_unflushed() && self.in_flight() == 0).then(|| until(holder.flush_after.0));
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

    /// Looks at what nothing tells of, when its time has come, and at the clock.
    pub(super) fn look_around(&mut self) {
        self.look_at_declared();
        self.look_at_listening();
        self.look_at_pause();
        self.look_at_journal();
        let Some(holder) = &mut self.holder else { return };
        let mut found = 0;
        while let Some(vertex) = holder.polls.due(self.now) {
            // It is watched before it is looked at.
            found += usize::from(holder.finds(vertex));
            // A look that is under way is the look: nobody knows of a change since it began.
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

    /// Another program undoes the repairs of a resource.
    pub(super) fn contested(&mut self, vertex: VertexId) {
        // The contest may have ended with the command that came with this one.
        let Some(contest) = self.machine.contest(vertex) else { return };
        self.board.is_contested(vertex);
        self.observer.event(Event::Contested {
            reference: &self.prepared.resource(vertex).reference,
            repairs: contest.repairs,
            next: Duration::from_millis(contest.next.0.saturating_sub(self.now.0)),
            differences: self.board.contested(vertex),
        });
    }

    /// The contest over a resource has ended.
    pub(super) fn uncontested(&mut self, vertex: VertexId) {
        if self.board.is_uncontested(vertex) {
            self.observer.event(Event::Uncontested { reference: &self.prepared.resource(vertex).reference });
        }
    }

    /// A resource whose repairs another program undoes is only watched from now on.
    pub(super) fn demoted(&mut self, vertex: VertexId) {
        let Budget { repairs, within, .. } = Budget::default();
        let reference = &self.prepared.resource(vertex).reference;
        let differences = self.board.repaired(vertex);
        self.observer.event(Event::Demoted { reference, repairs, within, differences });
    }
}

fn poll_of(resource: &Resource) -> Poll {
    resource.meta().map_or(Poll::Watched, |meta| meta.poll)
}

/// Whether a resource is watched, as far as that is possible.
pub(super) fn is_watched(resource: &Resource) -> bool {
    poll_of(resource) == Poll::Watched && !is_not_held(resource)
}

/// Whether it has no state that is held: nothing is done about it, or nothing any more when it is restored.
fn is_not_held(resource: &Resource) -> bool {
    resource.is_reversal() || resource.is_hidden()
}
