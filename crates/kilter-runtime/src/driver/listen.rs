//! Providers that tell themselves what changes: each is listened to on a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_engine::{Timestamp, VertexId};
use kilter_provider::{Context, POLL, Tell, Wanted};

use super::stop::{Alarm, Mail, Message, Stop};
use super::{Driver, millis};
use crate::observer::Event;
use crate::prepare::Prepared;

/// For how long a watch that has ended is left alone: twice as long each time,
const FIRST: Duration = Duration::from_secs(1);
/// and no longer than this.
const LONGEST: Duration = Duration::from_secs(300);
/// A watch that went on for so long had begun well.
const LONG: Duration = Duration::from_secs(60);

/// So many milliseconds a watch has until it has to say that it has begun. Its resources are not looked at before that.
const TO_BEGIN: u64 = 10_000;

/// What a provider has told, and nobody has taken yet: no more than there are resources.
#[derive(Debug, Default)]
struct News {
    status: Option<Status>,
    /// Whether any resource may have changed.
    any: bool,
    changed: BTreeSet<VertexId>,
    /// What is told of single resources.
    of: BTreeMap<VertexId, Status>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.status.is_none() && !self.any && self.changed.is_empty() && self.of.is_empty()
    }
}

#[derive(Clone, Debug)]
enum Status {
    Watching,
    /// It does not, and why not.
    Lost(EcoString),
}

/// A provider that is listened to.
#[derive(Debug)]
pub(super) struct Listened {
    provider: u16,
    /// Its resources, in the order of their names.
    names: Vec<(EcoString, VertexId)>,
    news: Mutex<News>,
}

impl Listened {
    pub(super) fn new(provider: u16, mut names: Vec<(EcoString, VertexId)>) -> Listened {
        names.sort_unstable();
        Listened { provider, names, news: Mutex::default() }
    }

    pub(super) fn provider(&self) -> u16 {
        self.provider
    }

    pub(super) fn names(&self) -> &[(EcoString, VertexId)] {
        &self.names
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_name(&self, name: &str) -> impl Iterator<Item = VertexId> {
        let first = self.names.partition_point(|(known, _)| known.as_str() < name);
        self.names[first..].iter().take_while(move |(known, _)| known == name).map(|(_, vertex)| *vertex)
    }

    fn vertices(&self) -> impl Iterator<Item = VertexId> {
        self.names.iter().map(|(_, vertex)| *vertex)
    }
}

/// Where a provider tells something. The driver is told once of all that it has not taken yet.
struct Teller<'a> {
    told: &'a Arc<Listened>,
    sender: &'a Sender<Message>,
}

impl Teller<'_> {
    fn add(&self, what: impl FnOnce(&mut News)) {
        let mut news = self.told.news();
        let is_first = news.is_empty();
        what(&mut news);
        if is_first && !news.is_empty() {
            // Without a driver nobody is told any more.
            let _ = self.sender.send(Message::Heard(Arc::clone(self.told)));
        }
    }
}

impl Tell for Teller<'_> {
    fn watching(&self) {
        self.add(|news| {
            // Nobody has listened meanwhile, and nobody has heard of that yet.
            news.any |= matches!(news.status, Some(Status::Lost(_)));
            news.status = Some(Status::Watching);
        });
    }

    fn changed(&self, name: &str) {
        self.add(|news| news.changed.extend(self.told.of_name(name)));
    }

    fn anything(&self) {
        self.add(|news| news.any = true);
    }

    fn unwatched(&self, name: &str, why: &str) {
        self.add(|news| news.of.extend(self.told.of_name(name).map(|vertex| (vertex, Status::Lost(why.into())))));
    }

    fn rewatched(&self, name: &str) {
        self.add(|news| news.of.extend(self.told.of_name(name).map(|vertex| (vertex, Status::Watching))));
    }
}

