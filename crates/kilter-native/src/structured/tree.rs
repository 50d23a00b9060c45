//! A document of JSON or YAML as a tree, with the place of each node in the text.

use std::ops::Range;

use ecow::{EcoString, eco_format};
use kilter_model::Value;

use super::keys::Key;

/// Maximum nesting depth of a document.
pub(super) const MAX_DEPTH: usize = 100;

/// Notation of a mapping or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// With brackets, as in JSON.
    Flow,
    /// With indented lines.
    Block,
}

/// A node and its place.
#[derive(Debug)]
pub(super) struct TreeNode {
    /// A node in block style ends with its last character that is not blank.
    pub(super) span: Range<usize>,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar(Value),
    /// A reference to another node, with its value.
    Alias(Value),
    Map(Style, Vec<MapEntry>),
    List(Style, Vec<TreeNode>),
}

#[derive(Debug)]
pub(super) struct MapEntry {
    pub(super) key: EcoString,
    pub(super) key_span: Range<usize>,
    pub(super) value: TreeNode,
}

impl TreeNode {
    pub(super) fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) | Content::Alias(value) => value.clone(),
            // Of several equal keys the last one counts.
            Content::Map(_, entries) => Value::hash(entries.iter().map(|one| (one.key.clone(), one.value.value()))),
            Content::List(_, items) => Value::array(items.iter().map(TreeNode::value)),
        }
    }

    /// Returns the index of a member.
    pub(super) fn position(&self, key: &Key) -> Option<usize> {
        match (&self.content, key) {
            (Content::Map(_, entries), Key::Name(name)) => entries.iter().rposition(|entry| entry.key == *name),
            (Content::List(_, items), Key::Index(index)) => Some(*index).filter(|index| *index < items.len()),
            _ => None,
        }
    }

    pub(super) fn member(&self, index: usize) -> Option<&TreeNode> {
        match &self.content {
            Content::Map(_, entries) => entries.get(index).map(|entry| &entry.value),
            Content::List(_, items) => items.get(index),
            _ => None,
        }
    }

    /// Returns the places of the members, with their keys.
    pub(super) fn members(&self) -> Vec<Range<usize>> {
        match &self.content {
            Content::Map(_, entries) => {
                entries.iter().map(|entry| entry.key_span.start..entry.value.span.end).collect()
            }
            Content::List(_, items) => items.iter().map(|item| item.span.clone()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn style(&self) -> Style {
        match self.content {
            Content::Map(style, _) | Content::List(style, _) => style,
            _ => Style::Flow,
        }
    }

    /// Returns the node at a path.
    ///
    /// # Errors
    /// If the path leads through an alias, or to no node.
    pub(super) fn at(&self, path: &[Key]) -> Result<&TreeNode, EcoString> {
        let mut node = self;
        for key in path {
            if let Content::Alias(_) = node.content {
                return Err("the path leads through an alias (`*name`): change the node with the anchor instead".into());
            }
            let member = node.position(key).and_then(|index| node.member(index));
            node = member.ok_or_else(|| eco_format!("there is no {key}"))?;
        }
        Ok(node)
    }
}

/// Returns the start of the line that contains an offset.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |before| before + 1)
}

/// Returns the end of the line that contains an offset, without its line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |length| at + length)
}

/// Returns the blanks at the start of the line that contains an offset.
pub(super) fn indentation(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns true if only blanks precede an offset on its line.
pub(super) fn is_first(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].trim_matches([' ', '\t']).is_empty()
}

/// Returns the indentation that a document adds per level.
pub(super) fn unit(text: &str) -> &str {
    let indented = text.lines().find(|line| {
        line.starts_with([' ', '\t'])
            && !line.trim_start().is_empty()
            && !line.trim_start().starts_with(['#', '/', '*'])
    });
    match indented.map(|line| indentation(line, 0)) {
        Some(blanks) if blanks.starts_with('\t') => "\t",
        Some(blanks) if blanks.len() <= 8 => blanks,
        _ => "  ",
    }
}

/// Returns the text with some parts replaced. The parts are in order and do not overlap.
pub(super) fn spliced(text: &str, parts: &[(Range<usize>, &str)]) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut next = 0;
    for (range, new) in parts {
        out.push_str(&text[next..range.start]);
        out.push_str(new);
        next = range.end;
    }
    out.push_str(&text[next..]);
    out
}

/// Describes an offset for a message.
pub(super) fn place(text: &str, at: usize) -> EcoString {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before[line_start(before, before.len())..].chars().count() + 1;
    eco_format!("line {line}, column {column}")
}
