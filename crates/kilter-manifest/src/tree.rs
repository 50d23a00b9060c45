//! A document as a flat tree of small nodes, each with its position.
//!
//! Nodes have the order of the text. A scalar borrows its text from the source if possible. Otherwise it owns a text
//! that values share. A node takes 16 bytes.

use std::cell::Cell;
use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{SourceId, Span, Value};
use rustc_hash::FxHashMap;

use crate::diagnostic::Diagnostic;
use crate::source::{Sources, small};

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

/// Builds a tree from parser events.
pub(crate) struct Builder {
    tree: Tree,
    open: Vec<u32>,
    anchors: FxHashMap<usize, u32>,
    pub(crate) problems: Vec<Diagnostic>,
}

impl Builder {
    pub(crate) fn new(source: SourceId, sources: &Sources) -> Builder {
        let text = Arc::clone(&sources.get(source).text);
        // A manifest has about one node per 16 bytes. Unused capacity is never touched.
        let nodes = Vec::with_capacity(text.len() / 16 + 8);
        let tree =
            Tree { source, text, texts: Vec::new(), nodes, roots: Vec::new(), merged: Cell::new(0), is_literal: false };
        Builder { tree, open: Vec::new(), anchors: FxHashMap::default(), problems: Vec::new() }
    }

    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.tree.source, small(start), small(end))
    }

    pub(crate) fn report(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    /// Resets the state of a document.
    pub(crate) fn start_document(&mut self) {
        self.anchors.clear();
    }

    /// Adds a scalar whose text is a part of the source.
    pub(crate) fn borrowed(&mut self, kind: NodeKind, at: (usize, usize), text: (usize, usize), anchor: usize) {
        let Some(more) = at.1.checked_sub(text.1).and_then(|more| u8::try_from(more).ok()) else {
            let text: EcoString = self.tree.text[text.0..text.1].into();
            return self.owned(kind, at, &text, anchor);
        };
        let (a, b) = (small(text.0), small(text.1));
        self.push(TreeNode { kind, flag: false, more, start: small(at.0), a, b }, anchor);
    }

    /// Adds a scalar that owns its text.
    pub(crate) fn owned(&mut self, kind: NodeKind, at: (usize, usize), text: &str, anchor: usize) {
        let a = small(self.tree.texts.len());
        self.tree.texts.push(text.into());
        self.push(TreeNode { kind, flag: true, more: 0, start: small(at.0), a, b: small(at.1) }, anchor);
    }

    pub(crate) fn alias(&mut self, at: (usize, usize), anchor: usize) {
        let Some(&target) = self.anchors.get(&anchor) else { return self.null(at) };
        let node = self.tree.nodes[target as usize];
        if matches!(node.kind, NodeKind::Sequence | NodeKind::Mapping) && node.b == 0 {
            let problem = Diagnostic::new("the alias refers to a node that contains it");
            self.report(problem.at(self.span(at.0, at.1)));
            return self.null(at);
        }
        let target = if node.kind == NodeKind::Alias { node.a } else { target };
        let node =
            TreeNode { kind: NodeKind::Alias, flag: false, more: 0, start: small(at.0), a: target, b: small(at.1) };
        self.push(node, 0);
    }

    /// Adds a null value in place of an invalid one.
    pub(crate) fn null(&mut self, at: (usize, usize)) {
        self.borrowed(NodeKind::Plain, at, (at.0, at.0), 0);
    }

    pub(crate) fn start(&mut self, kind: NodeKind, at: (usize, usize), anchor: usize) {
        let index = small(self.tree.nodes.len());
        let more = u8::try_from(at.1.saturating_sub(at.0)).unwrap_or(u8::MAX);
        self.push(TreeNode { kind, flag: false, more, start: small(at.0), a: 0, b: 0 }, anchor);
        self.open.push(index);
    }

    pub(crate) fn end(&mut self) {
        let Some(index) = self.open.pop() else { return };
        let end = small(self.tree.nodes.len());
        let node = &mut self.tree.nodes[index as usize];
        node.b = end;
        if node.kind == NodeKind::Mapping {
            node.a /= 2;
            if node.a > 0 {
                self.check_keys(index);
            }
        }
    }

    fn push(&mut self, node: TreeNode, anchor: usize) {
        let index = small(self.tree.nodes.len());
        match self.open.last() {
            Some(&parent) => self.tree.nodes[parent as usize].a += 1,
            None => self.tree.roots.push(index),
        }
        self.tree.nodes.push(node);
        if anchor > 0 {
            self.anchors.insert(anchor, index);
        }
    }

    /// Reports duplicate keys in a mapping, and marks the mapping if it has a merge key.
    fn check_keys(&mut self, index: u32) {
        let mapping = View { tree: &self.tree, index };
        let mut problems = Vec::new();
        let mut merges = false;
        let mut seen = Keys::new(mapping.count());
        for (key, value) in mapping.own_entries() {
            if !key.is_scalar() || (key.is_null() && key.written().is_empty()) {
                let hint = "a key that holds { } or [ ] at its start is put in quotes";
                problems.push(Diagnostic::new("a key must be a text").at(key.span()).hint(hint));
            } else if key.is_merge() {
                merges = true;
                let fits = value.is_mapping() || value.elements().all(View::is_mapping) && value.count() > 0;
                if !fits {
                    problems.push(
                        Diagnostic::new("`<<` merges mappings")
                            .at(value.span())
                            .hint("name one by an alias: <<: *name"),
                    );
                }
            } else if let Some(first) = seen.insert(key) {
                problems.push(twice(key.text(), key.span(), first.span()));
            }
        }
        self.tree.nodes[index as usize].flag = merges;
        for problem in problems {
            // `{{ x }}` is a mapping that is a key of a mapping that is a key. Report it once.
            let within = |inner: &Diagnostic| inner.message == problem.message && inner.span >= problem.span;
            self.problems.pop_if(|inner| within(inner));
            self.problems.push(problem);
        }
    }

    /// Returns the tree. It is empty if the text could not be read completely, because a partial manifest would
    /// cause reports of missing names.
    pub(crate) fn finish(mut self, complete: bool) -> (Tree, Vec<Diagnostic>) {
        if !complete {
            self.tree.clear();
        }
        (self.tree, self.problems)
    }
}

