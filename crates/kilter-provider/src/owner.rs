//! Ownership of paths by resources.

use ecow::EcoString;
use kilter_model::Attributes;

/// Interface that lists the paths owned by resources, as a package owns its files. The owner comes before
/// resources at these paths, and before resources that use them.
pub trait Owner {
    /// Returns the paths among `is_wanted` that a resource owns, as far as known without starting a process. An
    /// absent resource owns no paths. Shared directories are omitted.
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString>;
}
