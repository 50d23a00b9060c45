//! The thread that listens, and the handle that others hold.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::Reader;
use rustix::io::Errno;

use super::hear::Heard;
use super::kernel::{Happening, Kernel, WatchId};
use super::map::Map;
use super::mounts::Mounts;
use super::{Counts, Lost, PathWatch, Subscriber, Told, Why};

/// How much is read at once: some thousand events.
const READ: usize = 64 * 1024;

/// How many are registered before the listening thread gets its turn.
const AT_ONCE: usize = 1024;

/// Paths are looked at name by name, one call in another; they may have two thousand names.
const STACK: usize = 16 * 1024 * 1024;

/// What a hub may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Watches of the kernel. Those of a user are shared by all its processes.
    pub watches: usize,
}

impl Default for Limits {
    /// As much as the kernel gives.
    fn default() -> Self {
        Limits { watches: usize::MAX }
    }
}

/// Why there is no hub.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel gives no inotify instance.
    #[error(
        "no inotify instance: this process has too many open files, or this user too many instances \
         (`sysctl fs.inotify.max_user_instances`)"
    )]
    LimitOfInstances,
    /// Anything else that the system says.
    #[error("watching cannot begin")]
    System(#[source] io::Error),
}

impl From<Errno> for StartError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::MFILE => StartError::LimitOfInstances,
            other => StartError::System(other.into()),
        }
    }
}

/// Watches paths for any number of subscribers, with one inotify descriptor and one thread.
///
/// The thread sleeps in the kernel until something happens. It ends when the hub is dropped; nothing is
/// told after that.
pub struct Hub(Result<Listening, Why>);

/// What a hub has that can listen.
struct Listening {
    map: Arc<Mutex<Map>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts a hub that calls `tell` from its thread. `tell` should be short, as to send to a channel:
    /// while it runs, events pile up in the kernel.
    pub fn start(tell: impl Fn(Told) + Send + 'static) -> Result<Hub, StartError> {
        Hub::start_within(Limits::default(), tell)
    }

