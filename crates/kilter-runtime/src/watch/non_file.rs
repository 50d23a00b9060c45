//! Events without a path: network changes, and the end of processes.
//!
//! One netlink socket serves all subscribers of network events. Each process is watched by its own descriptor
//! (pidfd_open(2)), which never refers to a later process with the same number. One thread waits for all
//! descriptors. It only exists after the first subscription.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use kilter_provider::Network;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink, recv, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Subscriber, WatchError, WatchEvent, WatchLost};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR` and `RTMGRP_IPV6_ROUTE`
/// (rtnetlink(7)).
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Size of the read buffer in bytes: the kernel's own messages are smaller (netlink(7)).
const READ: usize = 32 * 1024;

/// Maximum number of bytes to read from a pid file, which holds a number and perhaps further lines.
const LARGEST_PID_FILE: u64 = 4096;

/// Source of events without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// Change of the network.
    Network(Network),
    /// End of the process whose number is in this file.
    Process(PathBuf),
}

/// Subscriptions, shared with the thread.
#[derive(Default)]
struct Registrations {
    network: BTreeMap<Subscriber, Vec<Network>>,
    /// Files with the numbers of processes.
    files: BTreeMap<Subscriber, Vec<PathBuf>>,
    /// Running processes.
    processes: Vec<(Subscriber, Arc<OwnedFd>)>,
    socket: Option<Arc<OwnedFd>>,
    /// Error that ended the thread.
    over: Option<Errno>,
}

type Notify = Arc<dyn Fn(WatchEvent) + Send + Sync>;

/// Notifies subscribers until it is dropped.
pub(crate) struct NonFileWatcher {
    registrations: Arc<Mutex<Registrations>>,
    notify: Notify,
    /// Wakes the thread, and ends it.
    wake: Option<Arc<OwnedFd>>,
    thread: Option<JoinHandle<()>>,
}

impl NonFileWatcher {
    /// Creates an object without subscriptions, descriptors and thread.
    pub(crate) fn new(notify: impl Fn(WatchEvent) + Send + Sync + 'static) -> NonFileWatcher {
        NonFileWatcher { registrations: Arc::default(), notify: Arc::new(notify), wake: None, thread: None }
    }

    /// Adds subscriptions. Later events are delivered.
    ///
    /// # Errors
    /// The subscriptions that failed, with the reason; the others work.
    pub(crate) fn watch(&mut self, subscriber: Subscriber, sources: Vec<EventSource>) -> Result<(), WatchLost> {
        self.start()
            .and_then(|()| self.register(subscriber, sources))
            .map_err(|error| lost(vec![subscriber], &error))?;
        self.reread_pid_files(subscriber)
    }

    /// Reads the pid files of a subscriber again, because they may contain other numbers.
    ///
    /// # Errors
    /// The processes that cannot be watched, with the reason.
    pub(crate) fn reread_pid_files(&self, subscriber: Subscriber) -> Result<(), WatchLost> {
        let why = |error: io::Error| WatchError::Process(error.to_string());
        self.open(subscriber).map_err(|error| WatchLost { subscribers: vec![subscriber], why: why(error) })
    }

    /// Opens the processes that the files of a subscriber contain now.
    ///
    /// A process that has ended, zombies included, counts as absent. The watch on its file reports the next
    /// process.
    fn open(&self, subscriber: Subscriber) -> io::Result<()> {
        let Some(files) = lock(&self.registrations).files.get(&subscriber).cloned() else { return Ok(()) };
        let mut opened = Vec::new();
        let mut result = Ok(());
        for file in files {
            match process_of(&file) {
                Ok(process) => opened.extend(process),
                Err(errno) => result = Err(errno.into()),
            }
        }
        let mut registrations = lock(&self.registrations);
        registrations.processes.retain(|(of, _)| *of != subscriber);
        for process in opened {
            if registrations.processes.len() >= most_processes() {
                result = Err(io::Error::other(
                    "this process has too few descriptors for the processes that are watched (`ulimit -n`)",
                ));
                break;
            }
            registrations.processes.push((subscriber, Arc::new(process)));
        }
        drop(registrations);
        self.wake();
        result
    }

