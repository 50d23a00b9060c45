//! Texts with embedded expressions, and trees of such texts.

use std::ops::Range;
use std::sync::Arc;

use ecow::{EcoString, eco_format};

use super::ast::{At, Node};
use super::comparison::{self, FactComparison};
use super::functions::{text_of, too_long};
use super::{EvalError, ExprError, MAX_TEXT, Name, OutputTypeOf, Scope, eval, kind, parse};
use crate::data_type::DataType;
use crate::names::ResourceRef;
use crate::value::{Hash, Value};

/// A text with `${…}`, a single expression, or a list or hash of templates.
///
/// `${expr}` alone has the value of the expression, of any type. Within a longer text, it is converted to text.
/// `$${` is a literal `${`. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Template(Arc<Form>);

#[derive(Debug)]
enum Form {
    /// A value without expressions.
    Value(Value),
    /// A single expression and its source text.
    Whole(EcoString, Node),
    /// Texts and expressions, with their source text.
    Text(EcoString, Vec<TemplatePart>),
    Array(Vec<Template>),
    Hash(Vec<(EcoString, Template)>),
    Sealed(Template),
    /// A text that a program makes from values.
    Made(Arc<dyn TextMaker>, Vec<Template>),
}

/// Makes a text from values, such as a template of another language.
pub trait TextMaker: std::fmt::Debug + Send + Sync {
    /// Returns the identity: makers with the same identity make the same text from the same values.
    fn identity(&self) -> &str;

    /// Returns the text. The values contain no secrets: they have been exposed, and the caller seals the text.
    ///
    /// # Errors
    /// The reason why there is no text, with its place.
    fn text(&self, values: &[Value]) -> Result<EcoString, EcoString>;
}

/// Two templates are equal if their source is equal.
impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        match (&*self.0, &*other.0) {
            (Form::Value(one), Form::Value(other)) => one == other,
            (Form::Whole(one, _), Form::Whole(other, _)) | (Form::Text(one, _), Form::Text(other, _)) => one == other,
            (Form::Array(one), Form::Array(other)) => one == other,
            (Form::Hash(one), Form::Hash(other)) => one == other,
            (Form::Sealed(one), Form::Sealed(other)) => one == other,
            (Form::Made(one, values), Form::Made(other, others)) => {
                one.identity() == other.identity() && values == others
            }
            _ => false,
        }
    }
}

#[derive(Debug)]
enum TemplatePart {
    Text(EcoString),
    /// An expression and its range in the source text, without braces.
    Expr(Node, Range<u32>),
}

