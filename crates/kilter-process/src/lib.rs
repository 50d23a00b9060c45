//! One child process, from its start to its end.
//!
//! [`Invocation`] says what to start: argv, an exact environment, input, identity, how much of the
//! outputs to keep, a deadline. [`run`] starts it, feeds and drains it, ends it when its time is up or
//! somebody cancels, and returns what became of it: [`Finished`]. [`which`] finds programs.
//!
//! The call blocks its thread; nothing here knows of async runtimes, of resources or of the meaning
//! of exit codes. What to start and what to make of the result is left to others.
//!
//! # What a child can rely on
//! - *Environment*: `PATH` is [`DEFAULT_PATH`], `LANG` and `LC_ALL` are `C.UTF-8`. Nothing is passed
//!   on from kilter's own environment; `HOME`, `USER` and the like are there only if given.
//! - *Standard input*: the bytes that were given, then end of file; `/dev/null` if none were.
//! - *Outputs*: pipes that are always read, beyond the limit too; `/dev/null` if nobody wants them.
//! - *Process group*: its own, in the background of any terminal, so that Ctrl-C there reaches kilter only.
//! - *Another user*: a session of its own, without any terminal: it cannot type into kilter's. The working
//!   directory is entered with that user's rights.
//!
//! # What the caller can rely on
//! - `run` returns when the child has exited, whatever its descendants do: one that keeps the
//!   pipes open costs a tenth of a second ([`Finished::leaked`]) and is left alone.
//! - At the deadline, or when cancelled, the whole process group gets SIGTERM, and SIGKILL when the
//!   grace is over.
//! - A child that never reads its input, closes its outputs early or floods them does no harm. One that
//!   wrote more than [`Capture::AtMost`] never counts as a success, however it ended.
//! - Without identity and umask nothing runs between fork and exec: the standard library takes
//!   `posix_spawn`.
//!
//! *Start from* [`Invocation`] and [`run`].

mod finished;
mod identity;
mod invocation;
mod pipes;
mod run;
mod stop;
mod which;

pub use finished::{Captured, Ending, Finished, SpawnError, Status};
pub use identity::Identity;
pub use invocation::{Capture, DEFAULT_PATH, Group, Invocation, LOCALE};
pub use run::{Cancel, run};
pub use which::which;
