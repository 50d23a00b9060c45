//! What happens to a child while it runs, as it happens.

use crate::confine::Confined;
use crate::finished::{Ending, Status};

/// What a child writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// Its output.
    Stdout,
    /// Its error output.
    Stderr,
    /// Descriptor 3.
    Channel,
}

/// Something happened. What a child did is told in the order in which kilter saw it: between two streams
/// that is close to the order in which it was done, and no more.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The child runs. The first event of all.
    Spawned {
        /// Its process.
        pid: u32,
        /// How it is kept from changing the machine.
        confined: &'a Confined,
    },
    /// A part of its input is in the pipe; whether the child reads it nobody knows.
    StdinWritten {
        /// The part.
        bytes: &'a [u8],
    },
    /// It wrote something: as much as was there, not more than 64 KiB, lines and characters cut anywhere.
    Chunk {
        /// To what.
        stream: Stream,
        /// What.
        bytes: &'a [u8],
    },
    /// It wrote more, which nobody has seen: told where it is played what a child did that ran before.
    Unseen {
        /// To what.
        stream: Stream,
        /// How many bytes.
        bytes: u64,
    },
    /// A stream has ended, or is no longer read. Told once for each that there is.
    Closed {
        /// Which.
        stream: Stream,
    },
    /// The child has ended. The last event; there is none if it could not be waited for.
    Exited {
        /// How it ended.
        status: Status,
        /// What brought that about.
        ending: Ending,
    },
}

/// Looks on while a child runs, on the thread that waits for it: as long as it takes, nothing is read
/// and no deadline is kept.
pub type Observer<'a> = &'a mut dyn FnMut(Event<'_>);
