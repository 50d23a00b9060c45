//! Precedence-climbing parser for expressions.

use ecow::{EcoString, eco_format};

use super::ast::{At, Node, NodeKind, Operator, too_deep};
use super::functions::Function;
use super::lex::{Lexer, Token, error, hinted};
use super::{ExprError, MAX_DEPTH};
use crate::names::ResourceRef;
use crate::value::Value;

/// Context of the expression. In braces, shell syntax is a likely mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExprContext {
    Braces,
    Whole,
    /// A condition for targets of an inventory.
    Target,
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    at: At,
    depth: u16,
    place: ExprContext,
}

type Parsed = Result<Node, ExprError>;

/// Parses a whole text.
pub(super) fn whole(text: &str) -> Parsed {
    whole_in(text, ExprContext::Whole)
}

/// Parses a whole text as a condition for targets.
pub(super) fn whole_for_target(text: &str) -> Parsed {
    whole_in(text, ExprContext::Target)
}

fn whole_in(text: &str, context: ExprContext) -> Parsed {
    let mut parser = Parser::new(text, 0, context)?;
    let node = parser.expression()?;
    match parser.token {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("the end of the expression")),
    }
}

/// Parses an expression from `start` to the closing `}`. Returns the end position.
pub(super) fn braced(text: &str, start: usize) -> Result<(Node, usize), ExprError> {
    let open = At::new(start - 2, start);
    let mut parser = Parser::new(text, start, ExprContext::Braces)?;
    let here = parser.at;
    match parser.token {
        Token::Symbol("}") => {
            return Err(hinted("`${}` contains no expression", open.to(here), "a literal `${` is written `$${`"));
        }
        Token::End => return Err(unclosed(open)),
        _ => {}
    }
    let node = parser.expression()?;
    if let NodeKind::Literal(Value::Integer(number)) = &node.kind {
        return Err(hinted(
            eco_format!("`${{{number}}}` names no variable, fact or output"),
            open.to(parser.at),
            eco_format!("shell text needs `$${{{number}}}`"),
        ));
    }
    match parser.token {
        Token::Symbol("}") => Ok((node, parser.at.end as usize)),
        Token::End => Err(unclosed(open)),
        _ => Err(parser.unexpected("`}`")),
    }
}

