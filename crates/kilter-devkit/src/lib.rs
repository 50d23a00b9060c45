//! Tools for authors of providers.
//!
//! [`conformance`] is the test suite for all providers: laws, and a report. [`CheckFile`] is the test data that an
//! author writes beside a provider.
//!
//! *Start from* [`conformance::Suite`].

mod check_file;
pub mod conformance;

pub use check_file::{CheckFile, InterruptCase};

/// Compiles and runs the examples of this page.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/reference/conformance.md")]
    struct Conformance;
}