/// Listens to a provider, again and again, until the alarm is raised.
pub(super) fn listen(
    prepared: &Prepared<'_>,
    told: &Arc<Listened>,
    sender: &Sender<Message>,
    ending: &Alarm,
    stop: &Stop,
) {
    let provider = prepared.registry.at(usize::from(told.provider));
    let mail = Mail(sender.clone());
    let teller = Teller { told, sender };
    let wanted = |(name, vertex): &(EcoString, VertexId)| (name.clone(), prepared.resource(*vertex));
    let resources: Vec<_> = told.names.iter().map(wanted).collect();
    let watched: Vec<Wanted<'_>> =
        resources.iter().map(|(name, resource)| Wanted::new(name, Some(&resource.attributes))).collect();
    let mut pause = FIRST;
    while !ending.interrupt().is_raised() {
        let begun = Instant::now();
        let cx = Context::bare().with_log(&mail).with_interrupt(ending.interrupt().or_urgent(stop.urgent()));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| provider.watch(&cx, &watched, &teller)));
        if ending.interrupt().is_raised() {
            return;
        }
        let why = match ended {
            Ok(Ok(())) => eco_format!("the watch of the provider `{}` has ended", provider.name()),
            Ok(Err(error)) => eco_format!("{error}"),
            Err(_) => {
                eco_format!("the watch of the provider `{}` has panicked, which is a defect of it", provider.name())
            }
        };
        teller.add(|news| news.status = Some(Status::Lost(why)));
        if begun.elapsed() >= LONG {
            pause = FIRST;
        }
        ending.wait(pause);
        pause = LONGEST.min(pause * 2);
    }
}

/// Nobody listens to a provider, since the system has no thread for it.
pub(super) fn deaf(told: &Arc<Listened>, sender: &Sender<Message>, error: &std::io::Error) {
    let why = eco_format!("no thread can be made that listens: {error}");
    Teller { told, sender }.add(|news| news.status = Some(Status::Lost(why)));
}

/// The providers that are listened to, as the driver sees them.
#[derive(Debug, Default)]
pub(super) struct Listening {
    pub(super) told: Vec<Arc<Listened>>,
    /// Those of which it has been told that they do not watch.
    lost: BTreeSet<u16>,
    /// Those that have not said anything yet.
    silent: BTreeSet<u16>,
    /// The resources that are looked at every so often only since nobody tells of them.
    pub(super) polled: BTreeSet<VertexId>,
    /// Single resources of which it has been told that nobody watches them, and why.
    unwatched: BTreeMap<VertexId, EcoString>,
    since: Timestamp,
}

impl Listening {
    pub(super) fn new(told: Vec<Arc<Listened>>, since: Timestamp) -> Listening {
        let silent = told.iter().map(|told| told.provider).collect();
        Listening { told, lost: BTreeSet::new(), silent, polled: BTreeSet::new(), unwatched: BTreeMap::new(), since }
    }

    /// Whether this one is still listened to: another graph has others.
    fn has(&self, told: &Arc<Listened>) -> bool {
        self.told.iter().any(|known| Arc::ptr_eq(known, told))
    }

    /// The resources that are not looked at before their watch has begun.
    pub(super) fn unwatched(&self) -> BTreeSet<VertexId> {
        self.told.iter().flat_map(|told| told.vertices()).collect()
    }

    /// Whether the provider that tells of a resource has not said anything yet.
    pub(super) fn is_silent(&self, vertex: VertexId) -> bool {
        let silent = self.told.iter().filter(|told| self.silent.contains(&told.provider));
        silent.flat_map(|told| told.vertices()).any(|of_silent| of_silent == vertex)
    }

    /// Why a provider does not tell of a resource of which it should.
    pub(super) fn why_unwatched(&self, vertex: VertexId) -> Option<&EcoString> {
        self.unwatched.get(&vertex)
    }

    /// When those that say nothing are taken for lost.
    pub(super) fn patience(&self) -> Option<Timestamp> {
        (!self.silent.is_empty()).then_some(Timestamp(self.since.0.saturating_add(TO_BEGIN)))
    }
}

