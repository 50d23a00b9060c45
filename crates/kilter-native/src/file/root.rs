//! Brings a declared path in sync.

use std::rc::Rc;

use kilter_model::Change;
use rustix::fs::{Stat, symlinkat};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, FinalOwnership, XattrChange, Xattrs, manages_access, own_bits, without_list};
use super::apply::{FileBatch, clear_setid};
use super::copy::Source;
use super::error::FileError;
use super::kind::Kind;
use super::mode;
use super::open::{self, Parent};
use super::opened_path::{OpenedPath, look_at};
use super::ownership::{self, Ownership, settle};
use super::spec::{Checksum, Ensure, Spec};
use super::stage::{Data, Temporary, create, stage};
use super::staging_dir::StagingDir;
use super::validate_cmd::{self, ReportedPart};
use super::{remove, secret, tree_apply, tree_diff};

/// Location of a change.
pub(super) struct ChangeTarget<'a> {
    /// Index of the change.
    pub(super) index: usize,
    pub(super) parent: &'a Rc<Parent>,
    pub(super) leaf: &'a [u8],
    /// Desired state.
    pub(super) spec: &'a Spec<'a>,
    /// Present file; none if there is none.
    pub(super) old: Option<OpenedPath>,
}

/// Desired result at a path.
pub(super) enum Desired<'a> {
    /// A file with this content, or with any content.
    File(Option<Data<'a>>),
    Directory,
    /// A link with this target.
    Link(&'a [u8]),
}

impl Desired<'_> {
    fn kind(&self) -> Kind {
        match self {
            Desired::File(_) => Kind::File,
            Desired::Directory => Kind::Directory,
            Desired::Link(_) => Kind::Link,
        }
    }
}

/// Brings a declared path in sync.
pub(super) fn apply(
    batch: &mut FileBatch<'_>,
    index: usize,
    change: &Change<'_>,
    path: &str,
    spec: &Spec<'_>,
) -> Result<(), FileError> {
    let parent = match batch.parent(path) {
        Err(error) if error.is_missing() && spec.ensure == Ensure::Absent => return Ok(()),
        other => other?,
    };
    let leaf = open::split(path).1.as_bytes();
    batch.clean(&parent);
    let old = if change.is.exists { look_at(&parent.fd, leaf, path)? } else { None };
    let site = ChangeTarget { index, parent: &parent, leaf, spec, old };
    match spec.ensure {
        Ensure::Absent => return absent(batch, site),
        Ensure::Present => match site.old.as_ref().map(|old| old.kind) {
            None => change_to_goal(batch, site, &Desired::File(None), None)?,
            Some(_) => adjust(batch, &site, None)?,
        },
        Ensure::Is(Kind::Link) => {
            let target = spec.target.and_then(|target| target.as_bytes()).unwrap_or_default();
            change_to_goal(batch, site, &Desired::Link(target), None)?;
        }
        Ensure::Is(Kind::Directory) => {
            let source =
                spec.source.filter(|_| spec.recurse).map(|source| Source::open_tree(source, path)).transpose()?;
            change_to_goal(batch, site, &Desired::Directory, source.as_ref())?;
        }
        Ensure::Is(_) => file(batch, site, change)?,
    }
    if spec.has_tree() {
        let fresh;
        let differences = if differs(change, "ensure") || !change.is.exists {
            let there = look_at(&parent.fd, leaf, path)?;
            fresh = tree_diff::differences(batch.around.cx, batch.around.accounts, change.name, path, spec, there)?;
            &fresh[..]
        } else {
            change.differences
        };
        tree_apply::converge(batch, index, path, spec, differences)?;
    }
    Ok(())
}

/// Returns true if an attribute of the path itself differs.
fn differs(change: &Change<'_>, attribute: &str) -> bool {
    change.differences.iter().any(|difference| difference.entry.is_none() && difference.attribute == attribute)
}

fn file(batch: &mut FileBatch<'_>, site: ChangeTarget<'_>, change: &Change<'_>) -> Result<(), FileError> {
    let spec = site.spec;
    let is_file = site.old.as_ref().is_some_and(|old| old.kind == Kind::File);
    let source = spec.source.map(Source::open_file).transpose()?;
    let renew = !is_file || differs(change, "content");
    let downloaded = match &spec.download {
        Some(download) if renew => {
            Some(download.source(batch.around.cx, spec.checksum, &site.parent.join(site.leaf), &site.parent.fd)?)
        }
        _ => None,
    };
    let data = match (source.as_ref().or(downloaded.as_ref()), spec.content) {
        (Some(source), _) => Some(Data::Copy(source, spec.checksum == Checksum::Mtime, batch.around.cx.interrupt())),
        (None, Some(content)) => Some(Data::Bytes(content.as_bytes().unwrap_or_default())),
        (None, None) => None,
    };
    change_to_goal(batch, site, &Desired::File(data.filter(|_| renew)), source.as_ref())
}

