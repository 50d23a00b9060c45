//! The conformance suite: one set of laws for every provider.
//!
//! A [`Suite`] is given a function that makes a [`Subject`]: a provider on a world of its own, with
//! [`Specimen`]s of what it can make there. Every law is tried on fresh worlds, on a thread of its
//! own, and the [`Report`] says of each whether it is held or broken, or why it could not be tried:
//! nothing is passed over silently.
//!
//! What each law means for the author of a provider is told in `docs/reference/conformance.md`; how
//! a provider is written, in `docs/guides/native-provider.md`.
//!
//! *Start from* [`Suite::new`].

mod bench;
mod edge;
mod fingerprint;
mod halt;
mod laws;
mod report;
mod specimen;
mod subject;
mod suite;

pub use laws::{LAWS, Law};
pub use report::{Counts, Finding, Report, Verdict};
pub use specimen::Specimen;
pub use subject::{Lack, Subject};
pub use suite::{Progress, Suite, give_up};
