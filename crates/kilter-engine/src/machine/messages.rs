//! What a machine is told, and what it commands.

use crate::graph::VertexId;
use crate::vertex::Settlement;

/// Milliseconds on the driver's own, never-stepping clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// A refresh that is owed along a notify edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// Who changed.
    pub first: VertexId,
    /// Who is to be refreshed.
    pub second: VertexId,
}

impl Token {
    /// What is owed to a vertex by one that no longer comes before it.
    pub fn inherited(second: VertexId) -> Token {
        Token { first: second, second }
    }
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in its state.
    InSync,
    /// It is in its state, in which a refresh does nothing: a service that is to be stopped. A refresh that is owed to it is
    /// served, unless an earlier one failed.
    Idle,
    /// It is not.
    Differs,
    /// It depends on a value that is not known before another vertex has been changed.
    Unknown,
    /// It could not be told.
    Failed,
    /// It must not be changed: it has failed, and another try would find the same.
    Refused,
    /// It was not found out: the check was ended with the run, which the machine has been told of.
    Ended,
}

/// What became of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The vertex is in its state now, found by a check after the change.
    Done {
        /// Whether the change served an owed refresh too, or left nothing to refresh.
        refreshed: bool,
    },
    /// It is not.
    Failed,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A check has ended.
    Checked(VertexId, Verdict),
    /// An apply has ended.
    Applied(VertexId, Ran),
    /// A refresh has ended, and whether it succeeded.
    Refreshed(VertexId, bool),
    /// What was asked for a vertex was not begun, and will not be: the run is to end.
    Dropped(VertexId),
    /// What was asked for a vertex was not begun, since the run was paused: it is asked for anew, behind another look.
    Returned(VertexId),
    /// The time of a vertex has come.
    Due(VertexId),
    /// A vertex may have changed on the system.
    Stale(VertexId),
    /// The run is to end: what is in flight is finished, nothing new is started.
    Interrupt,
    /// The watch of a vertex has started: from now on its events are told.
    Watching(VertexId),
    /// The watch of a vertex has ended.
    Unwatched(VertexId),
    /// Nothing new is started until [`Input::Resume`].
    Pause,
    /// What was held back by [`Input::Pause`] is started.
    Resume,
    /// What a graph before had under way, and this one has not, has ended, and held this semaphore.
    Freed(u16),
    /// A refresh could not be journalled ([`Command::Owe`]): it is not owed, and what was to begin for its first vertex fails.
    Unrecorded(Token),
    /// A vertex gets a fresh repair budget; if it is contested or demoted, it is repaired again.
    Reinstate(VertexId),
}

/// Vertices of one group that are handed over together, in manifest order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The group.
    pub group: u16,
    /// The vertices.
    pub vertices: Vec<VertexId>,
}

/// Something the driver must do. Commands are carried out in the order in which they come: what
/// follows an [`Command::Owe`] may only begin when it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write into the journal that these refreshes are owed, from now on.
    Owe(Vec<Token>),
    /// Write into the journal that these refreshes are owed no longer.
    Paid(Vec<Token>),
    /// Check these, answer each with [`Input::Checked`].
    Check(Batch),
    /// Change these, check them again, answer each with [`Input::Applied`].
    Apply(Batch),
    /// Refresh these, answer each with [`Input::Refreshed`].
    Refresh(Batch),
    /// Answer with [`Input::Due`] when this time has come.
    Wake(VertexId, Timestamp),
    /// The vertex has settled, for now.
    Settled(VertexId, Settlement),
    /// Start the watch of a vertex anew: nothing is done to it. Answer with [`Input::Watching`].
    Watch(VertexId),
    /// Another program undoes the repairs of the vertex, which has been repaired once more. [`Machine::contest`](super::Machine::contest)
    /// has the time of the next repair.
    Contested(VertexId),
    /// The contest over the vertex has ended.
    Uncontested(VertexId),
    /// The vertex was repaired too often and yields: it is only watched from now on.
    Demoted(VertexId),
}
