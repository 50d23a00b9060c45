//! A document as a flat tree of small nodes, each with its position.
//!
//! Nodes have the order of the text. A scalar borrows its text from the source if possible. Otherwise it owns a text
//! that values share. A node takes 16 bytes.

mod builder;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{SourceId, Span, Value};

pub(crate) use builder::Builder;

/// Maximum nesting of aliases and merge keys.
const MAX_MERGES: u32 = 32;

/// Maximum number of entries from merge keys.
const MAX_MERGED: u32 = 100_000;

/// Kind of a node. Scalars differ by their style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Plain,
    Single,
    Double,
    Literal,
    Folded,
    Sequence,
    Mapping,
    Alias,
}

/// A part of a text. A manifest has about seven nodes for each resource.
#[derive(Clone, Copy, Debug)]
struct TreeNode {
    kind: NodeKind,
    /// Scalar: true if it owns its text. Mapping: true if it has a merge key.
    flag: bool,
    /// Scalar: bytes after its text (a closing quote, for example). Collection: length of its opening token.
    more: u8,
    start: u32,
    /// Scalar: start of its text, or index of its owned text. Collection: number of children. Alias: index of its
    /// target.
    a: u32,
    /// Scalar: end of its text. Scalar with an owned text, and alias: its end. Collection: index after its last
    /// descendant; 0 while open.
    b: u32,
}

impl TreeNode {
    /// Returns its end in the source; for a collection, the end of its opening token.
    fn end(&self) -> u32 {
        match self.kind {
            NodeKind::Sequence | NodeKind::Mapping => self.start + u32::from(self.more),
            _ => self.b + u32::from(self.more),
        }
    }
}

/// All documents of a text.
pub(crate) struct Tree {
    pub(crate) source: SourceId,
    text: Arc<String>,
    texts: Vec<EcoString>,
    nodes: Vec<TreeNode>,
    roots: Vec<u32>,
    merged: Cell<u32>,
    /// True if the tree was converted from another format.
    is_literal: bool,
}

/// A node with its tree. It is never an alias, because aliases are resolved.
#[derive(Clone, Copy)]
pub(crate) struct View<'t> {
    tree: &'t Tree,
    index: u32,
}

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = View<'_>> {
        self.roots.iter().map(|index| self.view(*index))
    }

    fn view(&self, index: u32) -> View<'_> {
        let node = &self.nodes[index as usize];
        View { tree: self, index: if node.kind == NodeKind::Alias { node.a } else { index } }
    }

    /// Returns the next node after `index` and its descendants.
    fn next(&self, index: u32) -> u32 {
        let node = &self.nodes[index as usize];
        match node.kind {
            NodeKind::Sequence | NodeKind::Mapping => node.b,
            _ => index + 1,
        }
    }

    /// Returns true if the values contain no expressions: a list in the format of `kilter get --format json`, or a
    /// tree converted from another format.
    pub(crate) fn is_literal(&self) -> bool {
        self.is_literal || self.roots().next().is_some_and(|root| root.kind() == NodeKind::Sequence)
    }

    /// Returns resources with their bodies: the entries below `resources`, or the elements of an export.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (View<'_>, View<'_>)> {
        let sections = self.roots().filter_map(|root| root.get("resources")).filter(|view| view.is_mapping());
        let exported = self.roots().flat_map(View::elements);
        let exported = exported.filter_map(|element| Some((element.get("resource")?, element.get("attributes")?)));
        sections.flat_map(View::entries).chain(exported)
    }

    /// Returns the indexes of the nodes that aliases refer to, in order.
    pub(crate) fn alias_targets(&self) -> Vec<u32> {
        let aliases = self.nodes.iter().filter(|node| node.kind == NodeKind::Alias);
        let mut targets: Vec<u32> = aliases.map(|node| node.a).collect();
        targets.sort_unstable();
        targets
    }

    /// Returns true if a word is part of the text.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.text.contains(word)
    }

    /// Forgets all documents.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.roots.clear();
    }

    /// Returns true if merge keys exceeded the limit.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.merged.get() >= MAX_MERGED
    }

    /// Calls `see` with each key-value pair in the text.
    pub(crate) fn pairs<'t>(&'t self, see: &mut dyn FnMut(View<'t>, View<'t>)) {
        for index in 0..self.nodes.len() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            if self.nodes[index as usize].kind == NodeKind::Mapping {
                for (key, value) in (View { tree: self, index }).own_entries() {
                    see(key, value);
                }
            }
        }
    }
}