/// Returns true if `text` contains no `${`.
#[inline]
pub fn is_plain(text: &str) -> bool {
    // For nearly every text, the first search finds no `$`.
    memchr::memchr(b'$', text.as_bytes()).is_none_or(|at| !text[at..].contains("${"))
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// The first syntax error and its location.
    pub fn parse(text: &str) -> Result<Template, ExprError> {
        if is_plain(text) {
            return Ok(Template::value(Value::from(text)));
        }
        let mut parts = Vec::new();
        let mut literal = EcoString::new();
        let mut pos = 0;
        while let Some(found) = text[pos..].find('$') {
            literal.push_str(&text[pos..pos + found]);
            pos += found;
            let rest = &text[pos..];
            if rest.starts_with("$${") {
                literal.push_str("${");
                pos += 3;
            } else if rest.starts_with("${") {
                let (node, end) = parse::braced(text, pos + 2)?;
                if pos == 0 && end == text.len() {
                    return Ok(Template(Arc::new(Form::Whole(text.into(), node))));
                }
                if !literal.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut literal)));
                }
                let within = small(pos + 2)..small(end - 1);
                parts.push(TemplatePart::Expr(node, within));
                pos = end;
            } else {
                literal.push('$');
                pos += 1;
            }
        }
        literal.push_str(&text[pos..]);
        if parts.is_empty() {
            return Ok(Template::value(Value::String(literal)));
        }
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal));
        }
        Ok(Template(Arc::new(Form::Text(text.into(), parts))))
    }

    /// Returns the syntax errors of a text in order, the first of each `${…}`. Empty if [`Template::parse`]
    /// succeeds.
    pub fn syntax_errors(text: &str) -> Vec<ExprError> {
        let mut errors = Vec::new();
        let mut pos = 0;
        while let Some(found) = text[pos..].find('$') {
            pos += found;
            if text[pos..].starts_with("$${") {
                pos += 3;
                continue;
            }
            if !text[pos..].starts_with("${") {
                pos += 1;
                continue;
            }
            match parse::braced(text, pos + 2) {
                Ok((_, end)) => pos = end,
                Err(error) => {
                    errors.push(error);
                    // The next expression starts after the end of this one.
                    match text[pos..].find('}') {
                        Some(end) => pos += end + 1,
                        None => break,
                    }
                }
            }
        }
        errors
    }

    /// Returns every error that prevents the template from having a value, in the order of the text.
    pub fn errors(&self, scope: &dyn Scope) -> Vec<EvalError> {
        let mut found = Vec::new();
        self.find_errors(scope, &mut found);
        if found.is_empty() {
            // The text as a whole may have an error, such as its length.
            found.extend(self.render(scope).err());
        }
        found
    }

    fn find_errors(&self, scope: &dyn Scope, found: &mut Vec<EvalError>) {
        match &*self.0 {
            Form::Value(_) => {}
            Form::Whole(_, node) => eval::errors(node, scope, found),
            Form::Text(_, parts) => parts.iter().for_each(|part| match part {
                TemplatePart::Text(_) => {}
                TemplatePart::Expr(node, _) => match eval::eval(node, scope) {
                    Ok(value) => {
                        let shown = text_of(&value).map_err(|trouble| eval::failed(trouble, node.at).into());
                        found.extend(shown.err());
                    }
                    Err(_) => eval::errors(node, scope, found),
                },
            }),
            Form::Array(templates) => templates.iter().for_each(|template| template.find_errors(scope, found)),
            Form::Hash(entries) => entries.iter().for_each(|(_, template)| template.find_errors(scope, found)),
            Form::Sealed(inner) => inner.find_errors(scope, found),
            Form::Made(_, values) => values.iter().for_each(|template| template.find_errors(scope, found)),
        }
    }

    /// Creates a template with a constant value.
    pub fn value(value: Value) -> Template {
        Template(Arc::new(Form::Value(value)))
    }

    /// Creates a list of templates.
    pub fn array(templates: Vec<Template>) -> Template {
        Template(Arc::new(Form::Array(templates)))
    }

    /// Creates a hash of templates.
    pub fn hash(entries: Vec<(EcoString, Template)>) -> Template {
        Template(Arc::new(Form::Hash(entries)))
    }

    /// Creates a template whose text `maker` makes from the values of other templates.
    pub fn made(maker: Arc<dyn TextMaker>, values: Vec<Template>) -> Template {
        Template(Arc::new(Form::Made(maker, values)))
    }

    /// Makes the value of the template sensitive.
    #[must_use]
    pub fn sealed(self) -> Template {
        Template(Arc::new(Form::Sealed(self)))
    }

    /// Returns true if the template contains no expression.
    pub fn is_literal(&self) -> bool {
        match &*self.0 {
            Form::Value(_) => true,
            Form::Whole(..) | Form::Text(..) | Form::Made(..) => false,
            Form::Array(templates) => templates.iter().all(Template::is_literal),
            Form::Hash(entries) => entries.iter().all(|(_, template)| template.is_literal()),
            Form::Sealed(inner) => inner.is_literal(),
        }
    }

    /// Returns the value of a constant template.
    pub fn constant(&self) -> Option<&Value> {
        match &*self.0 {
            Form::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the entries of a hash template.
    pub fn entries(&self) -> Option<&[(EcoString, Template)]> {
        match &*self.0 {
            Form::Hash(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns true if the value is always sensitive, or always contains sensitive parts.
    pub fn is_sealed(&self) -> bool {
        match &*self.0 {
            Form::Value(value) => value.holds_sensitive(),
            Form::Whole(..) | Form::Text(..) => false,
            Form::Array(templates) => templates.iter().any(Template::is_sealed),
            Form::Hash(entries) => entries.iter().any(|(_, template)| template.is_sealed()),
            Form::Made(_, values) => values.iter().any(Template::is_sealed),
            Form::Sealed(_) => true,
        }
    }

    /// Returns true if the value is always a text.
    pub fn is_text(&self) -> bool {
        match &*self.0 {
            Form::Text(..) | Form::Made(..) => true,
            Form::Value(value) => value.as_str().is_some(),
            Form::Sealed(inner) => inner.is_text(),
            _ => false,
        }
    }

    /// Returns the type of the value, as far as it is known before evaluation. The type reveals no literal
    /// text.
    pub fn data_type(&self, sent: OutputTypeOf<'_>) -> DataType {
        match &*self.0 {
            Form::Value(value) => DataType::infer(value).generalized(),
            Form::Whole(_, node) => kind::data_type(node, sent),
            Form::Text(..) | Form::Made(..) => DataType::text(),
            Form::Array(templates) => {
                DataType::Tuple(templates.iter().map(|template| template.data_type(sent)).collect(), None, None)
            }
            Form::Hash(_) => DataType::Hash(Box::new(DataType::text()), Box::new(DataType::Any), None, None),
            Form::Sealed(inner) => DataType::Sensitive(Box::new(inner.data_type(sent))),
        }
    }

    /// Returns the source text. None for a list, a hash, a made text or a value without expressions.
    pub fn source(&self) -> Option<&str> {
        match &*self.0 {
            Form::Whole(source, _) | Form::Text(source, _) => Some(source),
            Form::Sealed(inner) => inner.source(),
            _ => None,
        }
    }

    /// Returns an equivalent single expression: `"a" + string(x)` for `a${x}`. None for a list, a hash, a made
    /// text or a value without expressions.
    pub fn expression(&self) -> Option<EcoString> {
        match &*self.0 {
            Form::Whole(source, _) => Some(source[2..source.len() - 1].into()),
            Form::Text(source, parts) => {
                let term = |part: &TemplatePart| match part {
                    TemplatePart::Text(text) => quoted(text),
                    TemplatePart::Expr(_, at) => eco_format!("string({})", &source[at.start as usize..at.end as usize]),
                };
                let terms: Vec<EcoString> = parts.iter().map(term).collect();
                Some(terms.join(" + ").into())
            }
            Form::Sealed(inner) => inner.expression(),
            Form::Value(_) | Form::Array(_) | Form::Hash(_) | Form::Made(..) => None,
        }
    }

    /// Evaluates the template.
    ///
    /// # Errors
    /// If the evaluation fails, or if a required value is not known yet.
    pub fn render(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        match &*self.0 {
            Form::Value(value) => Ok(value.clone()),
            Form::Whole(_, node) => eval::eval(node, scope).map_err(EvalError::from),
            Form::Text(_, parts) => interpolate(parts, scope),
            Form::Array(templates) => {
                let values: Vec<Value> = templates.iter().map(|t| t.render(scope)).collect::<Result<_, _>>()?;
                Ok(Value::Array(Arc::from(values)))
            }
            Form::Hash(entries) => {
                let hash: Hash = entries
                    .iter()
                    .map(|(key, template)| Ok((key.clone(), template.render(scope)?)))
                    .collect::<Result<_, EvalError>>()?;
                Ok(Value::Hash(Arc::new(hash)))
            }
            Form::Sealed(inner) => inner.render(scope).map(Value::sensitive),
            Form::Made(maker, values) => {
                let values: Vec<Value> = values.iter().map(|t| t.render(scope)).collect::<Result<_, _>>()?;
                let is_sealed = values.iter().any(Value::holds_sensitive);
                let exposed: Vec<Value> = values.iter().map(Value::expose).collect();
                match maker.text(&exposed) {
                    Ok(text) if is_sealed => Ok(Value::sensitive(Value::String(text))),
                    Ok(text) => Ok(Value::String(text)),
                    Err(message) => Err(EvalError::Failed { message, at: 0..0, hint: None }),
                }
            }
        }
    }

    /// Calls `see` with each comparison of a fact with a text.
    pub fn fact_comparisons(&self, see: &mut dyn FnMut(FactComparison<'_>)) {
        match &*self.0 {
            Form::Value(_) => {}
            Form::Whole(_, node) => comparison::find(node, see),
            Form::Text(_, parts) => parts.iter().for_each(|part| match part {
                TemplatePart::Text(_) => {}
                TemplatePart::Expr(node, _) => comparison::find(node, see),
            }),
            Form::Array(templates) => templates.iter().for_each(|template| template.fact_comparisons(see)),
            Form::Hash(entries) => entries.iter().for_each(|(_, template)| template.fact_comparisons(see)),
            Form::Sealed(inner) => inner.fact_comparisons(see),
            Form::Made(_, values) => values.iter().for_each(|template| template.fact_comparisons(see)),
        }
    }

    /// Returns the resources whose outputs the template uses, without duplicates, in order.
    pub fn references(&self) -> Vec<ResourceRef> {
        let mut references: Vec<ResourceRef> = Vec::new();
        self.names(&mut |name, _| {
            if let Name::Output(reference, _) = name
                && !references.contains(reference)
            {
                references.push(reference.clone());
            }
        });
        references
    }

    /// Calls `see` with each name in the template and its byte range in the text.
    pub fn names<'a>(&'a self, see: &mut dyn FnMut(Name<'a>, Range<u32>)) {
        match &*self.0 {
            Form::Value(_) => {}
            Form::Whole(_, node) => node.names(see),
            Form::Text(_, parts) => parts.iter().for_each(|part| match part {
                TemplatePart::Text(_) => {}
                TemplatePart::Expr(node, _) => node.names(see),
            }),
            Form::Array(templates) => templates.iter().for_each(|template| template.names(see)),
            Form::Hash(entries) => entries.iter().for_each(|(_, template)| template.names(see)),
            Form::Sealed(inner) => inner.names(see),
            Form::Made(_, values) => values.iter().for_each(|template| template.names(see)),
        }
    }
}

/// Returns a text as an expression literal.
pub fn quoted(text: &str) -> EcoString {
    let mut quoted = EcoString::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            // A plain `$` could start an expression.
            '$' => quoted.push_str("\\$"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn interpolate(parts: &[TemplatePart], scope: &dyn Scope) -> Result<Value, EvalError> {
    let mut text = EcoString::new();
    let mut sealed = false;
    for part in parts {
        match part {
            TemplatePart::Text(literal) => text.push_str(literal),
            TemplatePart::Expr(node, _) => {
                let value = eval::eval(node, scope)?;
                sealed |= value.holds_sensitive();
                let shown = text_of(&value).map_err(|trouble| EvalError::from(eval::failed(trouble, node.at)))?;
                text.push_str(&shown);
            }
        }
        if text.len() > MAX_TEXT {
            let at = At::new(0, 0);
            return Err(eval::failed(too_long(), at).into());
        }
    }
    let value = Value::String(text);
    Ok(if sealed { Value::sensitive(value) } else { value })
}
