//! The kind `file`.

use ecow::{EcoString, eco_format};
use kilter_model::Span;

use super::GraphReader;
use super::convert::{STATES, copy, word};
use super::emit::{Lowered, Piece};
use super::fields::Fields;
use crate::diagnostic::Diagnostic;

/// Returns a path without trailing slashes, which mark directories in mgmt.
pub(super) fn without_slash(path: &str) -> EcoString {
    match path.trim_end_matches('/') {
        "" => "/".into(),
        path => path.into(),
    }
}

/// Returns the path of a file: its name, unless a path or a part of it is given.
fn path(fields: &Fields) -> (EcoString, Span) {
    let (path, mut at) = fields.text("path").map_or((&fields.title, fields.at), |(path, at)| (path, at));
    // The last component keeps its slash, which marks a directory.
    let start = without_slash(path).rfind('/').map_or(0, |slash| slash + 1);
    let (directory, base) = path.split_at(start);
    let mut part = |name: &str, otherwise: &str| match fields.text(name) {
        Some((part, place)) => {
            at = place;
            part.clone()
        }
        None => otherwise.into(),
    };
    let is_given = fields.text("dirname").is_some() || fields.text("basename").is_some();
    let (directory, base) = (part("dirname", directory), part("basename", base));
    let whole = if is_given { eco_format!("{}/{base}", directory.trim_end_matches('/')) } else { path.clone() };
    (whole, at)
}

pub(super) fn lower(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
    let (path, at) = path(fields);
    let is_directory = path.ends_with('/');
    lowered.push("path", at, Piece::Text(without_slash(&path), at));
    let state = fields.text("state").map(|(state, _)| state.as_str());
    let is_absent = state == Some("absent");
    let content = fields.get("content").map(|(_, at)| ("content", at));
    let written = content.or(fields.texts("fragments").map(|(_, at)| ("fragments", at)));
    if let Some((name, at)) = written.or(fields.text("source").map(|(_, at)| ("source", at))).filter(|_| is_absent) {
        let problem = Diagnostic::new(eco_format!("`{name}` contradicts the state `absent`")).at(at);
        return reader.report(problem.hint("remove it, or set the state to `exists`"));
    }
    if let Some((name, at)) = written.filter(|_| is_directory) {
        let problem = Diagnostic::new(eco_format!("`{name}` of a directory")).at(at);
        return reader.report(problem.hint("a path that ends with `/` names a directory"));
    }
    let is_link = fields.is("symlink");
    match (state, is_link, is_directory) {
        (Some("absent"), ..) => lowered.imply("ensure", "absent"),
        (Some("exists") | None, true, _) => lowered.imply("ensure", "link"),
        (Some("exists") | None, _, true) => lowered.imply("ensure", "directory"),
        (Some("exists") | None, ..) => lowered.imply("ensure", "file"),
        (Some(_), ..) => return word(reader, fields, "state", &STATES, lowered, "ensure"),
    }
    if state.is_none() {
        lowered.imply("create", "false");
    }
    contents(fields, is_link, is_directory, is_absent, lowered);
    for name in ["owner", "group"] {
        if let Some((account, at)) = fields.text(name) {
            lowered.push(name, at, Piece::account(account, at));
        }
    }
    if fields.text("mode").is_some() {
        copy(fields, "mode", lowered, "mode");
    }
    for name in ["force", "purge"] {
        copy(fields, name, lowered, name);
    }
}

/// Adds the content, source or fragments of a file.
fn contents(fields: &Fields, is_link: bool, is_directory: bool, is_absent: bool, lowered: &mut Lowered) {
    copy(fields, "content", lowered, "content");
    if let Some((fragments, at)) = fields.texts("fragments") {
        lowered.push("fragments", at, Piece::List(fragments.clone(), at));
    }
    if let Some((source, at)) = fields.text("source") {
        let attribute = if is_link { "target" } else { "source" };
        let source = if is_link { source.clone() } else { without_slash(source) };
        lowered.push(attribute, at, Piece::Text(source, at));
        if !is_link && is_directory {
            copy(fields, "recurse", lowered, "recurse");
            if fields.is("recurse") && !is_absent {
                lowered.imply("parents", "true");
            }
        }
    } else if fields.is("recurse") && is_directory {
        // The meaning of a missing source depends on the state.
        match is_absent {
            false => lowered.imply("parents", "true"),
            true if fields.get("force").is_none() => lowered.imply("force", "true"),
            true => {}
        }
    }
}