fn unclosed(open: At) -> ExprError {
    hinted("this `${` is never closed", open, "add `}`; a literal `${` is written `$${`")
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, start: usize, place: ExprContext) -> Result<Parser<'t>, ExprError> {
        let mut lexer = Lexer { text, pos: start };
        // The caller reports a `}` at the start and shell syntax before lexing.
        let (token, at) = lexer.next().map_err(|e| shell(e, text, start, place))?;
        Ok(Parser { lexer, token, at, depth: 0, place })
    }

    fn advance(&mut self) -> Result<At, ExprError> {
        let before = self.at;
        (self.token, self.at) = self.lexer.next()?;
        Ok(before)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(found) if found == symbol)
    }

    /// Consumes `symbol` if it is the next token.
    fn take(&mut self, symbol: &str) -> Result<bool, ExprError> {
        let found = self.is(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: &str) -> Result<At, ExprError> {
        if self.is(symbol) { self.advance() } else { Err(self.unexpected(&eco_format!("`{symbol}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> ExprError {
        let found = match &self.token {
            Token::End => return error(eco_format!("the expression ends, expected {wanted}"), self.at),
            _ => &self.lexer.text[self.at.start as usize..self.at.end as usize],
        };
        let message = eco_format!("unexpected `{found}`, expected {wanted}");
        match found {
            "and" => hinted(message, self.at, "`&&` means and"),
            "or" => hinted(message, self.at, "`||` means or"),
            "not" => hinted(message, self.at, "`!` means not"),
            ":" if self.place == ExprContext::Braces => hinted(
                message,
                self.at,
                "default(x, y) is the equivalent of the shell's ${x:-y}; shell text needs `$${`",
            ),
            _ => error(message, self.at),
        }
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.at));
        }
        let node = self.conditional();
        self.depth -= 1;
        node
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.binary(1)?;
        if !self.take("?")? {
            return Ok(condition);
        }
        let yes = self.expression()?;
        self.expect(":")?;
        let no = self.expression()?;
        let at = condition.at.to(no.at);
        Node::new(NodeKind::Conditional(Box::new((condition, yes, no))), at)
    }

    fn operator(&self) -> Option<Operator> {
        let symbol = match self.token {
            Token::Symbol(symbol) => symbol,
            Token::Name("in") => "in",
            _ => return None,
        };
        use Operator::*;
        [
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
        ]
        .into_iter()
        .find(|operator| operator.symbol() == symbol)
    }

    fn binary(&mut self, weakest: u8) -> Parsed {
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|operator| operator.strength() >= weakest) {
            self.advance()?;
            let right = self.binary(operator.strength() + 1)?;
            let at = left.at.to(right.at);
            left = Node::new(NodeKind::Binary(operator, Box::new((left, right))), at)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let make = match self.token {
            Token::Symbol("!") => NodeKind::Not,
            Token::Symbol("-") => NodeKind::Negate,
            _ => return self.postfix(),
        };
        let sign = self.advance()?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(sign));
        }
        let operand = self.unary()?;
        self.depth -= 1;
        let at = sign.to(operand.at);
        Node::new(make(Box::new(operand)), at)
    }

    fn postfix(&mut self) -> Parsed {
        let mut node = self.primary()?;
        loop {
            if self.take(".")? {
                let (name, at) = self.name("a name")?;
                node = if self.is("(") { self.method(node, name, at)? } else { member(node, name, at)? };
            } else if self.take("[")? {
                let index = self.expression()?;
                let at = node.at.to(self.expect("]")?);
                node = Node::new(NodeKind::Index(Box::new((node, index))), at)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn name(&mut self, wanted: &str) -> Result<(&'t str, At), ExprError> {
        match self.token {
            Token::Name(name) => Ok((name, self.advance()?)),
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn method(&mut self, receiver: Node, name: &str, at: At) -> Parsed {
        let Some(function) = Function::method(name) else {
            let known = Function::methods();
            return Err(unknown(eco_format!("unknown method `{name}`"), name, &known, at));
        };
        let mut arguments = vec![receiver];
        let end = self.arguments(&mut arguments)?;
        self.call(function, arguments, at, end)
    }

    fn call(&self, function: Function, arguments: Vec<Node>, name: At, end: At) -> Parsed {
        let (least, most) = function.arity();
        let written = function.usage();
        if arguments.len() < least || arguments.len() > most {
            return Err(hinted("wrong number of arguments", name.to(end), eco_format!("it is used as {written}")));
        }
        let at = arguments.first().filter(|first| first.at.start < name.start).map_or(name, |first| first.at).to(end);
        Node::new(NodeKind::Call(function, arguments), at)
    }

    /// Parses `(a, b)` and returns its end.
    fn arguments(&mut self, arguments: &mut Vec<Node>) -> Result<At, ExprError> {
        self.expect("(")?;
        while !self.is(")") {
            arguments.push(self.expression()?);
            if !self.take(",")? {
                break;
            }
        }
        self.expect(")")
    }

    fn primary(&mut self) -> Parsed {
        match self.token.clone() {
            Token::Number(value) => Node::new(NodeKind::Literal(value), self.advance()?),
            Token::Text(text) => Node::new(NodeKind::Literal(Value::String(text)), self.advance()?),
            Token::Name(name) => self.named(name),
            Token::Symbol("(") => {
                let open = self.advance()?;
                let mut node = self.expression()?;
                node.at = open.to(self.expect(")")?);
                Ok(node)
            }
            Token::Symbol("[") => self.list(),
            Token::Symbol("{") => self.map(),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn list(&mut self) -> Parsed {
        let open = self.advance()?;
        let mut elements = Vec::new();
        while !self.is("]") {
            elements.push(self.expression()?);
            if !self.take(",")? {
                break;
            }
        }
        let end = self.expect("]")?;
        Node::new(NodeKind::List(elements), open.to(end))
    }

    fn map(&mut self) -> Parsed {
        let open = self.advance()?;
        let mut entries = Vec::new();
        while !self.is("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.take(",")? {
                break;
            }
        }
        let end = self.expect("}")?;
        Node::new(NodeKind::Map(entries), open.to(end))
    }

    fn named(&mut self, name: &'t str) -> Parsed {
        let literal = match name {
            "true" => Some(Value::Boolean(true)),
            "false" => Some(Value::Boolean(false)),
            "null" => Some(Value::Undef),
            _ => None,
        };
        if let Some(value) = literal {
            return Node::new(NodeKind::Literal(value), self.advance()?);
        }
        if matches!(name, "vars" | "facts" | "self" | "each") {
            return self.root(name);
        }
        if self.place == ExprContext::Target && matches!(name, "groups" | "name") {
            return Node::new(NodeKind::Target(name.into()), self.advance()?);
        }
        match self.lexer.text.as_bytes().get(self.lexer.pos) {
            Some(b'[') => self.output(name),
            Some(b'(') => self.function(name),
            _ => Err(self.unknown_name(name)),
        }
    }

    fn root(&mut self, root: &str) -> Parsed {
        let start = self.advance()?;
        let no_name = |at| {
            let hint = eco_format!("write {root}.NAME, or {root}[\"NAME\"]");
            hinted(eco_format!("`{root}` is not followed by a name"), at, hint)
        };
        let (name, end) = if self.take(".")? {
            match self.token {
                Token::Name(name) => (EcoString::from(name), self.advance()?),
                _ => return Err(no_name(start)),
            }
        } else if self.take("[")? {
            match self.token.clone() {
                Token::Text(name) => {
                    self.advance()?;
                    (name, self.expect("]")?)
                }
                _ => return Err(no_name(start)),
            }
        } else {
            return Err(no_name(start));
        };
        let kind = match root {
            "vars" => NodeKind::Var(name),
            "facts" => NodeKind::Fact(name),
            "each" => NodeKind::Each(name),
            _ => NodeKind::Own(name),
        };
        Node::new(kind, start.to(end))
    }

    /// Parses `type[title].output`. The title is taken literally.
    fn output(&mut self, type_name: &str) -> Parsed {
        let start = self.at;
        let open = self.lexer.pos;
        let mut depth = 0_u32;
        let close = self.lexer.text[open..].bytes().position(|byte| {
            match byte {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some(close) = close.map(|n| open + n) else {
            return Err(error("this `[` is never closed", At::new(open, open + 1)));
        };
        let written = At { start: start.start, end: At::new(0, close + 1).end };
        let reference: ResourceRef = self.lexer.text[start.start as usize..=close]
            .parse()
            .map_err(|e: crate::names::ResourceRefError| error(eco_format!("{e}"), written))?;
        self.lexer.pos = close + 1;
        self.advance()?;
        if !self.is(".") {
            let hint = eco_format!("write {type_name}[…].OUTPUT, such as exec[token].stdout");
            return Err(hinted(eco_format!("`{reference}` is not followed by the name of an output"), written, hint));
        }
        self.advance()?;
        let (name, end) = self.name("the name of an output")?;
        Node::new(NodeKind::Output(Box::new((reference, name.into()))), start.to(end))
    }

    fn function(&mut self, name: &str) -> Parsed {
        let at = self.advance()?;
        let Some(function) = Function::free(name) else {
            let known = Function::functions();
            return Err(unknown(eco_format!("unknown function `{name}`"), name, &known, at));
        };
        let mut arguments = Vec::new();
        let end = self.arguments(&mut arguments)?;
        self.call(function, arguments, at, end)
    }

    fn unknown_name(&self, name: &str) -> ExprError {
        unknown_name(name, self.at, self.place)
    }
}

fn unknown_name(name: &str, at: At, place: ExprContext) -> ExprError {
    let message = eco_format!("`{name}` names no variable, fact or output");
    let root = crate::suggest::nearest(name, ["vars", "facts"]).filter(|_| name.len() > 2);
    let hint = match (name, place, root) {
        ("not", ..) => "`!` means not".into(),
        (_, ExprContext::Braces, None) => {
            eco_format!("shell text needs `$${{{name}}}`; a variable is written `${{vars.{name}}}`")
        }
        (_, ExprContext::Whole | ExprContext::Target, None) => {
            eco_format!("a text is written in quotes: \"{name}\"; a variable vars.{name}")
        }
        (_, _, Some(root)) => eco_format!("did you mean `{root}`?"),
    };
    hinted(message, at, hint)
}

/// Adds a hint for shell syntax such as `${!x}`, `${#x}` and `${@}`.
fn shell(error: ExprError, text: &str, start: usize, place: ExprContext) -> ExprError {
    match place {
        ExprContext::Braces if !text[start..].starts_with(['"', '\'']) => {
            ExprError { hint: error.hint.or(Some("shell text needs `$${` in the place of `${`".into())), ..error }
        }
        _ => error,
    }
}

fn member(node: Node, name: &str, at: At) -> Parsed {
    let at = node.at.to(at);
    Node::new(NodeKind::Member(Box::new(node), name.into()), at)
}

fn unknown(message: EcoString, name: &str, known: &[&'static str], at: At) -> ExprError {
    let hint = match crate::suggest::nearest(name, known.iter().copied()) {
        Some(near) => eco_format!("did you mean `{near}`?"),
        None => eco_format!("known are {}", known.join(", ")),
    };
    hinted(message, at, hint)
}
