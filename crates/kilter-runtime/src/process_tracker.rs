//! Processes that change the paths of held resources.
//!
//! inotify reports no process, fanotify does. A group of fanotify needs CAP_SYS_ADMIN to report processes of other
//! users. One group has a mark on each directory with a held path, and one thread reads its events at once, because a
//! program such as `chmod` ends immediately.

mod changing_process;
mod details;
mod group;
mod table;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_engine::ResourceId;
use kilter_model::Resource;
use kilter_provider::{Scope, WatchSource};
use nix::errno::Errno;
use rustc_hash::FxHashSet;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

pub use changing_process::{ChangedBy, ChangingProcess, ProcessDetails};
use details::ProcessOrigin;
use group::{DirectoryId, EventGroup};
pub(crate) use table::RecordedProcess;
use table::{PathKind, SAME_PROCESS_TIME, Table};

/// Maximum number of buffers that the driver reads for one resource.
const MAX_DRIVER_READS: usize = 4;

/// Maximum time in which the driver waits for the details of a process, after a repair on a busy machine.
const MAX_DETAILS_WAIT: Duration = Duration::from_millis(250);

impl RecordedProcess {
    /// Returns the process. Its details are missing while they are read.
    fn process(&self) -> Option<ChangingProcess> {
        let unread = || Some(ChangingProcess { pid: self.pid, details: None, is_own: None });
        self.process.get().cloned().unwrap_or_else(unread)
    }
}

/// Part of a resource that contains its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathSource {
    Name,
    /// The attribute `path`.
    Path,
    /// The attribute `target`.
    Target,
}

impl PathSource {
    fn path(self, resource: &Resource) -> Option<&Path> {
        match self {
            PathSource::Name => Some(Path::new(resource.name.as_str())),
            PathSource::Path => resource.attributes.text("path").map(Path::new),
            PathSource::Target => resource.attributes.text("target").map(Path::new),
        }
    }
}

/// Path that a resource holds. A run has one for each of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldPath {
    kind: PathKind,
    source: PathSource,
}

impl HeldPath {
    /// Returns the path of a resource that the provider watches as its state. Other paths, such as a source, are inputs:
    /// a process that changes them does not change the resource.
    fn of(resource: &Resource, watches: &[WatchSource]) -> Option<HeldPath> {
        [PathSource::Name, PathSource::Path, PathSource::Target].into_iter().find_map(|source| {
            let own = source.path(resource).filter(|own| own.is_absolute())?;
            let scope = watches.iter().find_map(|watch| match watch {
                WatchSource::Path { path, scope } if path == own => Some(*scope),
                _ => None,
            })?;
            let kind = match scope {
                Scope::This if resource.attributes.text("ensure") == Some("directory") => PathKind::Directory,
                Scope::This => PathKind::File,
                Scope::Entries => return None,
                Scope::Tree => PathKind::Tree,
            };
            Some(HeldPath { kind, source })
        })
    }
}

/// Records the last process that changes each held path.
#[derive(Default)]
pub(crate) struct ProcessTracker {
    /// Held paths of resources, by slot.
    held: Vec<Option<HeldPath>>,
    /// Held paths that the group does not know yet.
    added: Vec<(Arc<Resource>, HeldPath)>,
    /// Paths that are no longer held, and that the group still knows.
    removed: Vec<(Arc<Resource>, HeldPath)>,
    group: Option<Result<TrackerThread, EcoString>>,
    /// Reasons that were reported.
    reported: FxHashSet<EcoString>,
}

impl ProcessTracker {
    /// Adds a resource, if it holds a path.
    pub(crate) fn hold(&mut self, vertex: ResourceId, resource: &Arc<Resource>, watches: &[WatchSource]) {
        let Some(held) = HeldPath::of(resource, watches) else { return };
        if self.held.len() <= vertex.slot() {
            self.held.resize(vertex.slot() + 1, None);
        }
        self.held[vertex.slot()] = Some(held);
        self.added.push((Arc::clone(resource), held));
    }

    /// Starts to record the changes of the added resources, and ends that of the removed ones.
    pub(crate) fn begin(&mut self) {
        let (added, removed) = (std::mem::take(&mut self.added), std::mem::take(&mut self.removed));
        if added.is_empty() && self.group.is_none() {
            return;
        }
        if let Ok(thread) = self.group.get_or_insert_with(TrackerThread::start) {
            let mut table = thread.shared.table();
            for (resource, held) in &added {
                held.source.path(resource).into_iter().for_each(|path| table.hold(path, held.kind));
            }
            for (resource, held) in &removed {
                held.source.path(resource).into_iter().for_each(|path| table.release(path, held.kind));
            }
            thread.wake_for(table);
        }
    }

