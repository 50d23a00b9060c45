//! Applies the differences found below a directory, and no others.

use std::rc::Rc;

use ecow::EcoString;
use kilter_model::{Difference, Value};
use rustc_hash::FxHashMap;
use rustix::fs::readlinkat;

use super::apply::FileBatch;
use super::copy::Source;
use super::entry;
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, LIST, Parent, READ};
use super::opened_path::{look_at, open_seen};
use super::remove;
use super::root::{ChangeTarget, Desired, adjust, change_to_goal};
use super::spec::{Checksum, Spec};
use super::stage::Data;

/// Brings the differing entries in sync, in sequence. A failure counts for the whole change but does not stop the
/// other entries.
pub(super) fn converge(
    batch: &mut FileBatch<'_>,
    index: usize,
    path: &str,
    spec: &Spec<'_>,
    differences: &[Difference],
) -> Result<(), FileError> {
    let of_entries = || differences.iter().filter(|difference| difference.entry.is_some());
    if of_entries().next().is_none() {
        return Ok(());
    }
    let source = match spec.source.filter(|_| spec.recurse) {
        Some(source) => Some(Parent::of(open::open_source(source, LIST)?, source, true)?),
        None => None,
    };
    let root = open::open_directory(path)?;
    let mut branches = Branches { index, spec, root, source, last: None, kept: None };
    if spec.backup.and_then(Value::as_bool) == Some(true) {
        branches.keep(batch, of_entries().filter(|one| is_removal(one)))?;
    }
    let mut done = None;
    for difference in of_entries() {
        // All differences of an entry are repaired at once.
        if done == difference.entry.as_ref() && !is_removal(difference) {
            continue;
        }
        done = difference.entry.as_ref();
        if let Err(error) = branches.one(batch, difference) {
            batch.fail(index, &error);
        }
    }
    Ok(())
}

fn is_removal(difference: &Difference) -> bool {
    difference.attribute == "ensure" && difference.should.as_str() == Some("absent")
}

struct Branches<'a> {
    index: usize,
    spec: &'a Spec<'a>,
    root: Parent,
    source: Option<Parent>,
    /// Directory of the previous entry, which is usually that of the next entry too.
    last: Option<(Vec<u8>, Rc<Parent>)>,
    /// Device and inode of the removed files that have a backup; none if they need no backup.
    kept: Option<FxHashMap<EcoString, (u64, u64)>>,
}

