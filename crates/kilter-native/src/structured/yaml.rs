//! Edits of YAML documents: lines in block style, and members in brackets.

use ecow::{EcoString, eco_format};
use kilter_model::Value;

use super::flow::{self, Comments, Layout};
use super::json;
use super::keys::Key;
use super::tree::{Content, Style, TreeNode, is_first, line_end, line_start, spliced, unit};
use super::yaml_tree::{colon, column, dash, plain};

/// Words that are no texts in some version of YAML.
const WORDS: [&str; 12] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "=", "<<"];

/// Indentation of a document, in blanks.
struct Indents {
    unit: usize,
    /// Blanks before the dashes of a list, from its key.
    list: usize,
}

impl Indents {
    fn of(text: &str, root: &TreeNode) -> Indents {
        let unit = unit(text).len().max(2);
        Indents { unit, list: list_indent(text, root).unwrap_or(unit) }
    }
}

/// Returns the indentation of the first list below a key.
fn list_indent(text: &str, node: &TreeNode) -> Option<usize> {
    match &node.content {
        Content::Map(Style::Block, entries) => entries.iter().find_map(|entry| match &entry.value.content {
            Content::List(Style::Block, _) => {
                column(text, entry.value.span.start).checked_sub(column(text, entry.key_span.start))
            }
            _ => list_indent(text, &entry.value),
        }),
        Content::List(Style::Block, items) => items.iter().find_map(|item| list_indent(text, item)),
        _ => None,
    }
}

/// A value in block style: the text after its key or dash, and the lines below.
#[derive(Default)]
struct Rendered {
    inline: String,
    lines: Vec<String>,
}

/// Returns a value whose lines have an indentation. `list` is the indentation of the dashes of a list.
fn rendered(value: &Value, indent: usize, list: usize, indents: &Indents) -> Rendered {
    match value {
        Value::Hash(entries) if !entries.is_empty() => {
            let lines = entries.iter().flat_map(|(key, value)| entry(key, value, indent, indents));
            Rendered { inline: String::new(), lines: lines.collect() }
        }
        Value::Array(items) if !items.is_empty() => {
            let lines = items.iter().flat_map(|value| item(value, list, indents));
            Rendered { inline: String::new(), lines: lines.collect() }
        }
        Value::String(text) if is_literal(text) => {
            let header = if text.ends_with('\n') { "|" } else { "|-" };
            let line = |line: &str| if line.is_empty() { String::new() } else { format!("{:indent$}{line}", "") };
            Rendered { inline: header.into(), lines: text.lines().map(line).collect() }
        }
        other => Rendered { inline: scalar(other, Style::Block), lines: Vec::new() },
    }
}

/// Returns true if a text can stand in lines of its own (`|`).
fn is_literal(text: &str) -> bool {
    let is_clean = |line: &str| !line.chars().any(|sign| sign.is_control() && sign != '\t');
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.ends_with("\n\n")
        && text.split('\n').all(is_clean)
        && !text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'])
}

/// Returns the lines of an entry of a mapping.
fn entry(key: &str, value: &Value, indent: usize, indents: &Indents) -> Vec<String> {
    let Rendered { inline, mut lines } = rendered(value, indent + indents.unit, indent + indents.list, indents);
    let blank = if inline.is_empty() { "" } else { " " };
    lines.insert(0, format!("{:indent$}{}:{blank}{inline}", "", text_of(key, Style::Block)));
    lines
}

/// Returns the lines of an item of a list, with its dash.
fn item(value: &Value, indent: usize, indents: &Indents) -> Vec<String> {
    let Rendered { inline, mut lines } = rendered(value, indent + 2, indent + 2, indents);
    match inline.is_empty() {
        true => lines[0].replace_range(..indent + 2, &format!("{:indent$}- ", "")),
        false => lines.insert(0, format!("{:indent$}- {inline}", "")),
    }
    lines
}

