//! What a file that takes the place of another one takes over from it: access control lists and
//! other extended attributes.

use rustix::fd::OwnedFd;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

const ACL: &str = "system.posix_acl_access";

/// Copies what the old file had. `Err` names the attribute that could not be kept.
///
/// Access control lists and `user.*` must be kept. Labels and capabilities (`security.*`) are kept where the
/// system allows it; otherwise they are returned, to be told. `trusted.*` belongs to the file system's
/// own layers and is not copied.
pub(super) fn keep(old: &OwnedFd, new: &OwnedFd) -> Result<Vec<String>, (String, Errno)> {
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
        match copy(old, new, name) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) if must => return Err((name.to_owned(), errno)),
            Err(_) => lost.push(name.to_owned()),
        }
    }
    Ok(lost)
}

fn copy(old: &OwnedFd, new: &OwnedFd, name: &str) -> Result<(), Errno> {
    let value = read(|buffer| fgetxattr(old, name, buffer))?;
    fsetxattr(new, name, &value, XattrFlags::empty())
}

/// Calls with larger buffers until the answer fits.
fn read(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
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
