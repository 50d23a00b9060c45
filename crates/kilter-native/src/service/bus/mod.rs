//! A client of D-Bus: calls, their answers, and signals, over a Unix socket.
//!
//! It blocks, waits no longer than a deadline, and ends at an interrupt. It knows no types but those that systemd
//! needs.

mod connection;
mod message;

pub(crate) use connection::{BusCall, Connection, Sockets, WaitLimit};
#[cfg(test)]
pub(crate) use message::MessageKind;
pub(crate) use message::{Body, BusMessage, Reader};

/// Reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BusError {
    /// The called service refused: name and text of its error.
    #[error("{message}")]
    Refused {
        /// Name, such as `org.freedesktop.systemd1.NoSuchUnit`.
        name: String,
        /// Text for people.
        message: String,
    },
    /// There is no connection.
    #[error("cannot connect to systemd at {path}: {why}")]
    Unconnected {
        /// Path of the socket.
        path: String,
        /// The reason.
        why: String,
    },
    /// The connection ended.
    #[error("lost the connection to systemd: {0}")]
    Lost(String),
    /// The deadline passed.
    #[error("systemd did not answer in {0} s")]
    Late(u64),
    /// The run was interrupted.
    #[error("interrupted while it waited for systemd")]
    Interrupted,
    /// The other side does not follow the specification.
    #[error("cannot understand systemd: {0}")]
    Malformed(&'static str),
}
