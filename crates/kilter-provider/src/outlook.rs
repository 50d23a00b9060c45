//! What a run that only looks can tell of what will have happened by the turn of a resource.

use kilter_model::{Attributes, Because};

use crate::predict::{Account, Forecast, Node};

/// How far a change of a resource reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To what its name stands for, and no further.
    Own,
    /// To whatever is on the system: a command, a package.
    Anything,
}

/// What the other resources of a run may do before it is the turn of one.
///
/// A preview is right to foresee a failure only where nothing that comes first can mend its cause.
pub trait Outlook: Sync {
    /// Whether a resource that reaches [anything](Reach::Anything) may change something before it is
    /// the turn of `name`, a resource of the provider's own type.
    fn is_open_before(&self, name: &str) -> bool;

    /// What is wanted of a resource, by its name or by a title that gives all of its namevars, if the
    /// catalog declares it; values that are only known during
    /// the run are not there.
    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes>;

    /// Predicts the path that the resource `name` itself stands for, without following a link in its place. Side effects
    /// of commands are left out.
    fn own(&self, name: &str, path: &str) -> Forecast<Node> {
        let _ = (name, path);
        Forecast::Unchanged
    }

    /// Predicts a path that the resource `name` reads, links followed.
    fn node(&self, name: &str, path: &str) -> Forecast<Node> {
        let _ = (name, path);
        Forecast::Unchanged
    }

    /// Finds an earlier resource that changes an entry below a path that the resource `name` reads. Entries for which
    /// `is_meant` returns false do not count.
    fn below(&self, name: &str, path: &str, is_meant: &dyn Fn(&str) -> bool) -> Option<Because> {
        let _ = (name, path, is_meant);
        None
    }

    /// Predicts a user or a group that the resource `name` refers to.
    fn account(&self, name: &str, type_name: &str, account: &str) -> Forecast<Account> {
        let _ = (name, type_name, account);
        Forecast::Unchanged
    }

    /// Finds a resource whose change may alter what a command of the resource `name` says: any that comes before it, or
    /// one without an order that changes a path which the command names.
    fn command(&self, name: &str, text: &str, cwd: Option<&str>) -> Option<Because> {
        let _ = (name, text, cwd);
        None
    }

    /// Finds another resource that writes a path, as its [footprint](crate::Provider::footprint) says, and that need not
    /// come after the resource `name`.
    fn writer(&self, name: &str, path: &str) -> Option<Because> {
        let _ = (name, path);
        None
    }

    /// Finds a resource that [reaches anything](Reach::Anything) and may bring what the resource `name` misses.
    fn bringer(&self, name: &str) -> Option<Because> {
        let _ = name;
        None
    }
}

/// The outlook where nothing else is going to happen.
pub struct Alone;

impl Outlook for Alone {
    fn is_open_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, _: &str, _: &str) -> Option<&Attributes> {
        None
    }
}
