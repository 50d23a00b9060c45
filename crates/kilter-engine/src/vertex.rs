//! State of a vertex in the machine.

use crate::resource_id::ResourceId;

/// Group of vertices that share a batch: one provider, whose calls run on the same kind of thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Index of the provider.
    pub provider: u16,
    /// True if checks run on a worker.
    pub checks_on_worker: bool,
    /// True if changes and refreshes run on a worker.
    pub changes_on_worker: bool,
}

/// Properties of a vertex, set by the driver before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vertex {
    /// Group of the vertex. Vertices of a group share a batch.
    pub group: Group,
    /// True if each vertex of the group gets a batch of its own.
    pub single: bool,
    /// True if the vertex is checked but never changed.
    pub noop: bool,
    /// True if the vertex acts on a refresh. Other vertices count as refreshed when they are in sync.
    pub refreshable: bool,
    /// Maximum number of retries after a failure. Negative means unlimited.
    pub retry: i32,
    /// Milliseconds between two attempts.
    pub delay: u64,
    /// True if failures of other vertices do not block the vertex: its edges only order it.
    pub independent: bool,
}

/// Result of a vertex in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The vertex was in sync.
    InSync,
    /// The vertex was changed and is in sync.
    Changed,
    /// The vertex was in sync and was refreshed.
    Refreshed,
    /// The vertex would be changed, but changes are disabled (noop).
    WouldChange,
    /// The vertex would be refreshed, but changes are disabled (noop).
    WouldRefresh,
    /// The result depends on a value that is not known yet.
    Unknown,
    /// The vertex is out of sync, or its check failed.
    Failed,
    /// The vertex was skipped because this ancestor failed first.
    Blocked(ResourceId),
    /// The run was interrupted before the vertex started.
    Interrupted,
}

impl Disposition {
    /// Returns true if dependents of the vertex may run.
    pub fn unblocks_dependents(self) -> bool {
        !matches!(self, Disposition::Failed | Disposition::Blocked(_) | Disposition::Interrupted)
    }
}

/// Current phase of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Some parents have not settled.
    Waiting,
    /// The vertex is ready to start.
    Ready,
    /// The driver checks the vertex.
    Checking,
    /// The vertex is out of sync and about to be changed.
    Differs,
    /// The driver changes the vertex.
    Applying,
    /// The vertex is in sync and about to be refreshed.
    Owed,
    /// The driver refreshes the vertex.
    Refreshing,
    /// The vertex waits for a timer before the next attempt.
    Delayed,
    /// The vertex has settled.
    Settled(Disposition),
}

/// State of the refresh along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshState {
    /// No refresh is pending.
    Idle,
    /// A refresh is pending and journalled.
    Pending,
    /// A refresh is journalled and in progress. Another change in the meantime makes it pending again.
    InProgress,
}

/// Mutable state of a vertex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VertexState {
    pub(crate) phase: Phase,
    /// Number of parents and watches that the vertex waits for.
    pub(crate) waiting: u32,
    /// Number of retries left. Negative means unlimited.
    pub(crate) retries: i32,
    /// The failed vertex that blocks this one.
    pub(crate) blocker: Option<ResourceId>,
    /// True if the vertex was changed in this pass.
    pub(crate) changed: bool,
    /// True if the vertex was refreshed in this pass.
    pub(crate) refreshed: bool,
    /// True if a refresh that is still pending has failed, in this run or possibly in an earlier run.
    pub(crate) refresh_failed: bool,
    /// True if an event arrived since the check started.
    pub(crate) stale: bool,
}

impl VertexState {
    /// Returns the initial state of a vertex with this number of retries.
    pub(crate) fn new(retries: i32) -> VertexState {
        VertexState {
            phase: Phase::Waiting,
            waiting: 0,
            retries,
            blocker: None,
            changed: false,
            refreshed: false,
            refresh_failed: false,
            stale: false,
        }
    }

    /// Returns true if a call for the vertex is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.phase, Phase::Checking | Phase::Applying | Phase::Refreshing)
    }
}
