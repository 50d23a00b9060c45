//! Events of a child while it runs.

use crate::confine::Confined;
use crate::finished::{Status, Termination};

/// Output stream of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Descriptor 3.
    Channel,
}

/// An event of a child. Events arrive in the order in which kilter sees them. Between two streams this order is only
/// close to the order of the writes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The child runs. This is always the first event.
    Spawned {
        /// Process id of the child.
        pid: u32,
        /// Degree to which the child is confined.
        confined: &'a Confined,
    },
    /// kilter wrote a part of the input to the pipe. The child may not have read it.
    StdinWritten {
        /// The written part.
        bytes: &'a [u8],
    },
    /// The child wrote to a stream. An event holds at most 64 KiB and can end inside a line or a character.
    Chunk {
        /// The stream.
        stream: Stream,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The child wrote more bytes, which are not available. Occurs only when a recorded child is replayed.
    Unseen {
        /// The stream.
        stream: Stream,
        /// Number of bytes.
        bytes: u64,
    },
    /// A stream has ended, or kilter no longer reads it. Occurs once per open stream.
    Closed {
        /// The stream.
        stream: Stream,
    },
    /// The child has ended. This is the last event. It is missing if kilter could not wait for the child.
    Exited {
        /// Exit code or signal.
        status: Status,
        /// Cause of the end.
        ending: Termination,
    },
}

/// Callback that receives the events of a child, on the thread that waits for it. While it runs, kilter reads no
/// stream and enforces no deadline.
pub type Observer<'a> = &'a mut dyn FnMut(Event<'_>);