/// Returns a value without lines of its own.
fn scalar(value: &Value, style: Style) -> String {
    match value {
        Value::Hash(entries) => {
            let entry = |(key, value): (&EcoString, &Value)| {
                format!("{}: {}", text_of(key, Style::Flow), scalar(value, Style::Flow))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            if entries.is_empty() { "{}".into() } else { format!("{{ {} }}", entries.join(", ")) }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| scalar(item, Style::Flow)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Undef => "null".into(),
        Value::String(text) => text_of(text, style),
        Value::Float(number) if number.is_nan() => ".nan".into(),
        Value::Float(number) if number.is_infinite() => if *number > 0.0 { ".inf" } else { "-.inf" }.into(),
        other => other.to_string(),
    }
}

/// Returns a text, in quotes if a reader could take it for another value.
fn text_of(text: &str, style: Style) -> String {
    let is_open = text.starts_with(|sign: char| sign.is_alphabetic() || "/_.".contains(sign))
        && !text.starts_with("..")
        && !text.contains(|sign: char| sign.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(sign))
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && !(style == Style::Flow && text.contains([',', '[', ']', '{', '}', ':']))
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        && matches!(plain(text), Value::String(_));
    if is_open { text.into() } else { json::quoted(text) }
}

fn joined(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + "\n" + line)
}

/// Replaces the value of a node, or adds a member to a mapping or a list.
///
/// # Errors
/// If the path does not lead to a mapping or a list, or the notation is not supported.
pub(super) fn set(text: &str, root: &TreeNode, path: &[Key], value: &Value) -> Result<String, EcoString> {
    let indents = Indents::of(text, root);
    let Some((key, parents)) = path.split_last() else { return Ok(begun(text, root, value, &indents)) };
    let parent = root.at(parents)?;
    match (parent.style(), parent.position(key)) {
        (Style::Flow, Some(index)) => {
            let old = parent.member(index).ok_or("there is no such member")?;
            Ok(spliced(text, &[(old.span.clone(), &scalar(value, Style::Flow))]))
        }
        (Style::Flow, None) => {
            let new = scalar(value, Style::Flow);
            let member = match key {
                Key::Name(name) => format!("{}: {new}", text_of(name, Style::Flow)),
                Key::Index(_) => new,
            };
            let is_padded = matches!(flow::layout(text, parent, Comments::Hash), Layout::Inline)
                && parent.members().is_empty()
                && matches!(key, Key::Name(_));
            let member = if is_padded { format!(" {member} ") } else { member };
            Ok(flow::insert(text, parent, &member, Comments::Hash))
        }
        (Style::Block, Some(index)) => replaced(text, parent, index, value, &indents),
        (Style::Block, None) => {
            let column = column(text, parent.span.start);
            let lines = match key {
                Key::Name(name) => entry(name, value, column, &indents),
                Key::Index(_) => item(value, column, &indents),
            };
            let end = line_end(text, parent.span.end);
            Ok(spliced(text, &[(end..end, &joined(&lines))]))
        }
    }
}

/// Returns an empty document with a value, or a document whose value is replaced.
fn begun(text: &str, root: &TreeNode, value: &Value, indents: &Indents) -> String {
    let Rendered { inline, lines } = rendered(value, 0, 0, indents);
    let new = if inline.is_empty() { joined(&lines)[1..].to_owned() } else { inline + &joined(&lines) };
    if !root.span.is_empty() {
        return spliced(text, &[(root.span.clone(), &new)]);
    }
    let start = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{start}{new}\n")
}

/// Replaces the value of an entry or an item in block style. A comment on its first line stays.
fn replaced(
    text: &str,
    parent: &TreeNode,
    index: usize,
    value: &Value,
    indents: &Indents,
) -> Result<String, EcoString> {
    let unsupported = || EcoString::from("its notation is not supported: it may have a key with `?`");
    let old = parent.member(index).ok_or_else(unsupported)?;
    // The value begins after a colon or a dash.
    let (head, new) = match &parent.content {
        Content::Map(_, entries) => {
            let key = &entries[index].key_span;
            let column = column(text, key.start);
            let head = colon(text, key.end).ok_or_else(unsupported)?;
            (head, rendered(value, column + indents.unit, column + indents.list, indents))
        }
        _ => {
            let dash = dash(text, parent, index).ok_or_else(unsupported)?;
            let column = column(text, dash) + 2;
            (dash + 1, rendered(value, column, column, indents))
        }
    };
    let first_line = line_end(text, head);
    let is_block = matches!((&old.content, old.style()), (Content::Map(..) | Content::List(..), Style::Block));
    let is_inline = !old.span.is_empty() && !is_block && old.span.start <= first_line;
    // Part of a line that the new inline text replaces, and the end of the lines that the new lines replace.
    let (inline, end) = match is_inline {
        true if text[old.span.clone()].starts_with(['|', '>']) => {
            let header = text[old.span.start..].find([' ', '\n']).map_or(text.len(), |length| old.span.start + length);
            (old.span.start..header, old.span.end.max(first_line))
        }
        true => (old.span.clone(), line_end(text, old.span.end)),
        // A list or mapping can begin after the dash.
        false if is_block && old.span.start <= first_line => (head..old.span.end, line_end(text, old.span.end)),
        false => (head..head, line_end(text, old.span.end).max(first_line)),
    };
    let line = line_end(text, inline.end);
    let is_item = matches!(parent.content, Content::List(..));
    let mut lines = new.lines;
    let mut inline_text = new.inline;
    if is_item && inline_text.is_empty() && !lines.is_empty() && text[inline.end..line].trim().is_empty() {
        inline_text = lines.remove(0).trim_start().to_owned();
    }
    let rest = &text[inline.end..line];
    let mut start = inline.start;
    let blank = match inline_text.is_empty() {
        true => {
            start = text[..start].trim_end_matches(' ').len();
            ""
        }
        false if text[..start].ends_with(' ') => "",
        false => " ",
    };
    let new = format!("{blank}{inline_text}{rest}{}", joined(&lines));
    Ok(spliced(text, &[(start..end.max(line), &new)]))
}

/// Removes a member. A collection without members becomes `{}` or `[]`.
///
/// # Errors
/// If there is none, or the notation is not supported.
pub(super) fn remove(text: &str, root: &TreeNode, path: &[Key]) -> Result<String, EcoString> {
    let Some((key, parents)) = path.split_last() else { return Err("the whole document cannot be removed".into()) };
    let parent = root.at(parents)?;
    let index = parent.position(key).ok_or_else(|| eco_format!("there is no {key}"))?;
    if parent.style() == Style::Flow {
        return Ok(flow::remove(text, parent, index, Comments::Hash));
    }
    let members = parent.members();
    if members.len() == 1 && !parents.is_empty() {
        let empty = match parent.content {
            Content::List(..) => Value::array([]),
            _ => Value::hash::<EcoString>([]),
        };
        return set(text, root, parents, &empty);
    }
    let is_list = matches!(parent.content, Content::List(..));
    let start_of = |index: usize| match is_list {
        true => dash(text, parent, index),
        false => Some(members[index].start),
    };
    let unsupported = || EcoString::from("the notation of the list is not supported");
    let start = start_of(index).ok_or_else(unsupported)?;
    let end = (line_end(text, members[index].end) + 1).min(text.len());
    if !is_first(text, start) && index + 1 < members.len() {
        // The first entry of an item stands after its dash: the next one takes its place.
        let next = start_of(index + 1).ok_or_else(unsupported)?;
        return Ok(spliced(text, &[(start..next, "")]));
    }
    Ok(spliced(text, &[(line_start(text, start)..end, "")]))
}
