//! Positions of attributes, found on demand.

use kilter_model::{Resource, SourceId, Span};
use rustc_hash::FxHashMap;

use crate::for_each;
use crate::source::Sources;
use crate::tree::{Tree, View};
use crate::yaml::parse;

/// Finds the position of an attribute of a resource.
///
/// A catalog stores a position for each resource but none for attributes, because few are ever needed. Their text is
/// parsed again on demand.
#[derive(Default)]
pub struct AttributeSpans {
    trees: FxHashMap<SourceId, Indexed>,
}

/// A parsed text.
struct Indexed {
    tree: Tree,
}

impl std::fmt::Debug for AttributeSpans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("read", &self.trees.len()).finish()
    }
}

impl AttributeSpans {
    /// Creates an index without texts.
    pub fn new() -> AttributeSpans {
        AttributeSpans::default()
    }

    /// Returns the position of an attribute's value, which may be a default of the text. Returns the position of the
    /// resource's key if no attribute is named or the text does not contain it.
    ///
    /// `sources` must be those that the resource was compiled from.
    pub fn of(&mut self, sources: &Sources, resource: &Resource, attribute: Option<&str>) -> Span {
        let Some(name) = attribute else { return resource.span };
        let indexed = self.indexed(sources, resource.span.source);
        let own = indexed.find(resource.span).and_then(|body| body.get(name));
        let value = own.or_else(|| indexed.default(resource, name));
        value.map_or(resource.span, View::span)
    }

    /// Returns true if the value of an attribute is a default of the text.
    ///
    /// `sources` must be those that the resource was compiled from.
    pub fn is_default(&mut self, sources: &Sources, resource: &Resource, attribute: &str) -> bool {
        let indexed = self.indexed(sources, resource.span.source);
        let body = indexed.find(resource.span);
        body.is_some_and(|body| body.get(attribute).is_none()) && indexed.default(resource, attribute).is_some()
    }

    fn indexed(&mut self, sources: &Sources, source: SourceId) -> &Indexed {
        self.trees.entry(source).or_insert_with(|| Indexed { tree: parse(source, sources).tree })
    }
}

/// Returns true if a position is that of a title in a group, or of a title alone.
fn is_of_titles(group: View<'_>, key: Span) -> bool {
    if group.is_scalar() {
        return group.span() == key;
    }
    let list = group.get(for_each::TITLES);
    list.is_some_and(|list| list.span() == key || list.elements().any(|title| title.span() == key))
}

impl Indexed {
    /// Returns the default of an attribute.
    fn default(&self, resource: &Resource, attribute: &str) -> Option<View<'_>> {
        let type_name = resource.reference.type_name.as_str();
        self.tree.roots().filter_map(|root| root.get("defaults")?.get(type_name)?.get(attribute)).last()
    }

    fn find(&self, key: Span) -> Option<View<'_>> {
        self.tree.resources().find_map(|(name, body)| match for_each::groups(name, body) {
            _ if name.span() == key => Some(body),
            Some(mut groups) => groups.find(|group| is_of_titles(*group, key)),
            None => None,
        })
    }
}
