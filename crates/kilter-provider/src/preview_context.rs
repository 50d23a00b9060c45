//! Predicted effects of resources that run earlier, for dry runs.

use kilter_model::{Attributes, Because};

use crate::predict::{Account, Forecast, PathState};

/// Scope of the effects of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEffects {
    /// The resource itself only.
    Own,
    /// Any part of the system, such as the change of a command or a package.
    Anything,
}

/// Predicted effects of the other resources of a run.
///
/// A preview may predict a failure only if no earlier resource can remove its cause.
pub trait PreviewContext: Sync {
    /// Returns true if a resource with the reach [anything](SideEffects::Anything) may change the system before the
    /// resource `name`, which is of the provider's type.
    fn may_change_before(&self, name: &str) -> bool;

    /// Returns the desired attributes of a declared resource, by its name or by a title that contains all its
    /// namevars. Values that become known during the run are missing.
    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes>;

    /// Returns true if a resource of a type is declared for which `is_meant` returns true. It gets the title and the
    /// desired attributes.
    fn declares(&self, type_name: &str, is_meant: &dyn Fn(&str, &Attributes) -> bool) -> bool {
        let _ = (type_name, is_meant);
        false
    }

    /// Calls `add` with the name of each resource of a type that the automatic edges of declared resources put first.
    /// The resource itself may be undeclared. Skips declared resources that are absent: they need nothing.
    fn required(&self, type_name: &str, add: &mut dyn FnMut(&str)) {
        let _ = (type_name, add);
    }

    /// Returns the same attributes if the run brings the resource to that state: it is no noop resource, and its
    /// policy is `repair`.
    fn enforced(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        self.declared(type_name, name)
    }

    /// Returns true if a declared resource of another type writes `path` or a path below it.
    fn is_written(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// Predicts the path of the resource `name` itself and does not follow a link there. Ignores side effects
    /// of commands.
    fn own(&self, name: &str, path: &str) -> Forecast<PathState> {
        let _ = (name, path);
        Forecast::Unchanged
    }

    /// Predicts a path that the resource `name` reads. Follows links.
    fn node(&self, name: &str, path: &str) -> Forecast<PathState> {
        let _ = (name, path);
        Forecast::Unchanged
    }

    /// Finds an earlier resource that changes an entry below a path that the resource `name` reads. Ignores
    /// entries for which `is_meant` returns false.
    fn below(&self, name: &str, path: &str, is_meant: &dyn Fn(&str) -> bool) -> Option<Because> {
        let _ = (name, path, is_meant);
        None
    }

    /// Predicts a user or a group that the resource `name` refers to.
    fn account(&self, name: &str, type_name: &str, account: &str) -> Forecast<Account> {
        let _ = (name, type_name, account);
        Forecast::Unchanged
    }

    /// Finds a resource whose change may alter the output of a command of the resource `name`. This is any
    /// earlier resource, or a resource without an order that changes a path in the command.
    fn command(&self, name: &str, text: &str, cwd: Option<&str>) -> Option<Because> {
        let _ = (name, text, cwd);
        None
    }

    /// Finds another resource whose [footprint](crate::Predict::footprint) writes a path, and which may run
    /// before the resource `name`.
    fn writer(&self, name: &str, path: &str) -> Option<Because> {
        let _ = (name, path);
        None
    }

    /// Finds a resource with the reach [anything](SideEffects::Anything) that may supply a missing requirement of the
    /// resource `name`.
    fn bringer(&self, name: &str) -> Option<Because> {
        let _ = name;
        None
    }
}

/// RunPreview without any other resources.
pub struct NoPendingChanges;

impl PreviewContext for NoPendingChanges {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, _: &str, _: &str) -> Option<&Attributes> {
        None
    }
}
