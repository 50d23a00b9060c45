//! Access control lists in the binary format of the system (`linux/posix_acl_xattr.h`).

use rustix::io::Errno;

/// The extended attribute that holds the access list.
pub const ACL: &str = "system.posix_acl_access";
/// The extended attribute of a directory that holds the list for new entries.
pub const DEFAULT_ACL: &str = "system.posix_acl_default";

const HEADER: usize = 4;
const ENTRY: usize = 8;
const WRITE: u32 = 2;

/// Entry of the owner.
pub const USER_OBJ: u16 = 0x01;
/// Entry of a named user.
pub const USER: u16 = 0x02;
/// Entry of the owning group.
pub const GROUP_OBJ: u16 = 0x04;
/// Entry of a named group.
pub const GROUP: u16 = 0x08;
/// Limit of the named entries and of the owning group.
pub const MASK: u16 = 0x10;
/// Entry of everybody else.
pub const OTHER: u16 = 0x20;
/// Id of entries without a user or group.
pub const NO_ID: u32 = u32::MAX;

/// An entry of a list. Entries sort in the order that the kernel requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclEntry {
    /// Kind of the entry, such as [`USER`].
    pub tag: u16,
    /// User or group of a named entry, otherwise [`NO_ID`].
    pub id: u32,
    /// `rwx` as three bits.
    pub permissions: u32,
}

impl AclEntry {
    /// Returns the user or group that the entry names.
    pub fn named(&self) -> Option<Named> {
        match self.tag {
            USER => Some(Named::User(self.id)),
            GROUP => Some(Named::Group(self.id)),
            _ => None,
        }
    }
}

/// Decodes a list; returns none for an unknown format.
pub fn decode(list: &[u8]) -> Option<Vec<AclEntry>> {
    let entry = |entry: &[u8]| AclEntry {
        tag: tag(entry),
        id: u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]),
        permissions: u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 7,
    };
    Some(entries(list)?.map(entry).collect())
}

/// Encodes a list, with its entries in the order that the kernel requires.
pub fn encode(entries: &[AclEntry]) -> Vec<u8> {
    let mut sorted = entries.to_vec();
    sorted.sort_unstable();
    let mut list = 2u32.to_le_bytes().to_vec();
    for AclEntry { tag, id, permissions } in sorted {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&(permissions as u16).to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    list
}

/// Returns the permissions of the unnamed entry with this tag.
pub fn permissions_of(entries: &[AclEntry], tag: u16) -> Option<u32> {
    entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
}

/// Returns the list after a chmod(2) with `bits`. Named entries stay, and the mask gets the bits of the group.
///
/// # Errors
/// `INVAL` for an unknown format.
pub fn limited(list: &[u8], bits: u32) -> Result<Vec<u8>, Errno> {
    let entries = || entries(list).ok_or(Errno::INVAL);
    let masked = entries()?.any(|entry| tag(entry) == MASK);
    let class = |tag| match tag {
        USER_OBJ => Some(bits >> 6 & 7),
        GROUP_OBJ if !masked => Some(bits >> 3 & 7),
        MASK => Some(bits >> 3 & 7),
        OTHER => Some(bits & 7),
        _ => None,
    };
    let mut limited = list[..HEADER].to_vec();
    for entry in entries()? {
        let at = limited.len();
        limited.extend_from_slice(entry);
        if let Some(permissions) = class(tag(entry)) {
            limited[at + 2..at + 4].copy_from_slice(&(permissions as u16).to_le_bytes());
        }
    }
    Ok(limited)
}

/// Users and groups with write access, apart from trusted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// No other users.
    None,
    /// The file's group.
    OwningGroup,
    /// A user or a group in the list.
    Named,
}

/// Finds the users and groups with write access for which `trusts` is false. The caller has checked that the mask
/// allows writes. A list that cannot be read may grant anything.
pub fn writers(list: &[u8], trusts: impl Fn(Named) -> bool) -> Writers {
    let Some(entries) = decode(list) else { return Writers::Named };
    let writing = || entries.iter().filter(|entry| entry.permissions & WRITE != 0);
    if writing().filter_map(AclEntry::named).any(|named| !trusts(named)) {
        return Writers::Named;
    }
    match writing().any(|entry| entry.tag == GROUP_OBJ) {
        true => Writers::OwningGroup,
        false => Writers::None,
    }
}

/// User or group of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A user by number.
    User(u32),
    /// A group by number.
    Group(u32),
}

fn entries(list: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let (version, entries) = list.split_at_checked(HEADER)?;
    let known = version == 2u32.to_le_bytes() && entries.len().is_multiple_of(ENTRY);
    known.then(|| entries.chunks_exact(ENTRY))
}

fn tag(entry: &[u8]) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a list of entries: tag, permissions, id.
    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        list
    }

    const NONE: u32 = NO_ID;

    #[test]
    fn a_mode_limits_the_mask_and_leaves_the_named_entries() {
        let before = [(USER_OBJ, 6, NONE), (USER, 6, 7), (GROUP_OBJ, 4, NONE), (MASK, 6, NONE), (OTHER, 4, NONE)];
        let after = [(USER_OBJ, 6, NONE), (USER, 6, 7), (GROUP_OBJ, 4, NONE), (MASK, 0, NONE), (OTHER, 0, NONE)];
        assert_eq!(limited(&list(&before), 0o600), Ok(list(&after)));
        let plain = [(USER_OBJ, 6, NONE), (GROUP_OBJ, 4, NONE), (OTHER, 4, NONE)];
        let closed = [(USER_OBJ, 6, NONE), (GROUP_OBJ, 0, NONE), (OTHER, 0, NONE)];
        assert_eq!(limited(&list(&plain), 0o4600), Ok(list(&closed)));
        assert_eq!(limited(b"\x03\0\0\0", 0o600), Err(Errno::INVAL));
    }

    #[test]
    fn list_with_other_writer_counts_as_shared() {
        let shared =
            |entries: &[(u16, u16, u32)]| writers(&list(entries), |named| named == Named::User(0)) == Writers::Named;
        assert!(shared(&[(USER, 7, 1000)]));
        assert!(shared(&[(GROUP, 2, 1000)]));
        assert!(!shared(&[(USER, 5, 1000), (USER, 7, 0), (GROUP_OBJ, 7, NONE), (MASK, 7, NONE)]));
        assert_eq!(writers(b"?", |_| true), Writers::Named);
    }

    #[test]
    fn list_writers_are_named_entries_or_owning_group() {
        let of = |entries: &[(u16, u16, u32)]| {
            writers(&list(entries), |named| matches!(named, Named::User(0) | Named::Group(0)))
        };
        assert_eq!(of(&[(USER, 6, 0), (USER, 4, 1000), (GROUP_OBJ, 4, 0)]), Writers::None);
        assert_eq!(of(&[(GROUP_OBJ, 6, 0)]), Writers::OwningGroup);
        assert_eq!(of(&[(GROUP_OBJ, 6, 0), (USER, 2, 1000)]), Writers::Named);
        assert_eq!(of(&[(GROUP, 2, 1000)]), Writers::Named);
        assert_eq!(writers(b"?", |_| true), Writers::Named);
    }
}
