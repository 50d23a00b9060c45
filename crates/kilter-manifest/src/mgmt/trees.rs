//! Translation of mgmt's kind for edits by Augeas.

use ecow::{EcoString, eco_format};

use super::GraphReader;
use super::convert::copy;
use super::emit::{Lowered, Piece};
use super::fields::{Fields, Shape};
use crate::diagnostic::Diagnostic;

use Shape::{Any, Text};

pub(super) const FIELDS: &[(&str, Shape)] = &[("file", Text), ("lens", Text), ("sets", Any)];

/// Translates an edit: each set is a change, with a path below the file.
pub(super) fn lower(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    copy(fields, "lens", lowered, "lens");
    copy(fields, "file", lowered, "incl");
    let Some((sets, at)) = fields.get("sets") else {
        return reader.report(Diagnostic::new("an `augeas` needs `sets`").at(fields.at));
    };
    let changes = match sets {
        Piece::List(sets, _) => sets.iter().map(change).collect::<Option<Vec<Piece>>>(),
        _ => None,
    };
    match changes {
        Some(changes) => lowered.push("changes", at, Piece::List(changes, at)),
        None => {
            let problem = Diagnostic::new("`sets` is a list of mappings with `path` and `value`").at(at);
            reader.report(problem.hint("sets: [{path: PermitRootLogin, value: 'no'}]"));
        }
    }
}

fn change(set: &Piece) -> Option<Piece> {
    let Piece::Mapping(entries, at) = set else { return None };
    let text = |name: &str| -> Option<&EcoString> {
        let entry = entries.iter().find(|(key, _)| matches!(key, Piece::Text(key, _) if key == name));
        match entry {
            Some((_, Piece::Text(text, _) | Piece::Plain(text, _))) => Some(text),
            _ => None,
        }
    };
    let (path, value) = (text("path")?, text("value")?);
    let is_known = |(key, _): &(Piece, Piece)| matches!(key, Piece::Text(key, _) if key == "path" || key == "value");
    if !entries.iter().all(is_known) {
        return None;
    }
    let value = value.replace("\\", "\\\\").replace("\"", "\\\"");
    Some(Piece::Text(eco_format!("set {path} \"{value}\""), *at))
}
