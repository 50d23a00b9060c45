//! User and groups of a child.

/// User and groups of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of the supplementary groups. The child has these only, and none of the caller's.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Returns true if all ids are valid. System calls take the largest number for "unchanged".
    pub(crate) fn is_sound(&self) -> bool {
        ![self.uid, self.gid].iter().chain(&self.groups).any(|&id| id == u32::MAX)
    }
}
