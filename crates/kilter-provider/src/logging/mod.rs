//! Logging and status interface of a provider (Puppet Resource API, "Logging and reporting"). It records events
//! and renders them as text.
//!
//! | event | level | text, for the action `updating` |
//! |---|---|---|
//! | a block is opened | debug | `Updating: Start` |
//! | a block ends well | notice | `Updating: Finished in 0.000123 seconds` |
//! | a failure escapes a block | err | `Updating: Failed after 0.000123 seconds: why` |
//! | an action function | notice | `Created`, `Updated`, `Deleted` |
//! | `unchanged` | info | `Unchanged` |
//! | `failed` | err | its message |
//! | an attribute has changed | notice | `content: old → new`; in a block `Updating content: old → new` |
//! | a plain message | its own | the message; in a block `Updating: message` |
//! | a message about an unmanaged instance | its own | `not managed: message` |
//! | an error of the provider | err | ``error of the provider `apt`: `updated` for apt_key[F1D2D2F9], which …`` |
//! | a `set` that was given up | err | `Aborted: why` |
//!
//! A message about an attribute replaces `old → new`. A message given to a block function replaces `Updating`. A
//! message given to an action function replaces `Updated`. In a preview, every text starts with `noop: `.

mod blocks;
mod calls;
mod change_log;
mod event;
mod failure;
mod json;
mod processed;
mod status;
mod titles;

#[cfg(test)]
pub(crate) mod tests;

pub use change_log::ChangeLog;
pub use event::{Action, Block, EventKind, ProviderEvent};
pub use failure::Failure;
pub use status::{FinalStatus, Misuse, Rule};
pub use titles::{InScope, Titles};
