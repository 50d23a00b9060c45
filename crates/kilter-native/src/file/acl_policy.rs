//! Policy for the access control lists and capabilities of a managed file (`acl`).
//!
//! Without `acl`, a list is foreign if it gives a named user or group more access than the mode gives to everybody.
//! The mask of a list is the group digit of the mode. So a list cannot grant more on a file with a mode such as
//! 0644, 0600 or 0755. These files cost no system call.

use ecow::{EcoString, eco_format};
use kilter_model::{Difference, Value};
use kilter_process::acl::{
    ACL, AclEntry, DEFAULT_ACL, GROUP, GROUP_OBJ, MASK, NO_ID, Named, OTHER, USER, USER_OBJ, decode, encode,
    permissions_of,
};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr, removexattr, setxattr,
};
use rustix::io::Errno;

use super::acl_entry::{DeclaredEntry, letters, managed, value_of};
use super::error::FileError;
use super::kind::Kind;
use super::mode;
use super::opened_path::OpenedPath;
use super::preserve::{self, CAPABILITIES};
use super::spec::Spec;
use crate::accounts::Ids;

/// Access control lists that a file may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AclPolicy {
    /// Any list; it is left unchanged.
    Keep,
    /// No list that gives more access than the mode.
    NoForeign,
    /// Exactly these entries, in addition to those of the mode.
    Exact {
        /// Named entries of the access list.
        access: Vec<AclEntry>,
        /// Entries of a directory's list for new files.
        default: Vec<AclEntry>,
    },
}

/// Owner, group and permission bits of a file after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalOwnership {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Mode that the file shows. With an access list, its group digit is the mask.
    pub(super) bits: u32,
    /// Permissions of the owning group. They differ from the group digit of `bits` if a list raises or lowers the
    /// mask.
    pub(super) group: u32,
}

