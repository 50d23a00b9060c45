//! Finds comparisons of facts with texts, for warnings about comparisons that are never true.

use std::ops::Range;

use ecow::{EcoString, eco_format};

use super::ast::{Node, NodeKind, Operator};
use super::functions::Function;
use crate::value::Value;

/// A comparison of a fact with a text, such as `facts.os.name == "debian"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactComparison<'a> {
    /// Path of the fact: `os.name`.
    pub path: EcoString,
    /// The text.
    pub text: &'a str,
    /// Byte range of the text in the source.
    pub at: Range<u32>,
}

/// Calls `see` with each comparison below a node.
pub(super) fn find(node: &Node, see: &mut dyn FnMut(FactComparison<'_>)) {
    match &node.kind {
        NodeKind::Binary(Operator::Equal | Operator::NotEqual, pair) => {
            compare(&pair.0, &pair.1, see);
            compare(&pair.1, &pair.0, see);
        }
        NodeKind::Binary(Operator::In, pair) => match &pair.1.kind {
            NodeKind::List(nodes) => nodes.iter().for_each(|literal| compare(&pair.0, literal, see)),
            _ => compare(&pair.0, &pair.1, see),
        },
        NodeKind::Call(Function::StartsWith | Function::EndsWith | Function::Contains, arguments) => {
            if let [subject, literal] = &arguments[..] {
                compare(subject, literal, see);
            }
        }
        _ => {}
    }
    node.kind.each(&mut |child| find(child, see));
}

fn compare(fact: &Node, literal: &Node, see: &mut dyn FnMut(FactComparison<'_>)) {
    let Some(path) = path_of(fact) else { return };
    let mut tell = |value: &Value| {
        if let Value::String(text) = value {
            see(FactComparison { path: path.clone(), text, at: literal.at.into() });
        }
    };
    match &literal.kind {
        NodeKind::Literal(Value::Array(values)) => values.iter().for_each(tell),
        NodeKind::Literal(value) => tell(value),
        _ => {}
    }
}

/// Returns the path of a fact if the node is a fact: `facts.os.name`, `facts["os"].name`.
fn path_of(node: &Node) -> Option<EcoString> {
    match &node.kind {
        NodeKind::Fact(name) => Some(name.clone()),
        NodeKind::Member(inner, name) => Some(eco_format!("{}.{name}", path_of(inner)?)),
        NodeKind::Index(pair) => match &pair.1.kind {
            NodeKind::Literal(Value::String(name)) => Some(eco_format!("{}.{name}", path_of(&pair.0)?)),
            _ => None,
        },
        _ => None,
    }
}
