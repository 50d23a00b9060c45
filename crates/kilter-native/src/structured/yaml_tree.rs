//! Reader of YAML documents as trees with places.

use ecow::{EcoString, eco_format};
use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use kilter_model::Value;
use rustc_hash::FxHashMap;

use super::tree::{Content, MAX_DEPTH, MapEntry, Style, TreeNode, line_end, place};

/// Maximum number of nodes, including repetitions by aliases.
const MAX_NODES: usize = 2_000_000;

/// Parses a text with one document. An empty one is null.
///
/// # Errors
/// If the text is not YAML, or has several documents.
pub(super) fn parse(text: &str) -> Result<TreeNode, EcoString> {
    let mut builder =
        YamlBuilder { text, open: Vec::new(), anchors: FxHashMap::default(), root: None, documents: 0, count: 0 };
    let options = granit_parser::options! { emit_comments: false };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| {
            let at = error.marker().byte_offset().unwrap_or(0);
            eco_format!("not valid YAML at {}: {}", place(text, at), error.info())
        })?;
        let range = span.byte_range().unwrap_or(0..0);
        builder.event(event, range.start.min(text.len()), range.end.min(text.len()))?;
    }
    let empty = || TreeNode { span: text.len()..text.len(), content: Content::Scalar(Value::Undef) };
    Ok(builder.root.unwrap_or_else(empty))
}

/// An unfinished collection.
struct OpenNode {
    node: TreeNode,
    anchor: usize,
    /// Number of nodes before it.
    before: usize,
    /// Key that waits for its value.
    key: Option<(EcoString, std::ops::Range<usize>)>,
}

struct YamlBuilder<'t> {
    text: &'t str,
    open: Vec<OpenNode>,
    anchors: FxHashMap<usize, (Value, usize)>,
    root: Option<TreeNode>,
    documents: usize,
    count: usize,
}

impl YamlBuilder<'_> {
    fn event(&mut self, event: Event<'_>, start: usize, end: usize) -> Result<(), EcoString> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err("the file has several documents: kilter edits files with one".into());
                }
            }
            Event::Alias(anchor) => {
                let found = self.anchors.get(&anchor).cloned();
                let (value, size) = found.ok_or("an alias of a node that contains it")?;
                self.add(TreeNode { span: start..end, content: Content::Alias(value) }, 0, size)?;
            }
            Event::Scalar(scalar, style, anchor, tag) => {
                let is_text = tag.as_ref().is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let is_plain = style == ScalarStyle::Plain && !is_text;
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let value = match is_plain {
                    _ if start == end && is_plain => Value::Undef,
                    true => plain(&scalar),
                    false => Value::from(&*scalar),
                };
                let span = match is_block {
                    // The mark is after the header (`|`, `>`).
                    true => self.header(start)..start.min(end) + self.text[start.min(end)..end].trim_end().len(),
                    false if start == end => self.value_start().map_or(start..end, |at| at..at),
                    false => start..end,
                };
                self.add(TreeNode { span, content: Content::Scalar(value) }, anchor, 1)?;
            }
            Event::SequenceStart(style, anchor, _) => {
                let start = match style {
                    // The mark of a list can be behind its first dash.
                    StructureStyle::Block => first_dash(self.text, self.value_start().unwrap_or(0)).unwrap_or(start),
                    StructureStyle::Flow => start,
                };
                self.begin(Content::List(notation(style), Vec::new()), start, anchor)?;
            }
            Event::MappingStart(style, anchor, _) => {
                self.begin(Content::Map(notation(style), Vec::new()), start, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(OpenNode { mut node, anchor, before, .. }) = self.open.pop() {
                    node.span.end = match node.style() {
                        Style::Flow => end,
                        Style::Block => node.members().last().map_or(node.span.start, |last| last.end),
                    };
                    let size = self.count - before;
                    self.place(node, anchor, size)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the offset of the header of a scalar in lines of its own.
    fn header(&self, start: usize) -> usize {
        let found = self.value_start().and_then(|at| Some(at + self.text[at..start].find(['|', '>'])?));
        found.or_else(|| self.text[..start].rfind(['|', '>'])).unwrap_or(start)
    }

    /// Returns the offset after the colon or the dash of the next value in block style.
    fn value_start(&self) -> Option<usize> {
        let open = self.open.last()?;
        if open.node.style() == Style::Flow {
            return None;
        }
        match (&open.node.content, &open.key) {
            (Content::Map(..), Some((_, key))) => colon(self.text, key.end),
            (Content::List(_, items), _) => dash(self.text, &open.node, items.len()).map(|dash| dash + 1),
            _ => None,
        }
    }

    fn begin(&mut self, content: Content, start: usize, anchor: usize) -> Result<(), EcoString> {
        let before = self.count;
        self.counted(1)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(eco_format!("it is nested more than {MAX_DEPTH} levels deep"));
        }
        self.open.push(OpenNode { node: TreeNode { span: start..start, content }, anchor, before, key: None });
        Ok(())
    }

    fn add(&mut self, node: TreeNode, anchor: usize, size: usize) -> Result<(), EcoString> {
        self.counted(size)?;
        self.place(node, anchor, size)
    }

    fn counted(&mut self, size: usize) -> Result<(), EcoString> {
        self.count += size;
        match self.count > MAX_NODES {
            true => Err(eco_format!("it has more than {MAX_NODES} nodes, with aliases followed")),
            false => Ok(()),
        }
    }

    /// Adds a finished node to its parent.
    fn place(&mut self, node: TreeNode, anchor: usize, size: usize) -> Result<(), EcoString> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.value(), size));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut parent.node.content, parent.key.take()) {
            (Content::List(_, items), _) => items.push(node),
            (Content::Map(_, entries), Some((key, key_span))) => entries.push(MapEntry { key, key_span, value: node }),
            (_, None) => {
                let text = match &node.content {
                    Content::Scalar(Value::String(text)) => text.clone(),
                    // A key such as `80` or `true` is found by its notation.
                    _ => self.text[node.span.clone()].into(),
                };
                parent.key = Some((text, node.span));
            }
            _ => {}
        }
        Ok(())
    }
}