/// Changes the present file to the goal.
pub(super) fn change_to_goal(
    batch: &mut FileBatch<'_>,
    site: ChangeTarget<'_>,
    goal: &Desired<'_>,
    source: Option<&Source>,
) -> Result<(), FileError> {
    allow(&site, goal)?;
    match goal {
        Desired::File(data) => match (&site.old, data) {
            (Some(old), None) if old.kind == Kind::File => adjust(batch, &site, source),
            (_, data) => write(batch, site, data.as_ref().unwrap_or(&Data::Bytes(b"")), source),
        },
        Desired::Directory => match &site.old {
            Some(old) if old.kind == Kind::Directory => adjust(batch, &site, source),
            _ => make_directory(batch, &site, source),
        },
        Desired::Link(target) => link(batch, &site, target),
    }
}

/// Refuses to replace certain kinds of files without `force`.
fn allow(site: &ChangeTarget<'_>, goal: &Desired<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    if old.kind != goal.kind() && needs_force(old.kind) && !site.spec.force {
        return Err(FileError::NeedsForce { path: site.parent.join(site.leaf), is: old.kind, what: "replace" });
    }
    Ok(())
}

/// Returns true if replacing a file of this kind by another kind requires `force`.
pub(super) fn needs_force(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::Block | Kind::Char)
}

/// Returns the desired owner, group and mode. The mode is relative to `current`, without the setuid bits of another
/// owner than that of `old`.
pub(super) fn ownership(
    batch: &FileBatch<'_>,
    spec: &Spec<'_>,
    kind: Kind,
    current: u32,
    old: Option<&Stat>,
    source: Option<&Source>,
) -> Result<Ownership, FileError> {
    let accounts = batch.around.accounts;
    let find = |declared: Option<&kilter_model::Value>, kind, id: &dyn Fn(&str) -> Option<u32>| {
        let Some(name) = declared.and_then(kilter_model::Value::to_text) else { return Ok(None) };
        id(&name).map(Some).ok_or_else(|| FileError::NoAccount { kind, name: name.into() })
    };
    let uid = find(spec.owner, "user", &|name| accounts.uid(name))?;
    let gid = find(spec.group, "group", &|name| accounts.gid(name))?;
    let mut wanted = Ownership { uid, gid, ..Ownership::default() };
    let moves = old.is_some_and(|old| wanted.moves(old));
    let current = if moves { mode::disarmed(current, kind) } else { current };
    wanted.bits = tree_diff::wanted_bits(spec, kind, current, source.map(|source| &source.stat));
    Ok(wanted)
}

/// Changes owner, group and mode of the present file.
pub(super) fn adjust(batch: &FileBatch<'_>, site: &ChangeTarget<'_>, source: Option<&Source>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    let mut wanted = ownership(batch, site.spec, old.kind, old.stat.st_mode, Some(&old.stat), source)?;
    let policy = AclPolicy::of(site.spec, batch.around.accounts)?;
    if manages_access(site.spec, old.kind) {
        let (current, _) = bits_of(old, site.spec, &policy, &site.parent.join(site.leaf))?;
        let moves = wanted.moves(&old.stat);
        wanted = ownership(batch, site.spec, old.kind, current, Some(&old.stat), source)?;
        wanted.bits = wanted.bits.or(Some(if moves { mode::disarmed(current, old.kind) } else { current }));
        wanted = wanted.masked(site.spec, old.kind);
    } else if matches!(site.spec.mode(), Some(mode::DeclaredMode::Symbolic(_))) && source.is_none() {
        let (current, _) = bits_of(old, site.spec, &policy, &site.parent.join(site.leaf))?;
        let bits_with_list = wanted.bits;
        wanted = ownership(batch, site.spec, old.kind, current, Some(&old.stat), source)?;
        wanted.bits_with_list = bits_with_list;
    }
    if settle(site.parent, site.leaf, old, wanted, &policy)? {
        batch.note(site.parent);
    }
    Ok(())
}