impl Builder {
    /// Cuts the tree off before a syntax error. Keeps the entries of the document's root, and of the section with the
    /// error, that are certainly complete.
    pub(crate) fn cut(&mut self) {
        let open = std::mem::take(&mut self.open);
        let Some((&root, inner)) = open.split_first() else { return };
        let is_mapping = |tree: &Tree, index: u32| tree.nodes[index as usize].kind == NodeKind::Mapping;
        if !is_mapping(&self.tree, root) {
            self.tree.nodes.truncate(root as usize);
            self.tree.roots.retain(|index| *index != root);
            return;
        }
        let section = inner
            .first()
            .copied()
            .filter(|section| is_mapping(&self.tree, *section) && self.closed(root, Some(*section)).len() % 2 == 1);
        if let Some(section) = section {
            self.close(section, inner.get(1).copied());
        }
        match section {
            Some(_) => {
                let pairs = self.closed(root, section).len().div_ceil(2);
                self.finish_mapping(root, pairs);
            }
            None => self.close(root, inner.first().copied()),
        }
    }

    /// Returns the children of an open node in order, without the child that is open itself.
    fn closed(&self, parent: u32, open: Option<u32>) -> Vec<u32> {
        let end = open.unwrap_or_else(|| small(self.tree.nodes.len()));
        let mut children = Vec::new();
        let mut at = parent + 1;
        while at < end {
            children.push(at);
            at = self.tree.next(at);
        }
        children
    }

    /// Closes a mapping in which reading has ended. Its last entry is dropped, because the error may be part of it.
    fn close(&mut self, mapping: u32, open: Option<u32>) {
        let children = self.closed(mapping, open);
        let is_within_entry = open.is_some() || children.len() % 2 == 1;
        let pairs = (children.len() / 2).saturating_sub(usize::from(!is_within_entry));
        if let Some(first) = children.get(2 * pairs).copied().or(open) {
            self.tree.nodes.truncate(first as usize);
        }
        self.finish_mapping(mapping, pairs);
    }

    fn finish_mapping(&mut self, mapping: u32, pairs: usize) {
        let end = small(self.tree.nodes.len());
        let node = &mut self.tree.nodes[mapping as usize];
        (node.a, node.b) = (small(pairs), end);
        if pairs > 0 {
            self.check_keys(mapping);
        }
    }

    /// Returns the tree of a converted text, whose values contain no expressions.
    pub(crate) fn finish_literal(mut self) -> (Tree, Vec<Diagnostic>) {
        self.tree.is_literal = true;
        self.finish(true)
    }
}

/// Creates the problem of a duplicate key.
pub(crate) fn twice(key: &str, at: Span, first: Span) -> Diagnostic {
    Diagnostic::new(ecow::eco_format!("`{key}` is written twice")).at(at).also(first, "first written here")
}

/// Keys seen so far: a list if there are few, a hash map if there are many.
enum Keys<'t> {
    Few(Vec<View<'t>>),
    Many(FxHashMap<&'t str, View<'t>>),
}

impl<'t> Keys<'t> {
    fn new(count: usize) -> Keys<'t> {
        match count {
            0..=12 => Keys::Few(Vec::with_capacity(count)),
            many => Keys::Many(FxHashMap::with_capacity_and_hasher(many, rustc_hash::FxBuildHasher)),
        }
    }

    /// Adds a key. Returns the first key with the same text, if there is one.
    fn insert(&mut self, key: View<'t>) -> Option<View<'t>> {
        match self {
            Keys::Few(keys) => {
                let first = keys.iter().find(|other| other.text() == key.text()).copied();
                keys.push(key);
                first
            }
            Keys::Many(keys) => match keys.entry(key.text()) {
                std::collections::hash_map::Entry::Occupied(first) => Some(*first.get()),
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(key);
                    None
                }
            },
        }
    }
}
