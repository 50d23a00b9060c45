//! What the machine knows of one vertex.

use crate::graph::VertexId;

/// What the driver tells of a vertex before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vertex {
    /// Vertices of one group are handed over together.
    pub group: u16,
    /// Whether changes of its group are handed over one by one.
    pub single: bool,
    /// Whether it is only looked at, never changed.
    pub noop: bool,
    /// Whether it acts on a refresh; others count as refreshed when they are in their state.
    pub refreshable: bool,
    /// How often a failure is tried again; negative without end.
    pub retry: i32,
    /// Milliseconds between two tries.
    pub delay: u64,
}

/// How a vertex ended its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It was in its state.
    InSync,
    /// It was brought to its state.
    Changed,
    /// It was in its state and was refreshed.
    Refreshed,
    /// It would be changed; it is only looked at.
    WouldChange,
    /// It would be refreshed; it is only looked at.
    WouldRefresh,
    /// Whether it would be changed depends on a value that is not known yet.
    Unknown,
    /// It could not be brought to its state.
    Failed,
    /// It was left alone because a vertex before it failed: the one that failed first.
    Blocked(VertexId),
    /// The run was interrupted before it was its turn.
    Interrupted,
}

impl Settlement {
    /// Whether what depends on it may run.
    pub fn lets_pass(self) -> bool {
        !matches!(self, Settlement::Failed | Settlement::Blocked(_) | Settlement::Interrupted)
    }
}

/// Where a vertex stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Vertices before it have not settled.
    Waiting,
    /// It is its turn.
    Ready,
    /// The driver checks it.
    Checking,
    /// It is not in its state, and about to be changed.
    Differs,
    /// The driver changes it.
    Applying,
    /// It is in its state, and about to be refreshed.
    Owed,
    /// The driver refreshes it.
    Refreshing,
    /// It failed and is tried again when its time comes.
    Delayed,
    /// It has settled.
    Settled(Settlement),
}

/// What is owed along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    /// Nothing.
    Nothing,
    /// A refresh, in the journal.
    Owed,
    /// A refresh, in the journal; what is under way serves it. A change meanwhile owes it anew.
    Served,
}

/// The changing part of a vertex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) phase: Phase,
    /// Parents that have not settled.
    pub(crate) waiting: u32,
    /// Tries that are left; negative without end.
    pub(crate) retries: i32,
    /// The vertex whose failure reaches this one.
    pub(crate) blocker: Option<VertexId>,
    /// Whether it was changed in this pass.
    pub(crate) changed: bool,
    /// Whether it was refreshed in this pass.
    pub(crate) refreshed: bool,
    /// Whether a refresh that is still owed to it has failed, in this run or possibly in an earlier one.
    pub(crate) refresh_failed: bool,
    /// Whether something said that it may have changed since the check began.
    pub(crate) stale: bool,
}
