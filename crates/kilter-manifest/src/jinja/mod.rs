//! Templates in the language of Jinja: their names, and their texts.
//!
//! [`read`] returns the names in a template, so that the manifest can check them and give their values. A [`Jinja`] is
//! a template with all templates that it includes; it makes the text. This module reads no file and knows no variable.

mod names;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use kilter_model::expr::{MAX_TEXT, TextMaker};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use rustc_hash::FxHashMap;

pub(crate) use names::{Names, UsedName, read};

/// Maximum work of a template: instructions, and units of 64 bytes that it makes.
const MAX_FUEL: u64 = 4_000_000;

/// Maximum nesting of includes and macros.
const MAX_RECURSION: usize = 100;

/// A template, or one that it includes.
#[derive(Debug)]
pub(crate) struct Part {
    /// Name, different for each part.
    pub(crate) key: EcoString,
    pub(crate) text: Arc<String>,
}

/// A template with all templates that it includes, and the names that they use.
#[derive(Debug)]
pub(crate) struct Jinja {
    /// The template itself comes first.
    pub(crate) parts: Vec<Part>,
    /// Included parts, by the key of the part that includes them and the written name.
    pub(crate) links: FxHashMap<(EcoString, EcoString), EcoString>,
    /// Path of each value, such as `vars`, `port`.
    pub(crate) paths: Vec<Vec<EcoString>>,
    /// Texts of all parts and paths.
    pub(crate) identity: EcoString,
}

/// Error in a template.
#[derive(Debug)]
pub(crate) struct JinjaError {
    /// Index of the part.
    pub(crate) part: usize,
    /// Bytes in the text of the part.
    pub(crate) at: Range<usize>,
    /// The error. It may show a value.
    pub(crate) message: EcoString,
    /// The error without any value.
    pub(crate) general: EcoString,
    /// True if the text at the place is a name without a value.
    pub(crate) is_undefined: bool,
}

impl Jinja {
    /// Returns the text for the values of the paths.
    ///
    /// # Errors
    /// The first error, with its place.
    pub(crate) fn render(&self, values: &[Value]) -> Result<EcoString, JinjaError> {
        let mut environment = environment();
        for part in &self.parts {
            environment
                .add_template_owned(part.key.to_string(), part.text.to_string())
                .map_err(|error| self.error(&error))?;
        }
        let links = self.links.clone();
        environment.set_path_join_callback(move |name, parent| {
            match links.get(&(EcoString::from(parent), EcoString::from(name))) {
                Some(key) => Cow::Owned(key.to_string()),
                None => Cow::Borrowed(name),
            }
        });
        // These names are known, with or without entries.
        let known = ["vars", "facts"].map(|root| (EcoString::from(root), TemplateNode::Tree(TemplateTree::default())));
        let mut roots = TemplateTree(known.into());
        for (path, value) in self.paths.iter().zip(values) {
            roots.insert(path, value);
        }
        // Macros of other templates see globals only.
        for (root, tree) in roots.0 {
            environment.add_global(root.to_string(), tree.into_value());
        }
        let text = environment.get_template(&self.parts[0].key).and_then(|template| template.render(()));
        let text = text.map_err(|error| self.error(&error))?;
        if text.len() > MAX_TEXT {
            let message = eco_format!("the text becomes larger than {} MiB", MAX_TEXT >> 20);
            let general = message.clone();
            return Err(JinjaError { part: 0, at: 0..0, message, general, is_undefined: false });
        }
        Ok(text.into())
    }

    fn error(&self, error: &Error) -> JinjaError {
        let error = innermost(error);
        let index = |key: &str| self.parts.iter().position(|part| part.key == key);
        let part = error.name().and_then(index).unwrap_or(0);
        jinja_error(error, part, &self.parts[part].text)
    }
}

impl TextMaker for Jinja {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn text(&self, values: &[Value]) -> Result<EcoString, EcoString> {
        self.render(values).map_err(|error| {
            let part = &self.parts[error.part];
            let (start, line) = crate::source::line_of(&part.text, error.at.start);
            let column = part.text.get(start..error.at.start).map_or(1, |before| before.chars().count() + 1);
            // The values may be secrets, which this function cannot know.
            eco_format!("{}:{line}:{column}: {}", part.key, error.general)
        })
    }
}

/// Returns the error that caused an error: errors in included templates are nested.
fn innermost(error: &Error) -> &Error {
    let mut found = error;
    while let Some(inner) = std::error::Error::source(found).and_then(|inner| inner.downcast_ref::<Error>()) {
        found = inner;
    }
    found
}

