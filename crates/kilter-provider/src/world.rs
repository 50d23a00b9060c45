//! What machines share.

use std::path::PathBuf;

use ecow::EcoString;

/// Texts under keys, which machines share (mgmt resource guide, "World").
///
/// A key is a list of parts; no two keys are one, whatever is in their parts. No part is empty.
pub trait World: Send + Sync {
    /// What this machine is called there.
    fn host(&self) -> &str;

    /// Where it is, for people: `/srv/world`.
    fn place(&self) -> String;

    /// Whether other machines may be there as well.
    fn is_shared(&self) -> bool {
        true
    }

    /// The text under a key, if there is one.
    ///
    /// # Errors
    /// When that cannot be told.
    fn read(&self, key: &[&str]) -> Result<Option<String>, WorldError>;

    /// What is below a key: the parts that follow, and the text, in the order of their keys.
    ///
    /// # Errors
    /// When any of it cannot be read.
    fn below(&self, key: &[&str]) -> Result<Vec<(Vec<EcoString>, String)>, WorldError>;

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
}

/// Why something cannot be told, or changed, of what machines share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorldError(pub EcoString);
