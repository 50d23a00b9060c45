//! The history of a machine: every run of kilter with its events, in one SQLite database.
//!
//! The store is append-only. A transaction adds events and one link of a chain of digests, so that
//! [`History::verify`] finds changed and missing events. The tables are described in `docs/reference/history.md`, and
//! `sqlite3 -readonly` can read them.
//!
//! The crate knows neither resource types nor the engine: the body of an event is JSON that the command writes and
//! reads. It never receives a secret: the command redacts the values, and encrypts saved states.
//!
//! *Start from* [`History`], [`HistoryBatch`] and [`HistoryEvent`].

mod batch;
mod declared;
mod error;
mod event;
mod link;
mod query;
mod retention;
mod rows;
mod store;
mod verify;

pub use batch::HistoryBatch;
pub use declared::{AttributeDigest, KnownDeclaration};
pub use error::HistoryError;
pub use event::{EventId, EventKind, HistoryEvent, NewEvent, ResourceKey, RunId};
pub use link::{hexadecimal, sha256};
pub use query::{Order, RunRecord, Selection};
pub use retention::{Removed, Retention};
pub use store::{FILE_NAME, History};
pub use verify::Verification;
