//! Providers that tell themselves what changes: each is listened to on a thread of its own, through all graphs in which the same is
//! asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_engine::{Timestamp, VertexId};
use kilter_model::Attributes;
use kilter_provider::{Context, Provider, Registry, Tell, Wanted};

use super::Mode;
use super::stop::{Alarm, Mail, Message, Stop};

/// For how long a watch that has ended is left alone: twice as long each time,
const FIRST: Duration = Duration::from_secs(1);
/// and no longer than this.
const LONGEST: Duration = Duration::from_secs(300);
/// A watch that went on for so long had begun well.
const LONG: Duration = Duration::from_secs(60);

/// Few watches of single resources wait beside each other, and each does next to nothing.
const STACK: usize = 256 * 1024;

/// Resources by their names, in the order of those.
pub(super) type Names = Vec<(EcoString, VertexId)>;

/// What a provider has told, and nobody has taken yet: no more than there are resources.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) status: Option<Status>,
    /// Whether any resource may have changed.
    pub(super) any: bool,
    pub(super) changed: BTreeSet<EcoString>,
    /// What is told of single resources.
    pub(super) of: BTreeMap<EcoString, Status>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.status.is_none() && !self.any && self.changed.is_empty() && self.of.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Status {
    Watching,
    /// It does not, and why not.
    Lost(EcoString),
}

/// A resource with a watch of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedResource {
    pub(super) name: EcoString,
    pub(super) should: Attributes,
    /// True if its metaparameters forbid changes, so that its watch must not change anything either.
    pub(super) noop: bool,
}

/// What a provider is asked to tell of.
#[derive(Debug)]
pub(super) struct Listened {
    pub(super) provider: u16,
    /// The only resource that it tells of; none if it tells of all.
    alone: Option<WatchedResource>,
    heard: Mutex<Heard>,
    ending: Alarm,
}

#[derive(Debug, Default)]
struct Heard {
    names: Names,
    news: News,
}

impl Listened {
    /// Whether the same is asked of it.
    pub(super) fn is_asked(&self, provider: u16, alone: Option<&WatchedResource>) -> bool {
        self.provider == provider && self.alone.as_ref() == alone
    }

    pub(super) fn asked(&self) -> (u16, Option<EcoString>) {
        (self.provider, self.alone.as_ref().map(|alone| alone.name.clone()))
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has told since this was asked last.
    pub(super) fn news(&self) -> News {
        std::mem::take(&mut self.heard().news)
    }

    /// From now on it tells of these; those of which it has told so far.
    pub(super) fn tells_of(&self, mut names: Names) -> Names {
        names.sort_unstable();
        std::mem::replace(&mut self.heard().names, names)
    }

    pub(super) fn names(&self) -> Names {
        self.heard().names.clone()
    }

    pub(super) fn vertices(&self) -> Vec<VertexId> {
        self.heard().names.iter().map(|(_, vertex)| *vertex).collect()
    }

    pub(super) fn has(&self, vertex: VertexId) -> bool {
        self.heard().names.iter().any(|(_, known)| *known == vertex)
    }

    /// The resources of this name.
    pub(super) fn named(&self, name: &str) -> Vec<VertexId> {
        of_name(&self.heard().names, name).map(|(_, vertex)| *vertex).collect()
    }
}

/// The entries of this name.
pub(super) fn of_name<'a>(names: &'a Names, name: &'a str) -> impl Iterator<Item = &'a (EcoString, VertexId)> {
    let first = names.partition_point(|(known, _)| known.as_str() < name);
    names[first..].iter().take_while(move |(known, _)| known == name)
}

/// A provider that is listened to, as the driver sees it. To be [ended](Listener::end) and [waited for](Listener::wait).
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) told: Arc<Listened>,
    pub(super) state: State,
    /// Since when it may speak.
    pub(super) since: Timestamp,
    thread: Option<JoinHandle<()>>,
}

/// What a provider has said of its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing yet.
    Silent,
    Watching,
    Lost,
}

