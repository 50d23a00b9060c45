//! Sensitive values: where they come from, and where they are written.

use ecow::EcoString;
use kilter_model::{SourceId, Span};
use rustc_hash::FxHashSet;

use crate::compile::Schemas;
use crate::composite::Composites;
use crate::load::Loaded;
use crate::source::{Sources, small};
use crate::tree::View;

/// Where a sensitive value comes from, when it is not written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The content of a file, without the line break at its end.
    File(EcoString),
    /// The value of an environment variable.
    Env(EcoString),
    /// The output of a command, without the line break at its end.
    Command(Vec<EcoString>),
}

/// The places of all literal secrets: below `sensitive`, and the values of attributes that some
/// type has as sensitive. Rather too many than too few.
pub(crate) fn find_secrets(
    loaded: &Loaded,
    sources: &Sources,
    schemas: &dyn Schemas,
    composites: &Composites<'_>,
) -> Vec<Span> {
    let names = sensitive_names(schemas, composites);
    let mut spans = Vec::new();
    for tree in &loaded.trees {
        if loaded.broken.contains(&tree.source) {
            find_in_text(tree.source, &sources.get(tree.source).text, &names, &mut spans);
        }
        tree.pairs(&mut |key, value| {
            if names.contains(key.text()) {
                scalars(value, &mut spans, 0);
            }
        });
    }
    // How an attribute is described is no secret, whatever it is called.
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

/// The places of all scalars in a value, but for names of files and variables.
fn scalars(value: View<'_>, spans: &mut Vec<Span>, depth: u32) {
    if value.is_scalar() {
        spans.push(value.span());
    } else if depth < 64 {
        value.elements().for_each(|element| scalars(element, spans, depth + 1));
        let reference = |key: &str| depth == 0 && matches!(key, "file" | "env" | "command");
        value.entries().filter(|(key, _)| !reference(key.text())).for_each(|(_, v)| scalars(v, spans, depth + 1));
    }
}

/// Finds secrets in a text that is no tree: whatever follows such a key on its line, and the lines
/// below that are indented further.
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

/// Where the first of the keys in a line ends, its colon included.
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
