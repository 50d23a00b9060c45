//! Tools for authors of providers.
//!
//! [`conformance`] is the test suite for all providers: laws, and a report. [`CheckFile`] is the test data that an
//! author writes beside a provider. [`EveryCapability`] tests decorators of providers. [`Check`] inspects the files of
//! a provider and tries every law in its own sandbox. The crate prints nothing: the caller shows the progress and the
//! report.
//!
//! *Start from* [`conformance::Suite`] and [`Check`].

mod check;
mod check_file;
pub mod conformance;
mod decorators;

pub use check::{
    CallView, Candidate, Check, CheckProgress, CheckReport, Finding, Inspection, SETUP_HERE, SpecimenOrigin, Specimens,
    TestLocation, Weight,
};
pub use check_file::{CheckFile, InterruptCase};
pub use decorators::{EveryCapability, capability_names};

/// Compiles and runs the examples of this page.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/reference/conformance.md")]
    struct Conformance;
}
