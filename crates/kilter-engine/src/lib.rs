//! The resource graph and the reconcile machine: decisions, nothing else.
//!
//! [`Graph`] holds which vertex comes before which and why ([`Origin`]), refuses cycles and shows
//! the shortest of them. [`Machine`] takes what happened ([`Input`]) and answers with what the
//! driver must do next ([`Command`]): check, apply, refresh, journal, wait. It performs no input or
//! output, reads no clock and starts no thread, so that a simulator can run it a million times from
//! a seed: same inputs, same commands.
//!
//! What a vertex *is* (its type, attributes, provider) is left to the driver, which knows vertices
//! by their index in manifest order.
//!
//! *Start from* [`Graph::new`] and [`Machine`].

mod cycle;
mod graph;
mod machine;
mod vertex;
mod yielding;

pub use cycle::Cycle;
pub use graph::{Edge, EdgeId, Graph, Origin, Reason, VertexId};
pub use machine::{
    Backoff, Batch, Budget, Command, Contest, Holding, Input, Limit, Machine, Ran, Replacement, Semaphores, Stage,
    Timestamp, Token, Verdict,
};
pub use vertex::{Settlement, Vertex};
