//! Builds a tree from the events of a parser.

use std::cell::Cell;
use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{SourceId, Span};
use rustc_hash::FxHashMap;

use super::{NodeKind, Tree, TreeNode, View};
use crate::diagnostic::{Diagnostic, twice};
use crate::source::{Sources, small};

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
