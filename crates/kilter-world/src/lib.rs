//! Key-value stores shared between machines.
//!
//! [`Directory`] is a store in a directory, local or shared; [`Etcd`] is a store in etcd. Providers and the
//! command determine the keys and texts, and watch the paths from
//! [`World::watched`](kilter_provider::World::watched).
//!
//! *Start from* [`Directory`].

mod access;
mod directory;
mod etcd;
mod name;

pub use access::{AccessError, Credentials, Endpoint};
pub use directory::Directory;
pub use etcd::Etcd;
