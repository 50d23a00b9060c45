//! Scripts of mold: the text example by example, and scripts that misbehave.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod channel;
mod confined;
mod found;
mod harness;
mod misbehaving;
mod text;
#[path = "../unconfined/mod.rs"]
mod unconfined;
