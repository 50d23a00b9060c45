//! Scripts that are run.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod changing;
mod conformance;
mod discovering;
mod harness;
mod injection;
mod json;
mod quiet;
mod reading;
mod secrets;
#[path = "../unconfined/mod.rs"]
mod unconfined;