fn notation(style: StructureStyle) -> Style {
    match style {
        StructureStyle::Flow => Style::Flow,
        StructureStyle::Block => Style::Block,
    }
}

/// Returns the offset of the first dash of a list in block style, after comments, an anchor and a tag.
fn first_dash(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = text[at..].trim_start_matches([' ', '\t', '\n']);
        at = text.len() - rest.len();
        match rest.as_bytes().first()? {
            b'#' | b'%' => at = line_end(text, at),
            b'&' | b'!' => at += rest.find([' ', '\n'])?,
            b'-' if rest.starts_with("---") => at += 3,
            b'-' => return Some(at),
            _ => return None,
        }
    }
}

/// Returns the offset after the colon that follows a key.
pub(super) fn colon(text: &str, key_end: usize) -> Option<usize> {
    let rest = text[key_end..].trim_start_matches([' ', '\t']);
    rest.starts_with(':').then(|| text.len() - rest.len() + 1)
}

/// Returns the number of bytes before an offset on its line.
pub(super) fn column(text: &str, at: usize) -> usize {
    at - super::tree::line_start(text, at)
}

/// Returns the offset of the dash of an item. The items before must be known.
pub(super) fn dash(text: &str, list: &TreeNode, index: usize) -> Option<usize> {
    let Content::List(_, items) = &list.content else { return None };
    let Some(before) = index.checked_sub(1) else { return Some(list.span.start) };
    let column = column(text, list.span.start);
    let mut start = line_end(text, items.get(before)?.span.end) + 1;
    while start < text.len() {
        let line = &text[start..line_end(text, start)];
        let rest = line.trim_start_matches(' ');
        if line.len() - rest.len() == column && (rest == "-" || rest.starts_with("- ") || rest.starts_with("-\t")) {
            return Some(start + column);
        }
        start += line.len() + 1;
    }
    None
}

/// Returns the value of a scalar without quotes: the core schema of YAML 1.2. A number with a leading zero is a text,
/// because programs differ about its value.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Undef,
        "true" | "True" | "TRUE" => return Value::Boolean(true),
        "false" | "False" | "FALSE" => return Value::Boolean(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = match digits {
        ".inf" | ".Inf" | ".INF" => {
            Some(Value::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }))
        }
        ".nan" | ".NaN" | ".NAN" if digits.len() == text.len() => Some(Value::Float(f64::NAN)),
        _ if digits.starts_with("0x") => i64::from_str_radix(&digits[2..], 16).ok().map(Value::Integer),
        _ if digits.starts_with("0o") => i64::from_str_radix(&digits[2..], 8).ok().map(Value::Integer),
        _ if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()) => None,
        _ if !digits.starts_with(|sign: char| sign.is_ascii_digit() || sign == '.') => None,
        _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().map(Value::Integer).ok(),
        _ if digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) => {
            text.parse().map(Value::Float).ok()
        }
        _ => None,
    };
    number.unwrap_or_else(|| Value::from(text))
}
