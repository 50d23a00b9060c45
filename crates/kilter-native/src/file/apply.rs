//! Bringing paths to their state, a batch at a time.
//!
//! Every new content is written first ([`stage`](super::stage)). What is new gets its name at
//! once. What replaces something waits in [`Batch::pending`] until all of it is on disk, and
//! then takes over.

use std::rc::Rc;

use kilter_model::{Change, Outcome};
use kilter_provider::{Context, Durability};
use rustc_hash::{FxHashMap, FxHashSet};

use super::backup::Keeper;
use super::durable::{Barrier, Touched};
use super::error::FileError;
use super::kind::Kind;
use super::look::Looked;
use super::own;
use super::place::{self, Parent};
use super::spec::{Ensure, Spec};
use super::stage::{Staged, Temporary};
use super::temporary_record::{Recorded, record};
use super::{leftover, remove};
use crate::accounts::Ids;

/// How many directories are held open at once; the limit of descriptors is often 1024.
const HELD: usize = 128;

/// Maximum number of directories that a batch has recorded at a time.
const MAX_RECORDED: usize = 1024;

/// What a batch needs of the provider.
pub(super) struct Surroundings<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) accounts: &'a Ids,
    pub(super) touched: &'a Touched,
    /// The directories, by device and inode, in which dead temporary files were looked for.
    pub(super) cleaned: &'a std::sync::Mutex<FxHashSet<(u64, u64)>>,
}

/// Changes that are made together.
pub(super) struct Batch<'a> {
    pub(super) around: Surroundings<'a>,
    parents: FxHashMap<String, Rc<Parent>>,
    pending: Vec<Pending>,
    /// How many descriptors those hold.
    held: usize,
    barrier: Barrier,
    /// The directories, by device and inode, in which there may be temporary files.
    recorded: FxHashMap<(u64, u64), Option<Recorded>>,
    outcomes: Vec<Outcome>,
    /// How many further failures each outcome has beyond the one that it tells.
    further: Vec<usize>,
}

/// A file that waits to take over.
struct Pending {
    index: usize,
    parent: Rc<Parent>,
    leaf: Vec<u8>,
    temporary: Temporary,
    /// Whether a directory has to go first.
    tree: bool,
    /// What is replaced, if its setuid bits must not live on.
    armed: Option<Looked>,
}

impl<'a> Batch<'a> {
    /// A batch of so many changes.
    pub(super) fn new(around: Surroundings<'a>, count: usize) -> Batch<'a> {
        Batch {
            around,
            parents: FxHashMap::default(),
            pending: Vec::new(),
            held: 0,
            barrier: Barrier::default(),
            recorded: FxHashMap::default(),
            outcomes: vec![Outcome::done(); count],
            further: vec![0; count],
        }
    }

    /// Makes the change; what became of it is known when the batch is finished.
    pub(super) fn change(&mut self, index: usize, change: &Change<'_>) {
        if self.around.cx.interrupt().is_raised() {
            self.outcomes[index] = Outcome::failed("interrupted before it was changed");
            return;
        }
        if let Err(error) = self.bring(index, change) {
            self.fail(index, &error);
        }
        if self.parents.len() >= HELD {
            self.commit_each();
            self.parents.clear();
        }
    }

    fn bring(&mut self, index: usize, change: &Change<'_>) -> Result<(), FileError> {
        let path = place::trim(change.name);
        if !place::is_normal(path) {
            return Err(FileError::NotNormal(path.to_owned()));
        }
        let nothing = kilter_model::Attributes::new();
        let mut spec = Spec::of(change.should.unwrap_or(&nothing));
        if change.should.is_none() {
            spec.ensure = Ensure::Absent;
        }
        super::root::bring(self, index, change, path, &spec)
    }

    /// Ends the batch: what is pending takes over.
    pub(super) fn finish(mut self) -> Vec<Outcome> {
        self.commit_each();
        for (outcome, further) in self.outcomes.iter_mut().zip(&self.further) {
            if let (Some(failure), 1..) = (&mut outcome.failure, further) {
                *failure = ecow::eco_format!("{failure} (and {further} more)");
            }
        }
        self.outcomes
    }

    /// Adds a failure of one change.
    pub(super) fn fail(&mut self, index: usize, error: &FileError) {
        match &self.outcomes[index].failure {
            Some(_) => self.further[index] += 1,
            None => self.outcomes[index].failure = Some(ecow::eco_format!("{error}")),
        }
    }

    /// Tells something about one change.
    pub(super) fn tell(&mut self, index: usize, note: String) {
        self.outcomes[index].notes.push(note.into());
    }

    /// The directory that a path lies in, held open.
    pub(super) fn parent(&mut self, path: &str) -> Result<Rc<Parent>, FileError> {
        let directory = place::split(path).0;
        if let Some(parent) = self.parents.get(directory) {
            return Ok(Rc::clone(parent));
        }
        let parent = Rc::new(place::open_parent(path)?);
        self.parents.insert(directory.to_owned(), Rc::clone(&parent));
        Ok(parent)
    }

    /// Where backups of what is in a directory go.
    pub(super) fn keeper(&mut self, parent: &Parent) -> Keeper<'_> {
        self.record(parent);
        let durable = self.is_durable();
        let cx = self.around.cx;
        Keeper { var_dir: cx.var_dir(), barrier: &mut self.barrier, durable, interrupt: cx.interrupt() }
    }