/// Converts an error in the text of a part.
fn jinja_error(error: &Error, part: usize, text: &str) -> JinjaError {
    let line_start = |line: usize| text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let start = || -> usize { error.line().map_or(0, line_start) };
    let at = error.range().unwrap_or_else(|| start()..start());
    let at = crate::source::floor(text, at.start)..crate::source::floor(text, at.end);
    let written = text.get(at.clone()).unwrap_or_default();
    let detail = error.detail().unwrap_or_default();
    let general: EcoString = match error.kind() {
        ErrorKind::UndefinedError => "a name has no value".into(),
        ErrorKind::OutOfFuel => "the template does too much work".into(),
        ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            detail.into()
        }
        kind => eco_format!("{kind}"),
    };
    let message = match error.kind() {
        ErrorKind::UndefinedError => match detail.strip_suffix(" is undefined") {
            Some(name) => eco_format!("there is no {name}"),
            None => eco_format!("`{written}` has no value"),
        },
        _ if detail.is_empty() || general == detail => general.clone(),
        _ => detail.into(),
    };
    JinjaError { part, at, message, general, is_undefined: error.kind() == ErrorKind::UndefinedError }
}

/// Returns true if the engine knows a filter.
pub(crate) fn has_filter(name: &str) -> bool {
    is_known(&format!("''|{name}"), ErrorKind::UnknownFilter)
}

/// Returns true if the engine knows a test.
pub(crate) fn has_test(name: &str) -> bool {
    is_known(&format!("'' is {name}"), ErrorKind::UnknownTest)
}

fn is_known(expression: &str, unknown: ErrorKind) -> bool {
    let environment = environment();
    let result = environment.compile_expression(expression).and_then(|expression| expression.eval(()));
    result.err().is_none_or(|error| error.kind() != unknown)
}

/// Functions that every template knows.
pub(crate) const FUNCTIONS: [&str; 3] = ["range", "dict", "namespace"];

fn syntax() -> SyntaxConfig {
    // A line that consists of a tag leaves no line, as in Ansible. The last line of a file keeps its end.
    let mut builder = SyntaxConfig::builder();
    builder.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    builder.build().expect("the usual delimiters are valid")
}

fn environment<'s>() -> Environment<'s> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(format_value);
    environment.set_fuel(Some(MAX_FUEL));
    environment.set_recursion_limit(MAX_RECURSION);
    environment
}

/// Prints a value as `${…}` does: no list, no mapping and no `null`.
fn format_value(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &minijinja::Value) -> Result<(), Error> {
    let refused = |why: &'static str| Err(Error::new(ErrorKind::InvalidOperation, why));
    match value.kind() {
        ValueKind::Bool => Ok(out.write_str(if value.is_true() { "true" } else { "false" })?),
        ValueKind::None => refused("the value is null: give a default, such as `x or \"none\"`"),
        ValueKind::Seq | ValueKind::Iterable => {
            refused("a list is no text: repeat the text with `for`, or use the filter `join` or `tojson`")
        }
        ValueKind::Map => refused("a mapping is no text: name an entry, or use the filter `items` or `tojson`"),
        ValueKind::Bytes => refused("the value contains bytes that are not UTF-8"),
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// Values by path.
#[derive(Default)]
struct TemplateTree(Vec<(EcoString, TemplateNode)>);

enum TemplateNode {
    Tree(TemplateTree),
    Value(minijinja::Value),
}

impl TemplateTree {
    fn insert(&mut self, path: &[EcoString], value: &Value) {
        let Some((first, rest)) = path.split_first() else { return };
        if rest.is_empty() {
            return self.0.push((first.clone(), TemplateNode::Value(converted(value))));
        }
        let at = self.0.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
            self.0.push((first.clone(), TemplateNode::Tree(TemplateTree::default())));
            self.0.len() - 1
        });
        if let TemplateNode::Tree(tree) = &mut self.0[at].1 {
            tree.insert(rest, value);
        }
    }
}

impl TemplateNode {
    fn into_value(self) -> minijinja::Value {
        match self {
            TemplateNode::Value(value) => value,
            TemplateNode::Tree(tree) => {
                let entries = tree.0.into_iter().map(|(name, node)| (name.to_string(), node.into_value()));
                minijinja::Value::from_pairs(entries)
            }
        }
    }
}

/// Converts a value without its sensitivity.
fn converted(value: &Value) -> minijinja::Value {
    match value {
        Value::Undef | Value::Default => minijinja::Value::from(()),
        Value::Boolean(truth) => (*truth).into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => text.as_str().into(),
        Value::Binary(bytes) => minijinja::Value::from_bytes(bytes.to_vec()),
        Value::Array(values) => values.iter().map(converted).collect(),
        Value::Hash(entries) => {
            minijinja::Value::from_pairs(entries.iter().map(|(key, value)| (key.to_string(), converted(value))))
        }
        Value::Sensitive(inner) => converted(inner),
        other => other.to_text().unwrap_or_default().as_str().into(),
    }
}
