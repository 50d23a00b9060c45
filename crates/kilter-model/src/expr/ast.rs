//! Syntax tree of an expression.

use std::ops::Range;

use ecow::EcoString;

use super::functions::Function;
use super::{ExprError, MAX_DEPTH, Name};
use crate::names::ResourceRef;
use crate::value::Value;

/// A byte range that implements `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl At {
    pub(super) fn new(start: usize, end: usize) -> At {
        let clip = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        At { start: clip(start), end: clip(end) }
    }

    pub(super) fn to(self, other: At) -> At {
        At { start: self.start, end: other.end }
    }
}

impl From<At> for Range<u32> {
    fn from(at: At) -> Range<u32> {
        at.start..at.end
    }
}

/// A node of the tree and its location.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) at: At,
    height: u16,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Literal(Value),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Var(EcoString),
    Fact(EcoString),
    /// An attribute of the composite resource that contains the expression.
    Own(EcoString),
    /// `key` or `value` of the element of `for_each` that the expression is evaluated for.
    Each(EcoString),
    Output(Box<(ResourceRef, EcoString)>),
    /// `name` or `groups` of a target.
    Target(EcoString),
    Member(Box<Node>, EcoString),
    Index(Box<(Node, Node)>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Binary(Operator, Box<(Node, Node)>),
    Conditional(Box<(Node, Node, Node)>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Operator::Or => "||",
            Operator::And => "&&",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::In => "in",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
        }
    }

    /// Returns the precedence of the operator. Higher binds more tightly.
    pub(super) fn strength(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::LessEqual
            | Operator::Greater
            | Operator::GreaterEqual
            | Operator::In => 3,
            Operator::Add | Operator::Subtract => 4,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 5,
        }
    }
}

impl Node {
    /// Creates a node. Rejects a tree that is too deep, because evaluation is recursive.
    pub(super) fn new(kind: NodeKind, at: At) -> Result<Node, ExprError> {
        let mut below = 0;
        kind.each(&mut |child| below = below.max(child.height));
        if below >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        Ok(Node { kind, at, height: below + 1 })
    }

    pub(super) fn names<'a>(&'a self, see: &mut dyn FnMut(Name<'a>, Range<u32>)) {
        match &self.kind {
            NodeKind::Var(name) => see(Name::Var(name), self.at.into()),
            NodeKind::Fact(name) => see(Name::Fact(name), self.at.into()),
            NodeKind::Own(name) => see(Name::Own(name), self.at.into()),
            NodeKind::Each(name) => see(Name::Each(name), self.at.into()),
            NodeKind::Output(output) => see(Name::Output(&output.0, &output.1), self.at.into()),
            kind => kind.each(&mut |child| child.names(see)),
        }
    }
}

impl NodeKind {
    pub(super) fn each<'a>(&'a self, see: &mut dyn FnMut(&'a Node)) {
        match self {
            NodeKind::Literal(_)
            | NodeKind::Var(_)
            | NodeKind::Fact(_)
            | NodeKind::Own(_)
            | NodeKind::Each(_)
            | NodeKind::Output(_)
            | NodeKind::Target(_) => {}
            NodeKind::List(nodes) | NodeKind::Call(_, nodes) => nodes.iter().for_each(see),
            NodeKind::Map(entries) => entries.iter().for_each(|(key, value)| {
                see(key);
                see(value);
            }),
            NodeKind::Member(node, _) | NodeKind::Not(node) | NodeKind::Negate(node) => see(node),
            NodeKind::Index(pair) | NodeKind::Binary(_, pair) => {
                see(&pair.0);
                see(&pair.1);
            }
            NodeKind::Conditional(parts) => {
                see(&parts.0);
                see(&parts.1);
                see(&parts.2);
            }
        }
    }
}

pub(super) fn too_deep(at: At) -> ExprError {
    ExprError {
        message: ecow::eco_format!("the expression is nested more than {MAX_DEPTH} levels deep"),
        at: at.into(),
        hint: Some("compute the value in a program that prints the manifest".into()),
    }
}
