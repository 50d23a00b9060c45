//! Brings paths in sync, in batches.
//!
//! All new content is written first ([`stage`](super::stage)). A new file gets its name at once. A replacement waits
//! in [`FileBatch::pending`] until all content is on disk, and is then renamed.

use std::rc::Rc;

use kilter_model::{Change, Outcome};
use kilter_provider::{Context, Durability};
use rustc_hash::{FxHashMap, FxHashSet};

use super::backup::{Copies, Keeper};
use super::durable::{PendingFsync, Touched};
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, Parent};
use super::opened_path::OpenedPath;
use super::ownership;
use super::spec::{Ensure, Spec};
use super::stage::{Staged, Temporary};
use super::temporary_record::{Recorded, record};
use super::{remove, temp_names};
use crate::accounts::Ids;

/// Maximum number of directories that are open at once. The limit of descriptors is often 1024.
const HELD: usize = 128;

/// Maximum number of directories that a batch has recorded at a time.
const MAX_RECORDED: usize = 1024;

/// Resources of the provider that a batch uses.
pub(super) struct BatchContext<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) accounts: &'a Ids,
    pub(super) touched: &'a Touched,
    /// Directories, by device and inode, that have been searched for stale temporary files.
    pub(super) cleaned: &'a std::sync::Mutex<FxHashSet<(u64, u64)>>,
}

/// Changes that are made together.
pub(super) struct FileBatch<'a> {
    pub(super) around: BatchContext<'a>,
    parents: FxHashMap<String, Rc<Parent>>,
    pending: Vec<Pending>,
    /// Number of descriptors in `pending`.
    held: usize,
    barrier: PendingFsync,
    copies: Copies,
    /// Error of a commit that lost backups.
    lost_backups: Option<FileError>,
    /// Directories, by device and inode, that may contain temporary files.
    recorded: FxHashMap<(u64, u64), Option<Recorded>>,
    outcomes: Vec<Outcome>,
    /// For each outcome, the number of failures beyond the reported one.
    further: Vec<usize>,
}

/// A replacement that waits for its rename.
struct Pending {
    index: usize,
    parent: Rc<Parent>,
    leaf: Vec<u8>,
    temporary: Temporary,
    /// True if a directory must be removed first.
    tree: bool,
    /// The replaced file, if its setuid bits must be removed.
    armed: Option<OpenedPath>,
}

impl<'a> FileBatch<'a> {
    /// Creates a batch of `count` changes.
    pub(super) fn new(around: BatchContext<'a>, count: usize) -> FileBatch<'a> {
        FileBatch {
            around,
            parents: FxHashMap::default(),
            pending: Vec::new(),
            held: 0,
            barrier: PendingFsync::default(),
            copies: Copies::default(),
            lost_backups: None,
            recorded: FxHashMap::default(),
            outcomes: vec![Outcome::done(); count],
            further: vec![0; count],
        }
    }

    /// Makes a change. Its outcome is known when the batch is finished.
    pub(super) fn change(&mut self, index: usize, change: &Change<'_>) {
        if self.around.cx.interrupt().is_raised() {
            self.outcomes[index] = Outcome::failed("interrupted before it was changed");
            return;
        }
        if let Err(error) = self.converge(index, change) {
            self.fail(index, &error);
        }
        if self.parents.len() >= HELD {
            self.commit_each();
            self.parents.clear();
        }
    }

    fn converge(&mut self, index: usize, change: &Change<'_>) -> Result<(), FileError> {
        let path = open::trim(change.name);
        if !open::is_normal(path) {
            return Err(FileError::NotNormal(path.to_owned()));
        }
        let nothing = kilter_model::Attributes::new();
        let mut spec = Spec::of(change.should.unwrap_or(&nothing));
        if change.should.is_none() {
            spec.ensure = Ensure::Absent;
        }
        super::root::apply(self, index, change, path, &spec)
    }

    /// Finishes the batch: renames all pending replacements.
    pub(super) fn finish(mut self) -> Vec<Outcome> {
        self.commit_each();
        for (outcome, further) in self.outcomes.iter_mut().zip(&self.further) {
            if let (Some(failure), 1..) = (&mut outcome.failure, further) {
                *failure = ecow::eco_format!("{failure} (and {further} more)");
            }
        }
        self.outcomes
    }

    /// Adds a failure of a change.
    pub(super) fn fail(&mut self, index: usize, error: &FileError) {
        match &self.outcomes[index].failure {
            Some(_) => self.further[index] += 1,
            None => self.outcomes[index].failure = Some(ecow::eco_format!("{error}")),
        }
    }

    /// Adds a note to a change.
    pub(super) fn add_note(&mut self, index: usize, note: String) {
        self.outcomes[index].notes.push(note.into());
    }

    /// Returns the open directory that contains a path.
    pub(super) fn parent(&mut self, path: &str) -> Result<Rc<Parent>, FileError> {
        let directory = open::split(path).0;
        if let Some(parent) = self.parents.get(directory) {
            return Ok(Rc::clone(parent));
        }
        let parent = Rc::new(open::open_parent(path)?);
        self.parents.insert(directory.to_owned(), Rc::clone(&parent));
        Ok(parent)
    }

    /// Returns the destination for backups of a change, of files in a directory. They are complete after
    /// [`FileBatch::commit`].
    pub(super) fn keeper(&mut self, index: usize, parent: &Parent) -> Keeper<'_> {
        self.record(parent);
        self.keeper_of(index)
    }

