//! Resources that one wants beside it in the graph.

/// On which side of the resource that wishes another one belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The other comes first (autorequire).
    Before,
    /// The other comes later (autobefore).
    After,
}

/// How a wish names another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// By its name.
    Name,
    /// By a number that means something without it too, such as a uid: the wish gives way where the other would have to wait
    /// for whoever wishes.
    Number,
    /// By a path: the nearest managed directory above it.
    Ancestor,
    /// By a path: that path, or else the nearest managed directory above it.
    PathOrAncestor,
    /// By a path: what [owns](crate::Provider::owner) it, and nobody else.
    Owner,
}

/// A resource that another one wants beside it in the graph, if it is declared at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<'a> {
    /// The other's type.
    pub type_name: &'a str,
    /// The other's name.
    pub name: &'a str,
    /// How the name is meant.
    pub by: Match,
    /// On which side it belongs.
    pub direction: Direction,
}

impl<'a> Wish<'a> {
    /// The resource of that name comes first.
    pub fn require(type_name: &'a str, name: &'a str) -> Wish<'a> {
        Wish { type_name, name, by: Match::Name, direction: Direction::Before }
    }
}