fn write(
    batch: &mut FileBatch<'_>,
    site: ChangeTarget<'_>,
    data: &Data<'_>,
    source: Option<&Source>,
) -> Result<(), FileError> {
    let ChangeTarget { index, parent, leaf, spec, old } = site;
    batch.clean(parent);
    let kept = old.as_ref().filter(|old| old.kind == Kind::File);
    let is_secret = spec.content.is_some_and(kilter_model::Value::holds_sensitive);
    let new = if is_secret { 0o600 } else { 0o644 };
    let (current, policy) = match kept {
        Some(old) => {
            let policy = AclPolicy::of(spec, batch.around.accounts)?;
            let (current, is_foreign) = bits_of(old, spec, &policy, &parent.join(leaf))?;
            // With the lower mask of the new mode, the list would no longer be foreign.
            (current, if is_foreign { AclPolicy::NONE } else { policy })
        }
        None => (new, AclPolicy::for_new(spec, batch.around.accounts)?),
    };
    let mut wanted = ownership(batch, spec, Kind::File, current, kept.map(|kept| &kept.stat), source)?;
    // A new owner gets the setuid bits of the old owner only if they are declared.
    let moves = kept.is_some_and(|kept| wanted.moves(&kept.stat));
    wanted.bits = wanted.bits.or(Some(if moves { mode::disarmed(current, Kind::File) } else { current }));
    wanted = wanted.masked(spec, Kind::File);
    if let Some(kept) = kept {
        wanted.uid = wanted.uid.or(Some(kept.stat.st_uid));
        wanted.gid = wanted.gid.or(Some(kept.stat.st_gid));
    }
    if old.is_none() && spec.validate_cmd.is_none() && create(parent, leaf, data, wanted, &policy)? {
        batch.note(parent);
        return Ok(());
    }
    batch.record(parent);
    let staged = stage(parent, leaf, data, wanted, kept, &policy)?;
    if let Some(command) = spec.validate_cmd {
        let secret = command.holds_sensitive()
            || is_secret
            || source.is_some_and(|source| secret::is_declared(batch.around.cx, source.path()));
        let told = if secret { ReportedPart::Ending } else { ReportedPart::Output };
        validate_cmd::accept(batch.around.cx, command, &staged.temporary.path(), &parent.join(leaf), told)?;
    }
    match old {
        None => {
            staged.temporary.become_new(leaf)?;
            batch.note(parent);
            Ok(())
        }
        Some(old) => {
            if let Some(backup) = spec.backup {
                batch.keeper(index, parent).keep(parent, leaf, &old, backup)?;
            }
            batch.await_turn(index, parent, leaf, staged, old)
        }
    }
}

/// Returns the present mode without permissions that come only from the mask of an access list that will be dropped
/// or set, and true if the list is foreign.
fn bits_of(old: &OpenedPath, spec: &Spec<'_>, policy: &AclPolicy, path: &str) -> Result<(u32, bool), FileError> {
    let bits = old.stat.st_mode & mode::ALL;
    // A numeric mode does not depend on the present mode.
    if matches!(spec.mode(), Some(mode::DeclaredMode::Exact(_))) {
        return Ok((bits, false));
    }
    if manages_access(spec, old.kind) {
        let own = own_bits(old).map_err(|errno| FileError::io("read the access list of", path, errno))?;
        return Ok((own, false));
    }
    let with_list = spec.bits(bits, old.kind).unwrap_or(bits);
    let after = FinalOwnership::new(old.stat.st_uid, old.stat.st_gid, with_list);
    let changes = policy.changes(&Xattrs::of(old), old.kind, after);
    let changes = changes.map_err(|errno| FileError::io("read the access list of", path, errno))?;
    let is_removed = |change: &XattrChange| matches!(change, XattrChange::RemoveAccess { .. });
    let is_foreign = *policy == AclPolicy::NoForeign && changes.iter().any(is_removed);
    Ok((without_list(&changes, bits), is_foreign))
}

