//! File watches: notifies subscribers about events on paths.
//!
//! A [`Hub`] is one inotify descriptor and one thread for all watches of a process. Subscribers name paths. They
//! are notified when the `lstat` result or the content of a path may have changed. The hub watches directories
//! instead of files: one watch serves every path in a directory, and a file that a rename replaces stays watched.
//!
//! - Every directory above a path is watched for names that appear and disappear. So a path may begin anywhere
//!   below existing directories. A move, removal or replacement is seen at every level.
//! - A symbolic link, above a path or at its end, is watched as a name in its own directory. Its target is watched
//!   like any other path.
//! - Objects whose events bypass the directory are watched themselves: files with several names (hard links) and
//!   mount points. Mounts cause no events, so that the hub watches the kernel's list of mounts.
//! - The hub adds a watch first, then reads the file system, then notifies the subscriber. A change in between is
//!   an event or visible, and never lost.
//!
//! A needless notification costs a check; a missing one would be a defect. The hub notifies each subscriber once
//! for each batch of events that it reads. It does not delay events to collect more.
//!
//! | file | has |
//! |---|---|
//! | `non_file` | events without a path: the network, and the end of processes |
//! | `hub` | the thread, and the lock around the rest |
//! | `map` | the subscriptions, and the watches they need |
//! | `rescan` | synchronisation of the map with the file system |
//! | `dispatch` | handling of events, and the subscribers to notify |
//! | `link` | targets of symbolic links |
//! | `mounts` | the list of mounts |
//! | `nodes`, `subscriptions`, `slab` | compact storage of paths and subscriptions |
//! | `kernel` | the system calls |
//!
//! `docs/reference/watching.md` lists the supported cases. *Start from* [`Hub::start`].

mod dispatch;
mod hub;
mod hub_events;
mod kernel;
mod link;
mod mounts;
mod nodes;
mod non_file;
mod rescan;
mod slab;
mod subscriptions;
mod watch_tree;

use std::path::PathBuf;

pub use hub::{Hub, Limits, StartError};
/// Part of a path that is watched. Links below a tree are entries; the hub does not follow them.
pub use kilter_provider::Scope;
pub(crate) use non_file::{EventSource, NonFileWatcher};

/// Number of a subscriber, chosen by the caller, such as the key of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber(pub u64);

/// Watched path of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathWatch {
    /// Absolute path without `..`. No part of it needs to exist.
    pub path: PathBuf,
    /// Watched part of the path.
    pub scope: Scope,
}

/// Event of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// Paths of these subscribers may have changed. Each is named once, in order.
    Changed(Vec<Subscriber>),
    /// The kernel's queue has overflowed: any path may have changed.
    Everything,
    /// These subscribers are no longer watched completely.
    Lost(WatchLost),
}

/// Subscribers with a path that cannot be watched, and the reason. They still receive the events that the hub sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchLost {
    /// Subscribers that must be polled.
    pub subscribers: Vec<Subscriber>,
    /// Reason.
    pub why: WatchError,
}

/// Reason why a path cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WatchError {
    /// The user has reached the kernel's limit of watches.
    #[error("no more inotify watches for this user: raise the limit by `sysctl fs.inotify.max_user_watches`")]
    LimitOfUser,
    /// The hub has reached its own limit of watches.
    #[error("all {0} watches that are allowed are in use")]
    LimitOfHub(usize),
    /// The kernel has no memory for another watch.
    #[error("no memory in the kernel for another inotify watch")]
    Memory,
    /// A directory may be entered, but not read.
    #[error("{}: kilter can watch only directories that it may read", .0.display())]
    Denied(PathBuf),
    /// Directory in a watched tree below which the hub watches no further levels.
    #[error("{}: deeper levels of this tree are not watched", .0.display())]
    Depth(PathBuf),
    /// Path that a hub does not accept.
    #[error("{}: only absolute paths without `..` are watched", .0.display())]
    Path(PathBuf),
    /// The hub could not start.
    #[error("{0}")]
    Deaf(String),
    /// Process whose end cannot be watched.
    #[error("a process cannot be watched: {0}")]
    Process(String),
    /// Any other error of the system.
    #[error("{}: cannot be watched: {why}", .path.display())]
    System {
        /// Path to watch.
        path: PathBuf,
        /// Error text of the system.
        why: String,
    },
}

impl WatchError {
    /// Returns true if the reason is a limit, which may be raised or no longer reached.
    pub fn is_limit(&self) -> bool {
        matches!(self, WatchError::LimitOfUser | WatchError::LimitOfHub(_) | WatchError::Memory)
    }
}

/// Numbers of the objects of a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchCounts {
    /// Watches of the kernel: about one for each directory.
    pub watches: usize,
    /// Subscribers with at least one path.
    pub subscribers: usize,
    /// Subscribed paths, and the directories above them.
    pub paths: usize,
    /// Open descriptors, independent of the number of watches.
    pub descriptors: usize,
    /// Number of event queue overflows.
    pub overflows: u64,
}
