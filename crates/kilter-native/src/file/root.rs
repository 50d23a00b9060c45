//! Bringing one declared path to its state.

use std::rc::Rc;

use kilter_model::Change;
use rustix::fs::{AtFlags, Mode, chownat, mkdirat, openat, symlinkat};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;

use super::apply::{Batch, disarm};
use super::copy::Source;
use super::error::FileError;
use super::kind::Kind;
use super::look::{Looked, look_at};
use super::mode;
use super::own::{Ownership, settle};
use super::place::{self, LIST, Parent};
use super::spec::{Checksum, Ensure, Spec};
use super::stage::{Data, Temporary, stage};
use super::{accept, branches, remove, tree};

/// Where something is to be brought to its state.
pub(super) struct Site<'a> {
    /// The change that it is part of.
    pub(super) index: usize,
    pub(super) parent: &'a Rc<Parent>,
    pub(super) leaf: &'a [u8],
    /// What is wanted.
    pub(super) spec: &'a Spec<'a>,
    /// What was found to be there; None when it was found absent.
    pub(super) old: Option<Looked>,
}

/// What a path becomes.
pub(super) enum Goal<'a> {
    /// A file with this content, or with any.
    File(Option<Data<'a>>),
    /// A directory.
    Directory,
    /// A link to this target.
    Link(&'a [u8]),
}

impl Goal<'_> {
    fn kind(&self) -> Kind {
        match self {
            Goal::File(_) => Kind::File,
            Goal::Directory => Kind::Directory,
            Goal::Link(_) => Kind::Link,
        }
    }
}

/// Brings a declared path to its state.
pub(super) fn bring(
    batch: &mut Batch<'_>,
    index: usize,
    change: &Change<'_>,
    path: &str,
    spec: &Spec<'_>,
) -> Result<(), FileError> {
    let parent = match batch.parent(path) {
        Err(error) if error.is_missing() && spec.ensure == Ensure::Absent => return Ok(()),
        other => other?,
    };
    let leaf = place::split(path).1.as_bytes();
    batch.clean(&parent);
    let old = if change.is.exists { look_at(&parent.fd, leaf, path)? } else { None };
    let site = Site { index, parent: &parent, leaf, spec, old };
    match spec.ensure {
        Ensure::Absent => return absent(batch, site),
        Ensure::Present => match site.old.as_ref().map(|old| old.kind) {
            None => reach(batch, site, &Goal::File(None), None)?,
            Some(_) => adjust(batch, &site, None)?,
        },
        Ensure::Is(Kind::Link) => {
            let target = spec.target.and_then(|target| target.as_bytes()).unwrap_or_default();
            reach(batch, site, &Goal::Link(target), None)?;
        }
        Ensure::Is(Kind::Directory) => {
            let source = spec.source.filter(|_| spec.recurse).map(Source::open_tree).transpose()?;
            reach(batch, site, &Goal::Directory, source.as_ref())?;
        }
        Ensure::Is(_) => file(batch, site, change)?,
    }
    if spec.has_tree() {
        let fresh;
        let differences = if differs(change, "ensure") || !change.is.exists {
            let there = look_at(&parent.fd, leaf, path)?;
            fresh = tree::differences(batch.around.cx, batch.around.accounts, path, spec, there)?;
            &fresh[..]
        } else {
            change.differences
        };
        branches::bring(batch, index, path, spec, differences)?;
    }
    Ok(())
}

/// Whether an attribute of the path itself differs.
fn differs(change: &Change<'_>, attribute: &str) -> bool {
    change.differences.iter().any(|difference| difference.entry.is_none() && difference.attribute == attribute)
}

fn file(batch: &mut Batch<'_>, site: Site<'_>, change: &Change<'_>) -> Result<(), FileError> {
    let spec = site.spec;
    let is_file = site.old.as_ref().is_some_and(|old| old.kind == Kind::File);
    let source = spec.source.map(Source::open_file).transpose()?;
    let renew = !is_file || differs(change, "content");
    let data = match (&source, spec.content) {
        (Some(source), _) => Some(Data::Copy(source, spec.checksum == Checksum::Mtime)),
        (None, Some(content)) => Some(Data::Bytes(content.as_bytes().unwrap_or_default())),
        (None, None) => None,
    };
    reach(batch, site, &Goal::File(data.filter(|_| renew)), source.as_ref())
}

