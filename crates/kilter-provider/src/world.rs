//! Values shared between machines.

use std::path::PathBuf;
use std::time::SystemTime;

use ecow::EcoString;

/// Shared key-value store (mgmt resource guide, "World").
///
/// A key is a list of non-empty parts. Different lists are different keys, with any content of the parts.
pub trait World: Send + Sync {
    /// Returns the name of this machine in the store.
    fn host(&self) -> &str;

    /// Returns the identity of the store, independent of the way it is reached: `/srv/world`.
    fn id(&self) -> String;

    /// Returns true if other machines may use the store.
    fn is_shared(&self) -> bool {
        true
    }

    /// Returns true if the store is reached over a network, so that it may be unreachable for a while.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns why the store cannot be [followed](World::follow) now, if the last attempt failed.
    fn unreachable(&self) -> Option<Unreachable> {
        None
    }

    /// Reads the text of a key, if the key exists.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn read(&self, key: &[&str]) -> Result<Option<String>, WorldError>;

    /// Reads all entries below a key, sorted by key.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError>;

    /// Like [`below`](World::below), but from the cache. While the store is [followed](World::follow), this
    /// does not wait, and the result may be slightly out of date.
    ///
    /// # Errors
    /// See [`below`](World::below).
    fn seen_below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError> {
        self.below(key)
    }

    /// Writes a text, and replaces an existing one. The write is atomic.
    ///
    /// # Errors
    /// If the write failed, or may be lost in a crash of the machine.
    fn write(&self, key: &[&str], text: &str) -> Result<(), WorldError>;

    /// Writes a text if the current text equals `expected`. None means that the key must not exist. Returns
    /// true if the text was written.
    ///
    /// # Errors
    /// See [`write`](World::write).
    fn replace(&self, key: &[&str], expected: Option<&str>, text: &str) -> Result<bool, WorldError>;

    /// Removes a key.
    ///
    /// # Errors
    /// If the key may still exist.
    fn remove(&self, key: &[&str]) -> Result<(), WorldError>;

    /// Returns a path that changes whenever a key or a key below it changes.
    fn watched(&self, key: &[&str]) -> PathBuf;

    /// Starts updating the [watched paths](World::watched), if the store does not do this by itself.
    fn follow(&self) {}

    /// Stops following the store and removes all temporary data.
    fn leave(&self) {}
}

/// The store cannot be followed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Time at which the cache was last known to be up to date.
    pub since: SystemTime,
    /// Why the last attempt failed.
    pub why: WorldError,
}

/// An entry of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Key, relative to the requested key.
    pub key: Vec<EcoString>,
    /// The text, or the reason why this entry cannot be read.
    pub text: Result<String, WorldError>,
}

/// Error of the shared store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorldError(pub EcoString);
