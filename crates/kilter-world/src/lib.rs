//! What machines share: texts under keys.
//!
//! [`Directory`] keeps them in a directory, of this machine or one that machines share; [`Etcd`] in etcd. What is kept, and under
//! which keys, is left to providers and to the command; so is watching: [`World::watched`](kilter_provider::World::watched) says
//! what.
//!
//! *Start from* [`Directory`].

mod access;
mod directory;
mod etcd;
mod name;

pub use access::{Access, AccessError, Login};
pub use directory::Directory;
pub use etcd::Etcd;
