//! The resource graph and the reconcile state machine. This crate makes decisions and has no side effects.
//!
//! [`Graph`] stores the order of the vertices and the reason for each edge ([`Origin`]). It rejects cycles and
//! reports a shortest one. [`Machine`] takes an event ([`Input`]) and returns the next steps of the driver
//! ([`Command`]): check, apply, refresh, journal, wait. It performs no input or output, reads no clock and
//! starts no thread. The same inputs give the same commands, so a simulator can run it a million times from a
//! seed.
//!
//! The driver knows the type, attributes and provider of each vertex. Both identify a vertex by its [`ResourceId`],
//! which stays the same over all edits. An edit is one input, a [`GraphDiff`].
//!
//! *Start from* [`Graph::new`] and [`Machine`].

mod cycle;
mod graph;
mod machine;
mod resource_id;
mod vertex;
mod weak_edges;

pub use cycle::Cycle;
pub use graph::{Edge, EdgeId, Graph, Origin, Reason};
pub use machine::{
    ApplyResult, Backoff, Batch, ChangedVertex, CheckResult, Command, Contest, GraphDiff, HoldConfig, Input, Machine,
    RateLimit, RefreshToken, RepairBudget, Semaphores, Stage, Timestamp,
};
pub use resource_id::{IdAllocator, ResourceId};
pub use vertex::{Disposition, Group, Vertex};
