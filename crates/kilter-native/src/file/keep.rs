//! What a file that takes the place of another one takes over from it: access control lists and
//! other extended attributes.

use rustix::fd::OwnedFd;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat};
use rustix::io::Errno;

use super::acl::{self, ACL};

const CAPABILITIES: &str = "security.capability";

/// Copies what the old file had to a new one that will have the mode `bits`. `Err` names the
/// attribute that could not be kept.
///
/// An access control list is cut to the mode at once: with it, the new file would have the old one's
/// permissions, and its content may be for fewer eyes. The capabilities of a program are not given
/// to another owner, as with chown(2).
///
/// Access control lists and `user.*` must be kept. Labels and capabilities (`security.*`) are kept where the
/// system allows it; otherwise they are returned, to be told. `trusted.*` belongs to the file system's
/// own layers and is not copied.
pub(super) fn keep(old: &OwnedFd, new: &OwnedFd, bits: u32) -> Result<Vec<String>, (String, Errno)> {
    let names = match read(|buffer| flistxattr(old, buffer)) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(errno) => return Err(("the list of extended attributes".to_owned(), errno)),
    };
    let names: Vec<&str> = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()).collect();
    if !names.contains(&ACL) {
        // The directory may have given the new file a list that the old one did not have.
        match fremovexattr(new, ACL) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(errno) => return Err((ACL.to_owned(), errno)),
        }
    }
    let mut lost = Vec::new();
    for name in names {
        let must = name == ACL || name.starts_with("user.");
        if !must && !name.starts_with("security.") {
            continue;
        }
        if name == CAPABILITIES && moves(old, new).map_err(|errno| (name.to_owned(), errno))? {
            continue;
        }
        match copy(old, new, name, bits) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) if must => return Err((name.to_owned(), errno)),
            Err(_) => lost.push(name.to_owned()),
        }
    }
    Ok(lost)
}

/// Whether the new file belongs to somebody else than the old one.
fn moves(old: &OwnedFd, new: &OwnedFd) -> Result<bool, Errno> {
    let (old, new) = (fstat(old)?, fstat(new)?);
    Ok((old.st_uid, old.st_gid) != (new.st_uid, new.st_gid))
}

fn copy(old: &OwnedFd, new: &OwnedFd, name: &str, bits: u32) -> Result<(), Errno> {
    let value = read(|buffer| fgetxattr(old, name, buffer))?;
    let value = if name == ACL { acl::limited(&value, bits)? } else { value };
    fsetxattr(new, name, &value, XattrFlags::empty())
}

/// Calls with larger buffers until the answer fits.
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

    /// Two files in a directory on the disk: the old one with an access list, the new one closed.
    fn files(home: &tempfile::TempDir, entries: &[(u16, u16, u32)]) -> (OwnedFd, OwnedFd) {
        let create = |name: &str| OwnedFd::from(File::create(home.path().join(name)).unwrap());
        let (old, new) = (create("old"), create("new"));
        fsetxattr(&old, ACL, &acl::tests::list(entries), XattrFlags::empty()).unwrap();
        File::from(new.try_clone().unwrap()).set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        (old, new)
    }

    #[test]
    fn a_kept_access_list_never_opens_the_new_file_further_than_its_mode() {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let entries = |mask, other| {
            [(1, 6, u32::MAX), (2, 4, 7), (4, 4, u32::MAX), (0x10, mask, u32::MAX), (0x20, other, u32::MAX)]
        };
        let (old, new) = files(&home, &entries(4, 4));
        keep(&old, &new, 0o600).unwrap();
        assert_eq!(fstat(&new).unwrap().st_mode & 0o7777, 0o600, "the mode was not set yet, and is none too many");
        let kept = read(|buffer| fgetxattr(&new, ACL, buffer)).unwrap();
        assert_eq!(kept, acl::tests::list(&entries(0, 0)), "whom it names is kept");
    }
}
