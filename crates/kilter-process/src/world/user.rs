//! Sandboxes of users other than root.

use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::SandboxError;

/// Moves this process into a user namespace (user_namespaces(7)) in which it may mount, with a mount namespace.
/// Programs that it starts belong to the same user and get no additional rights.
pub(super) fn enter() -> Result<(), SandboxError> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let refused = |source| SandboxError::NoUserNamespace { source };
    super::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| refused(io::Error::from(error)))?;
    // setgroups must be denied permanently before a group may be mapped.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    maps.iter().try_for_each(|(file, map)| fs::write(format!("/proc/self/{file}"), map)).map_err(refused)
}