impl Branches<'_> {
    /// Backs up the files that will be removed. All their backups are flushed together.
    fn keep<'d>(
        &mut self,
        batch: &mut FileBatch<'_>,
        removals: impl Iterator<Item = &'d Difference>,
    ) -> Result<(), FileError> {
        let mut kept = FxHashMap::default();
        batch.begin_backups();
        for difference in removals {
            match self.keep_one(batch, difference) {
                Ok(id) => kept.extend(difference.entry.clone().zip(id)),
                Err(error) => batch.fail(self.index, &error),
            }
        }
        // Many directories need several commits.
        batch.complete_backups()?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Backs up a file. Returns its device and inode; none if it needs no backup.
    fn keep_one(&mut self, batch: &mut FileBatch<'_>, removal: &Difference) -> Result<Option<(u64, u64)>, FileError> {
        let text = removal.entry.as_deref().unwrap_or_default();
        let below = entry::bytes(text).ok_or_else(|| FileError::NotNormal(text.to_owned()))?;
        let (directory, leaf) = entry::split(&below);
        let parent = self.parent(directory)?;
        let old = look_at(&parent.fd, leaf, &parent.join(leaf))?;
        let Some(old) = old.filter(|old| old.kind == Kind::File) else { return Ok(None) };
        batch.keeper(self.index, &parent).keep(&parent, leaf, &old, &Value::Boolean(true))?;
        Ok(Some((old.stat.st_dev, old.stat.st_ino)))
    }

    /// Returns true if a removed entry needs no backup or has one. A failed backup has been reported.
    fn may_remove(&self, entry: &str, site: &ChangeTarget<'_>) -> Result<bool, FileError> {
        let (Some(kept), Some(old)) = (&self.kept, &site.old) else { return Ok(true) };
        match kept.get(entry) {
            _ if old.kind != Kind::File => Ok(true),
            Some(id) if *id == (old.stat.st_dev, old.stat.st_ino) => Ok(true),
            Some(_) => Err(FileError::Swapped(site.parent.join(site.leaf))),
            None => Ok(false),
        }
    }

    fn one(&mut self, batch: &mut FileBatch<'_>, difference: &Difference) -> Result<(), FileError> {
        let text = difference.entry.as_deref().unwrap_or_default();
        let below = entry::bytes(text).ok_or_else(|| FileError::NotNormal(text.to_owned()))?;
        let (directory, leaf) = entry::split(&below);
        let parent = self.parent(directory)?;
        let old = look_at(&parent.fd, leaf, &parent.join(leaf))?;
        let site = ChangeTarget { index: self.index, parent: &parent, leaf, spec: self.spec, old };
        if is_removal(difference) {
            return match self.may_remove(text, &site)? {
                true => purge(batch, &site),
                false => Ok(()),
            };
        }
        match &self.source {
            Some(source) => copy(batch, site, source, directory, difference),
            None => adjust(batch, &site, None),
        }
    }

    fn parent(&mut self, directory: &[u8]) -> Result<Rc<Parent>, FileError> {
        if let Some((known, parent)) = &self.last
            && known == directory
        {
            return Ok(Rc::clone(parent));
        }
        let what = if directory.is_empty() { self.root.path.clone() } else { self.root.join(directory) };
        let parent = Rc::new(open::open_below(&self.root, directory, &what)?);
        self.last = Some((directory.to_vec(), Rc::clone(&parent)));
        Ok(parent)
    }
}

/// Removes an entry. The entries of a directory have been removed before.
fn purge(batch: &mut FileBatch<'_>, site: &ChangeTarget<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    let path = site.parent.join(site.leaf);
    batch.note(site.parent);
    if old.kind == Kind::Directory {
        return remove::rmdir(&site.parent.fd, site.leaf).map_err(|errno| FileError::io("remove", path, errno));
    }
    remove::unlink(&site.parent.fd, site.leaf, &path)?;
    super::apply::clear_setid(site.parent, site.leaf, old)
}

/// Makes an entry equal to its counterpart in the source.
fn copy(
    batch: &mut FileBatch<'_>,
    site: ChangeTarget<'_>,
    source: &Parent,
    directory: &[u8],
    difference: &Difference,
) -> Result<(), FileError> {
    let path = format!("{}/{}", source.path, entry::text(&entry::join(directory, site.leaf)));
    let directory = open::open_below(source, directory, &path)?;
    let Some(wanted) = look_at(&directory.fd, site.leaf, &path)? else {
        return Err(FileError::io("read the source", path, rustix::io::Errno::NOENT));
    };
    let there = site.old.as_ref().map(|old| old.kind);
    match wanted.kind {
        Kind::File => {
            let fd = open_seen(&directory.fd, site.leaf, &path, &wanted.stat, READ)?;
            let source = Source::of(fd, path)?;
            // If the content did not differ, only owner or mode do.
            let renew = there != Some(Kind::File) || difference.attribute == "content";
            let data = Data::Copy(&source, site.spec.checksum == Checksum::Mtime, batch.around.cx.interrupt());
            change_to_goal(batch, site, &Desired::File(renew.then_some(data)), Some(&source))
        }
        Kind::Directory => {
            let fd = open_seen(&directory.fd, site.leaf, &path, &wanted.stat, LIST)?;
            change_to_goal(batch, site, &Desired::Directory, Some(&Source::of(fd, path)?))
        }
        Kind::Link => {
            let target =
                readlinkat(&wanted.fd, c"", Vec::new()).map_err(|errno| FileError::io("read the link", path, errno))?;
            change_to_goal(batch, site, &Desired::Link(target.as_bytes()), None)
        }
        is => Err(FileError::Source { path, is, hint: "it changed after the comparison of the trees" }),
    }
}