impl<'t> View<'t> {
    /// Returns its index in the tree.
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// Returns another node of the same tree.
    pub(crate) fn of_same_tree(self, index: u32) -> View<'t> {
        View { tree: self.tree, index }
    }

    fn node(self) -> &'t TreeNode {
        &self.tree.nodes[self.index as usize]
    }

    pub(crate) fn kind(self) -> NodeKind {
        self.node().kind
    }

    pub(crate) fn is_scalar(self) -> bool {
        !matches!(self.kind(), NodeKind::Sequence | NodeKind::Mapping)
    }

    pub(crate) fn is_mapping(self) -> bool {
        self.kind() == NodeKind::Mapping
    }

    /// Returns true if the value is missing or `null`.
    pub(crate) fn is_null(self) -> bool {
        let node = self.node();
        // Most scalars are longer than these words.
        let is_short = node.flag || node.b - node.a <= 4;
        node.kind == NodeKind::Plain && is_short && matches!(self.text(), "~" | "null" | "Null" | "NULL" | "")
    }

    /// Returns the text of a scalar; empty for collections.
    #[inline]
    pub(crate) fn text(self) -> &'t str {
        let node = self.node();
        match node.kind {
            NodeKind::Sequence | NodeKind::Mapping | NodeKind::Alias => "",
            _ if node.flag => &self.tree.texts[node.a as usize],
            _ => &self.tree.text[node.a as usize..node.b as usize],
        }
    }

    /// Returns the text of a scalar as a value. An owned text is shared, not copied.
    #[inline]
    pub(crate) fn text_value(self) -> Value {
        let node = self.node();
        match node.kind {
            NodeKind::Sequence | NodeKind::Mapping | NodeKind::Alias => Value::from(""),
            _ if node.flag => Value::String(self.tree.texts[node.a as usize].clone()),
            _ => Value::from(self.text()),
        }
    }

    /// Returns the text of a scalar as written, with quotes.
    pub(crate) fn written(self) -> &'t str {
        let node = self.node();
        &self.tree.text[node.start as usize..node.end() as usize]
    }

    pub(crate) fn span(self) -> Span {
        let node = self.node();
        Span::new(self.tree.source, node.start, node.end())
    }

    /// Returns the indexes of the value that follows this key, with its descendants. An alias is a value of its own.
    pub(crate) fn value_range(self) -> Range<u32> {
        let value = self.tree.next(self.index);
        value..self.tree.next(value)
    }

    /// Returns the number of elements or entries, without merged ones.
    pub(crate) fn count(self) -> usize {
        match self.kind() {
            NodeKind::Sequence | NodeKind::Mapping => self.node().a as usize,
            _ => 0,
        }
    }

    pub(crate) fn tree(self) -> &'t Tree {
        self.tree
    }

    /// Returns the elements of a sequence; none for other nodes.
    pub(crate) fn elements(self) -> impl Iterator<Item = View<'t>> {
        let end = if self.kind() == NodeKind::Sequence { self.node().b } else { 0 };
        let mut at = self.index + 1;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let view = self.tree.view(at);
                at = self.tree.next(at);
                view
            })
        })
    }

    /// Returns the entries of a mapping as written, with merge keys; none for other nodes.
    fn own_entries(self) -> impl Iterator<Item = (View<'t>, View<'t>)> {
        let end = if self.is_mapping() { self.node().b } else { 0 };
        let mut at = self.index + 1;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let value = self.tree.next(at);
                let pair = (self.tree.view(at), self.tree.view(value));
                at = self.tree.next(value);
                pair
            })
        })
    }

    /// Returns the entries of a mapping, those from merge keys last; none for other nodes.
    pub(crate) fn entries(self) -> impl Iterator<Item = (View<'t>, View<'t>)> {
        let merges = self.is_mapping() && self.node().flag;
        let merged = if merges { self.merged() } else { Vec::new() };
        let own = (!merges).then(|| self.own_entries());
        own.into_iter().flatten().chain(merged)
    }

    /// Returns the value of a key.
    pub(crate) fn get(self, key: &str) -> Option<View<'t>> {
        self.entries().find(|(name, _)| name.text() == key).map(|(_, value)| value)
    }

    fn merged(self) -> Vec<(View<'t>, View<'t>)> {
        let mut entries = Vec::new();
        let mut names = rustc_hash::FxHashSet::default();
        self.merge_into(&mut entries, &mut names, 0);
        entries
    }

    fn merge_into(
        self,
        entries: &mut Vec<(View<'t>, View<'t>)>,
        names: &mut rustc_hash::FxHashSet<&'t str>,
        depth: u32,
    ) {
        let merged = &self.tree.merged;
        if depth > MAX_MERGES {
            merged.set(MAX_MERGED);
        }
        for (key, value) in self.own_entries().filter(|(key, _)| !key.is_merge()) {
            if merged.get() >= MAX_MERGED {
                return;
            }
            merged.set(merged.get() + u32::from(depth > 0));
            if names.insert(key.text()) {
                entries.push((key, value));
            }
        }
        if !self.node().flag {
            return;
        }
        for (_, value) in self.own_entries().filter(|(key, _)| key.is_merge()) {
            let many = value.elements().collect::<Vec<_>>();
            let sources = if many.is_empty() { vec![value] } else { many };
            for source in sources {
                if merged.get() >= MAX_MERGED {
                    return;
                }
                merged.set(merged.get() + 1);
                source.merge_into(entries, names, depth + 1);
            }
        }
    }

    fn is_merge(self) -> bool {
        self.kind() == NodeKind::Plain && self.text() == "<<"
    }
}