    /// Removes a resource with the next [`begin`](Self::begin).
    pub(crate) fn release(&mut self, vertex: ResourceId, resource: &Arc<Resource>) {
        let held = self.held.get_mut(vertex.slot()).and_then(Option::take);
        self.removed.extend(held.map(|held| (Arc::clone(resource), held)));
    }

    /// Returns the path of a resource, if it is held.
    fn path<'a>(&self, vertex: ResourceId, resource: &'a Resource) -> Option<&'a Path> {
        let held = (*self.held.get(vertex.slot())?)?;
        held.source.path(resource)
    }

    fn thread(&self) -> Option<&TrackerThread> {
        self.group.as_ref()?.as_ref().ok()
    }

    /// Returns the last process that changed a resource since it was in sync.
    ///
    /// The kernel reports a change to the hub and to the group at the same time. So the events that the thread has not
    /// read yet are read here, but no details of processes.
    pub(crate) fn changed_by(&self, vertex: ResourceId, resource: &Resource) -> Option<Arc<RecordedProcess>> {
        let (thread, path) = (self.thread()?, self.path(vertex, resource)?);
        let mut table = thread.shared.table();
        let _ = (0..MAX_DRIVER_READS).any(|_| thread.shared.read_events(&mut table));
        let found = table.changed_by(path);
        thread.wake_for(table);
        found
    }

    /// Returns a process with its details. It waits for the thread if that has not read them yet: that takes less than a
    /// millisecond on an idle machine.
    pub(crate) fn process(&self, recorded: &RecordedProcess) -> Option<ChangingProcess> {
        if let Some(thread) = self.thread() {
            thread.shared.wait_for_details(recorded);
        }
        recorded.process()
    }

    /// Records that a resource is in sync, after a check or after a change. `is_drift` is true if the change repaired a
    /// resource that was in sync before in this run.
    pub(crate) fn settled(&self, vertex: ResourceId, resource: &Resource, is_changed: bool, is_drift: bool) {
        let is_needed = |thread: &&TrackerThread| is_changed || thread.shared.has_changes.load(Ordering::Relaxed);
        let Some(thread) = self.thread().filter(is_needed) else { return };
        if let Some(path) = self.path(vertex, resource) {
            let mut table = thread.shared.table();
            table.settled(path);
            if is_changed {
                table.mark_again(path, is_drift);
            }
            thread.wake_for(table);
        }
    }

    /// Returns the reason why the process that changed a resource is unknown. Each reason is returned once.
    pub(crate) fn news_of_unknown(&mut self, vertex: ResourceId, resource: &Resource) -> Option<EcoString> {
        let path = self.path(vertex, resource)?;
        let why = match self.group.as_ref()? {
            Ok(thread) => thread.shared.table().why_unknown(path)?,
            Err(why) => why.clone(),
        };
        self.reported.insert(why.clone()).then_some(why)
    }
}

/// Thread that reads the events, until this is dropped.
struct TrackerThread {
    shared: Arc<SharedTable>,
}

impl TrackerThread {
    fn start() -> Result<TrackerThread, EcoString> {
        let group = EventGroup::new()?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|error| eco_format!("eventfd: {error}"))?;
        let table = Mutex::new(Table::new());
        let [is_ended, has_changes, is_stuck] = [false; 3].map(AtomicBool::new);
        let details_read = Condvar::new();
        let shared = Arc::new(SharedTable { group, table, wake, is_ended, has_changes, details_read, is_stuck });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("processes".to_owned());
        thread.spawn(move || of_thread.run()).map_err(|error| eco_format!("thread: {error}"))?;
        Ok(TrackerThread { shared })
    }

    /// Wakes the thread if the table has work for it.
    fn wake_for(&self, table: MutexGuard<'_, Table>) {
        let has_work = table.has_work();
        drop(table);
        if has_work {
            self.wake();
        }
    }

    fn wake(&self) {
        // An eventfd whose counter is full is readable already.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for TrackerThread {
    /// Ends the thread without waiting for it.
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
        self.wake();
    }
}

/// State that the driver and the thread share.
struct SharedTable {
    group: EventGroup,
    table: Mutex<Table>,
    wake: OwnedFd,
    is_ended: AtomicBool,
    /// True if a path has a recorded process.
    has_changes: AtomicBool,
    /// Signals that the details of a process have been read.
    details_read: Condvar,
    /// True if the driver has waited in vain for details, and the thread has not read any since.
    is_stuck: AtomicBool,
}

