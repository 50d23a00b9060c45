//! Sessions on other hosts.
//!
//! [`RemoteSession::open`] starts `ssh` (or another [`Via`]) with a small script for the shell of the host. The script
//! finds this program in a cache on the host, or receives it, and runs it. The program then executes
//! [commands](RemoteSession::call) with [`serve`] until the connection ends.
//!
//! # Guarantees
//! - The host needs a POSIX shell, and `head`, `gzip` and `sha256sum` for the first session. If no directory allows
//!   the execution of programs, it needs `perl`.
//! - The program runs only if its SHA-256 is right, from a directory that belongs to its user and that nobody else can
//!   enter, or from memory.
//! - A password is written to the input of the program that asked for it. It is in no argument, no environment and no
//!   file.
//! - No value becomes part of a text that a shell evaluates.
//! - If the connection is lost, a command ends on the host as after SIGTERM: after its step in flight.
//! - The host cannot make the controller read or run anything. The controller bounds what it receives.
//!
//! *Start from* [`Destination`] and [`RemoteSession`].

mod binary;
mod compressed;
mod destination;
mod frame;
mod scripts;
mod serve;
mod session;
mod stub;

pub use binary::{Binary, Programs};
pub use destination::{Become, BecomeMethod, Destination, Password, Ssh, Via};
pub use scripts::ScriptTree;
pub use serve::{WorkingDirectory, serve};
pub use session::{Finished, LinkError, OpenError, RemoteCall, RemoteSession, Settings};
