//! YAML as a tree of nodes with locations.

use ecow::{EcoString, eco_format};
use granit_parser::{Event, Parser, ScalarStyle};
use kilter_model::Value;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::fault::{Fault, TextPosition};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// Maximum number of entries of a mapping that is searched linearly for a key.
const SMALL_MAPPING: usize = 32;

/// Bounds of a text.
#[derive(Clone, Copy, Debug)]
pub struct YamlLimits {
    /// Maximum size in bytes.
    pub bytes: usize,
    /// Maximum number of nodes, including repetitions by aliases.
    pub nodes: usize,
    /// Treatment of tags.
    pub tags: TagRule,
}

/// Treatment of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagRule {
    /// Tags have no effect.
    Ignored,
    /// `!!str` makes a text. A local tag, such as `!vault`, is an error.
    CoreOnly,
}

impl YamlLimits {
    /// Bounds for metadata of providers and for configuration.
    const METADATA: YamlLimits = YamlLimits { bytes: 1 << 20, nodes: 50_000, tags: TagRule::Ignored };
}

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
    pub fn as_bool(&self) -> Option<bool> {
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
    let root = parse_within(text, &YamlLimits::METADATA)?;
    root.ok_or_else(|| Fault::new(START, "there is nothing in it").hint("begin with `provider:`"))
}

const START: TextPosition = TextPosition { line: 1, column: 1 };

/// Parses a text with a single document, within given bounds. Returns none if the text has no document.
///
/// # Errors
/// If the text is not valid YAML, or exceeds the bounds.
pub fn parse_within(text: &str, limits: &YamlLimits) -> Result<Option<Node>, Fault> {
    if text.len() > limits.bytes {
        return Err(Fault::new(START, eco_format!("it has more than {} bytes", limits.bytes)));
    }
    let mut builder =
        Builder { limits, open: Vec::new(), anchors: FxHashMap::default(), root: None, documents: 0, count: 0 };
    for next in Parser::new_from_str(text) {
        let (event, range) = next.map_err(|error| {
            let at = TextPosition::new(error.marker().line(), error.marker().col() + 1);
            Fault::new(at, eco_format!("not valid YAML: {}", error.info()))
        })?;
        builder.event(event, TextPosition::new(range.start.line(), range.start.col() + 1))?;
    }
    Ok(builder.root)
}

/// An unfinished collection.
struct Open {
    node: Node,
    anchor: usize,
    /// Key that waits for its value.
    key: Option<Node>,
    /// Keys of a large mapping. A small one is searched itself.
    keys: FxHashSet<EcoString>,
}

struct Builder<'l> {
    limits: &'l YamlLimits,
    open: Vec<Open>,
    anchors: FxHashMap<usize, (Node, usize)>,
    root: Option<Node>,
    documents: usize,
    count: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, at: TextPosition) -> Result<(), Fault> {
        let is_text = self.limits.tags == TagRule::CoreOnly
            && match event.tag() {
                Some(tag) if tag.handle() == "!" => {
                    return Err(Fault::new(at, eco_format!("the tag `!{}` is not supported", tag.suffix())));
                }
                Some(tag) => tag.is_yaml_core_schema() && tag.suffix() == "str",
                None => false,
            };
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Fault::new(at, "one document is expected: this is a second one"));
                }
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(Fault::new(at, "an alias of a node that contains it"));
                };
                self.add(Node { at, ..node }, 0, size)?;
            }
            Event::Scalar(text, style, anchor, _) => {
                let kind = YamlKind::Scalar { text: (&*text).into(), plain: style == ScalarStyle::Plain && !is_text };
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
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::new(at, eco_format!("it is nested more than {MAX_DEPTH} levels deep")));
        }
        self.open.push(Open { node: Node { kind, at }, anchor, key: None, keys: FxHashSet::default() });
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Fault> {
        self.counted(size, node.at)?;
        self.place(node, anchor, size)
    }

    fn counted(&mut self, size: usize, at: TextPosition) -> Result<(), Fault> {
        self.count += size;
        let most = self.limits.nodes;
        match self.count > most {
            true => Err(Fault::new(at, eco_format!("it has more than {most} parts, aliases followed"))),
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
                    let is_known = match entries.len() {
                        ..=SMALL_MAPPING => entries.iter().any(|(known, _)| known.text() == Some(text)),
                        _ => {
                            if parent.keys.is_empty() {
                                parent.keys.extend(entries.iter().filter_map(|(known, _)| known.text().cloned()));
                            }
                            !parent.keys.insert(text.clone())
                        }
                    };
                    if is_known {
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
