//! Positions of sensitive values in manifests.

use ecow::EcoString;
use kilter_model::{SourceId, Span};
use rustc_hash::FxHashSet;

use crate::composite::Composites;
use crate::load::Loaded;
use crate::schemas::Schemas;
use crate::source::{Sources, small};
use crate::tree::View;

/// Returns the positions of all literal secrets: below `sensitive`, and in attributes that any type declares as
/// sensitive. Includes doubtful cases.
pub(crate) fn collect_sensitive(
    loaded: &Loaded,
    sources: &Sources,
    schemas: &dyn Schemas,
    composites: &Composites<'_>,
) -> Vec<Span> {
    let names = sensitive_names(schemas, composites);
    let mut spans = Vec::new();
    for tree in loaded.all_trees() {
        if loaded.broken.contains(&tree.source) {
            find_in_text(tree.source, &sources.get(tree.source).text, &names, &mut spans);
        }
        tree.pairs(&mut |key, value| {
            if names.contains(key.text()) {
                scalars(value, &mut spans, 0);
            }
        });
    }
    // The definition of an attribute is no secret, whatever its name.
    let types = loaded.sections("types").flat_map(View::entries);
    let attributes = types.filter_map(|(_, body)| body.get("attributes")).flat_map(View::entries);
    let described: FxHashSet<(SourceId, u32)> = attributes
        .flat_map(|(_, attribute)| ["type", "desc"].into_iter().filter_map(move |key| attribute.get(key)))
        .map(|view| (view.span().source, view.span().start))
        .collect();
    spans.retain(|span| !described.contains(&(span.source, span.start)));
    spans
}

fn sensitive_names(schemas: &dyn Schemas, composites: &Composites<'_>) -> FxHashSet<EcoString> {
    let types = schemas.names().into_iter().flat_map(|name| schemas.variants(name)).chain(composites.schemas());
    let attributes = types.flat_map(|schema| &schema.attributes);
    let sealed = attributes.filter(|attribute| attribute.data_type.may_hold_secrets());
    sealed.map(|attribute| attribute.name.text().clone()).chain(["sensitive".into()]).collect()
}

/// Adds the positions of all scalars in a value, except the names of files and variables.
fn scalars(value: View<'_>, spans: &mut Vec<Span>, depth: u32) {
    if value.is_scalar() {
        spans.push(value.span());
    } else if depth < 64 {
        value.elements().for_each(|element| scalars(element, spans, depth + 1));
        let reference = |key: &str| depth == 0 && matches!(key, "file" | "env" | "command" | "age" | "systemd_creds");
        value.entries().filter(|(key, _)| !reference(key.text())).for_each(|(_, v)| scalars(v, spans, depth + 1));
    }
}

/// Finds secrets in a text that could not be parsed: the rest of the line after a sensitive key, and all following
/// lines with deeper indentation.
fn find_in_text(source: SourceId, text: &str, names: &FxHashSet<EcoString>, spans: &mut Vec<Span>) {
    let mut at = 0;
    let mut within = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let span = |from: usize| Span::new(source, small(at + from), small(at + line.len()));
        let blank = line.trim().is_empty();
        match within {
            Some(limit) if blank || indent > limit => spans.push(span(0)),
            _ => {
                within = None;
                if let Some(end) = key_end(line, names) {
                    spans.push(span(end));
                    within = Some(indent);
                }
            }
        }
        at += line.len();
    }
}

/// Returns the end of the first such key in a line, including its colon.
fn key_end(line: &str, names: &FxHashSet<EcoString>) -> Option<usize> {
    let ends = line.match_indices(':').map(|(at, _)| at);
    let named = |at: &usize| {
        let before = line[..*at].trim_end().trim_end_matches(['"', '\'']);
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |n| n + before[n..].chars().next().map_or(1, char::len_utf8));
        names.contains(&before[start..])
    };
    ends.into_iter().find(named).map(|at| at + 1)
}
