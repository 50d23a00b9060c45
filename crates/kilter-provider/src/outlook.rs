//! What a run that only looks can tell of what will have happened by the turn of a resource.

use kilter_model::Attributes;

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