/// Makes the goal of what is there.
pub(super) fn reach(
    batch: &mut Batch<'_>,
    site: Site<'_>,
    goal: &Goal<'_>,
    source: Option<&Source>,
) -> Result<(), FileError> {
    allow(&site, goal)?;
    match goal {
        Goal::File(data) => match (&site.old, data) {
            (Some(old), None) if old.kind == Kind::File => adjust(batch, &site, source),
            (_, data) => write(batch, site, data.as_ref().unwrap_or(&Data::Bytes(b"")), source),
        },
        Goal::Directory => match &site.old {
            Some(old) if old.kind == Kind::Directory => adjust(batch, &site, source),
            _ => make_directory(batch, &site, source),
        },
        Goal::Link(target) => link(batch, &site, target),
    }
}

/// What may not be given up without being asked.
fn allow(site: &Site<'_>, goal: &Goal<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    if old.kind != goal.kind() && needs_force(old.kind) && !site.spec.force {
        return Err(FileError::NeedsForce { path: site.parent.join(site.leaf), is: old.kind, what: "replace" });
    }
    Ok(())
}

/// Whether something of this kind is replaced by something else only with `force`.
pub(super) fn needs_force(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::Block | Kind::Char)
}

/// The owner, group and mode that are wanted; of the mode, what it makes of `current`.
pub(super) fn ownership(
    batch: &Batch<'_>,
    spec: &Spec<'_>,
    kind: Kind,
    current: u32,
    source: Option<&Source>,
) -> Result<Ownership, FileError> {
    let accounts = batch.around.accounts;
    let find = |declared: Option<&kilter_model::Value>, kind, id: &dyn Fn(&str) -> Option<u32>| {
        let Some(name) = declared.and_then(|declared| declared.as_str()) else { return Ok(None) };
        id(name).map(Some).ok_or_else(|| FileError::NoAccount { kind, name: name.to_owned() })
    };
    Ok(Ownership {
        uid: find(spec.owner, "user", &|name| accounts.uid(name))?,
        gid: find(spec.group, "group", &|name| accounts.gid(name))?,
        bits: tree::wanted_bits(spec, kind, current, source.map(|source| &source.stat)),
    })
}

/// Changes the owner, group and mode of what is there.
pub(super) fn adjust(batch: &Batch<'_>, site: &Site<'_>, source: Option<&Source>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    let wanted = ownership(batch, site.spec, old.kind, old.stat.st_mode, source)?;
    if settle(site.parent, site.leaf, old, wanted)? {
        batch.note(site.parent);
    }
    Ok(())
}

fn write(batch: &mut Batch<'_>, site: Site<'_>, data: &Data<'_>, source: Option<&Source>) -> Result<(), FileError> {
    let Site { index, parent, leaf, spec, old } = site;
    batch.clean(parent);
    let kept = old.as_ref().filter(|old| old.kind == Kind::File);
    let current = kept.map_or(0o644, |old| old.stat.st_mode & mode::ALL);
    let mut wanted = ownership(batch, spec, Kind::File, current, source)?;
    wanted.bits = wanted.bits.or(Some(current));
    if let Some(kept) = kept {
        // A new owner gets the setuid bits of the old one only if they were declared.
        if spec.mode.is_none() && wanted.uid.is_some_and(|uid| uid != kept.stat.st_uid) {
            wanted.bits = wanted.bits.map(|bits| bits & !mode::SET_ID);
        }
        wanted.uid = wanted.uid.or(Some(kept.stat.st_uid));
        wanted.gid = wanted.gid.or(Some(kept.stat.st_gid));
    }
    let staged = stage(parent, leaf, data, wanted, kept)?;
    if let Some(command) = spec.validate_cmd {
        accept::accept(batch.around.cx, command, &staged.temporary.path(), &parent.join(leaf))?;
    }
    match old {
        None => {
            staged.temporary.become_new(leaf)?;
            batch.note(parent);
            Ok(())
        }
        Some(old) => {
            if let Some(backup) = spec.backup {
                batch.keeper().keep(parent, leaf, &old, backup)?;
            }
            batch.await_turn(index, parent, leaf, staged, old)
        }
    }
}

