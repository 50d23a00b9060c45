//! What a hub tells, against the kernel and real directories. Nothing here sleeps: a marker whose change
//! has been told says that all before it has been.
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
