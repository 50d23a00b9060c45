//! The kind `json:edit`: edits of a JSON file, each of which is a value of the type `structured`.

use ecow::{EcoString, eco_format};
use kilter_model::Span;
use serde_json::Value as Json;

use super::GraphReader;
use super::emit::{Lowered, Piece};
use super::fields::{Fields, Shape};
use crate::diagnostic::Diagnostic;

pub(super) const FIELDS: &[(&str, Shape)] = &[("store", Shape::Text), ("edits", Shape::Texts)];

/// Translates each edit to a resource. They run in their order, and the last one has the name of the `json:edit`.
pub(super) fn lower(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let store = fields.text("store").map_or((&fields.title, fields.at), |(store, at)| (store, at));
    let path = store.0.strip_prefix("file://").unwrap_or(store.0);
    if !path.starts_with('/') {
        let problem = Diagnostic::new(eco_format!("`{path}` is not the absolute path of a file")).at(store.1);
        return reader.report(problem.hint("kilter edits files: write store: /etc/app.json"));
    }
    let edits = match fields.get("edits") {
        Some((Piece::List(edits, _), _)) if !edits.is_empty() => edits,
        _ => return reader.report(Diagnostic::new("a `json:edit` needs edits").at(fields.at).hint(EXAMPLES)),
    };
    for (index, edit) in edits.iter().enumerate() {
        let Piece::Text(text, at) = edit else { continue };
        let Some(edit) = JqEdit::parse(text) else {
            let problem = Diagnostic::new(eco_format!("`{text}` is not an edit that kilter understands")).at(*at);
            return reader.report(problem.hint(EXAMPLES));
        };
        if index + 1 == edits.len() {
            edit.declare(path, *at, lowered);
        } else {
            let title = |index: usize| eco_format!("{} (edit {})", fields.title, index + 1);
            let mut earlier = Lowered::new("", "structured", &title(index), fields.at);
            edit.declare(path, *at, &mut earlier);
            let next = if index + 2 == edits.len() { fields.title.clone() } else { title(index + 1) };
            earlier.followers.push((eco_format!("structured[{next}]"), false, fields.at));
            reader.resources.push(earlier);
        }
    }
}

const EXAMPLES: &str = "such as .log.level = \"info\", or del(.log.file)";

/// An assignment or a removal in the notation of jq.
struct JqEdit {
    path: Vec<Json>,
    /// None removes the value.
    value: Option<Json>,
}

impl JqEdit {
    fn parse(text: &str) -> Option<JqEdit> {
        let text = text.trim();
        if let Some(inside) = text.strip_prefix("del(") {
            let (path, rest) = path(inside.trim_start())?;
            return (rest.trim_start() == ")").then_some(JqEdit { path, value: None });
        }
        let (path, rest) = path(text)?;
        let value = rest.trim_start().strip_prefix('=')?;
        Some(JqEdit { path, value: Some(serde_json::from_str(value).ok()?) })
    }

    fn declare(self, path: &str, at: Span, resource: &mut Lowered) {
        resource.push("path", at, Piece::Text(path.into(), at));
        resource.push("format", at, Piece::Text("json".into(), at));
        resource.push("key", at, piece(&Json::Array(self.path), at));
        match self.value {
            Some(value) => resource.push("value", at, piece(&value, at)),
            None => resource.push("ensure", at, Piece::Text("absent".into(), at)),
        }
    }
}

fn piece(json: &Json, at: Span) -> Piece {
    match json {
        Json::String(text) => Piece::Text(text.as_str().into(), at),
        Json::Array(items) => Piece::List(items.iter().map(|item| piece(item, at)).collect(), at),
        Json::Object(entries) => {
            let entry = |(key, value): (&String, &Json)| (Piece::Text(key.as_str().into(), at), piece(value, at));
            Piece::Mapping(entries.iter().map(entry).collect(), at)
        }
        other => Piece::Plain(EcoString::from(other.to_string()), at),
    }
}

/// Returns the steps of a path such as `.a."b c"[0]`, and the rest of the text.
fn path(text: &str) -> Option<(Vec<Json>, &str)> {
    let mut rest = text.strip_prefix('.')?;
    let mut steps = Vec::new();
    loop {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inside) if inside.starts_with('"') => {
                let (name, after) = quoted(inside)?;
                (name, after.strip_prefix(']')?)
            }
            Some(inside) => {
                let (index, after) = inside.split_once(']')?;
                (Json::from(index.trim().parse::<u64>().ok()?), after)
            }
            None if rest.starts_with('"') => quoted(rest)?,
            None => {
                let end = rest.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (Json::from(Some(name).filter(|name| !name.is_empty())?), after)
            }
        };
        steps.push(step);
        rest = match after.strip_prefix('.') {
            Some(next) => next,
            None if after.starts_with('[') => after,
            None => return Some((steps, after)),
        };
    }
}

/// Returns a text in double quotes, and the rest.
fn quoted(text: &str) -> Option<(Json, &str)> {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find_map(|(at, byte)| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end.then_some(at + 1)
    })?;
    Some((serde_json::from_str(&text[..end]).ok()?, &text[end..]))
}