    fn keeper_of(&mut self, index: usize) -> Keeper<'_> {
        let durable = self.is_durable();
        let cx = self.around.cx;
        Keeper::new(cx.var_dir(), (&mut self.barrier, &mut self.copies), durable, cx.interrupt(), index)
    }

    fn is_durable(&self) -> bool {
        self.around.cx.durability() == Durability::Flushed
    }

    /// Records that a directory has changed.
    pub(super) fn note(&self, parent: &Parent) {
        if self.is_durable() {
            self.around.touched.note(parent);
        }
    }

    /// Records a directory in which temporary files will be created.
    pub(super) fn record(&mut self, parent: &Parent) {
        if self.recorded.len() >= MAX_RECORDED {
            self.commit_each();
            self.recorded.clear();
        }
        let state_dir = self.around.cx.var_dir();
        let key = (parent.stat.st_dev, parent.stat.st_ino);
        self.recorded.entry(key).or_insert_with(|| record(state_dir, &parent.fd));
    }

    /// Removes stale temporary files from a directory, once.
    pub(super) fn clean(&self, parent: &Parent) {
        let key = (parent.stat.st_dev, parent.stat.st_ino);
        let mut cleaned = self.around.cleaned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if cleaned.insert(key) && parent.readable {
            drop(cleaned);
            temp_names::clean(&parent.fd);
        }
    }

    /// Queues a file that replaces `old` when everything pending is on disk.
    pub(super) fn await_turn(
        &mut self,
        index: usize,
        parent: &Rc<Parent>,
        leaf: &[u8],
        staged: Staged,
        old: OpenedPath,
    ) -> Result<(), FileError> {
        let Staged { temporary, fd, not_kept } = staged;
        let path = || parent.join(leaf);
        if !not_kept.lost.is_empty() {
            self.add_note(index, format!("{}: could not keep {}", path(), not_kept.lost.join(", ")));
        }
        if not_kept.capabilities {
            self.add_note(
                index,
                format!("{}: the capabilities of the old content were not given to the new one", path()),
            );
        }
        if self.is_durable() {
            self.barrier.add(parent.stat.st_dev, fd, parent.join(leaf))?;
        }
        let tree = old.kind == Kind::Directory;
        let armed = Some(old).filter(ownership::has_setid);
        if armed.is_some() || self.pending.last().is_none_or(|last| !Rc::ptr_eq(&last.parent, parent)) {
            self.held += 1;
        }
        self.pending.push(Pending { index, parent: Rc::clone(parent), leaf: leaf.to_vec(), temporary, tree, armed });
        if self.held >= HELD {
            self.commit_each();
        }
        Ok(())
    }

    /// Commits everything pending. Each failure belongs to its own change only.
    fn commit_each(&mut self) {
        let _ = self.commit();
    }

    /// Commits everything pending, so that backups since `self.lost_backups` was cleared are complete.
    ///
    /// # Errors
    /// If this commit, or an earlier one since then, lost a backup.
    pub(super) fn complete_backups(&mut self) -> Result<(), FileError> {
        let committed = self.commit();
        self.lost_backups.take().map_or(committed, Err)
    }

    /// Forgets lost backups of earlier changes.
    pub(super) fn begin_backups(&mut self) {
        self.commit_each();
        self.lost_backups = None;
    }

    /// Flushes everything pending, then renames each replacement.
    ///
    /// # Errors
    /// If a flush failed, for example of a backup. The original must then stay.
    pub(super) fn commit(&mut self) -> Result<(), FileError> {
        self.held = 0;
        let has_copies = !self.copies.is_empty();
        let settled = if self.copies.is_empty() { Ok(()) } else { self.keeper_of(0).settle() };
        let flushed = settled.and(std::mem::take(&mut self.barrier).wait());
        for pending in std::mem::take(&mut self.pending) {
            let index = pending.index;
            let result = flushed.clone().and_then(|()| {
                self.note(&pending.parent);
                pending.replace()
            });
            if let Err(error) = result {
                self.fail(index, &error);
            }
        }
        if has_copies && let Err(error) = &flushed {
            self.lost_backups.get_or_insert_with(|| error.clone());
        }
        flushed
    }
}

impl Pending {
    fn replace(self) -> Result<(), FileError> {
        let Pending { parent, leaf, temporary, tree, armed, .. } = self;
        if tree {
            remove::tree(&parent.fd, &leaf, &parent.join(&leaf))?;
        }
        temporary.replace(&leaf)?;
        armed.map_or(Ok(()), |old| clear_setid(&parent, &leaf, &old))
    }
}

/// Removes setuid and setgid from a replaced or removed file, in case it still exists under another name.
pub(super) fn clear_setid(parent: &Parent, leaf: &[u8], old: &OpenedPath) -> Result<(), FileError> {
    ownership::clear_setid(old)
        .map_err(|errno| FileError::io("take the setuid bits of what was replaced at", parent.join(leaf), errno))
}