impl SharedTable {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut last = None;
        while !self.is_ended.load(Ordering::Relaxed) {
            let mut all = [PollFd::new(&self.group, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            match poll(&mut all, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            }
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            self.read(&mut last);
            self.mark();
        }
    }

    /// Reads one buffer of events, and the details of their processes. It holds the lock only for the events: the files
    /// of a process may take long. `last` is the last process, with the time of the search for its details.
    fn read(&self, last: &mut Option<(Instant, ChangingProcess)>) {
        let mut table = self.table();
        self.read_events(&mut table);
        let to_read = std::mem::take(&mut table.to_read);
        drop(table);
        for recorded in to_read {
            // A later process may have replaced it already.
            if Arc::strong_count(&recorded) > 1 {
                let is_same = |(at, process): &(Instant, ChangingProcess)| {
                    process.pid == recorded.pid && process.details.is_some() && at.elapsed() < SAME_PROCESS_TIME
                };
                if !last.as_ref().is_some_and(is_same) {
                    let ProcessOrigin { details, is_own } = ProcessOrigin::of(recorded.pid, recorded.ended_before);
                    *last = Some((Instant::now(), ChangingProcess { pid: recorded.pid, details, is_own }));
                }
                let is_in_place = self.is_in_place(&recorded);
                if !is_in_place {
                    self.table().to_mark.push(Arc::clone(&recorded.directory));
                }
                let process = last.as_ref().map(|(_, process)| process.clone()).filter(|_| is_in_place);
                // Only this thread sets it.
                let _ = recorded.process.set(process);
                self.is_stuck.store(false, Ordering::Relaxed);
                // The driver checks the process and begins to wait under the lock.
                drop(self.table());
                self.details_read.notify_all();
            }
        }
    }

    /// Waits until the details of a process have been read. Another program can delay the thread, because the kernel
    /// reads the command line in the memory of that program. So the driver waits in vain only once.
    fn wait_for_details(&self, recorded: &RecordedProcess) {
        if recorded.process.get().is_some() || self.is_stuck.load(Ordering::Relaxed) {
            return;
        }
        let is_unread = |_: &mut Table| recorded.process.get().is_none();
        let waited = self.details_read.wait_timeout_while(self.table(), MAX_DETAILS_WAIT, is_unread);
        let is_in_vain = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        self.is_stuck.fetch_or(is_in_vain, Ordering::Relaxed);
    }

    /// Reads one buffer of events. Returns true if no event was left.
    fn read_events(&self, table: &mut Table) -> bool {
        let is_empty = table.read(&self.group);
        self.has_changes.store(table.has_changes(), Ordering::Relaxed);
        is_empty
    }

    /// Returns true if a changed path was in the directory that was marked. A directory that was moved has other files.
    fn is_in_place(&self, recorded: &RecordedProcess) -> bool {
        DirectoryId::of(&recorded.directory) == Some(recorded.id) || !self.group.is_marked(recorded.id)
    }

    /// Marks the requested directories.
    fn mark(&self) {
        let mut table = self.table();
        let (paths, to_unmark) = (std::mem::take(&mut table.to_mark), std::mem::take(&mut table.to_unmark));
        drop(table);
        for (path, id) in to_unmark {
            self.group.unmark(&path, id);
        }
        let (mut marked, mut of_marked) = (Vec::new(), Vec::new());
        for path in paths {
            if DirectoryId::of(&path).is_some_and(|id| self.table().is_marked(&path, id)) {
                continue;
            }
            match self.group.mark(&path) {
                Ok(directory) => {
                    marked.push(directory);
                    of_marked.push(path);
                }
                Err(error) => self.table().marked(&path, Err(failure(&path, error))),
            }
        }
        if marked.is_empty() {
            return;
        }
        let handles = self.group.handles(&marked);
        let mut table = self.table();
        for ((path, directory), handle) in of_marked.iter().zip(&marked).zip(handles) {
            let no_handle = || Some(eco_format!("the kernel names no handle of {}", path.display()));
            table.marked(path, handle.map(|handle| (directory.id, handle)).ok_or_else(no_handle));
        }
    }
}

/// Returns the reason why a directory has no mark. A missing directory may appear later.
fn failure(path: &Path, error: Errno) -> Option<EcoString> {
    match error {
        Errno::ENOENT | Errno::ENOTDIR => None,
        Errno::ENOSPC => Some("the limit fs.fanotify.max_user_marks is reached".into()),
        error => Some(eco_format!("fanotify cannot mark {}: {}", path.display(), error.desc())),
    }
}

#[cfg(test)]
mod tests;
