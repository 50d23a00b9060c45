//! Tells who has an interest in a path that something happened to it.
//!
//! A [`Hub`] is one inotify descriptor and one thread for all that a process watches. Subscribers name
//! paths; they are told when what `lstat` and the content say of one may have changed. Directories are
//! watched, not files: one watch serves every path in a directory, and a file that is replaced by a rename
//! stays watched.
//!
//! - Every directory above a path is watched for names that come and go. So a path may begin anywhere
//!   below what exists, and what is moved away, deleted, or put in the place of something else is seen at
//!   every level.
//! - A symbolic link, above a path or at its end, is watched as a name in its own directory, and where it
//!   leads to is watched like any other path.
//! - What does not pass through the directory is watched itself: a file with several names (hard links)
//!   and what is mounted at the path. Mounts come and go without events: the kernel's list of them is watched.
//! - A watch is added first, then it is looked what is there, then the subscriber is told. What happens in
//!   between is told or seen, never lost.
//!
//! Telling too often costs a check; telling too seldom would be a defect. Of a batch of events that is
//! read at once, each subscriber is told once; nothing is delayed to collect more.
//!
//! | file | has |
//! |---|---|
//! | `bells` | what is no path: the network, and the end of processes |
//! | `hub` | the thread, and the lock around the rest |
//! | `map` | who subscribes to what, and what has to be watched for it |
//! | `look` | the map brought in accord with the file system |
//! | `hear` | events, and who is told of them |
//! | `link` | where symbolic links lead to |
//! | `mounts` | what is mounted where |
//! | `nodes`, `subscriptions`, `slab` | paths and subscriptions in little memory |
//! | `kernel` | the system calls |
//!
//! What is covered and what is not is in `docs/reference/watching.md`. *Start from* [`Hub::start`].

mod bells;
mod hear;
mod hub;
mod kernel;
mod link;
mod look;
mod map;
mod mounts;
mod nodes;
mod slab;
mod subscriptions;

use std::path::PathBuf;

pub(crate) use bells::{Bell, Bells};
pub use hub::{Hub, Limits, StartError};
/// How much of what is at a path is watched. Links below a tree are entries; they are not followed.
pub use kilter_provider::Scope;

/// Who is told: a number that the caller chooses, as that of a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber(pub u32);

/// What is watched for a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathWatch {
    /// An absolute path, without `..`. Nothing of it needs to exist.
    pub path: PathBuf,
    /// How much of what is there.
    pub scope: Scope,
}

/// What a hub tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Something happened to a path of these subscribers. Each is named once, in order.
    Changed(Vec<Subscriber>),
    /// Events were lost, as more came than the kernel keeps: anything may have changed.
    Everything,
    /// From now on these are not watched, or not wholly.
    Lost(Lost),
}

/// Subscribers for which watching is not enough, and why. They are still told what is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Who has to look by itself from time to time.
    pub subscribers: Vec<Subscriber>,
    /// What stands in the way.
    pub why: Why,
}

/// Why something cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Why {
    /// The kernel gives this user no more watches.
    #[error("no more inotify watches for this user: raise the limit by `sysctl fs.inotify.max_user_watches`")]
    LimitOfUser,
    /// As many watches are in use as the hub may have.
    #[error("all {0} watches that are allowed are in use")]
    LimitOfHub(usize),
    /// The kernel has no memory for one more watch.
    #[error("no memory in the kernel for another inotify watch")]
    Memory,
    /// A directory may be entered, but not read.
    #[error("{}: a directory can only be watched by who may read it", .0.display())]
    Denied(PathBuf),
    /// Directories in a watched tree below which nothing is watched.
    #[error("{}: what is below is too deep to be watched with its tree", .0.display())]
    Depth(PathBuf),
    /// A path that a hub does not take.
    #[error("{}: only absolute paths without `..` are watched", .0.display())]
    Path(PathBuf),
    /// The hub could not begin to watch.
    #[error("{0}")]
    Deaf(String),
    /// A process whose end cannot be waited for.
    #[error("a process cannot be watched: {0}")]
    Process(String),
    /// Anything else that the system says.
    #[error("{}: cannot be watched: {why}", .path.display())]
    System {
        /// What was to be watched.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
}

impl Why {
    /// Whether a limit stands in the way, which may be raised, or not be reached any more.
    pub fn is_limit(&self) -> bool {
        matches!(self, Why::LimitOfUser | Why::LimitOfHub(_) | Why::Memory)
    }
}

/// What a hub holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Watches of the kernel: about one a directory.
    pub watches: usize,
    /// Subscribers that have at least one path.
    pub subscribers: usize,
    /// Paths that are subscribed to, and those above them.
    pub paths: usize,
    /// Open descriptors, however much is watched.
    pub descriptors: usize,
    /// How often events were lost.
    pub overflows: u64,
}