    /// Removes the subscriptions of a subscriber. Queued events may still be delivered.
    pub(crate) fn unwatch(&self, subscriber: Subscriber) {
        let mut registrations = lock(&self.registrations);
        registrations.network.remove(&subscriber);
        registrations.files.remove(&subscriber);
        registrations.processes.retain(|(of, _)| *of != subscriber);
        if registrations.network.is_empty() {
            registrations.socket = None;
        }
        drop(registrations);
        self.wake();
    }

    fn register(&self, subscriber: Subscriber, sources: Vec<EventSource>) -> io::Result<()> {
        let mut registrations = lock(&self.registrations);
        if let Some(errno) = registrations.over {
            return Err(errno.into());
        }
        for source in sources {
            match source {
                EventSource::Network(what) => {
                    if registrations.socket.is_none() {
                        registrations.socket = Some(Arc::new(network()?));
                    }
                    registrations.network.entry(subscriber).or_default().push(what);
                }
                EventSource::Process(file) => registrations.files.entry(subscriber).or_default().push(file),
            }
        }
        drop(registrations);
        // The thread may already be waiting for the former descriptors.
        self.wake();
        Ok(())
    }

    /// Starts the thread unless it runs.
    fn start(&mut self) -> io::Result<()> {
        if self.thread.is_some() {
            return Ok(());
        }
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (registrations, woken, notify) =
            (Arc::clone(&self.registrations), Arc::clone(&wake), Arc::clone(&self.notify));
        let thread = thread::Builder::new().name("events".to_owned());
        self.thread = Some(thread.spawn(move || listen(&registrations, &woken, &notify))?);
        self.wake = Some(wake);
        Ok(())
    }

    fn wake(&self) {
        if let Some(wake) = &self.wake {
            // An eventfd whose counter is full is readable already.
            let _ = rustix::io::write(&**wake, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for NonFileWatcher {
    fn drop(&mut self) {
        // The thread holds the only other reference: it ends when it wakes and has the last one.
        let registrations = std::mem::take(&mut self.registrations);
        drop(registrations);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of `notify` has printed its own message.
            let _ = thread.join();
        }
    }
}

impl Registrations {
    /// Returns the subscribers of one of these events.
    fn interested(&self, happened: &[Network]) -> Vec<Subscriber> {
        let any = |wanted: &Vec<Network>| wanted.iter().any(|wanted| happened.contains(wanted));
        self.network.iter().filter(|(_, wanted)| any(wanted)).map(|(subscriber, _)| *subscriber).collect()
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)), Ok(1..))
}

/// Opens the process that a file contains; none if it has ended.
fn process_of(file: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let Some(pid) = pid_in(file) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) if has_ended(&process) => Ok(None),
        Ok(process) => Ok(Some(process)),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the number in a pid file. It never blocks, even if the file is replaced by a pipe or device.
fn pid_in(file: &Path) -> Option<Pid> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(file, flags, Mode::empty()).ok()?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    std::fs::File::from(file).take(LARGEST_PID_FILE).read_to_string(&mut text).ok()?;
    text.split_whitespace().next()?.parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw)
}

/// Returns the maximum number of watched processes: half of the descriptors are reserved for other uses.
fn most_processes() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2).unwrap_or(usize::MAX)
}

fn lost(subscribers: Vec<Subscriber>, error: &io::Error) -> WatchLost {
    let why = WatchError::System { path: PathBuf::from("the network and processes"), why: error.to_string() };
    WatchLost { subscribers, why }
}

fn network() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // `NETLINK_ROUTE` is the protocol 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &netlink::SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

