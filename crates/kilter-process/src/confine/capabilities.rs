//! The capabilities that a confined child of root keeps.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Reading whatever the modes of files say, looking into processes, becoming another user, pinging.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK);

/// Takes all but [`KEPT`] from this thread. With `no_new_privs` a program that root executes does not get
/// them back (capabilities(7)), so that the bounding set need not be changed.
pub(super) fn drop_those_that_change() -> io::Result<()> {
    let present = capabilities(None)?;
    let left = present.permitted & KEPT;
    if present.permitted == left && present.inheritable.is_empty() {
        return Ok(());
    }
    let effective = present.effective & left;
    Ok(set_capabilities(None, CapabilitySets { effective, permitted: left, inheritable: CapabilitySet::empty() })?)
}
