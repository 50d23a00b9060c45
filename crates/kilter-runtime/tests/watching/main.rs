//! Events of a hub, with the kernel and real directories. The tests do not sleep: after the event of a marker, all
//! earlier events have arrived.
#![expect(clippy::unwrap_used, reason = "what a test cannot do fails it")]

mod alone;
mod fixture;
mod growth;
mod limits;
mod links;
mod names;
mod random;
mod scopes;
mod storm;
