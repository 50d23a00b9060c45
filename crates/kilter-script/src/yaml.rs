//! YAML as a tree of nodes with locations.

use ecow::{EcoString, eco_format};
use granit_parser::{Event, Parser, ScalarStyle};
use kilter_model::Value;
use rustc_hash::FxHashMap;

use crate::fault::{Fault, TextPosition};

/// Maximum size of metadata, in bytes.
const MAX_METADATA_BYTES: usize = 1 << 20;

/// Maximum nesting depth.
const DEEPEST: usize = 64;

/// Maximum number of nodes, including repetitions by aliases.
const MOST: usize = 50_000;

/// A node and its location.
#[derive(Clone, Debug)]
pub struct Node {
    /// Content.
    pub kind: YamlKind,
    /// Location in the text.
    pub at: TextPosition,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub enum YamlKind {
    /// A text.
    Scalar {
        /// The text.
        text: EcoString,
        /// True if the text has no quotes.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with values, in order.
    Mapping(Vec<(Node, Node)>),
}

impl Node {
    /// Returns the text of a scalar.
    pub fn text(&self) -> Option<&EcoString> {
        match &self.kind {
            YamlKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns true if the node is empty or null.
    pub fn is_null(&self) -> bool {
        let is_null = |text: &str| matches!(text, "" | "~" | "null" | "Null" | "NULL");
        matches!(&self.kind, YamlKind::Scalar { text, plain: true } if is_null(text))
    }

    /// Returns the boolean value of an unquoted scalar in YAML 1.1, in which `yes` and `on` are also true.
    pub fn truth(&self) -> Option<bool> {
        let YamlKind::Scalar { text, plain: true } = &self.kind else { return None };
        match text.to_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    /// Returns the entries of a mapping.
    pub fn entries(&self) -> Option<&[(Node, Node)]> {
        match &self.kind {
            YamlKind::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value of a key in a mapping. Treats an empty value as missing.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let found = self.entries()?.iter().find(|(known, _)| known.text().is_some_and(|known| known == key));
        found.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// Describes the node for messages.
    pub fn what(&self) -> EcoString {
        match &self.kind {
            _ if self.is_null() => "nothing".into(),
            YamlKind::Scalar { text, .. } => eco_format!("`{text}`"),
            YamlKind::Sequence(_) => "a list".into(),
            YamlKind::Mapping(_) => "a mapping".into(),
        }
    }

    /// Returns the value of the node. Scalars follow the core schema of YAML 1.2.
    pub fn value(&self) -> Value {
        match &self.kind {
            _ if self.is_null() => Value::Undef,
            YamlKind::Scalar { text, plain: false } => Value::String(text.clone()),
            YamlKind::Scalar { text, plain: true } => scalar(text),
            YamlKind::Sequence(nodes) => Value::array(nodes.iter().map(Node::value)),
            YamlKind::Mapping(entries) => {
                Value::hash(entries.iter().map(|(key, value)| (key.text().cloned().unwrap_or_default(), value.value())))
            }
        }
    }
}

fn scalar(text: &EcoString) -> Value {
    match text.as_str() {
        "true" | "True" | "TRUE" => return Value::Boolean(true),
        "false" | "False" | "FALSE" => return Value::Boolean(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_octal_mode = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    if is_octal_mode || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Value::String(text.clone());
    }
    let whole = text.parse().map(Value::Integer);
    let number = whole.or_else(|_| text.parse::<f64>().map(Value::Float));
    number.unwrap_or_else(|_| Value::String(text.clone()))
}

/// Parses a text with a single document.
///
/// # Errors
/// If the text is not valid YAML, or is too large.
pub fn parse(text: &str) -> Result<Node, Fault> {
    let start = TextPosition { line: 1, column: 1 };
    if text.len() > MAX_METADATA_BYTES {
        return Err(Fault::new(start, eco_format!("it has more than {MAX_METADATA_BYTES} bytes")));
    }
    let mut builder = Builder::default();
    for next in Parser::new_from_str(text) {
        let (event, range) = next.map_err(|error| {
            let at = TextPosition::new(error.marker().line(), error.marker().col() + 1);
            Fault::new(at, eco_format!("not valid YAML: {}", error.info()))
        })?;
        builder.event(event, TextPosition::new(range.start.line(), range.start.col() + 1))?;
    }
    builder.root.ok_or_else(|| Fault::new(start, "there is nothing in it").hint("begin with `provider:`"))
}

/// An unfinished collection.
struct Open {
    node: Node,
    anchor: usize,
    /// Key that waits for its value.
    key: Option<Node>,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: FxHashMap<usize, (Node, usize)>,
    root: Option<Node>,
    documents: usize,
    count: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: TextPosition) -> Result<(), Fault> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Fault::new(at, "metadata is one document: this is a second one"));
                }
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(Fault::new(at, "an alias of a node that contains it"));
                };
                self.add(Node { at, ..node }, 0, size)?;
            }
            Event::Scalar(text, style, anchor, _) => {
                let kind = YamlKind::Scalar { text: (&*text).into(), plain: style == ScalarStyle::Plain };
                self.add(Node { kind, at }, anchor, 1)?;
            }
            Event::SequenceStart(_, anchor, _) => self.begin(YamlKind::Sequence(Vec::new()), at, anchor)?,
            Event::MappingStart(_, anchor, _) => self.begin(YamlKind::Mapping(Vec::new()), at, anchor)?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(done) = self.open.pop() {
                    let size = size(&done.node);
                    self.place(done.node, done.anchor, size)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, kind: YamlKind, at: TextPosition, anchor: usize) -> Result<(), Fault> {
        self.counted(1, at)?;
        if self.open.len() >= DEEPEST {
            return Err(Fault::new(at, eco_format!("it is nested more than {DEEPEST} levels deep")));
        }
        self.open.push(Open { node: Node { kind, at }, anchor, key: None });
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Fault> {
        self.counted(size, node.at)?;
        self.place(node, anchor, size)
    }

    fn counted(&mut self, size: usize, at: TextPosition) -> Result<(), Fault> {
        self.count += size;
        match self.count > MOST {
            true => Err(Fault::new(at, eco_format!("it has more than {MOST} parts, aliases followed"))),
            false => Ok(()),
        }
    }

    /// Adds a finished node to its parent.
    fn place(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Fault> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut parent.node.kind {
            YamlKind::Sequence(nodes) => nodes.push(node),
            YamlKind::Mapping(entries) => match parent.key.take() {
                None => {
                    let Some(text) = node.text() else {
                        return Err(Fault::new(node.at, "a key is a text, not a list or a mapping"));
                    };
                    if entries.iter().any(|(known, _)| known.text() == Some(text)) {
                        return Err(Fault::new(node.at, eco_format!("the key `{text}` occurs twice")));
                    }
                    parent.key = Some(node);
                }
                Some(key) => entries.push((key, node)),
            },
            YamlKind::Scalar { .. } => {}
        }
        Ok(())
    }
}

fn size(node: &Node) -> usize {
    match &node.kind {
        YamlKind::Scalar { .. } => 1,
        YamlKind::Sequence(nodes) => 1 + nodes.iter().map(size).sum::<usize>(),
        YamlKind::Mapping(entries) => 1 + entries.iter().map(|(_, value)| 1 + size(value)).sum::<usize>(),
    }
}
