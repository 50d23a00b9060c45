//! What resources of a type are parts of.

use crate::names::{AttributeName, TypeName};

/// Resources of a type are parts of those of another one: each is an entry of an attribute of its owner, and nothing by itself (mgmt
/// resource guide, "Groupable").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The type of the owners.
    pub type_name: TypeName,
    /// The attribute of a part that holds the name of its owner.
    pub by: AttributeName,
    /// The attribute of the owner in which parts are entries, by their titles.
    pub into: AttributeName,
}
