//! Extended attributes that a file takes over from the file that it replaces.

use kilter_process::acl::{self, ACL};
use rustix::fd::OwnedFd;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, FinalOwnership, Xattrs};
use super::kind::Kind;

/// The extended attribute that holds the capabilities of a program.
pub(super) const CAPABILITIES: &str = "security.capability";

/// Extended attributes that were not taken over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NotKept {
    /// Attributes that the system did not accept.
    pub(super) lost: Vec<String>,
    /// True if the old file had capabilities.
    pub(super) capabilities: bool,
}

/// Copies extended attributes of the old file to the new file with the mode `bits`. `Err` names the attribute that
/// could not be kept.
///
/// - The access control list is copied if `policy` allows it, and limited to the mode at once. Otherwise the new
///   file would have the permissions of the old one, which may be wider.
/// - Capabilities are not copied, because root gave them to the old content. The system removes them at each
///   write(2) as well.
/// - `user.*` is copied unless the owner changes, because the old owner wrote it.
/// - Labels (`security.*`) are copied if the system allows it; otherwise they are returned.
/// - `trusted.*` belongs to the layers of the file system and is not copied.
pub(super) fn keep(old: &OwnedFd, new: &OwnedFd, bits: u32, policy: &AclPolicy) -> Result<NotKept, (String, Errno)> {
    let names = match read(|buffer| flistxattr(old, buffer)) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Ok(NotKept::default()),
        Err(errno) => return Err(("the list of extended attributes".to_owned(), errno)),
    };
    let names: Vec<&str> = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()).collect();
    let owner_changes = changes_owner(old, new).map_err(|errno| ("the owner".to_owned(), errno))?;
    let keeps_list =
        names.contains(&ACL) && keeps_list(old, new, bits, policy).map_err(|errno| (ACL.to_owned(), errno))?;
    if !keeps_list {
        // The new file may have inherited a list from its directory.
        match fremovexattr(new, ACL) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(errno) => return Err((ACL.to_owned(), errno)),
        }
    }
    let mut not_kept = NotKept { capabilities: names.contains(&CAPABILITIES), ..NotKept::default() };
    for name in names {
        let must = match name {
            ACL if keeps_list => true,
            ACL | CAPABILITIES => continue,
            name if name.starts_with("user.") => !owner_changes,
            name if name.starts_with("security.") => false,
            _ => continue,
        };
        if name.starts_with("user.") && owner_changes {
            continue;
        }
        match copy(old, new, name, bits) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) if must => return Err((name.to_owned(), errno)),
            Err(_) => not_kept.lost.push(name.to_owned()),
        }
    }
    Ok(not_kept)
}

fn keeps_list(old: &OwnedFd, new: &OwnedFd, bits: u32, policy: &AclPolicy) -> Result<bool, Errno> {
    match policy {
        AclPolicy::Keep => Ok(true),
        AclPolicy::Exact { .. } => Ok(false),
        AclPolicy::NoForeign => {
            let stat = fstat(new)?;
            let after = FinalOwnership::new(stat.st_uid, stat.st_gid, bits);
            let changes = policy.changes(&Xattrs::open(old), Kind::File, after)?;
            Ok(!changes_owner(old, new)? && changes.is_empty())
        }
    }
}

/// Returns true if the new file belongs to another user than the old one.
fn changes_owner(old: &OwnedFd, new: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstat(old)?.st_uid != fstat(new)?.st_uid)
}

fn copy(old: &OwnedFd, new: &OwnedFd, name: &str, bits: u32) -> Result<(), Errno> {
    let value = read(|buffer| fgetxattr(old, name, buffer))?;
    let value = if name == ACL { acl::limited(&value, bits)? } else { value };
    fsetxattr(new, name, &value, XattrFlags::empty())
}

/// Calls with larger buffers until the result fits.
pub(super) fn read(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                return Ok(buffer);
            }
            // The system's own limit is 64 KiB.
            Err(Errno::RANGE) if buffer.len() < 1 << 17 => buffer.resize(buffer.len() * 4, 0),
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Encodes a list of entries: tag, permissions, id.
    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entry = |(tag, permissions, id)| acl::AclEntry { tag, id, permissions: u32::from(permissions) };
        acl::encode(&entries.iter().copied().map(entry).collect::<Vec<_>>())
    }

    /// Creates two files in a directory on disk: the old one with an access list, the new one with mode 0600.
    fn files(home: &tempfile::TempDir, entries: &[(u16, u16, u32)]) -> (OwnedFd, OwnedFd) {
        let create = |name: &str| OwnedFd::from(File::create(home.path().join(name)).unwrap());
        let (old, new) = (create("old"), create("new"));
        fsetxattr(&old, ACL, &list(entries), XattrFlags::empty()).unwrap();
        File::from(new.try_clone().unwrap()).set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        (old, new)
    }

    #[test]
    fn kept_access_list_is_limited_by_new_mode() {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let entries = |mask, other| {
            [(1, 6, u32::MAX), (2, 4, 7), (4, 4, u32::MAX), (0x10, mask, u32::MAX), (0x20, other, u32::MAX)]
        };
        let (old, new) = files(&home, &entries(4, 4));
        keep(&old, &new, 0o600, &AclPolicy::Keep).unwrap();
        assert_eq!(fstat(&new).unwrap().st_mode & 0o7777, 0o600, "the mode was not set yet, and is none too many");
        let kept = read(|buffer| fgetxattr(&new, ACL, buffer)).unwrap();
        assert_eq!(kept, list(&entries(0, 0)), "whom it names is kept");
    }
}
