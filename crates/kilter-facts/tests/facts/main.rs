//! Facts of machines that are trees of files, of external files, and of this machine.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test itself")]

mod distributions;
mod external;
mod networking;
mod support;
mod this_machine;
mod virtualization;
