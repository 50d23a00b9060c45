//! Capabilities that a confined child of root keeps.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Capabilities to read any file, inspect processes, become another user and send pings.
const ALLOWED_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK);

/// Drops all capabilities except [`ALLOWED_CAPABILITIES`] from this thread. With `no_new_privs` a program that root
/// executes does not regain them (capabilities(7)), so the bounding set can stay as it is.
pub(super) fn drop_those_that_change() -> io::Result<()> {
    let present = capabilities(None)?;
    let left = present.permitted & ALLOWED_CAPABILITIES;
    if present.permitted == left && present.inheritable.is_empty() {
        return Ok(());
    }
    let effective = present.effective & left;
    Ok(set_capabilities(None, CapabilitySets { effective, permitted: left, inheritable: CapabilitySet::empty() })?)
}
