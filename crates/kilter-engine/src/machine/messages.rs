//! Inputs and commands of the machine.

use super::edit::GraphDiff;
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Group};

/// Time in milliseconds on a monotonic clock of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// A pending refresh along a notify edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefreshToken {
    /// The vertex that changed.
    pub first: ResourceId,
    /// The vertex to refresh.
    pub second: ResourceId,
}

impl RefreshToken {
    /// Returns a pending refresh whose notifier is no longer a parent of `second`.
    pub fn orphaned(second: ResourceId) -> RefreshToken {
        RefreshToken { first: second, second }
    }
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The vertex is in sync.
    InSync,
    /// The vertex is in sync in a state in which a refresh has no effect. Example: a service that must be
    /// stopped. A pending refresh counts as done unless an earlier refresh failed.
    Idle,
    /// The vertex is out of sync.
    Differs,
    /// The result depends on a value that is unknown until another vertex has been changed.
    Unknown,
    /// The check failed.
    Failed,
    /// The vertex must not be changed. It has failed, and a retry would find the same.
    Refused,
    /// The check was cancelled because the run was interrupted. The machine has received [`Input::Interrupt`].
    Cancelled,
}

/// Result of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyResult {
    /// A check after the change found the vertex in sync.
    Done {
        /// True if the change also did the pending refresh, or made it unnecessary.
        refreshed: bool,
    },
    /// The change failed, or the vertex is still out of sync.
    Failed,
}

/// An event or a result that the driver passes to the machine.
///
/// An input about a vertex that was removed or changed by an edit has no effect. The answer to a call for such a vertex
/// releases its semaphores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A check has finished.
    Checked(ResourceId, CheckResult),
    /// An apply has finished.
    Applied(ResourceId, ApplyResult),
    /// A refresh has finished: true if it succeeded.
    Refreshed(ResourceId, bool),
    /// The driver cancelled a call before it started, because the run is about to end.
    Cancelled(ResourceId),
    /// The driver returned a call before it started, because the run was paused. The machine requests it again
    /// after another check.
    Requeued(ResourceId),
    /// The timer of a vertex has expired.
    TimerFired(ResourceId),
    /// A vertex may have changed on the system.
    Stale(ResourceId),
    /// The run is about to end. Calls in flight finish, and the machine starts no new ones.
    Interrupt,
    /// The watch of a vertex has started. From now on, the driver reports its events.
    WatchEstablished(ResourceId),
    /// The watch of a vertex has ended.
    WatchLost(ResourceId),
    /// The run is paused: the machine starts no calls until [`Input::Resume`].
    Pause,
    /// The run continues: the machine starts the calls that [`Input::Pause`] held back.
    Resume,
    /// A refresh could not be journalled ([`Command::JournalRefresh`]), so it is not pending. The call for its first
    /// vertex fails.
    Unrecorded(RefreshToken),
    /// A vertex gets a fresh repair budget; if it is contested or demoted, it is repaired again.
    ResetBudget(ResourceId),
    /// The manifest was edited.
    Edit(Box<GraphDiff>),
}

impl Input {
    /// Returns the vertex that an input is about, if it is about one.
    pub(super) fn vertex(&self) -> Option<ResourceId> {
        match self {
            Input::Checked(vertex, _)
            | Input::Applied(vertex, _)
            | Input::Refreshed(vertex, _)
            | Input::Cancelled(vertex)
            | Input::Requeued(vertex)
            | Input::TimerFired(vertex)
            | Input::Stale(vertex)
            | Input::WatchEstablished(vertex)
            | Input::WatchLost(vertex)
            | Input::ResetBudget(vertex) => Some(*vertex),
            Input::Interrupt | Input::Pause | Input::Resume | Input::Unrecorded(_) | Input::Edit(_) => None,
        }
    }

    /// Returns true if the input answers a call.
    pub(super) fn is_answer(&self) -> bool {
        matches!(
            self,
            Input::Checked(..) | Input::Applied(..) | Input::Refreshed(..) | Input::Cancelled(_) | Input::Requeued(_)
        )
    }
}

/// Vertices of one group that the driver handles in one call, in manifest order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The group.
    pub group: Group,
    /// The vertices.
    pub vertices: Vec<ResourceId>,
}

/// A step for the driver. The driver carries out commands in order. Commands after a [`Command::JournalRefresh`] must
/// not start before its tokens are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write these pending refreshes to the journal.
    JournalRefresh(Vec<RefreshToken>),
    /// Remove these refreshes from the journal.
    ClearRefresh(Vec<RefreshToken>),
    /// Check these vertices. Answer each with [`Input::Checked`].
    Check(Batch),
    /// Change these vertices and check them again. Answer each with [`Input::Applied`].
    Apply(Batch),
    /// Refresh these vertices. Answer each with [`Input::Refreshed`].
    Refresh(Batch),
    /// Set a timer. Answer with [`Input::TimerFired`] at this time.
    SetTimer(ResourceId, Timestamp),
    /// The vertex has settled, for now.
    Settled(ResourceId, Disposition),
    /// Restart the watch of a vertex that has no call in flight. Answer with [`Input::WatchEstablished`].
    Watch(ResourceId),
    /// Another program undoes the repairs of the vertex, and the vertex has been repaired again.
    /// [`Machine::contest`](super::Machine::contest) returns the time of the next repair.
    Contested(ResourceId),
    /// The contest over the vertex has ended.
    Uncontested(ResourceId),
    /// The vertex used up its repair budget and yields. From now on it is only watched.
    Demoted(ResourceId),
}
