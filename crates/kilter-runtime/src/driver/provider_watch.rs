//! Watches of providers: each runs on its own thread, through all graphs that need the same watch.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_engine::{ResourceId, Timestamp};
use kilter_model::Attributes;
use kilter_provider::{Context, Provider, Registry, Wanted, WatchSink};

use super::Mode;
use super::stop::{CancelToken, LogSender, Message, ShutdownHandle};

/// Delay before an ended watch is restarted. It doubles with each failure,
const FIRST: Duration = Duration::from_secs(1);
/// up to this maximum.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(300);
/// Duration after which a watch counts as successful: the delay starts again at the minimum.
const LONG: Duration = Duration::from_secs(60);

/// Stack size in bytes of a thread that watches one resource. Several such threads may run, and each does little.
const STACK: usize = 256 * 1024;

/// Resources by name, sorted.
pub(super) type Names = Vec<(EcoString, ResourceId)>;

/// Events of a provider that the driver has not handled yet. Their number is bounded by the number of resources.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    pub(super) status: Option<WatchStatus>,
    /// True if any resource may have changed.
    pub(super) any: bool,
    pub(super) changed: BTreeSet<EcoString>,
    /// WatchStatus of the watches of single resources.
    pub(super) of: BTreeMap<EcoString, WatchStatus>,
}

impl PendingEvents {
    fn is_empty(&self) -> bool {
        self.status.is_none() && !self.any && self.changed.is_empty() && self.of.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(super) enum WatchStatus {
    Watching,
    /// The watch does not run, with the reason.
    Lost(EcoString),
}

/// Resource with its own watch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedResource {
    pub(super) name: EcoString,
    pub(super) should: Attributes,
    /// True if its metaparameters forbid changes, so that its watch must not change anything either.
    pub(super) noop: bool,
}

/// Watch of a provider, shared between its thread and the driver.
#[derive(Debug)]
pub(super) struct WatchChannel {
    pub(super) provider: u16,
    /// The watched resource; none if the watch covers all resources of the provider.
    alone: Option<WatchedResource>,
    heard: Mutex<Inbox>,
    ending: CancelToken,
}

#[derive(Debug, Default)]
struct Inbox {
    names: Names,
    news: PendingEvents,
}

impl WatchChannel {
    /// Returns true if this is the watch for these arguments.
    pub(super) fn is_asked(&self, provider: u16, alone: Option<&WatchedResource>) -> bool {
        self.provider == provider && self.alone.as_ref() == alone
    }

    pub(super) fn asked(&self) -> (u16, Option<EcoString>) {
        (self.provider, self.alone.as_ref().map(|alone| alone.name.clone()))
    }

    fn heard(&self) -> MutexGuard<'_, Inbox> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the events since the last call.
    pub(super) fn news(&self) -> PendingEvents {
        std::mem::take(&mut self.heard().news)
    }

    /// Replaces the watched names; returns the previous ones.
    pub(super) fn tells_of(&self, mut names: Names) -> Names {
        names.sort_unstable();
        std::mem::replace(&mut self.heard().names, names)
    }

    pub(super) fn names(&self) -> Names {
        self.heard().names.clone()
    }

    pub(super) fn vertices(&self) -> Vec<ResourceId> {
        self.heard().names.iter().map(|(_, vertex)| *vertex).collect()
    }

    pub(super) fn has(&self, vertex: ResourceId) -> bool {
        self.heard().names.iter().any(|(_, known)| *known == vertex)
    }

    /// Returns the resources of this name.
    pub(super) fn named(&self, name: &str) -> Vec<ResourceId> {
        of_name(&self.heard().names, name).map(|(_, vertex)| *vertex).collect()
    }
}

/// Returns the entries of this name.
pub(super) fn of_name<'a>(names: &'a Names, name: &'a str) -> impl Iterator<Item = &'a (EcoString, ResourceId)> {
    let first = names.partition_point(|(known, _)| known.as_str() < name);
    names[first..].iter().take_while(move |(known, _)| known == name)
}

/// Watch of a provider, as the driver owns it. It must be [ended](Listener::end), and then [waited
/// for](Listener::wait).
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) told: Arc<WatchChannel>,
    pub(super) state: State,
    /// Start of the wait for the first status.
    pub(super) since: Timestamp,
    thread: Option<JoinHandle<()>>,
}

/// WatchStatus of a provider's watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No status yet.
    Silent,
    Watching,
    Lost,
}

impl Listener {
    pub(super) fn new(provider: u16, alone: Option<WatchedResource>, since: Timestamp) -> Listener {
        let told = WatchChannel { provider, alone, heard: Mutex::default(), ending: CancelToken::new() };
        Listener { told: Arc::new(told), state: State::Silent, since, thread: None }
    }

