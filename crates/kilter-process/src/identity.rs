//! Who a child runs as.

/// The user that a child runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// The supplementary groups: exactly these, none of the caller's.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Whether all its numbers name somebody: to the system the largest one means "as before".
    pub(crate) fn is_sound(&self) -> bool {
        ![self.uid, self.gid].iter().chain(&self.groups).any(|&id| id == u32::MAX)
    }
}
