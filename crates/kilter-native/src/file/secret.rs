//! Finds files whose declared content is sensitive. Copies of them are sensitive too.

use std::collections::HashSet;
use std::fs;

use ecow::EcoString;
use kilter_model::{Attributes, Value};
use kilter_provider::Context;

use super::open;
use super::spec::source_path;
use crate::value_text::texts;

/// Returns true if the catalog declares sensitive content for the file at a path, directly or through its sources
/// and fragments.
pub(super) fn is_declared(cx: &Context<'_>, path: &str) -> bool {
    has_secret(cx, vec![open::trim(path).into()])
}

/// Returns true if a declaration contains sensitive content, or uses a file with sensitive content.
pub(super) fn holds(cx: &Context<'_>, should: &Attributes) -> bool {
    is_sensitive(should) || has_secret(cx, origins(should).collect())
}

fn has_secret(cx: &Context<'_>, mut paths: Vec<EcoString>) -> bool {
    let mut seen: HashSet<EcoString> = paths.iter().cloned().collect();
    while let Some(path) = paths.pop() {
        let declared = |name: &str| cx.preview_context().declared("file", name);
        let at = |path: &str| declared(path).or_else(|| declared(&format!("{path}/")));
        // The declaration may name the file without the links on the way.
        let real = || fs::canonicalize(&*path).ok().filter(|real| real.as_os_str() != &*path);
        let Some(should) = at(&path).or_else(|| at(real()?.to_str()?)) else { continue };
        if is_sensitive(should) {
            return true;
        }
        paths.extend(origins(should).filter(|origin| seen.insert(origin.clone())));
    }
    false
}

fn is_sensitive(should: &Attributes) -> bool {
    ["content", "parts"].iter().any(|name| should.get(name).is_some_and(Value::holds_sensitive))
}

/// Returns the files that a content is made of.
fn origins(should: &Attributes) -> impl Iterator<Item = EcoString> {
    let source = source_path(should).map(EcoString::from);
    source.into_iter().chain(texts(should.get("fragments"))).map(|path| open::trim(&path).into())
}
