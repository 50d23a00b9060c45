//! What resources have brought along.

use ecow::EcoString;
use kilter_model::Attributes;

/// Tells which paths resources own, as a package owns its files: it comes before what lies there, and before what
/// works with it.
pub trait Owner {
    /// Those of the paths that are wanted which a resource owns, as far as that is known without asking anybody: nothing is
    /// started for it. A resource that is not there yet owns nothing. Directories in which others have things too are left out.
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString>;
}