/// Waits for all descriptors until it holds the last reference to the subscriptions.
fn listen(registrations: &Arc<Mutex<Registrations>>, woken: &OwnedFd, notify: &Notify) {
    let mut buffer = vec![0; READ];
    loop {
        let (socket, processes) = {
            let registrations = lock(registrations);
            (registrations.socket.clone(), registrations.processes.clone())
        };
        let mut waited: Vec<PollFd<'_>> = vec![PollFd::new(woken, PollFlags::IN)];
        waited.extend(socket.iter().map(|socket| PollFd::new(&**socket, PollFlags::IN)));
        waited.extend(processes.iter().map(|(_, process)| PollFd::new(&**process, PollFlags::IN)));
        match poll(&mut waited, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                let mut registrations = lock(registrations);
                registrations.over = Some(errno);
                let subscribers = registrations.network.keys().chain(registrations.files.keys()).copied().collect();
                drop(registrations);
                return notify(WatchEvent::Lost(lost(subscribers, &errno.into())));
            }
        }
        let rang: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
        if rang[0] {
            let mut count = [0; 8];
            let _ = rustix::io::read(woken, &mut count);
            if Arc::strong_count(registrations) == 1 {
                return;
            }
        }
        let mut told = Vec::new();
        if let Some(socket) = socket.as_ref().filter(|_| rang[1]) {
            match network_events(socket, &mut buffer) {
                Ok(happened) => told.extend(lock(registrations).interested(&happened)),
                // Events were lost, so that all subscribers are notified.
                Err(_) => told.extend(lock(registrations).network.keys().copied()),
            }
        }
        let ended = processes.iter().zip(&rang[1 + usize::from(socket.is_some())..]).filter(|(_, rang)| **rang);
        let ended: Vec<&(Subscriber, Arc<OwnedFd>)> = ended.map(|(process, _)| process).collect();
        if !ended.is_empty() {
            let is_over = |process: &Arc<OwnedFd>| ended.iter().any(|(_, over)| Arc::ptr_eq(over, process));
            lock(registrations).processes.retain(|(_, process)| !is_over(process));
            told.extend(ended.iter().map(|(subscriber, _)| *subscriber));
        }
        if !told.is_empty() {
            told.sort_unstable();
            told.dedup();
            notify(WatchEvent::Changed(told));
        }
    }
}

/// Returns the network events that can be read now.
fn network_events(socket: &OwnedFd, buffer: &mut [u8]) -> rustix::io::Result<Vec<Network>> {
    let mut happened = Vec::new();
    loop {
        let length = match recv(socket.as_fd(), &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(happened),
            Err(errno) => return Err(errno),
        };
        messages(&buffer[..length.min(buffer.len())], &mut |what| {
            if !happened.contains(&what) {
                happened.push(what);
            }
        });
    }
}

/// Returns the subjects of rtnetlink messages. Each begins with its length and its type (`struct nlmsghdr`).
fn messages(mut bytes: &[u8], see: &mut dyn FnMut(Network)) {
    const HEADER: usize = 16;
    while bytes.len() >= HEADER {
        let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        match u16::from_ne_bytes([bytes[4], bytes[5]]) {
            16..=19 => see(Network::Links),
            20..=23 => see(Network::Addresses),
            24..=27 => see(Network::Routes),
            _ => {}
        }
        // Messages are aligned to four bytes.
        let next = length.max(HEADER).next_multiple_of(4);
        bytes = bytes.get(next..).unwrap_or_default();
    }
}