impl<'run: 'scope, 'scope> Driver<'run, '_, 'scope, '_> {
    /// Takes what a provider has told.
    pub(super) fn heard(&mut self, told: &Arc<Listened>) {
        if !self.holder.as_ref().is_some_and(|holder| holder.listening.has(told)) {
            return;
        }
        let News { status, any, changed, of } = std::mem::take(&mut *told.news());
        let mut is_anything = any;
        if let Some(status) = status {
            let Some(holder) = &mut self.holder else { return };
            let listening = &mut holder.listening;
            listening.silent.remove(&told.provider);
            match status {
                Status::Watching => {
                    // Nobody has listened meanwhile.
                    if listening.lost.remove(&told.provider) {
                        is_anything = true;
                        self.observer.event(Event::Rewatched { count: told.names.len() });
                    }
                    let is_watched = |vertex: &VertexId| !holder.listening.unwatched.contains_key(vertex);
                    let watched: Vec<VertexId> = told.vertices().filter(is_watched).collect();
                    watched.into_iter().for_each(|vertex| holder.poll_no_longer(vertex));
                    told.vertices().for_each(|vertex| self.begins_to_be_watched(vertex));
                }
                Status::Lost(why) => self.unheard(told, &why),
            }
        }
        for (vertex, status) in of {
            self.heard_of(vertex, status);
        }
        let all = told.vertices().filter(|_| is_anything);
        for vertex in all.chain(changed.into_iter().filter(|_| !is_anything)) {
            self.is_stale(vertex);
        }
    }

    /// Takes what a provider has told of its watch of a single resource.
    fn heard_of(&mut self, vertex: VertexId, status: Status) {
        let Some(holder) = &mut self.holder else { return };
        let Status::Lost(why) = status else {
            if holder.listening.unwatched.remove(&vertex).is_some() {
                holder.poll_no_longer(vertex);
                self.observer.event(Event::Rewatched { count: 1 });
            }
            return;
        };
        let resource = self.prepared.resource(vertex);
        // What cannot be asked whether it has to run is not run for that.
        let is_state = !self.prepared.provider(vertex).acts_anew(&resource.attributes);
        if is_state {
            if holder.interval(vertex).is_none() {
                holder.listening.polled.insert(vertex);
            }
            holder.poll(vertex, self.now, millis(POLL));
        }
        let why = self.board.sealed(resource.reference.type_name.as_str(), &resource.name, why.into());
        if holder.listening.unwatched.insert(vertex, why.as_str().into()).is_none() {
            let why = &format!("{}: {why}", resource.reference);
            self.observer.event(Event::Unwatched { count: 1, why, every: is_state.then_some(POLL) });
        }
    }

    /// Resources are looked at from time to time while their provider does not tell what changes.
    fn unheard(&mut self, told: &Listened, why: &str) {
        let Some(holder) = &mut self.holder else { return };
        let interval = millis(POLL);
        for vertex in told.vertices() {
            holder.listening.unwatched.remove(&vertex);
            if holder.interval(vertex).is_none() {
                holder.listening.polled.insert(vertex);
            }
            holder.poll(vertex, self.now, interval);
        }
        told.vertices().for_each(|vertex| self.begins_to_be_watched(vertex));
        let Some(holder) = &mut self.holder else { return };
        // It is tried again and again, which need not be told each time.
        if holder.listening.lost.insert(told.provider) {
            let type_name = &self.prepared.registry.at(usize::from(told.provider)).schema().name;
            // It may repeat what the script has read.
            let why = &self.board.sealed(type_name.as_str(), "", why.to_owned());
            self.observer.event(Event::Unwatched { count: told.names.len(), why, every: Some(POLL) });
        }
    }

    /// Goes on without those that do not say whether they watch.
    pub(super) fn look_at_listening(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        if holder.listening.patience().is_none_or(|until| until > self.now) {
            return;
        }
        let silent = std::mem::take(&mut holder.listening.silent);
        let told: Vec<Arc<Listened>> =
            holder.listening.told.iter().filter(|told| silent.contains(&told.provider)).cloned().collect();
        for told in told {
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
