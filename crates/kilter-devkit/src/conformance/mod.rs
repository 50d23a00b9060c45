//! Conformance suite: a set of laws for all providers.
//!
//! A [`Suite`] gets a function that creates a [`Subject`]: a provider in a sandbox of its own, with [`Sample`]s
//! that it can create there. The suite tries every law in new sandboxes and on a separate thread. The [`Report`]
//! lists each law as held, broken, or not tried with the reason.
//!
//! `docs/reference/conformance.md` explains each law for authors of providers. `docs/guides/native-provider.md`
//! explains how to write a provider.
//!
//! *Start from* [`Suite::new`].

mod edge;
mod fingerprint;
mod harness;
mod interrupt;
mod laws;
mod report;
mod specimen;
mod subject;
mod suite;

pub use laws::{LAWS, Law};
pub use report::{Counts, Finding, Report, Verdict};
pub use specimen::Sample;
pub use subject::{Subject, Unsupported};
pub use suite::{Progress, Suite, give_up};
