//! Thread that reads events, and the handle for callers.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::Reader;
use rustix::io::Errno;

use super::hub_events::HubEvents;
use super::kernel::{Kernel, KernelEvent, WatchId};
use super::mounts::Mounts;
use super::watch_tree::WatchTree;
use super::{PathWatch, Subscriber, WatchCounts, WatchError, WatchEvent, WatchLost};

/// Size of the read buffer in bytes: room for some thousand events.
const READ: usize = 64 * 1024;

/// Maximum number of registrations before the thread gets the lock.
const AT_ONCE: usize = 1024;

/// Stack size in bytes. The recursion over a path has one call for each name, and a path may have two thousand
/// names.
const STACK: usize = 16 * 1024 * 1024;

/// Limits of a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of kernel watches. All processes of a user share the kernel's limit.
    pub watches: usize,
}

impl Default for Limits {
    /// Returns no limits other than the kernel's.
    fn default() -> Self {
        Limits { watches: usize::MAX }
    }
}

/// Reason why a hub cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel provides no inotify instance.
    #[error(
        "no inotify instance: this process has too many open files, or this user too many instances \
         (`sysctl fs.inotify.max_user_instances`)"
    )]
    LimitOfInstances,
    /// Any other error of the system.
    #[error("inotify cannot be used")]
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
/// The thread sleeps in the kernel until an event arrives. It ends when the hub is dropped, and then delivers no
/// further events.
pub struct Hub(Result<RunningHub, WatchError>);

/// State of a hub that works.
struct RunningHub {
    map: Arc<Mutex<WatchTree>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Starts a hub that calls `tell` from its thread.
    ///
    /// `tell` should be short, such as a send to a channel: while it runs, events queue up in the kernel.
    pub fn start(tell: impl Fn(WatchEvent) + Send + 'static) -> Result<Hub, StartError> {
        Hub::start_within(Limits::default(), tell)
    }

    /// Starts a hub. If that fails, the returned hub reports every path as lost.
    pub fn start_or_disabled(tell: impl Fn(WatchEvent) + Send + 'static) -> Hub {
        Hub::start(tell).unwrap_or_else(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            Hub(Err(WatchError::Deaf(format!("{error}{}", cause.unwrap_or_default()))))
        })
    }

    /// Starts a hub within limits.
    pub fn start_within(limits: Limits, tell: impl Fn(WatchEvent) + Send + 'static) -> Result<Hub, StartError> {
        let kernel = Kernel::new(limits.watches)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mounts = Mounts::open();
        let descriptors = 2 + usize::from(mounts.is_some());
        let map = Arc::new(Mutex::new(WatchTree::new(kernel.clone(), descriptors)));
        let ear = InotifyReader { kernel, stop: Arc::clone(&stop), map: Arc::clone(&map), mounts };
        let thread = thread::Builder::new().name("watch".to_owned()).stack_size(STACK);
        let thread = thread.spawn(move || ear.listen(&tell)).map_err(StartError::System)?;
        Ok(Hub(Ok(RunningHub { map, stop, thread: Some(thread) })))
    }

    /// Replaces the watched paths of a subscriber.
    ///
    /// When this returns, all later events are delivered, so that a check after the call misses no change. Paths
    /// that cannot be watched are returned with the reason; all others are watched.
    #[must_use = "resources without a watch must be polled"]
    pub fn watch(&self, subscriber: Subscriber, watches: Vec<PathWatch>) -> Vec<WatchLost> {
        self.watch_all([(subscriber, watches)])
    }

    /// Replaces the watched paths of many subscribers.
    #[must_use = "resources without a watch must be polled"]
    pub fn watch_all(&self, all: impl IntoIterator<Item = (Subscriber, Vec<PathWatch>)>) -> Vec<WatchLost> {
        let mut heard = HubEvents::default();
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

    /// Retries the watches that failed for a subscriber; returns those that still fail.
    #[must_use = "resources without a watch must be polled"]
    pub fn watch_again(&self, subscriber: Subscriber) -> Vec<WatchLost> {
        let mut heard = HubEvents::default();
        match &self.0 {
            Ok(listening) => lock(&listening.map).subscribe_again(subscriber, &mut heard),
            Err(why) => return deaf([subscriber], why),
        }
        by_reason(heard.lost)
    }

    /// Removes the paths of a subscriber. Queued events may still be delivered.
    pub fn unwatch(&self, subscriber: Subscriber) {
        if let Ok(listening) = &self.0 {
            lock(&listening.map).unsubscribe(subscriber);
        }
    }

    /// Returns the numbers of the objects of the hub.
    pub fn counts(&self) -> WatchCounts {
        self.0.as_ref().map_or_else(|_| WatchCounts::default(), |listening| lock(&listening.map).counts())
    }
}

impl Drop for RunningHub {
    fn drop(&mut self) {
        // An eventfd whose counter is full is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of `tell` has printed its own message.
            let _ = thread.join();
        }
    }
}

/// Locks the map. After a panic, an imperfect map is better than none.
fn lock(map: &Mutex<WatchTree>) -> MutexGuard<'_, WatchTree> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports all subscribers as lost.
fn deaf(subscribers: impl IntoIterator<Item = Subscriber>, why: &WatchError) -> Vec<WatchLost> {
    let subscribers: Vec<Subscriber> = subscribers.into_iter().collect();
    Some(WatchLost { subscribers, why: why.clone() }).filter(|lost| !lost.subscribers.is_empty()).into_iter().collect()
}

/// Merges entries with the same reason.
fn by_reason(all: Vec<WatchLost>) -> Vec<WatchLost> {
    let mut merged: Vec<WatchLost> = Vec::new();
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

/// State of the thread.
struct InotifyReader {
    kernel: Kernel,
    stop: Arc<OwnedFd>,
    map: Arc<Mutex<WatchTree>>,
    mounts: Option<Mounts>,
}

/// Reason of a wake-up.
enum Woken {
    Stopped,
    /// There are events, or changed mounts, or neither.
    Heard {
        are_mounts: bool,
    },
}

impl InotifyReader {
    fn listen(mut self, tell: &impl Fn(WatchEvent)) {
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        let kernel = self.kernel.clone();
        let mut reader = kernel.reader(&mut buffer);
        loop {
            let heard = match self.wait() {
                Ok(Woken::Stopped) => return,
                Ok(Woken::Heard { are_mounts }) => self.dispatch_all(&mut reader, are_mounts),
                Err(errno) => Err(errno),
            };
            match heard {
                Ok(heard) => heard.into_told().into_iter().for_each(tell),
                Err(errno) => return self.give_up(errno, tell),
            }
        }
    }

    /// Handles all events of one read. It releases the lock before events are delivered.
    fn dispatch_all(&mut self, reader: &mut Reader<'_, &OwnedFd>, are_mounts: bool) -> rustix::io::Result<HubEvents> {
        let mut heard = HubEvents::default();
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
            map.dispatch(KernelEvent { watch: WatchId(event.wd()), what: event.events(), name }, &mut heard);
            if reader.is_buffer_empty() {
                break;
            }
        }
        map.settle(&mut heard);
        Ok(heard)
    }

    /// Sleeps until an event arrives.
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

    /// Reports all subscribers as lost, because the hub cannot read events any more.
    fn give_up(&self, errno: Errno, tell: &impl Fn(WatchEvent)) {
        let mut subscribers: Vec<Subscriber> = lock(&self.map).subscriptions.all().collect();
        subscribers.sort_unstable();
        tell(WatchEvent::Lost(WatchLost {
            subscribers,
            why: WatchError::System { path: "inotify".into(), why: errno.to_string() },
        }));
    }
}