    /// Starts a hub, or one that watches nothing and says so of all that it is to watch.
    pub fn start_or_deaf(tell: impl Fn(Told) + Send + 'static) -> Hub {
        Hub::start(tell).unwrap_or_else(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            Hub(Err(Why::Deaf(format!("{error}{}", cause.unwrap_or_default()))))
        })
    }

    /// The same, within limits.
    pub fn start_within(limits: Limits, tell: impl Fn(Told) + Send + 'static) -> Result<Hub, StartError> {
        let kernel = Kernel::new(limits.watches)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mounts = Mounts::open();
        let descriptors = 2 + usize::from(mounts.is_some());
        let map = Arc::new(Mutex::new(Map::new(kernel.clone(), descriptors)));
        let ear = Ear { kernel, stop: Arc::clone(&stop), map: Arc::clone(&map), mounts };
        let thread = thread::Builder::new().name("watch".to_owned()).stack_size(STACK);
        let thread = thread.spawn(move || ear.listen(&tell)).map_err(StartError::System)?;
        Ok(Hub(Ok(Listening { map, stop, thread: Some(thread) })))
    }

    /// Watches paths for a subscriber, instead of those that were watched for it before.
    ///
    /// From when this returns, whatever happens to them is told; so who looks at them afterwards misses
    /// nothing. What cannot be watched comes back, with the reason; the rest is watched.
    #[must_use = "what cannot be watched has to be looked at from time to time"]
    pub fn watch(&self, subscriber: Subscriber, watches: Vec<PathWatch>) -> Vec<Lost> {
        self.watch_all([(subscriber, watches)])
    }

    /// The same for many subscribers.
    #[must_use = "what cannot be watched has to be looked at from time to time"]
    pub fn watch_all(&self, all: impl IntoIterator<Item = (Subscriber, Vec<PathWatch>)>) -> Vec<Lost> {
        let mut heard = Heard::default();
        let listening = match &self.0 {
            Ok(listening) => listening,
            Err(why) => return deaf(all.into_iter().map(|(subscriber, _)| subscriber), why),
        };
        let mut all = all.into_iter().peekable();
        while all.peek().is_some() {
            let some: Vec<_> = all.by_ref().take(AT_ONCE).collect();
            let mut map = lock(&listening.map);
            for (subscriber, watches) in some {
                map.subscribe(subscriber, watches, &mut heard);
            }
        }
        by_reason(heard.lost)
    }

    /// Tries once more to watch what could not be watched for a subscriber. What still cannot be comes back.
    #[must_use = "what cannot be watched has to be looked at from time to time"]
    pub fn watch_again(&self, subscriber: Subscriber) -> Vec<Lost> {
        let mut heard = Heard::default();
        match &self.0 {
            Ok(listening) => lock(&listening.map).subscribe_again(subscriber, &mut heard),
            Err(why) => return deaf([subscriber], why),
        }
        by_reason(heard.lost)
    }

    /// Watches nothing more for a subscriber. What was heard before may still be told.
    pub fn unwatch(&self, subscriber: Subscriber) {
        if let Ok(listening) = &self.0 {
            lock(&listening.map).unsubscribe(subscriber);
        }
    }

    /// What the hub holds at the moment.
    pub fn counts(&self) -> Counts {
        self.0.as_ref().map_or_else(|_| Counts::default(), |listening| lock(&listening.map).counts())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // An eventfd that cannot take a one more is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A `tell` that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Nothing panics on purpose while it holds the map, and a map is better than none.
fn lock(map: &Mutex<Map>) -> MutexGuard<'_, Map> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing of these is watched.
fn deaf(subscribers: impl IntoIterator<Item = Subscriber>, why: &Why) -> Vec<Lost> {
    let subscribers: Vec<Subscriber> = subscribers.into_iter().collect();
    Some(Lost { subscribers, why: why.clone() }).filter(|lost| !lost.subscribers.is_empty()).into_iter().collect()
}

/// One entry for each reason.
fn by_reason(all: Vec<Lost>) -> Vec<Lost> {
    let mut merged: Vec<Lost> = Vec::new();
    for mut lost in all {
        match merged.iter_mut().find(|other| other.why == lost.why) {
            Some(other) => other.subscribers.append(&mut lost.subscribers),
            None => merged.push(lost),
        }
    }
    for lost in &mut merged {
        lost.subscribers.sort_unstable();
        lost.subscribers.dedup();
    }
    merged
}

/// What the thread has.
struct Ear {
    kernel: Kernel,
    stop: Arc<OwnedFd>,
    map: Arc<Mutex<Map>>,
    mounts: Option<Mounts>,
}

/// What ended the sleep.
enum Woken {
    Stopped,
    /// There are events, or mounts, or nothing.
    Heard {
        are_mounts: bool,
    },
}

impl Ear {
    fn listen(mut self, tell: &impl Fn(Told)) {
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        let kernel = self.kernel.clone();
        let mut reader = kernel.reader(&mut buffer);
        loop {
            let heard = match self.wait() {
                Ok(Woken::Stopped) => return,
                Ok(Woken::Heard { are_mounts }) => self.hear(&mut reader, are_mounts),
                Err(errno) => Err(errno),
            };
            match heard {
                Ok(heard) => heard.into_told().into_iter().for_each(tell),
                Err(errno) => return self.give_up(errno, tell),
            }
        }
    }

    /// Takes in all that is read at once. The map is let go before anything is told.
    fn hear(&mut self, reader: &mut Reader<'_, &OwnedFd>, are_mounts: bool) -> rustix::io::Result<Heard> {
        let mut heard = Heard::default();
        let mut map = lock(&self.map);
        if let Some(mounts) = self.mounts.as_mut().filter(|_| are_mounts) {
            for point in mounts.changed() {
                map.mounted(&point, &mut heard);
            }
        }
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno),
            };
            let name = event.file_name().map(|name| name.to_bytes());
            map.hear(Happening { watch: WatchId(event.wd()), what: event.events(), name }, &mut heard);
            if reader.is_buffer_empty() {
                break;
            }
        }
        map.settle(&mut heard);
        Ok(heard)
    }

    /// Sleeps until something happens.
    fn wait(&self) -> rustix::io::Result<Woken> {
        let mut all = vec![PollFd::new(&self.kernel.inotify, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
        all.extend(self.mounts.iter().map(|mounts| PollFd::new(&mounts.file, PollFlags::PRI)));
        match poll(&mut all, None) {
            Ok(_) if !all[1].revents().is_empty() => Ok(Woken::Stopped),
            Ok(_) => Ok(Woken::Heard { are_mounts: all.get(2).is_some_and(|mounts| !mounts.revents().is_empty()) }),
            Err(Errno::INTR) => Ok(Woken::Heard { are_mounts: false }),
            Err(errno) => Err(errno),
        }
    }

    /// Nothing can be heard any more.
    fn give_up(&self, errno: Errno, tell: &impl Fn(Told)) {
        let mut subscribers: Vec<Subscriber> = lock(&self.map).subscriptions.all().collect();
        subscribers.sort_unstable();
        tell(Told::Lost(Lost { subscribers, why: Why::System { path: "inotify".into(), why: errno.to_string() } }));
    }
}
