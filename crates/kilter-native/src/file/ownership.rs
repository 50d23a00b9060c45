//! Changes owner, group and mode of existing files.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Stat, Uid, chmodat, chownat, fchmod};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, FinalOwnership, XattrChange, Xattrs, manages_access, with_mask, without_list};
use super::error::FileError;
use super::kind::Kind;
use super::mode::{ALL, SET_ID, disarmed};
use super::open::{Parent, READ};
use super::opened_path::{OpenedPath, open_seen};
use super::spec::Spec;

/// Desired owner, group and mode; none for any value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ownership {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) bits: Option<u32>,
    /// Bits to compare the access list with, if they differ from the desired bits: the mode that the file would have
    /// with the list.
    pub(super) bits_with_list: Option<u32>,
    /// Permissions of the owning group, if the group digit of `bits` is the mask of a managed list.
    pub(super) group_permissions: Option<u32>,
}

impl Ownership {
    /// Turns the bits without a list into those that the file shows with its managed entries.
    pub(super) fn masked(mut self, spec: &Spec<'_>, kind: Kind) -> Ownership {
        if let Some(bits) = self.bits.filter(|_| manages_access(spec, kind)) {
            self.group_permissions = Some(bits >> 3 & 7);
            self.bits = Some(with_mask(spec, bits, kind));
        }
        self
    }

    /// Returns true if the owner or the group changes.
    pub(super) fn moves(&self, is: &Stat) -> bool {
        self.uid.is_some_and(|uid| uid != is.st_uid) || self.gid.is_some_and(|gid| gid != is.st_gid)
    }
}

/// Sets owner, group and mode of an examined file.
///
/// In between, the file has only the permissions that both the old and the new mode grant, and no setuid bits. It is
/// never more open than before or after.
///
/// The access list is changed after the owner, because the old owner could set it again. Without a list, the mask of
/// the list becomes the permissions of the group, so it is narrowed first.
pub(super) fn settle(
    parent: &Parent,
    leaf: &[u8],
    looked: &OpenedPath,
    wanted: Ownership,
    policy: &AclPolicy,
) -> Result<bool, FileError> {
    let path = parent.join(leaf);
    let uid = wanted.uid.filter(|uid| *uid != looked.stat.st_uid);
    let gid = wanted.gid.filter(|gid| *gid != looked.stat.st_gid);
    let current = looked.stat.st_mode & ALL;
    let bits = wanted.bits.filter(|_| looked.kind != Kind::Link);
    let owner_changes = wanted.moves(&looked.stat);
    // The system would keep the setgid bit of a file that its group cannot execute.
    let bits = match bits {
        None if owner_changes && has_setid(looked) => Some(disarmed(current, looked.kind)),
        bits => bits,
    };
    let shown = wanted.bits_with_list.or(bits).unwrap_or(current);
    let after = FinalOwnership {
        uid: uid.unwrap_or(looked.stat.st_uid),
        gid: gid.unwrap_or(looked.stat.st_gid),
        bits: shown,
        group: wanted.group_permissions.unwrap_or(shown >> 3 & 7),
    };
    let mut lists = list_changes(looked, policy, after, &path)?;
    if !owner_changes && bits.is_none_or(|bits| bits == current) && lists.is_empty() {
        return Ok(false);
    }
    refuse_shared(parent, &path, looked, current, bits)?;
    let place = OwnedPath { parent, leaf, looked, path: &path };
    if owner_changes {
        if let Some(bits) = bits
            && current & bits & !SET_ID != current
        {
            place.chmod(current & bits & !SET_ID)?;
        }
        chown(&looked.fd, uid, gid).map_err(|errno| FileError::io("change the owner of", &path, errno))?;
        lists = list_changes(looked, policy, after, &path)?;
    }
    let left = without_list(&lists, current);
    let is_narrowed = lists.iter().any(|change| matches!(change, XattrChange::RemoveAccess { .. }));
    if is_narrowed {
        let kept = if owner_changes { left & !SET_ID } else { left };
        place.chmod(kept & bits.unwrap_or(left))?;
    }
    Xattrs::of(looked).apply_all(&lists).map_err(|errno| FileError::io("change the access list of", &path, errno))?;
    if let Some(bits) = bits.or((is_narrowed || left != current).then_some(left)) {
        place.chmod(bits)?;
    }
    Ok(true)
}

fn list_changes(
    looked: &OpenedPath,
    policy: &AclPolicy,
    after: FinalOwnership,
    path: &str,
) -> Result<Vec<XattrChange>, FileError> {
    let changes = policy.changes(&Xattrs::of(looked), looked.kind, after);
    changes.map_err(|errno| FileError::io("read the access list of", path, errno))
}

/// Refuses a file with several hard links: any user with write access to a directory can link a foreign file there.
fn refuse_shared(
    parent: &Parent,
    path: &str,
    looked: &OpenedPath,
    current: u32,
    bits: Option<u32>,
) -> Result<(), FileError> {
    let links = looked.stat.st_nlink;
    if looked.kind == Kind::Directory || links < 2 {
        return Ok(());
    }
    let shared = |why| FileError::Shared { path: path.to_owned(), links: links.to_string(), why };
    if parent.is_shared() {
        return Err(shared("others can write in its directory and may have linked a foreign file there"));
    }
    if bits.is_some_and(|bits| bits & SET_ID & !current != 0) {
        return Err(shared("setuid and setgid would reach its other names"));
    }
    Ok(())
}

/// Changes the owner of exactly the file of a descriptor, which may be a link.
pub(super) fn chown(fd: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    chownat(fd, c"", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)
}

/// Returns true if a file has setuid or setgid bits.
pub(super) fn has_setid(old: &OpenedPath) -> bool {
    old.kind == Kind::File && old.stat.st_mode & SET_ID != 0
}

/// Removes setuid and setgid from an old file that exists under another name, so that no user keeps the privileges
/// of a replaced program.
pub(super) fn clear_setid(old: &OpenedPath) -> Result<(), Errno> {
    if !has_setid(old) {
        return Ok(());
    }
    match chmod_fd(&old.fd, old.stat.st_mode & ALL & !SET_ID) {
        // A file of another user, of which kilter can only remove the name.
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}

struct OwnedPath<'a> {
    parent: &'a Parent,
    leaf: &'a [u8],
    looked: &'a OpenedPath,
    path: &'a str,
}

impl OwnedPath<'_> {
    fn chmod(&self, bits: u32) -> Result<(), FileError> {
        let failed = |errno| FileError::io("change the mode of", self.path, errno);
        match chmod_fd(&self.looked.fd, bits) {
            // There is no /proc.
            Err(Errno::NOENT) => {
                let fd = open_seen(&self.parent.fd, self.leaf, self.path, &self.looked.stat, READ)?;
                fchmod(&fd, Mode::from_raw_mode(bits)).map_err(failed)
            }
            other => other.map_err(failed),
        }
    }
}

/// Sets the mode through an `O_PATH` descriptor, which fchmod(2) does not accept.
fn chmod_fd(fd: &OwnedFd, bits: u32) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    chmodat(CWD, path, Mode::from_raw_mode(bits), AtFlags::empty())
}
