//! Event sources for held resources.

use std::path::PathBuf;
use std::time::Duration;

/// An event source for a held resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchSource {
    /// A change of a path by any program.
    Path {
        /// Absolute path.
        path: PathBuf,
        /// Scope of the watch.
        scope: Scope,
    },
    /// A change in the state directory, at this relative path. There are no events if the run keeps no state.
    StateFile(PathBuf),
    /// Any change in this part of the network configuration.
    Network(Network),
    /// The end of the process whose number is the first word of this file, or a change of the file.
    Process(PathBuf),
    /// No events: the resource is polled at this interval.
    Poll(Duration),
    /// Events of the provider: a common [`Watch::watch`](crate::Watch::watch) reports the name of the
    /// resource.
    Provider,
    /// Events of the provider: a [`Watch::watch`](crate::Watch::watch) for this resource only.
    ProviderPerResource,
}

/// Receiver of the events of a watching provider. Can be called from any thread.
pub trait WatchSink: Sync {
    /// Reports that the watch has started.
    fn watching(&self);

    /// Reports that the resource with this name may have changed.
    fn changed(&self, name: &str);

    /// Reports that any resource may have changed.
    fn all_changed(&self);

    /// Reports that the watch of the resource with this name has failed for now, with the reason. The watches
    /// of other resources continue.
    fn unwatched(&self, name: &str, why: &str) {
        let _ = (name, why);
    }

    /// Reports that the watch of this resource works again. Changes in the meantime are reported separately.
    fn rewatched(&self, name: &str) {
        let _ = name;
    }
}

/// Parts of the network configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// Interfaces and their settings.
    Links,
    /// Addresses of interfaces.
    Addresses,
    /// Routes.
    Routes,
}

/// Scope of the watch of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The file or directory itself, also if it is replaced.
    This,
    /// The path and its direct entries.
    Entries,
    /// The path and everything below it.
    Tree,
}

/// Polling interval of a resource without events.
pub const POLL: Duration = Duration::from_secs(300);
