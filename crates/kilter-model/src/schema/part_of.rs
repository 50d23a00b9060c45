//! Resources that are parts of other resources.

use crate::names::{AttributeName, TypeName};

/// Declaration that resources of a type are parts of resources of another type. Each part is an entry of an
/// attribute of its owner and has no independent state (mgmt resource guide, "Groupable").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// Type of the owners.
    pub type_name: TypeName,
    /// Attribute of a part that contains the name of its owner.
    pub by: AttributeName,
    /// Attribute of the owner that contains the parts, by title.
    pub into: AttributeName,
}