    fn is_durable(&self) -> bool {
        self.around.cx.durability() == Durability::Flushed
    }

    /// Something in the directory was changed.
    pub(super) fn note(&self, parent: &Parent) {
        if self.is_durable() {
            self.around.touched.note(parent);
        }
    }

    /// Records that temporary files are going to be made in a directory.
    pub(super) fn record(&mut self, parent: &Parent) {
        if self.recorded.len() >= MAX_RECORDED {
            self.commit_each();
            self.recorded.clear();
        }
        let state_dir = self.around.cx.var_dir();
        let key = (parent.stat.st_dev, parent.stat.st_ino);
        self.recorded.entry(key).or_insert_with(|| record(state_dir, &parent.fd));
    }

    /// Removes what dead runs left in a directory, once.
    pub(super) fn clean(&self, parent: &Parent) {
        let key = (parent.stat.st_dev, parent.stat.st_ino);
        let mut cleaned = self.around.cleaned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if cleaned.insert(key) && parent.readable {
            drop(cleaned);
            leftover::clean(&parent.fd);
        }
    }

    /// Lets a file take the place of `old` when everything pending is on disk.
    pub(super) fn await_turn(
        &mut self,
        index: usize,
        parent: &Rc<Parent>,
        leaf: &[u8],
        staged: Staged,
        old: Looked,
    ) -> Result<(), FileError> {
        let Staged { temporary, fd, not_kept } = staged;
        let path = || parent.join(leaf);
        if !not_kept.lost.is_empty() {
            self.tell(index, format!("{}: could not keep {}", path(), not_kept.lost.join(", ")));
        }
        if not_kept.capabilities {
            self.tell(index, format!("{}: the capabilities of the old content were not given to the new one", path()));
        }
        if self.is_durable() {
            self.barrier.add(parent.stat.st_dev, fd, parent.join(leaf))?;
        }
        let tree = old.kind == Kind::Directory;
        let armed = Some(old).filter(own::is_armed);
        if armed.is_some() || self.pending.last().is_none_or(|last| !Rc::ptr_eq(&last.parent, parent)) {
            self.held += 1;
        }
        self.pending.push(Pending { index, parent: Rc::clone(parent), leaf: leaf.to_vec(), temporary, tree, armed });
        if self.held >= HELD {
            self.commit_each();
        }
        Ok(())
    }

    /// The same where each failure is that of its own change only.
    fn commit_each(&mut self) {
        let _ = self.commit();
    }

    /// Flushes what is pending, then lets each take over.
    ///
    /// # Errors
    /// If something could not be flushed, such as a backup: its original must not go.
    pub(super) fn commit(&mut self) -> Result<(), FileError> {
        self.held = 0;
        let barrier = std::mem::take(&mut self.barrier);
        let flushed = barrier.wait();
        for pending in std::mem::take(&mut self.pending) {
            let index = pending.index;
            let result = flushed.clone().and_then(|()| {
                self.note(&pending.parent);
                pending.take_over()
            });
            if let Err(error) = result {
                self.fail(index, &error);
            }
        }
        flushed
    }
}

impl Pending {
    fn take_over(self) -> Result<(), FileError> {
        let Pending { parent, leaf, temporary, tree, armed, .. } = self;
        if tree {
            remove::tree(&parent.fd, &leaf, &parent.join(&leaf))?;
        }
        temporary.take_over(&leaf)?;
        armed.map_or(Ok(()), |old| disarm(&parent, &leaf, &old))
    }
}

/// Takes setuid and setgid from what was replaced or removed, if it lives on under another name.
pub(super) fn disarm(parent: &Parent, leaf: &[u8], old: &Looked) -> Result<(), FileError> {
    own::disarm(old)
        .map_err(|errno| FileError::io("take the setuid bits of what was replaced at", parent.join(leaf), errno))
}
