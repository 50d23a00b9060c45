//! POSIX access control lists (`linux/posix_acl_xattr.h`).

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::getxattr;
use rustix::io::Errno;

const ATTRIBUTE: &str = "system.posix_acl_access";
const HEADER: usize = 4;
const ENTRY: usize = 8;
const WRITE: u16 = 2;

const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;

/// Maximum size of a list in bytes.
const MAX_BYTES: usize = 64 << 10;

/// An access control list.
pub(super) struct List(Vec<u8>);

/// Users and groups with write access, apart from trusted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    None,
    /// The file's group.
    OwningGroup,
    /// A user or a group in the list.
    Named,
}

/// Reads the access control list of an open file, if it has one.
pub(super) fn of(file: &OwnedFd) -> Result<Option<List>, Errno> {
    // A descriptor with O_PATH has no extended attributes of its own.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut buffer = vec![0; MAX_BYTES];
    match getxattr(&*path, ATTRIBUTE, &mut buffer[..]) {
        Ok(length) => {
            buffer.truncate(length);
            Ok(Some(List(buffer)))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl List {
    /// Finds the users and groups with write access. The caller has checked that the mask allows writes. A list that
    /// cannot be parsed may name any user.
    pub(super) fn writers(&self, trusts_user: impl Fn(u32) -> bool, trusts_group: impl Fn(u32) -> bool) -> Writers {
        let Some((version, entries)) = self.0.split_at_checked(HEADER) else { return Writers::Named };
        if version != 2u32.to_le_bytes() || !entries.len().is_multiple_of(ENTRY) {
            return Writers::Named;
        }
        let mut writers = Writers::None;
        for entry in entries.chunks_exact(ENTRY) {
            let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            if half(2) & WRITE == 0 {
                continue;
            }
            match half(0) {
                USER if !trusts_user(id) => return Writers::Named,
                GROUP if !trusts_group(id) => return Writers::Named,
                GROUP_OBJ => writers = Writers::OwningGroup,
                _ => {}
            }
        }
        writers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_of_a_list_are_named_or_the_owning_group() {
        let writers = |entries: &[(u16, u16, u32)]| {
            let mut list = 2u32.to_le_bytes().to_vec();
            for (tag, permissions, id) in entries {
                list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
                list.extend(id.to_le_bytes());
            }
            List(list).writers(|uid| uid == 0, |gid| gid == 0)
        };
        assert_eq!(writers(&[(USER, 6, 0), (USER, 4, 1000), (GROUP_OBJ, 4, 0)]), Writers::None);
        assert_eq!(writers(&[(GROUP_OBJ, 6, 0)]), Writers::OwningGroup);
        assert_eq!(writers(&[(GROUP_OBJ, 6, 0), (USER, 2, 1000)]), Writers::Named);
        assert_eq!(writers(&[(GROUP, 2, 1000)]), Writers::Named);
        assert_eq!(List(b"?".to_vec()).writers(|_| true, |_| true), Writers::Named);
    }
}
