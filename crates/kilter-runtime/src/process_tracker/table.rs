//! Directories of held paths, and the last process that changed each path.

use std::ffi::OsStr;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ecow::EcoString;
use nix::sys::fanotify::MaskFlags;
use rustc_hash::{FxHashMap, FxHasher};

use super::changing_process::ChangingProcess;
use super::details::ended_children;
use super::group::{DirectoryId, EventGroup, FileEvent, Handle};

/// Maximum number of changed paths in memory. If more change at once, their processes are unknown.
const MAX_CHANGES: usize = 16 * 1024;

/// Time after a check without a difference in which the process of an earlier event still counts: the event of the hub
/// may come after the check.
pub(super) const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Time in which further events of a process cause no second search for its details.
pub(super) const SAME_PROCESS_TIME: Duration = Duration::from_millis(100);

/// Time after lost events in which an unknown process may be due to them.
const LOST_TIME: Duration = Duration::from_secs(60);

/// Process that changed a path.
#[derive(Debug)]
pub(crate) struct RecordedProcess {
    pub(super) pid: u32,
    /// Directory of the path.
    pub(super) directory: Arc<Path>,
    /// The directory when it was marked.
    pub(super) id: DirectoryId,
    /// [`ended_children`] before the event.
    pub(super) ended_before: i64,
    /// The process, when it has been searched. None if it changed another file.
    pub(super) process: OnceLock<Option<ChangingProcess>>,
}

/// Last change of a path.
struct PathChange {
    process: Arc<RecordedProcess>,
    at: Instant,
    /// Time of the check that found no difference after it.
    settled_at: Option<Instant>,
    /// True if the path appeared or disappeared.
    is_name_change: bool,
}

impl PathChange {
    fn counts(&self) -> bool {
        self.settled_at.is_none_or(|at| at.elapsed() < SETTLE_TIME)
    }
}

/// Kind of a held path. The kernel reports changes of a directory itself only to a mark on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    File,
    Directory,
    /// Directory whose entries are held too. Only its direct entries are marked.
    Tree,
}

/// Directory with held paths.
#[derive(Default)]
pub(super) struct HeldDirectory {
    /// Number of resources with a path in it.
    names: u32,
    /// Number of resources that hold the directory itself.
    own: u32,
    /// Number of resources that hold its entries.
    trees: u32,
    /// The directory that is marked.
    pub(super) id: Option<DirectoryId>,
    handle: Option<Handle>,
    /// Reason why it has no mark.
    failure: Option<EcoString>,
}

/// Directories of held paths, and the last process that changed each path.
#[derive(Default)]
pub(super) struct Table {
    /// Process number of kilter.
    own: u32,
    directories: FxHashMap<Arc<Path>, HeldDirectory>,
    /// Numbers of held paths by the hash of directory and name. Two paths with one hash are only recorded needlessly.
    names: FxHashMap<u64, u32>,
    /// Paths of each marked directory.
    handles: FxHashMap<Handle, (DirectoryId, Vec<Arc<Path>>)>,
    changes: FxHashMap<Box<Path>, PathChange>,
    /// Directories to mark.
    pub(super) to_mark: Vec<Arc<Path>>,
    /// Directories to unmark.
    pub(super) to_unmark: Vec<(Arc<Path>, DirectoryId)>,
    /// Processes whose details have not been read.
    pub(super) to_read: Vec<Arc<RecordedProcess>>,
    /// [`ended_children`] before all events that have not been read.
    ended_before: i64,
    /// Time of the last loss of events, with its reason.
    lost: Option<(Instant, &'static str)>,
}

fn hash(directory: &Path, name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    (directory.as_os_str().as_bytes(), name).hash(&mut hasher);
    hasher.finish()
}

/// Returns the directory and the name of a path.
fn parts(path: &Path) -> Option<(&Path, &[u8])> {
    Some((path.parent()?, path.file_name()?.as_bytes()))
}

impl Table {
    pub(super) fn new() -> Table {
        Table { own: std::process::id(), ended_before: ended_children(), ..Table::default() }
    }