    /// Starts the watch, unless it runs.
    pub(super) fn begin(&mut self, registry: &Registry, mode: Mode, sender: &Sender<Message>, stop: &ShutdownHandle) {
        if self.thread.is_some() {
            return;
        }
        let provider = Arc::clone(registry.at(usize::from(self.told.provider)));
        let (told, to_driver, urgent) = (Arc::clone(&self.told), sender.clone(), stop.urgent());
        let hostname = EcoString::from(registry.hostname());
        let thread = Builder::new().name("listen".into());
        let thread = if told.alone.is_some() { thread.stack_size(STACK) } else { thread };
        let listened = thread.spawn(move || {
            listen(provider.as_ref(), mode, &told, &to_driver, &urgent, &hostname);
            // Without a driver, the thread is only joined at the end.
            let _ = to_driver.send(Message::WatchEnded(told));
        });
        match listened {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                let why = eco_format!("no thread can be made that listens: {error}");
                EventSender { told: &self.told, sender }.add(|heard| heard.news.status = Some(WatchStatus::Lost(why)));
            }
        }
    }

    /// Requests the end of the watch.
    pub(super) fn end(&self) {
        self.told.ending.raise();
    }

    /// Waits until the watch has ended. Its end must have been requested.
    pub(super) fn wait(self) {
        if let Some(thread) = self.thread {
            // A panic changes nothing here: the watch has ended.
            let _ = thread.join();
        }
    }
}

/// Receives the events of a provider. The driver gets one message for all events that it has not taken yet.
struct EventSender<'a> {
    told: &'a Arc<WatchChannel>,
    sender: &'a Sender<Message>,
}

impl EventSender<'_> {
    fn add(&self, what: impl FnOnce(&mut Inbox)) {
        let mut heard = self.told.heard();
        let is_first = heard.news.is_empty();
        what(&mut heard);
        if is_first && !heard.news.is_empty() {
            // Without a driver there is no receiver.
            let _ = self.sender.send(Message::ProviderEvents(Arc::clone(self.told)));
        }
    }

    /// Adds a status for a name. Names without a resource are ignored.
    fn add_of(&self, name: &str, status: WatchStatus) {
        self.add(|heard| {
            if let Some((name, _)) = of_name(&heard.names, name).next() {
                heard.news.of.insert(name.clone(), status);
            }
        });
    }
}

impl WatchSink for EventSender<'_> {
    fn watching(&self) {
        self.add(|Inbox { news, .. }| {
            // Events between the loss and the restart of the watch are lost, even if the driver has not seen the
            // loss.
            news.any |= matches!(news.status, Some(WatchStatus::Lost(_)));
            news.status = Some(WatchStatus::Watching);
        });
    }

    fn changed(&self, name: &str) {
        self.add(|heard| {
            if let Some((name, _)) = of_name(&heard.names, name).next() {
                heard.news.changed.insert(name.clone());
            }
        });
    }

    fn all_changed(&self) {
        self.add(|heard| heard.news.any = true);
    }

    fn unwatched(&self, name: &str, why: &str) {
        self.add_of(name, WatchStatus::Lost(why.into()));
    }

    fn rewatched(&self, name: &str) {
        self.add_of(name, WatchStatus::Watching);
    }
}

/// Runs the watch of a provider, and restarts it until its end is requested.
fn listen(
    provider: &dyn Provider,
    mode: Mode,
    told: &Arc<WatchChannel>,
    sender: &Sender<Message>,
    urgent: &AtomicBool,
    hostname: &str,
) {
    let mail = LogSender(sender.clone());
    let teller = EventSender { told, sender };
    let interrupt = told.ending.interrupt().or_urgent(urgent);
    let mut pause = FIRST;
    while !interrupt.is_raised() {
        let begun = Instant::now();
        let cx = Context::empty().with_log(&mail).with_interrupt(interrupt).with_hostname(hostname);
        let alone = told.alone.as_ref();
        let alone = alone.map(|WatchedResource { name, should, noop }| {
            Wanted::new(name, Some(should)).with_noop(*noop || mode == Mode::Noop)
        });
        let ended = catch_unwind(AssertUnwindSafe(|| provider.capabilities().watch().watch(&cx, alone, &teller)));
        if interrupt.is_raised() {
            return;
        }
        let why = match ended {
            Ok(Ok(())) => eco_format!("the watch of the provider `{}` has ended", provider.name()),
            Ok(Err(error)) => eco_format!("{error}"),
            Err(_) => {
                eco_format!("the watch of the provider `{}` has panicked, which is a defect of it", provider.name())
            }
        };
        teller.add(|heard| heard.news.status = Some(WatchStatus::Lost(why)));
        if begun.elapsed() >= LONG {
            pause = FIRST;
        }
        told.ending.wait(pause);
        pause = MAX_RETRY_PAUSE.min(pause * 2);
    }
}
