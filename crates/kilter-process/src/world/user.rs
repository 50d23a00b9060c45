//! Worlds of a user who is not root.

use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::WorldError;

/// Puts this process into a user namespace (user_namespaces(7)) in which it may mount, and into a namespace of mounts of
/// that. Programs that it starts are the user's own, with no more rights than before.
pub(super) fn enter() -> Result<(), WorldError> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let refused = |source| WorldError::NoUserNamespace { source };
    super::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| refused(io::Error::from(error)))?;
    // Groups are given up for good before a group may be mapped.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    maps.iter().try_for_each(|(file, map)| fs::write(format!("/proc/self/{file}"), map)).map_err(refused)
}