    /// Adds a held path.
    pub(super) fn hold(&mut self, path: &Path, kind: PathKind) {
        if let Some((directory, name)) = parts(path) {
            *self.names.entry(hash(directory, name)).or_default() += 1;
            self.directory(directory).names += 1;
        }
        match kind {
            PathKind::File => {}
            PathKind::Directory => self.directory(path).own += 1,
            PathKind::Tree => {
                let directory = self.directory(path);
                directory.own += 1;
                directory.trees += 1;
            }
        }
    }

    /// Returns a directory. One that is not known yet will be marked.
    fn directory(&mut self, path: &Path) -> &mut HeldDirectory {
        if !self.directories.contains_key(path) {
            let path: Arc<Path> = path.into();
            self.to_mark.push(Arc::clone(&path));
            self.directories.insert(path, HeldDirectory::default());
        }
        self.directories.get_mut(path).expect("it was added above")
    }

    /// Removes a held path.
    pub(super) fn release(&mut self, path: &Path, kind: PathKind) {
        self.changes.remove(path);
        if let Some((directory, name)) = parts(path) {
            let key = hash(directory, name);
            if let Some(count) = self.names.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(&key);
                }
            }
            self.release_in(directory, |directory| directory.names -= 1);
        }
        match kind {
            PathKind::File => {}
            PathKind::Directory => self.release_in(path, |directory| directory.own -= 1),
            PathKind::Tree => self.release_in(path, |directory| {
                directory.own -= 1;
                directory.trees -= 1;
            }),
        }
    }

    fn release_in(&mut self, path: &Path, change: impl FnOnce(&mut HeldDirectory)) {
        let Some(known) = self.directories.get_mut(path) else { return };
        change(known);
        if (known.names, known.own) == (0, 0)
            && let Some((path, removed)) = self.directories.remove_entry(path)
        {
            let is_last = self.forget_handle(&path, removed.handle);
            self.to_unmark.extend(removed.id.filter(|_| is_last).map(|id| (path, id)));
        }
    }

    /// Removes a path from the handle of its directory. Returns true if the directory has no other path.
    fn forget_handle(&mut self, path: &Path, handle: Option<Handle>) -> bool {
        let Some(handle) = handle else { return false };
        let Some((_, paths)) = self.handles.get_mut(&handle) else { return false };
        paths.retain(|known| &**known != path);
        let is_last = paths.is_empty();
        if is_last {
            self.handles.remove(&handle);
        }
        is_last
    }

    /// Records the result of a mark.
    pub(super) fn marked(&mut self, path: &Arc<Path>, marked: Result<(DirectoryId, Handle), Option<EcoString>>) {
        let Some(directory) = self.directories.get_mut(path) else { return };
        let former = directory.handle.take();
        (directory.id, directory.failure) = match &marked {
            Ok((id, handle)) => {
                directory.handle = Some(handle.clone());
                (Some(*id), None)
            }
            Err(why) => (None, why.clone()),
        };
        self.forget_handle(path, former);
        if let Ok((id, handle)) = marked {
            self.handles.entry(handle).or_insert_with(|| (id, Vec::new())).1.push(Arc::clone(path));
        }
    }

    /// Returns true if this directory is marked already.
    pub(super) fn is_marked(&self, path: &Path, id: DirectoryId) -> bool {
        self.directories.get(path).is_some_and(|directory| directory.id == Some(id))
    }

    /// Requests a mark for the directory of a path, if it has none. After the repair of a drift, another directory may
    /// have taken its place.
    pub(super) fn mark_again(&mut self, path: &Path, is_drift: bool) {
        let known = parts(path).and_then(|(directory, _)| self.directories.get_key_value(directory));
        if let Some((path, directory)) = known
            && (is_drift || directory.id.is_none())
            && !self.to_mark.contains(path)
        {
            self.to_mark.push(Arc::clone(path));
        }
    }

    /// Returns true if the thread has to do more than to read events.
    pub(super) fn has_work(&self) -> bool {
        !(self.to_mark.is_empty() && self.to_unmark.is_empty() && self.to_read.is_empty())
    }

    /// Reads one buffer of events. Returns true if no event was left.
    pub(super) fn read(&mut self, group: &EventGroup) -> bool {
        let ended = ended_children();
        let is_empty = group.read(|event| self.record(&event));
        if is_empty {
            self.ended_before = ended;
        }
        is_empty
    }

    fn record(&mut self, event: &FileEvent<'_>) {
        let Some((handle, name)) = event.file else { return self.lose("the kernel has dropped events") };
        let Some((id, paths)) = self.handles.get(handle) else { return };
        let now = Instant::now();
        let appears = MaskFlags::FAN_CREATE | MaskFlags::FAN_MOVED_TO;
        let is_name_change = event.mask.intersects(appears | MaskFlags::FAN_DELETE | MaskFlags::FAN_MOVED_FROM);
        let is_new_directory = event.mask.contains(MaskFlags::FAN_ONDIR) && event.mask.intersects(appears);
        let mut is_full = false;
        for directory in paths {
            let path = || directory.join(OsStr::from_bytes(name));
            if is_new_directory && let Some((known, _)) = self.directories.get_key_value(&*path()) {
                self.to_mark.push(Arc::clone(known));
            }
            if event.pid == self.own {
                continue;
            }
            let held = self.directories.get(directory);
            // Events of the directory itself have this name.
            let is_directory = name == b".";
            let is_name = !is_directory && self.names.contains_key(&hash(directory, name));
            let is_own = held.is_some_and(|held| if is_directory { held.own > 0 } else { held.trees > 0 });
            let own = is_own.then(|| (directory.to_path_buf(), false));
            for (path, is_name_change) in is_name.then(|| (path(), is_name_change)).into_iter().chain(own) {
                if event.pid == 0 {
                    // The process is in another PID namespace.
                    self.changes.remove(&*path);
                    continue;
                }
                if let Some(known) = self.changes.get_mut(&*path)
                    && known.process.pid == event.pid
                    && known.at.elapsed() < SAME_PROCESS_TIME
                {
                    known.settled_at = None;
                    known.is_name_change |= is_name_change;
                    continue;
                }
                let process = Arc::new(RecordedProcess {
                    pid: event.pid,
                    directory: Arc::clone(directory),
                    id: *id,
                    ended_before: self.ended_before,
                    process: OnceLock::new(),
                });
                self.to_read.push(Arc::clone(&process));
                self.changes.insert(path.into(), PathChange { process, at: now, settled_at: None, is_name_change });
                is_full |= self.changes.len() > MAX_CHANGES || self.to_read.len() > MAX_CHANGES;
            }
        }
        if is_full {
            self.changes.retain(|_, change| change.counts());
            if self.changes.len() > MAX_CHANGES / 2 || self.to_read.len() > MAX_CHANGES {
                self.lose("too many files changed at once");
            }
        }
    }

    /// Forgets all processes, because events were lost.
    fn lose(&mut self, why: &'static str) {
        self.changes.clear();
        self.to_read.clear();
        self.lost = Some((Instant::now(), why));
    }

    /// Returns the last process that changed a path, or removed or replaced a held directory above it.
    pub(super) fn changed_by(&self, path: &Path) -> Option<Arc<RecordedProcess>> {
        let of = |path: &Path| self.changes.get(path).filter(|change| change.counts());
        let above = || path.ancestors().skip(1).filter_map(of).find(|change| change.is_name_change);
        of(path).or_else(above).map(|change| Arc::clone(&change.process))
    }

    /// Returns true if a path has a recorded process.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Records that a check found no difference, or that a repair has removed it.
    pub(super) fn settled(&mut self, path: &Path) {
        if let Some(change) = self.changes.get_mut(path) {
            change.settled_at.get_or_insert_with(Instant::now);
            if !change.counts() {
                self.changes.remove(path);
            }
        }
    }

    /// Returns the reason why no process is known for a path.
    pub(super) fn why_unknown(&self, path: &Path) -> Option<EcoString> {
        if let Some((_, why)) = self.lost.filter(|(at, _)| at.elapsed() < LOST_TIME) {
            return Some(why.into());
        }
        self.directories.get(path.parent()?)?.failure.clone()
    }
}
