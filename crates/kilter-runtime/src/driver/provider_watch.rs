//! Watches of providers: each runs on its own thread, through all graphs that need the same watch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_engine::Timestamp;
use kilter_provider::{Context, Provider, Registry, Wanted, WatchSink};

use super::cancel::CancelToken;
use super::message::{LogSender, Message};
use super::shutdown::ShutdownHandle;
use super::watch_channel::{Inbox, WatchChannel, WatchStatus, WatchedResource, of_name};
use crate::options::Mode;

/// Delay before an ended watch is restarted. It doubles with each failure,
const FIRST: Duration = Duration::from_secs(1);
/// up to this maximum.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(300);
/// Duration after which a watch counts as successful: the delay starts again at the minimum.
const LONG: Duration = Duration::from_secs(60);

/// Stack size in bytes of a thread that watches one resource. Several such threads may run, and each does little.
const STACK: usize = 256 * 1024;

/// Watch of a provider, as the driver owns it. It must be [ended](Listener::end), and then [waited
/// for](Listener::wait).
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) told: Arc<WatchChannel>,
    pub(super) state: ListenerState,
    /// Start of the wait for the first status.
    pub(super) since: Timestamp,
    thread: Option<JoinHandle<()>>,
}

/// WatchStatus of a provider's watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerState {
    /// No status yet.
    Silent,
    Watching,
    Lost,
}

impl Listener {
    pub(super) fn new(provider: u16, alone: Option<WatchedResource>, since: Timestamp) -> Listener {
        let told = WatchChannel { provider, alone, inbox: Mutex::default(), ending: CancelToken::new() };
        Listener { told: Arc::new(told), state: ListenerState::Silent, since, thread: None }
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
        let mut heard = self.told.inbox();
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