fn lock(registrations: &Mutex<Registrations>) -> MutexGuard<'_, Registrations> {
    registrations.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    fn watcher() -> (NonFileWatcher, Receiver<WatchEvent>) {
        let (sender, receiver) = channel();
        (NonFileWatcher::new(move |event| drop(sender.send(event))), receiver)
    }

    /// Fails if there was an event: the event of another subscriber would come after it.
    fn assert_no_event(watcher: &mut NonFileWatcher, events: &Receiver<WatchEvent>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let mut process = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(&file, process.id().to_string()).unwrap();
        watcher.watch(Subscriber(99), vec![EventSource::Process(file)]).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(events.recv_timeout(LONG).unwrap(), WatchEvent::Changed(vec![Subscriber(99)]));
        watcher.unwatch(Subscriber(99));
    }

    #[test]
    fn the_end_of_a_process_is_events_and_that_of_the_next_one_too() {
        let (mut watcher, events) = watcher();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let begin = || {
            let child = Command::new("sleep").arg("60").spawn().unwrap();
            std::fs::write(&file, format!("{}\nmore\n", child.id())).unwrap();
            child
        };
        let mut first = begin();
        watcher.watch(Subscriber(7), vec![EventSource::Process(file.clone())]).unwrap();
        assert_no_event(&mut watcher, &events);
        first.kill().unwrap();
        assert_eq!(events.recv_timeout(LONG).unwrap(), WatchEvent::Changed(vec![Subscriber(7)]));
        watcher.reread_pid_files(Subscriber(7)).unwrap();
        // The process is a zombie, and its end has been reported once.
        assert_no_event(&mut watcher, &events);
        first.wait().unwrap();
        let mut second = begin();
        watcher.reread_pid_files(Subscriber(7)).unwrap();
        second.kill().unwrap();
        assert_eq!(events.recv_timeout(LONG).unwrap(), WatchEvent::Changed(vec![Subscriber(7)]));
        second.wait().unwrap();
        let mut third = begin();
        watcher.reread_pid_files(Subscriber(7)).unwrap();
        watcher.unwatch(Subscriber(7));
        third.kill().unwrap();
        third.wait().unwrap();
        // There is no subscription any more.
        assert_no_event(&mut watcher, &events);
    }

    #[test]
    fn sources_are_opened_on_first_use_and_closed_after_the_last() {
        let (mut watcher, _events) = watcher();
        assert!(watcher.thread.is_none() && watcher.wake.is_none());
        watcher.watch(Subscriber(1), vec![EventSource::Network(Network::Links)]).unwrap();
        assert!(lock(&watcher.registrations).socket.is_some());
        watcher.unwatch(Subscriber(1));
        assert!(lock(&watcher.registrations).socket.is_none());
        let registrations = Arc::downgrade(&watcher.registrations);
        drop(watcher);
        assert!(registrations.upgrade().is_none(), "the thread has ended");
    }

    #[test]
    fn waiting_thread_receives_events_of_later_sources() {
        let (mut watcher, events) = watcher();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let mut process = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(&file, process.id().to_string()).unwrap();
        watcher.watch(Subscriber(1), vec![EventSource::Process(file)]).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        // The thread waits again after it has delivered this event.
        assert_eq!(events.recv_timeout(LONG).unwrap(), WatchEvent::Changed(vec![Subscriber(1)]));
        watcher.watch(Subscriber(2), vec![EventSource::Network(Network::Links)]).unwrap();
        let begun = std::time::Instant::now();
        // The thread holds the second reference while it waits for the socket.
        while lock(&watcher.registrations).socket.as_ref().map(Arc::strong_count) != Some(2) {
            assert!(begun.elapsed() < LONG, "nobody waits for the network");
            std::thread::yield_now();
        }
    }

    #[test]
    fn invalid_pid_file_names_no_process_and_does_not_block() {
        let (mut watcher, events) = watcher();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let made = Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        watcher.watch(Subscriber(1), vec![EventSource::Process(file.clone())]).unwrap();
        std::fs::remove_file(&file).unwrap();
        for text in ["", "none", "-5", "0", "99999999999", "\u{0}", "4194304"] {
            std::fs::write(&file, text).unwrap();
            watcher.reread_pid_files(Subscriber(1)).unwrap();
        }
        assert!(lock(&watcher.registrations).processes.is_empty());
        assert_no_event(&mut watcher, &events);
    }

    #[test]
    fn messages_are_events_apart_and_damaged_ones_do_no_harm() {
        let message = |kind: u16, length: u32| {
            let mut bytes = [0_u8; 20];
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes
        };
        let seen = |bytes: &[u8]| {
            let mut seen = Vec::new();
            messages(bytes, &mut |what| seen.push(what));
            seen
        };
        let all = [message(16, 18), message(21, 20), message(24, 20), message(3, 20)].concat();
        assert_eq!(seen(&all), [Network::Links, Network::Addresses, Network::Routes]);
        assert_eq!(seen(&message(16, 0)), [Network::Links]);
        assert_eq!(seen(&message(16, u32::MAX)), [Network::Links]);
        assert_eq!(seen(&all[..15]), []);
    }
}
