//! Places of attributes, found again when a problem needs one.

use kilter_model::{Resource, SourceId, Span};
use rustc_hash::FxHashMap;

use crate::source::Sources;
use crate::tree::{Tree, View};
use crate::yaml::parse;

/// Finds where an attribute of a resource is written.
///
/// A catalog keeps one place for each resource and none for its attributes: few are ever asked
/// for, and then their text is read once more.
#[derive(Default)]
pub struct Places {
    trees: FxHashMap<SourceId, Indexed>,
}

/// A text as a tree, and its resources by where their keys start.
struct Indexed {
    tree: Tree,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("read", &self.trees.len()).finish()
    }
}

impl Places {
    /// No text has been read yet.
    pub fn new() -> Places {
        Places::default()
    }

    /// The place of the value of an attribute; of the resource's key if none is named, or if it is
    /// not written there (a default).
    ///
    /// `sources` are those that the resource was compiled from.
    pub fn of(&mut self, sources: &Sources, resource: &Resource, attribute: Option<&str>) -> Span {
        let Some(name) = attribute else { return resource.span };
        let source = resource.span.source;
        let indexed = self.trees.entry(source).or_insert_with(|| Indexed { tree: parse(source, sources).tree });
        indexed.find(resource.span).and_then(|body| body.get(name)).map_or(resource.span, View::span)
    }
}

impl Indexed {
    fn find(&self, key: Span) -> Option<View<'_>> {
        self.tree.resources().find(|(name, _)| name.span() == key).map(|(_, body)| body)
    }
}
