//! Automatic dependency edges requested by providers.

/// Position of the other resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The other resource comes first (autorequire).
    Before,
    /// The other resource comes later (autobefore).
    After,
    /// The other resource comes first, such as the user of a crontab. If both are removed, it comes later.
    BeforeUnlessRemoved,
}

/// Interpretation of the name in an automatic edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Name of the other resource.
    Name,
    /// A number that is also valid without the other resource, such as a uid. The edge is dropped if it would
    /// close a cycle.
    Number,
    /// Name of another resource that this one lists. The edge is dropped if it would close a cycle.
    Member,
    /// A path: the nearest managed directory above it.
    Ancestor,
    /// A path: the resource at that path, otherwise the nearest managed directory above it.
    PathOrAncestor,
    /// A path: its [owner](crate::Owner) only.
    Owner,
    /// All resources of the type. The name does not matter. An edge is dropped if it would close a cycle.
    Every,
}

/// An automatic edge to another resource, if it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoEdge<'a> {
    /// Type of the other resource.
    pub type_name: &'a str,
    /// Name of the other resource.
    pub name: &'a str,
    /// Interpretation of the name.
    pub by: Match,
    /// Position of the other resource.
    pub direction: Direction,
}

impl<'a> AutoEdge<'a> {
    /// Creates an edge: the resource with that name comes first.
    pub fn require(type_name: &'a str, name: &'a str) -> AutoEdge<'a> {
        AutoEdge { type_name, name, by: Match::Name, direction: Direction::Before }
    }
}
