//! JSON, with comments and commas at ends as many programs allow them.

use std::ops::Range;

use ecow::{EcoString, eco_format};
use kilter_model::Value;

use super::flow::{self, Comments, Layout};
use super::keys::Key;
use super::tree::{Content, MAX_DEPTH, MapEntry, Style, TreeNode, indentation, place, spliced, unit};

/// Parses a document. An empty one is null.
///
/// # Errors
/// If the text is not JSON.
pub(super) fn parse(text: &str) -> Result<TreeNode, EcoString> {
    let mut scanner = Scanner { text, at: if text.starts_with('\u{feff}') { 3 } else { 0 } };
    scanner.skip();
    if scanner.at == text.len() {
        return Ok(TreeNode { span: text.len()..text.len(), content: Content::Scalar(Value::Undef) });
    }
    let root = scanner.node(0)?;
    scanner.skip();
    match scanner.at == text.len() {
        true => Ok(root),
        false => Err(scanner.unexpected("the end of the file")),
    }
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl Scanner<'_> {
    fn skip(&mut self) {
        self.at = Comments::Slashes.skip(self.text, self.at);
    }

    fn next_is(&self, sign: char) -> bool {
        self.text[self.at..].starts_with(sign)
    }

    fn unexpected(&self, expected: &str) -> EcoString {
        let found = match self.text[self.at..].chars().next() {
            Some(sign) if sign.is_control() => eco_format!("`{}`", sign.escape_default()),
            Some(sign) => eco_format!("`{sign}`"),
            None => "the end of the file".into(),
        };
        eco_format!("not valid JSON at {}: expected {expected}, found {found}", place(self.text, self.at))
    }

    fn node(&mut self, depth: usize) -> Result<TreeNode, EcoString> {
        let start = self.at;
        let content = match self.text[start..].chars().next() {
            Some('{' | '[') if depth >= MAX_DEPTH => {
                return Err(eco_format!("it is nested more than {MAX_DEPTH} levels deep"));
            }
            Some('{') => {
                let mut entries = Vec::new();
                self.members('}', |scanner| {
                    let at = scanner.at;
                    let key = match scanner.next_is('"') {
                        true => scanner.scalar()?,
                        false => return Err(scanner.unexpected("a key in double quotes")),
                    };
                    let key_span = at..scanner.at;
                    scanner.skip();
                    if !scanner.next_is(':') {
                        return Err(scanner.unexpected("`:`"));
                    }
                    scanner.at += 1;
                    scanner.skip();
                    let value = scanner.node(depth + 1)?;
                    entries.push(MapEntry { key: key.as_str().unwrap_or_default().into(), key_span, value });
                    Ok(())
                })?;
                Content::Map(Style::Flow, entries)
            }
            Some('[') => {
                let mut items = Vec::new();
                self.members(']', |scanner| {
                    items.push(scanner.node(depth + 1)?);
                    Ok(())
                })?;
                Content::List(Style::Flow, items)
            }
            _ => Content::Scalar(self.scalar()?),
        };
        Ok(TreeNode { span: start..self.at, content })
    }

    /// Reads members up to the closing bracket.
    fn members(
        &mut self,
        close: char,
        mut member: impl FnMut(&mut Self) -> Result<(), EcoString>,
    ) -> Result<(), EcoString> {
        self.at += 1;
        loop {
            self.skip();
            if self.next_is(close) {
                break;
            }
            member(self)?;
            self.skip();
            match self.next_is(',') {
                true => self.at += 1,
                false if self.next_is(close) => {}
                false => return Err(self.unexpected(&format!("`,` or `{close}`"))),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<Value, EcoString> {
        let rest = &self.text[self.at..];
        let length = match rest.strip_prefix('"') {
            Some(inside) => {
                let mut is_escaped = false;
                let end = inside.bytes().position(|byte| {
                    let is_end = byte == b'"' && !is_escaped;
                    is_escaped = byte == b'\\' && !is_escaped;
                    is_end
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            None => rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len()),
        };
        match serde_json::from_str::<serde_json::Value>(&rest[..length]) {
            Ok(json) if length > 0 => {
                self.at += length;
                Ok(kilter_model::from_json(&json))
            }
            _ => Err(self.unexpected("a value")),
        }
    }
}

/// Returns the text of a value. Members stand on lines of their own if `layout` has an indentation.
pub(super) fn rendered(value: &Value, layout: &Layout, unit: &str) -> String {
    let inner = match layout {
        Layout::Inline => Layout::Inline,
        Layout::Lines(indent) => Layout::Lines(format!("{indent}{unit}")),
    };
    let collection = |open: char, close: char, members: Vec<String>| match &inner {
        _ if members.is_empty() => format!("{open}{close}"),
        Layout::Inline => format!("{open}{}{close}", members.join(", ")),
        Layout::Lines(indent) => {
            let outer = &indent[..indent.len() - unit.len()];
            let members = members.join(&format!(",\n{indent}"));
            format!("{open}\n{indent}{members}\n{outer}{close}")
        }
    };
    match value {
        Value::Hash(entries) => {
            let entry =
                |(key, value): (&EcoString, &Value)| format!("{}: {}", quoted(key), rendered(value, &inner, unit));
            collection('{', '}', entries.iter().map(entry).collect())
        }
        Value::Array(items) => collection('[', ']', items.iter().map(|item| rendered(item, &inner, unit)).collect()),
        Value::Undef => "null".into(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Returns a text in double quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Replaces the value of a node, or adds a member to a mapping or a list.
///
/// # Errors
/// If the path does not lead to a mapping or a list.
pub(super) fn set(text: &str, root: &TreeNode, path: &[Key], value: &Value) -> Result<String, EcoString> {
    let Some((key, parents)) = path.split_last() else {
        let is_alone = root.span.is_empty();
        let new = rendered(value, &Layout::Lines(String::new()), unit(text));
        let end = if is_alone && !text.is_empty() && !text.ends_with('\n') { "\n" } else { "" };
        let tail = if is_alone { "\n" } else { "" };
        return Ok(spliced(text, &[(root.span.clone(), &format!("{end}{new}{tail}"))]));
    };
    let parent = root.at(parents)?;
    let layout = flow::layout(text, parent, Comments::Slashes);
    match parent.position(key).and_then(|index| parent.member(index)) {
        Some(old) => Ok(replaced(text, &old.span, value, &layout)),
        None => {
            let new = rendered(value, &layout, unit(text));
            let member = match key {
                Key::Name(name) => format!("{}: {new}", quoted(name)),
                Key::Index(_) => new,
            };
            Ok(flow::insert(text, parent, &member, Comments::Slashes))
        }
    }
}

fn replaced(text: &str, old: &Range<usize>, value: &Value, layout: &Layout) -> String {
    let layout = match layout {
        Layout::Inline => Layout::Inline,
        Layout::Lines(_) => Layout::Lines(indentation(text, old.start).to_owned()),
    };
    spliced(text, &[(old.clone(), &rendered(value, &layout, unit(text)))])
}

/// Removes a member.
///
/// # Errors
/// If there is none.
pub(super) fn remove(text: &str, root: &TreeNode, path: &[Key]) -> Result<String, EcoString> {
    let Some((key, parents)) = path.split_last() else { return Err("the whole document cannot be removed".into()) };
    let parent = root.at(parents)?;
    let index = parent.position(key).ok_or_else(|| eco_format!("there is no {key}"))?;
    Ok(flow::remove(text, parent, index, Comments::Slashes))
}
