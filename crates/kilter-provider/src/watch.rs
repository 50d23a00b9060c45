//! What tells that resources may have changed.

use std::path::PathBuf;
use std::time::Duration;

/// What tells that a resource may have changed, while its state is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Something happens to a path, whoever does it.
    Path {
        /// The path, absolute.
        path: PathBuf,
        /// How far that goes.
        scope: Scope,
    },
    /// Something happens to what is kept in the state directory: a path from there. Nothing does where nothing is kept.
    Kept(PathBuf),
    /// Something of the network changes, whatever it is about.
    Network(Network),
    /// The process ends whose number is the first word of this file, or something happens to the file.
    Process(PathBuf),
    /// Nothing tells: it is looked at every so often.
    Every(Duration),
    /// The provider does, in a [`Provider::watch`](crate::Provider::watch) for all such resources, by the name of this one.
    Told,
    /// The provider does, in a [`Provider::watch`](crate::Provider::watch) for this resource alone.
    ToldAlone,
}

/// Takes what a provider tells while it watches. May be called from any thread.
pub trait Tell: Sync {
    /// From now on it is told what changes.
    fn watching(&self);

    /// The resource of this name may have changed.
    fn changed(&self, name: &str);

    /// Any resource may have changed.
    fn anything(&self);

    /// Of the resource of this name nothing is told for now, and why: the others are watched.
    fn unwatched(&self, name: &str, why: &str) {
        let _ = (name, why);
    }

    /// What changes of that one is told again. That it may have changed meanwhile is told apart.
    fn rewatched(&self, name: &str) {
        let _ = name;
    }
}

/// What may change of the network of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// Interfaces come, go, or are set otherwise.
    Links,
    /// Addresses of interfaces.
    Addresses,
    /// Routes.
    Routes,
}

/// How far the watch of a path goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The file or the directory itself, also when another one takes its place.
    This,
    /// It, and what is directly in it.
    Entries,
    /// It, and everything below it.
    Tree,
}

/// How often a resource is looked at of which nothing tells whether it has changed.
pub const POLL: Duration = Duration::from_secs(300);
