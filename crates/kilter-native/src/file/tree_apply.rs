//! Applies the differences found below a directory, and no others.

use std::rc::Rc;

use kilter_model::Difference;
use rustix::fs::readlinkat;

use super::apply::Batch;
use super::copy::Source;
use super::entry;
use super::error::FileError;
use super::kind::Kind;
use super::look::{look_at, open_seen};
use super::open::{self, LIST, Parent, READ};
use super::remove;
use super::root::{Desired, Target, adjust, reach};
use super::spec::{Checksum, Spec};
use super::stage::Data;

/// Brings the differing entries in sync, in sequence. A failure counts for the whole change but does not stop the
/// other entries.
pub(super) fn bring(
    batch: &mut Batch<'_>,
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
    let mut branches = Branches { index, spec, root, source, last: None };
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
}

impl Branches<'_> {
    fn one(&mut self, batch: &mut Batch<'_>, difference: &Difference) -> Result<(), FileError> {
        let text = difference.entry.as_deref().unwrap_or_default();
        let below = entry::bytes(text).ok_or_else(|| FileError::NotNormal(text.to_owned()))?;
        let (directory, leaf) = entry::split(&below);
        let parent = self.parent(directory)?;
        let old = look_at(&parent.fd, leaf, &parent.join(leaf))?;
        let site = Target { index: self.index, parent: &parent, leaf, spec: self.spec, old };
        if is_removal(difference) {
            return purge(batch, &site);
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
fn purge(batch: &mut Batch<'_>, site: &Target<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    let path = site.parent.join(site.leaf);
    batch.note(site.parent);
    if old.kind == Kind::Directory {
        return remove::rmdir(&site.parent.fd, site.leaf).map_err(|errno| FileError::io("remove", path, errno));
    }
    if let Some(backup) = site.spec.backup.filter(|backup| backup.as_bool() == Some(true)) {
        batch.keeper(site.parent).keep(site.parent, site.leaf, old, backup)?;
        batch.commit()?;
    }
    remove::unlink(&site.parent.fd, site.leaf, &path)?;
    super::apply::disarm(site.parent, site.leaf, old)
}

/// Makes an entry equal to its counterpart in the source.
fn copy(
    batch: &mut Batch<'_>,
    site: Target<'_>,
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
            reach(batch, site, &Desired::File(renew.then_some(data)), Some(&source))
        }
        Kind::Directory => {
            let fd = open_seen(&directory.fd, site.leaf, &path, &wanted.stat, LIST)?;
            reach(batch, site, &Desired::Directory, Some(&Source::of(fd, path)?))
        }
        Kind::Link => {
            let target =
                readlinkat(&wanted.fd, c"", Vec::new()).map_err(|errno| FileError::io("read the link", path, errno))?;
            reach(batch, site, &Desired::Link(target.as_bytes()), None)
        }
        is => Err(FileError::Source { path, is, hint: "it changed after the comparison of the trees" }),
    }
}