fn make_directory(
    batch: &mut FileBatch<'_>,
    site: &ChangeTarget<'_>,
    source: Option<&Source>,
) -> Result<(), FileError> {
    let (parent, leaf) = (site.parent, site.leaf);
    // Fails before the removal if the owner does not exist.
    ownership(batch, site.spec, Kind::Directory, 0, None, source)?;
    clear(batch, site)?;
    batch.record(parent);
    let private = StagingDir::new(parent, leaf)?;
    let made = private.make()?;
    // A directory inherits the setgid bit of its parent.
    let current = 0o755 | made.stat.st_mode & 0o2000;
    let mut wanted = ownership(batch, site.spec, Kind::Directory, current, None, source)?;
    wanted.bits = wanted.bits.or(Some(current));
    wanted = wanted.masked(site.spec, Kind::Directory);
    batch.note(parent);
    let policy = AclPolicy::for_new(site.spec, batch.around.accounts)?;
    private.place(&made, wanted, &policy)
}

fn link(batch: &mut FileBatch<'_>, site: &ChangeTarget<'_>, target: &[u8]) -> Result<(), FileError> {
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
    let wanted = ownership(batch, site.spec, Kind::Link, 0, None, None)?;
    batch.record(parent);
    let temporary = Temporary::new(parent);
    symlinkat(target, &parent.fd, temporary.name())
        .map_err(|errno| FileError::io("create a link beside", &path, errno))?;
    // The old owner stays, as with a file.
    let kept = old.filter(|old| old.kind == Kind::Link);
    let uid = wanted.uid.or(kept.map(|old| old.stat.st_uid)).filter(|uid| *uid != rustix::process::geteuid().as_raw());
    let gid = wanted.gid.or(kept.map(|old| old.stat.st_gid)).filter(|gid| *gid != rustix::process::getegid().as_raw());
    if uid.is_some() || gid.is_some() {
        give(parent, temporary.name(), uid, gid, &path)?;
    }
    batch.note(parent);
    let Some(old) = old else { return temporary.become_new(leaf) };
    if let Some(backup) = site.spec.backup {
        batch.keeper(site.index, parent).keep(parent, leaf, old, backup)?;
        batch.commit()?;
    }
    if old.kind == Kind::Directory {
        remove::tree(&parent.fd, leaf, &path)?;
    }
    temporary.replace(leaf)?;
    clear_setid(parent, leaf, old)
}

/// Sets the owner of a new link. A user with write access to the directory can replace the link, so the descriptor
/// of the examined link is used.
fn give(parent: &Parent, name: &str, uid: Option<u32>, gid: Option<u32>, path: &str) -> Result<(), FileError> {
    let made = look_at(&parent.fd, name.as_bytes(), path)?.filter(|made| {
        let own = rustix::process::geteuid().as_raw();
        made.kind == Kind::Link && made.stat.st_uid == own && made.stat.st_nlink == 1
    });
    let made = made.ok_or_else(|| FileError::Swapped(path.to_owned()))?;
    ownership::chown(&made.fd, uid, gid).map_err(|errno| FileError::io("set the owner of", path, errno))
}

/// Backs up and removes the present file, to make room for a directory.
fn clear(batch: &mut FileBatch<'_>, site: &ChangeTarget<'_>) -> Result<(), FileError> {
    let Some(old) = &site.old else { return Ok(()) };
    if let Some(backup) = site.spec.backup {
        batch.keeper(site.index, site.parent).keep(site.parent, site.leaf, old, backup)?;
        batch.commit()?;
    }
    remove::unlink(&site.parent.fd, site.leaf, &site.parent.join(site.leaf))?;
    batch.note(site.parent);
    clear_setid(site.parent, site.leaf, old)
}

/// Removes the present file.
pub(super) fn absent(batch: &mut FileBatch<'_>, site: ChangeTarget<'_>) -> Result<(), FileError> {
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
                batch.keeper(site.index, parent).keep(parent, leaf, old, backup)?;
                batch.commit()?;
            }
            remove::tree(&parent.fd, leaf, &path)
        }
        Err(errno) => Err(FileError::io("remove", path, errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_new_link_keeps_its_owner() {
        let home = tempfile::tempdir().unwrap();
        let parent = open::open_directory(home.path().to_str().unwrap()).unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", home.path().join("twice")).unwrap();
        std::fs::hard_link(home.path().join("twice"), home.path().join("again")).unwrap();
        std::os::unix::fs::symlink("file", home.path().join("link")).unwrap();
        let own = Some(rustix::process::geteuid().as_raw());
        for name in ["file", "twice", "gone"] {
            let given = give(&parent, name, own, None, "x");
            assert!(matches!(given, Err(FileError::Swapped(_))), "{name}: {given:?}");
        }
        give(&parent, "link", own, None, "x").unwrap();
    }
}
