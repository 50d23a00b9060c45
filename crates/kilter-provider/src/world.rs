//! What machines share.

use std::path::PathBuf;

use ecow::EcoString;

/// Texts under keys, which machines share (mgmt resource guide, "World").
///
/// A key is a list of parts; no two keys are one, whatever is in their parts. No part is empty.
pub trait World: Send + Sync {
    /// What this machine is called there.
    fn host(&self) -> &str;

    /// What tells it from other worlds, by whichever way it is reached: `/srv/world`.
    fn id(&self) -> String;

    /// Whether other machines may be there as well.
    fn is_shared(&self) -> bool {
        true
    }

    /// The text under a key, if there is one.
    ///
    /// # Errors
    /// When that cannot be told.
    fn read(&self, key: &[&str]) -> Result<Option<String>, WorldError>;

    /// What is below a key, in the order of the keys.
    ///
    /// # Errors
    /// When nothing of it can be read.
    fn below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError>;

    /// The same as far as it has been told: perhaps a moment old, but nothing is waited for while it is [followed](World::follow).
    ///
    /// # Errors
    /// As [`below`](World::below).
    fn seen_below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError> {
        self.below(key)
    }

    /// Puts a text under a key, in the place of what is there. It is there as a whole, or not at all.
    ///
    /// # Errors
    /// When it is not there, or may be lost when the machine crashes.
    fn write(&self, key: &[&str], text: &str) -> Result<(), WorldError>;

    /// Puts a text under a key if what is there is what was expected, nothing included: whether it was.
    ///
    /// # Errors
    /// As [`write`](World::write).
    fn replace(&self, key: &[&str], expected: Option<&str>, text: &str) -> Result<bool, WorldError>;

    /// Leaves nothing under a key.
    ///
    /// # Errors
    /// When something may still be there.
    fn remove(&self, key: &[&str]) -> Result<(), WorldError>;

    /// A path to which something happens whenever something happens under a key or below it.
    fn watched(&self, key: &[&str]) -> PathBuf;

    /// From now on something happens to [such paths](World::watched), if it did not by itself.
    fn follow(&self) {}

    /// It is followed no longer, and nothing is left of that.
    fn leave(&self) {}
}

/// A text that is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The parts of its key, behind those of the key below which it was looked for.
    pub key: Vec<EcoString>,
    /// The text, or why just this one cannot be read.
    pub text: Result<String, WorldError>,
}

/// Why something cannot be told, or changed, of what machines share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorldError(pub EcoString);