impl Listener {
    pub(super) fn new(provider: u16, alone: Option<WatchedResource>, since: Timestamp) -> Listener {
        let told = Listened { provider, alone, heard: Mutex::default(), ending: Alarm::new() };
        Listener { told: Arc::new(told), state: State::Silent, since, thread: None }
    }

    /// Begins to listen, unless somebody does.
    pub(super) fn begin(&mut self, registry: &Registry, mode: Mode, sender: &Sender<Message>, stop: &Stop) {
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
            // Without a driver nobody waits for it but at the end.
            let _ = to_driver.send(Message::Left(told));
        });
        match listened {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                let why = eco_format!("no thread can be made that listens: {error}");
                Teller { told: &self.told, sender }.add(|heard| heard.news.status = Some(Status::Lost(why)));
            }
        }
    }

    /// Has the watch end.
    pub(super) fn end(&self) {
        self.told.ending.raise();
    }

    /// Waits until the watch has ended, which it has been told to.
    pub(super) fn wait(self) {
        if let Some(thread) = self.thread {
            // Whatever became of it, nobody listens any more.
            let _ = thread.join();
        }
    }
}

/// Where a provider tells something. The driver is told once of all that it has not taken yet.
struct Teller<'a> {
    told: &'a Arc<Listened>,
    sender: &'a Sender<Message>,
}

impl Teller<'_> {
    fn add(&self, what: impl FnOnce(&mut Heard)) {
        let mut heard = self.told.heard();
        let is_first = heard.news.is_empty();
        what(&mut heard);
        if is_first && !heard.news.is_empty() {
            // Without a driver nobody is told any more.
            let _ = self.sender.send(Message::Heard(Arc::clone(self.told)));
        }
    }

    /// Something is told of a name, which is nobody's perhaps.
    fn add_of(&self, name: &str, status: Status) {
        self.add(|heard| {
            if let Some((name, _)) = of_name(&heard.names, name).next() {
                heard.news.of.insert(name.clone(), status);
            }
        });
    }
}

impl Tell for Teller<'_> {
    fn watching(&self) {
        self.add(|Heard { news, .. }| {
            // Nobody has listened meanwhile, and nobody has heard of that yet.
            news.any |= matches!(news.status, Some(Status::Lost(_)));
            news.status = Some(Status::Watching);
        });
    }

    fn changed(&self, name: &str) {
        self.add(|heard| {
            if let Some((name, _)) = of_name(&heard.names, name).next() {
                heard.news.changed.insert(name.clone());
            }
        });
    }

    fn anything(&self) {
        self.add(|heard| heard.news.any = true);
    }

    fn unwatched(&self, name: &str, why: &str) {
        self.add_of(name, Status::Lost(why.into()));
    }

    fn rewatched(&self, name: &str) {
        self.add_of(name, Status::Watching);
    }
}

/// Listens to a provider, again and again, until it is to end.
fn listen(
    provider: &dyn Provider,
    mode: Mode,
    told: &Arc<Listened>,
    sender: &Sender<Message>,
    urgent: &AtomicBool,
    hostname: &str,
) {
    let mail = Mail(sender.clone());
    let teller = Teller { told, sender };
    let interrupt = told.ending.interrupt().or_urgent(urgent);
    let mut pause = FIRST;
    while !interrupt.is_raised() {
        let begun = Instant::now();
        let cx = Context::bare().with_log(&mail).with_interrupt(interrupt).with_hostname(hostname);
        let alone = told.alone.as_ref();
        let alone = alone.map(|WatchedResource { name, should, noop }| {
            Wanted::new(name, Some(should)).with_noop(*noop || mode == Mode::Noop)
        });
        let ended = catch_unwind(AssertUnwindSafe(|| provider.watch(&cx, alone, &teller)));
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
        teller.add(|heard| heard.news.status = Some(Status::Lost(why)));
        if begun.elapsed() >= LONG {
            pause = FIRST;
        }
        told.ending.wait(pause);
        pause = LONGEST.min(pause * 2);
    }
}