/// A change of an extended attribute.
#[derive(Debug)]
pub(super) enum XattrChange {
    /// Removes the attribute.
    Remove(&'static str),
    /// Removes the access list. If no mode is declared, the group keeps the permissions of its own entry.
    RemoveAccess { group: u32 },
    /// Sets the attribute.
    Set(&'static str, Vec<u8>),
}

impl AclPolicy {
    /// No list.
    pub(super) const NONE: AclPolicy = AclPolicy::Exact { access: Vec::new(), default: Vec::new() };

    /// Reads the declaration for an existing file.
    pub(super) fn of(spec: &Spec<'_>, accounts: &Ids) -> Result<AclPolicy, FileError> {
        if spec.acl.is_none() && !spec.restricts_access() {
            return Ok(AclPolicy::Keep);
        }
        AclPolicy::for_new(spec, accounts)
    }

    /// Reads the declaration for a new file. The file inherits no list unless `acl` is `keep`.
    pub(super) fn for_new(spec: &Spec<'_>, accounts: &Ids) -> Result<AclPolicy, FileError> {
        let Some(acl) = spec.acl else { return Ok(AclPolicy::NoForeign) };
        let (mut access, mut default) = (Vec::new(), Vec::new());
        match acl.as_str() {
            Some("keep") => return Ok(AclPolicy::Keep),
            Some(_) => {}
            None => {
                for text in managed(acl) {
                    let declared = DeclaredEntry::parse(&text).ok_or_else(|| FileError::AclEntry(text.to_string()))?;
                    let entry = declared.resolve(accounts)?;
                    match declared.is_default {
                        true => default.push(entry),
                        // The mask is part of the mode.
                        false if entry.tag == MASK => {}
                        false => access.push(entry),
                    }
                }
            }
        }
        Ok(AclPolicy::Exact { access, default })
    }

    /// Returns the required changes of a file's extended attributes. Makes no system call for files that cannot need
    /// any.
    pub(super) fn changes(
        &self,
        file: &Xattrs<'_>,
        kind: Kind,
        after: FinalOwnership,
    ) -> Result<Vec<XattrChange>, Errno> {
        if !matches!(kind, Kind::File | Kind::Directory) || *self == AclPolicy::Keep {
            return Ok(Vec::new());
        }
        let is_program = kind == Kind::File && after.bits & 0o111 != 0;
        let is_exact = matches!(self, AclPolicy::Exact { .. });
        if !is_exact && !is_program && kind == Kind::File && !group_exceeds_others(after.bits) {
            return Ok(Vec::new());
        }
        let names = match file.names() {
            Ok(names) => names,
            Err(Errno::NOTSUP) => Vec::new(),
            Err(errno) => return Err(errno),
        };
        let has = |name: &str| names.split(|byte| *byte == 0).any(|found| found == name.as_bytes());
        let mut changes = Vec::new();
        let access = if has(ACL) { Some(file.value(ACL)?) } else { None };
        changes.extend(self.access_change(access.as_deref(), after));
        if kind == Kind::Directory {
            let default = if has(DEFAULT_ACL) { Some(file.value(DEFAULT_ACL)?) } else { None };
            changes.extend(self.default_change(default.as_deref(), after));
        }
        if is_program && has(CAPABILITIES) && is_foreign_capability(&file.value(CAPABILITIES)?) {
            changes.push(XattrChange::Remove(CAPABILITIES));
        }
        Ok(changes)
    }

    fn access_change(&self, list: Option<&[u8]>, after: FinalOwnership) -> Option<XattrChange> {
        let found = list.map(|list| decode(list).unwrap_or_default());
        let remove = |found: &[AclEntry]| {
            let mask = permissions_of(found, MASK).unwrap_or(7);
            XattrChange::RemoveAccess { group: permissions_of(found, GROUP_OBJ).unwrap_or(0) & mask }
        };
        match (self, found) {
            (AclPolicy::Exact { access, .. }, found) => {
                let found_named = found.as_deref().map(named).unwrap_or_default();
                if access.is_empty() {
                    return found.map(|found| remove(&found));
                }
                let mut wanted = access.clone();
                wanted.sort_unstable();
                let is_same = wanted == found_named
                    && found.as_deref().is_some_and(|found| {
                        permissions_of(found, GROUP_OBJ) == Some(after.group)
                            && permissions_of(found, MASK) == Some(after.bits >> 3 & 7)
                    });
                (!is_same).then(|| XattrChange::Set(ACL, encode(&access_list(access, after))))
            }
            (_, None) => None,
            (_, Some(found)) => {
                let everybody = after.bits & 7;
                let mask = after.bits >> 3 & 7;
                // A list that cannot be read may grant anything.
                let is_foreign = found.is_empty()
                    || found.iter().any(|entry| {
                        entry.named().is_some_and(|named| !after.knows(named))
                            && entry.permissions & mask & !everybody != 0
                    });
                is_foreign.then(|| remove(&found))
            }
        }
    }

    fn default_change(&self, list: Option<&[u8]>, after: FinalOwnership) -> Option<XattrChange> {
        match (self, list) {
            (AclPolicy::Exact { default, .. }, list) => {
                if default.is_empty() {
                    return list.map(|_| XattrChange::Remove(DEFAULT_ACL));
                }
                let wanted = encode(&default_list(default, after.bits));
                (list != Some(&*wanted)).then_some(XattrChange::Set(DEFAULT_ACL, wanted))
            }
            (_, None) => None,
            (_, Some(list)) => {
                let is_foreign = decode(list).is_none_or(|list| default_is_foreign(&list, after));
                is_foreign.then_some(XattrChange::Remove(DEFAULT_ACL))
            }
        }
    }

    /// Compares a file with the policy. Returns the value of the attribute `acl` if it differs. Also returns true if
    /// the file has capabilities that it must not have.
    pub(super) fn compare(
        &self,
        accounts: &Ids,
        path: &str,
        looked: &OpenedPath,
        after: FinalOwnership,
    ) -> Result<AclComparison, FileError> {
        let failed = |errno| FileError::io("read the access list of", path, errno);
        let file = Xattrs::of(looked);
        let changes = self.changes(&file, looked.kind, after).map_err(failed)?;
        let is_acl = |change: &XattrChange| !matches!(change, XattrChange::Remove(CAPABILITIES));
        let capabilities = changes.iter().any(|change| !is_acl(change));
        let sets_mask = matches!(self, AclPolicy::Exact { access, .. } if !access.is_empty());
        let removes = |name| {
            let is_access = |change: &XattrChange| matches!(change, XattrChange::RemoveAccess { .. }) && name == ACL;
            let is_of = |change: &XattrChange| matches!(change, XattrChange::Remove(removed) if *removed == name);
            changes.iter().any(|change| is_access(change) || is_of(change))
        };
        let entries = match self {
            // The other list stays.
            AclPolicy::NoForeign => [ACL, DEFAULT_ACL].map(|name| removes(name).then_some(name)),
            _ => [Some(ACL), Some(DEFAULT_ACL)],
        };
        let acl = match changes.iter().any(is_acl) {
            true => Some(entries_of(accounts, &file, looked.kind, sets_mask, entries).map_err(failed)?),
            false => None,
        };
        let is = looked.stat.st_mode & mode::ALL;
        let moves_mask = sets_mask && acl.is_some() && (is ^ after.bits) & 0o070 != 0;
        let mask = moves_mask.then_some((is, is & !0o070 | after.bits & 0o070));
        Ok(AclComparison { acl, mask, capabilities })
    }
}

/// The result of a comparison with an [`AclPolicy`].
#[derive(Debug, Default)]
pub(super) struct AclComparison {
    /// The present entries, if they differ.
    pub(super) acl: Option<Vec<EcoString>>,
    /// The mode before and after a change of the mask, if the managed entries cause one.
    pub(super) mask: Option<(u32, u32)>,
    /// True if the file has capabilities that a user other than root gave it.
    pub(super) capabilities: bool,
}

impl AclComparison {
    /// Returns the differences of a file. `should` is the declared `acl`.
    pub(super) fn differences(self, should: Option<&Value>) -> impl Iterator<Item = Difference> {
        let acl = self.acl.map(|entries| {
            let is = value_of(&entries);
            match should {
                Some(should) => Difference::new("acl", is, should.clone()),
                None => {
                    let message = eco_format!("{} → none (undeclared)", entries.join(", "));
                    Difference::new("acl", is, "none".into()).saying(message)
                }
            }
        });
        let capabilities = self.capabilities.then(|| {
            let message = "capabilities of a user namespace → none";
            Difference::new("capabilities", "namespaced".into(), "none".into()).saying(message)
        });
        let mask = self.mask.map(|(is, should)| {
            let of = |bits: u32| letters(bits >> 3 & 7);
            let message =
                eco_format!("{} → {} (the mode {} becomes {})", of(is), of(should), mode::text(is), mode::text(should));
            Difference::new("mask", of(is).into(), of(should).into()).saying(message)
        });
        acl.into_iter().chain(mask).chain(capabilities)
    }
}

/// Returns the entries of a file as `acl` shows them: named entries of the access list, and a directory's entries
/// for new files. With `with_mask`, also a mask that is not the union of the entries.
pub(super) fn shown(accounts: &Ids, file: &Xattrs<'_>, kind: Kind, with_mask: bool) -> Result<Vec<EcoString>, Errno> {
    entries_of(accounts, file, kind, with_mask, [Some(ACL), Some(DEFAULT_ACL)])
}

/// Returns the entries of some lists of a file.
fn entries_of(
    accounts: &Ids,
    file: &Xattrs<'_>,
    kind: Kind,
    with_mask: bool,
    lists: [Option<&str>; 2],
) -> Result<Vec<EcoString>, Errno> {
    let read = |name: &str| match lists.contains(&Some(name)).then(|| file.value(name)) {
        Some(Ok(list)) => Ok(decode(&list).unwrap_or_default()),
        None | Some(Err(Errno::NODATA | Errno::NOTSUP)) => Ok(Vec::new()),
        Some(Err(errno)) => Err(errno),
    };
    let access = read(ACL)?;
    let mask = permissions_of(&access, MASK);
    let names_nobody = named(&access).is_empty();
    let is_plain = |entry: &&AclEntry| match entry.tag {
        GROUP_OBJ => mask != Some(entry.permissions),
        MASK => names_nobody || with_mask && entry.permissions != union(&access),
        _ => entry.named().is_some(),
    };
    let mut shown: Vec<EcoString> =
        access.iter().filter(is_plain).map(|entry| text_of(accounts, entry, false)).collect();
    if kind == Kind::Directory {
        shown.extend(read(DEFAULT_ACL)?.iter().map(|entry| text_of(accounts, entry, true)));
    }
    shown.sort_unstable();
    Ok(shown)
}

fn text_of(accounts: &Ids, entry: &AclEntry, is_default: bool) -> EcoString {
    let (word, name) = match entry.tag {
        USER => ("user", accounts.user(entry.id)),
        GROUP => ("group", accounts.group(entry.id)),
        USER_OBJ => ("user", EcoString::new()),
        GROUP_OBJ => ("group", EcoString::new()),
        MASK => ("mask", EcoString::new()),
        _ => ("other", EcoString::new()),
    };
    let default = if is_default { "default:" } else { "" };
    eco_format!("{default}{word}:{name}:{}", letters(entry.permissions))
}

fn named(entries: &[AclEntry]) -> Vec<AclEntry> {
    let mut named: Vec<_> = entries.iter().copied().filter(|entry| entry.named().is_some()).collect();
    named.sort_unstable();
    named
}

/// Returns true if an access list can grant more than the mode gives to everybody.
fn group_exceeds_others(bits: u32) -> bool {
    bits >> 3 & 7 & !bits != 0
}

/// Returns true if a list for new entries grants more than the directory's mode: access for named users or groups,
/// or write access that the directory itself does not grant.
fn default_is_foreign(list: &[AclEntry], after: FinalOwnership) -> bool {
    let everybody = permissions_of(list, OTHER).unwrap_or(0);
    let mask = permissions_of(list, MASK).unwrap_or(7);
    let group = permissions_of(list, GROUP_OBJ).unwrap_or(0) & mask;
    let opens = everybody & 2 & !after.bits != 0 || group & 2 & !(after.bits >> 3) != 0;
    opens
        || list.iter().any(|entry| {
            entry.named().is_some_and(|named| !after.knows(named)) && entry.permissions & mask & !everybody != 0
        })
}

/// Returns true for capabilities that were set in a user namespace, where any user can be root. These have revision
/// 3 of the format, with another root than the machine's. Root has set all others.
fn is_foreign_capability(value: &[u8]) -> bool {
    let word = |at: usize| Some(u32::from_le_bytes(value.get(at..at + 4)?.try_into().ok()?));
    match (word(0).map(|magic| magic & 0xff00_0000), word(20)) {
        (Some(0x0300_0000), Some(root)) => root != 0,
        (Some(0x0100_0000 | 0x0200_0000), _) => false,
        _ => true,
    }
}

fn access_list(named: &[AclEntry], after: FinalOwnership) -> Vec<AclEntry> {
    let bits = after.bits;
    let base = [(USER_OBJ, bits >> 6), (GROUP_OBJ, after.group), (MASK, bits >> 3), (OTHER, bits)];
    let base = base.map(|(tag, bits)| AclEntry { tag, id: NO_ID, permissions: bits & 7 });
    base.into_iter().chain(named.iter().copied()).collect()
}

/// Completes a list in the same way as setfacl(1): missing entries come from the mode, and the mask allows
/// everything.
fn default_list(declared: &[AclEntry], bits: u32) -> Vec<AclEntry> {
    let mut list = declared.to_vec();
    for (tag, bits) in [(USER_OBJ, bits >> 6), (GROUP_OBJ, bits >> 3), (OTHER, bits)] {
        if permissions_of(&list, tag).is_none() {
            list.push(AclEntry { tag, id: NO_ID, permissions: bits & 7 });
        }
    }
    let permissions = union(&list);
    if list.iter().any(|entry| entry.named().is_some()) && permissions_of(&list, MASK).is_none() {
        list.push(AclEntry { tag: MASK, id: NO_ID, permissions });
    }
    list
}

/// Returns the permissions of all entries that a mask limits.
fn union(list: &[AclEntry]) -> u32 {
    let is_masked = |entry: &&AclEntry| entry.named().is_some() || entry.tag == GROUP_OBJ;
    list.iter().filter(is_masked).fold(0, |all, entry| all | entry.permissions)
}

/// Returns the mode that a file shows with the managed entries. `own` has the permissions of the owning group.
///
/// The mask is set as by setfacl(1): to the union of the named entries and the owning group, or to the declared mask.
/// A declared mode is then applied as by chmod(1), which changes the mask.
pub(super) fn with_mask(spec: &Spec<'_>, own: u32, kind: Kind) -> u32 {
    if !manages_access(spec, kind) {
        return own;
    }
    let declared: Vec<DeclaredEntry> = spec
        .acl
        .map(managed)
        .unwrap_or_default()
        .iter()
        .filter_map(|text| DeclaredEntry::parse(text))
        .filter(|entry| !entry.is_default)
        .collect();
    let named = declared.iter().filter(|entry| !entry.is_mask());
    let union = named.fold(own >> 3 & 7, |all, entry| all | entry.permissions);
    let mask = declared.iter().find(|entry| entry.is_mask()).map_or(union, |mask| mask.permissions);
    let masked = own & !0o070 | mask << 3;
    own & !0o070 | spec.bits(masked, kind).unwrap_or(masked) & 0o070
}

/// Returns true if the declaration has named entries for the access list of a file of this kind.
pub(super) fn manages_access(spec: &Spec<'_>, kind: Kind) -> bool {
    let is_named = |text: &EcoString| DeclaredEntry::parse(text).is_some_and(|entry| entry.names_access());
    matches!(kind, Kind::File | Kind::Directory) && spec.acl.map(managed).unwrap_or_default().iter().any(is_named)
}

/// Returns the present mode with the permissions of the owning group in the group digit, which otherwise shows the
/// mask of the list.
pub(super) fn own_bits(looked: &OpenedPath) -> Result<u32, Errno> {
    let bits = looked.stat.st_mode & mode::ALL;
    let list = match Xattrs::of(looked).value(ACL) {
        Ok(list) => decode(&list).unwrap_or_default(),
        Err(Errno::NODATA | Errno::NOTSUP) => return Ok(bits),
        Err(errno) => return Err(errno),
    };
    Ok(permissions_of(&list, GROUP_OBJ).map_or(bits & !0o070, |group| bits & !0o070 | group << 3))
}

impl FinalOwnership {
    /// Returns the values after a change to `bits` without managed entries.
    pub(super) fn new(uid: u32, gid: u32, bits: u32) -> FinalOwnership {
        FinalOwnership { uid, gid, bits, group: bits >> 3 & 7 }
    }

    /// Returns true for users and groups that have access anyway.
    fn knows(&self, named: Named) -> bool {
        match named {
            Named::User(uid) => uid == 0 || uid == self.uid || uid == rustix::process::geteuid().as_raw(),
            Named::Group(gid) => gid == 0 || gid == self.gid,
        }
    }
}

/// Returns the permission bits that stay when an access list is removed and no mode is declared.
pub(super) fn without_list(changes: &[XattrChange], bits: u32) -> u32 {
    let group = changes.iter().find_map(|change| match change {
        XattrChange::RemoveAccess { group } => Some(*group),
        _ => None,
    });
    group.map_or(bits, |group| bits & !0o070 | group << 3 & bits)
}

/// Extended attributes of an open file. The descriptor may have been opened with `O_PATH`.
pub(super) struct Xattrs<'a> {
    fd: &'a OwnedFd,
    /// Calls on an `O_PATH` descriptor go through /proc.
    path: Option<String>,
}

impl<'a> Xattrs<'a> {
    /// Returns the attributes of an examined file.
    pub(super) fn of(looked: &'a OpenedPath) -> Xattrs<'a> {
        let path = (!looked.readable).then(|| format!("/proc/self/fd/{}", looked.fd.as_raw_fd()));
        Xattrs { fd: &looked.fd, path }
    }

    /// Returns the attributes of a file that is open for reading or writing.
    pub(super) fn open(fd: &'a OwnedFd) -> Xattrs<'a> {
        Xattrs { fd, path: None }
    }

    fn names(&self) -> Result<Vec<u8>, Errno> {
        preserve::read(|buffer| match &self.path {
            Some(path) => listxattr(&**path, buffer),
            None => flistxattr(self.fd, buffer),
        })
    }

    fn value(&self, name: &str) -> Result<Vec<u8>, Errno> {
        preserve::read(|buffer| match &self.path {
            Some(path) => getxattr(&**path, name, buffer),
            None => fgetxattr(self.fd, name, buffer),
        })
    }

    /// Removes the lists that a new entry has inherited from its directory.
    pub(super) fn remove_inherited(&self, kind: Kind) -> Result<(), Errno> {
        let lists = [XattrChange::Remove(ACL), XattrChange::Remove(DEFAULT_ACL)];
        self.apply_all(if kind == Kind::Directory { &lists } else { &lists[..1] })
    }

    /// Makes the changes.
    pub(super) fn apply_all(&self, changes: &[XattrChange]) -> Result<(), Errno> {
        changes.iter().try_for_each(|change| match change {
            XattrChange::Remove(name) => self.remove(name),
            XattrChange::RemoveAccess { .. } => self.remove(ACL),
            XattrChange::Set(name, value) => match &self.path {
                Some(path) => setxattr(&**path, *name, value, XattrFlags::empty()),
                None => fsetxattr(self.fd, *name, value, XattrFlags::empty()),
            },
        })
    }

    fn remove(&self, name: &str) -> Result<(), Errno> {
        let removed = match &self.path {
            Some(path) => removexattr(&**path, name),
            None => fremovexattr(self.fd, name),
        };
        match removed {
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bits: u32) -> FinalOwnership {
        FinalOwnership::new(0, 0, bits)
    }

    fn list(entries: &[(u16, u32, u32)]) -> Vec<u8> {
        let entries =
            entries.iter().map(|(tag, id, permissions)| AclEntry { tag: *tag, id: *id, permissions: *permissions });
        encode(&entries.collect::<Vec<_>>())
    }

    #[test]
    fn a_list_is_foreign_only_if_it_gives_more_than_the_mode() {
        let eve =
            list(&[(USER_OBJ, NO_ID, 6), (USER, 1000, 6), (GROUP_OBJ, NO_ID, 4), (MASK, NO_ID, 6), (OTHER, NO_ID, 0)]);
        let change = |bits| AclPolicy::NoForeign.access_change(Some(&eve), after(bits)).is_some();
        assert!(change(0o640) && change(0o660) && change(0o664));
        assert!(!change(0o600) && !change(0o644) && !change(0o604) && !change(0o666));
        let own = FinalOwnership::new(1000, 0, 0o640);
        assert!(AclPolicy::NoForeign.access_change(Some(&eve), own).is_none(), "the owner has access anyway");
        assert!(AclPolicy::NoForeign.access_change(Some(b"?"), after(0o640)).is_some(), "an unknown format");
    }

    #[test]
    fn default_list_is_foreign_if_it_names_an_account_or_opens_new_files() {
        let of = |group, other, named: Option<u32>| {
            let mut entries = vec![(USER_OBJ, NO_ID, 7), (GROUP_OBJ, NO_ID, group), (OTHER, NO_ID, other)];
            entries.extend(named.map(|permissions| (USER, 1000, permissions)));
            entries.extend(named.map(|_| (MASK, NO_ID, 7)));
            decode(&list(&entries)).unwrap()
        };
        assert!(default_is_foreign(&of(5, 0, Some(4)), after(0o755)));
        assert!(default_is_foreign(&of(5, 7, None), after(0o755)), "new files could be written by everybody");
        assert!(default_is_foreign(&of(7, 5, None), after(0o755)));
        assert!(!default_is_foreign(&of(7, 5, None), after(0o2775)), "the group may write in the directory itself");
        assert!(!default_is_foreign(&of(5, 5, Some(5)), after(0o755)));
    }

    #[test]
    fn removed_list_keeps_permissions_of_group_entry() {
        let hidden =
            list(&[(USER_OBJ, NO_ID, 6), (USER, 1000, 4), (GROUP_OBJ, NO_ID, 0), (MASK, NO_ID, 4), (OTHER, NO_ID, 0)]);
        let change = AclPolicy::NoForeign.access_change(Some(&hidden), after(0o640)).unwrap();
        assert_eq!(without_list(&[change], 0o640), 0o600);
        assert_eq!(without_list(&[], 0o640), 0o640);
    }

    #[test]
    fn capabilities_of_a_user_namespace_are_foreign() {
        let of = |magic: u32, words: &[u32]| {
            std::iter::once(magic).chain(words.iter().copied()).flat_map(u32::to_le_bytes).collect::<Vec<_>>()
        };
        assert!(!is_foreign_capability(&of(0x0200_0001, &[128, 0, 0, 0])));
        assert!(!is_foreign_capability(&of(0x0300_0001, &[128, 0, 0, 0, 0])));
        assert!(is_foreign_capability(&of(0x0300_0001, &[128, 0, 0, 0, 1000])));
        assert!(is_foreign_capability(b"?"));
    }
}
