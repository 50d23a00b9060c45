//! Warnings about whole manifests, which only `kilter check` reports.

use ecow::eco_format;
use rustc_hash::FxHashSet;

use crate::diagnostic::{Diagnostic, sorted};
use crate::source::Sources;
use crate::tree::View;
use crate::yaml::parse;

/// Returns warnings about valid manifests that are probably mistakes, in the order of their positions. They concern the
/// first `given` sources, which no other manifest includes.
pub fn lint(sources: &Sources, given: usize) -> Vec<Diagnostic> {
    let mut used = FxHashSet::default();
    sources.ids().for_each(|id| used_variables(&sources.get(id).text, &mut used));
    let mut warnings = Vec::new();
    for id in sources.ids().take(given) {
        let tree = parse(id, sources).tree;
        let sections = tree.roots().filter(|root| root.is_mapping()).filter_map(|root| root.get("vars"));
        for (key, _) in sections.flat_map(View::entries).filter(|(key, _)| !used.contains(key.text())) {
            let message = eco_format!("no manifest uses the variable `{}`", key.text());
            let hint = eco_format!("take it out, or use it: ${{vars.{}}}", key.text());
            warnings.push(Diagnostic::new(message).at(key.span()).hint(hint));
        }
    }
    sorted(warnings)
}

/// Adds the names of the variables that a text uses: `vars.NAME` and `vars["NAME"]`.
fn used_variables<'t>(text: &'t str, used: &mut FxHashSet<&'t str>) {
    for (at, root) in text.match_indices("vars") {
        let rest = &text[at + root.len()..];
        let name = match rest.as_bytes() {
            [b'.', ..] => rest[1..].split(|c: char| !(c.is_alphanumeric() || c == '_')).next(),
            [b'[', ..] => {
                let quoted = rest[1..].trim_start().trim_start_matches('\\');
                let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''));
                quote.and_then(|quote| quoted[1..].split([quote, '\\']).next())
            }
            _ => None,
        };
        used.extend(name);
    }
}
