//! Actors that are plain scripts, in mold's convention.
//!
//! A [`Mold`] is a directory with `facts`, `resources` and `actors`. Every script reads a document from
//! standard input and prints a document to standard output. It may write [`Message`]s in netstrings to
//! descriptor 3, channel 3. A [`Historian`] receives these messages and the observations of the runner.
//!
//! *Start from* [`Mold::open`] and [`Channel`].

mod actors;
mod directory;
mod document;
mod error;
mod files;
mod kind;
mod listing;
mod recorder;
mod resource;
mod runner;
mod watch;

pub use crate::channel::{
    Channel, ChannelEvent, Frame, Garbage, Historian, LONGEST_MESSAGE, Message, NoHistorian, RawLog, Spawn, read_log,
};
pub use actors::{ActorError, ChoreographyStep, Prescribed, manifest_of};
pub use directory::Mold;
pub use error::{MoldCause, MoldError};
pub use files::{Files, LiveFiles};
pub use resource::MoldProvider;