fn make_directory(batch: &mut Batch<'_>, site: &Site<'_>, source: Option<&Source>) -> Result<(), FileError> {
    let (parent, leaf) = (site.parent, site.leaf);
    let path = parent.join(leaf);
    // Nothing is removed for an owner that does not exist.
    ownership(batch, site.spec, Kind::Directory, 0, source)?;
    clear(batch, site)?;
    match mkdirat(&parent.fd, leaf, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(FileError::Appeared(path)),
        Err(errno) => return Err(FileError::io("create the directory", path, errno)),
    }
    batch.note(parent);
    let failed = |errno| FileError::io("open the new directory", path.clone(), errno);
    let fd = openat(&parent.fd, leaf, LIST, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&fd).map_err(failed)?;
    // Whoever can write in the directory above could have put another one in its place.
    if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o777 != 0o700 {
        return Err(FileError::Swapped(path));
    }
    // A directory in one with the setgid bit inherits it.
    let current = 0o755 | stat.st_mode & 0o2000;
    let mut wanted = ownership(batch, site.spec, Kind::Directory, current, source)?;
    wanted.bits = wanted.bits.or(Some(current));
    let looked = Looked { fd, stat, kind: Kind::Directory, readable: true };
    settle(parent, leaf, &looked, wanted)?;
    Ok(())
}

fn link(batch: &mut Batch<'_>, site: &Site<'_>, target: &[u8]) -> Result<(), FileError> {
    let (parent, leaf) = (site.parent, site.leaf);
    let path = parent.join(leaf);
    let old = site.old.as_ref();
    if let Some(old) = old.filter(|old| old.kind == Kind::Link) {
        let is = rustix::fs::readlinkat(&old.fd, c"", Vec::new())
            .map_err(|errno| FileError::io("read the link", &path, errno))?;
        if is.as_bytes() == target || !site.spec.replace {
            return adjust(batch, site, None);
        }
    }
    batch.clean(parent);
    let wanted = ownership(batch, site.spec, Kind::Link, 0, None)?;
    let temporary = Temporary::new(parent);
    symlinkat(target, &parent.fd, temporary.name())
        .map_err(|errno| FileError::io("create a link beside", &path, errno))?;
    // The old owner stays, as with a file.
    let kept = old.filter(|old| old.kind == Kind::Link);
    let uid = wanted.uid.or(kept.map(|old| old.stat.st_uid)).filter(|uid| *uid != rustix::process::geteuid().as_raw());
    let gid = wanted.gid.or(kept.map(|old| old.stat.st_gid)).filter(|gid| *gid != rustix::process::getegid().as_raw());
    if uid.is_some() || gid.is_some() {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        chownat(&parent.fd, temporary.name(), uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| FileError::io("set the owner of", &path, errno))?;
    }
    batch.note(parent);
    let Some(old) = old else { return temporary.become_new(leaf) };
    if let Some(backup) = site.spec.backup {
        batch.keeper().keep(parent, leaf, old, backup)?;
    }
    if old.kind == Kind::Directory {
        remove::tree(&parent.fd, leaf, &path)?;
    }
    temporary.take_over(leaf)?;
    disarm(parent, leaf, old)
}

/// Removes what is there, after keeping it, to make room for a directory.
fn clear(batch: &mut Batch<'_>, site: &Site<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    if let Some(backup) = site.spec.backup {
        batch.keeper().keep(site.parent, site.leaf, old, backup)?;
        batch.commit();
    }
    remove::unlink(&site.parent.fd, site.leaf, &site.parent.join(site.leaf))?;
    batch.note(site.parent);
    disarm(site.parent, site.leaf, old)
}

/// Removes what is there.
pub(super) fn absent(batch: &mut Batch<'_>, site: Site<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    let (parent, leaf) = (site.parent, site.leaf);
    let path = parent.join(leaf);
    if old.kind != Kind::Directory {
        return clear(batch, &site);
    }
    batch.note(parent);
    match remove::rmdir(&parent.fd, leaf) {
        Ok(()) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) if !site.spec.force => {
            Err(FileError::NeedsForce { path, is: Kind::Directory, what: "remove what is in" })
        }
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            if let Some(backup) = site.spec.backup {
                batch.keeper().keep(parent, leaf, old, backup)?;
                batch.commit();
            }
            remove::tree(&parent.fd, leaf, &path)
        }
        Err(errno) => Err(FileError::io("remove", path, errno)),
    }
}
