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
        let targets = tree.alias_targets();
        // A variable may only contain anchors for aliases.
        let is_aliased = |key: View<'_>| {
            let value = key.value_range();
            targets.get(targets.partition_point(|target| *target < value.start)).is_some_and(|at| *at < value.end)
        };
        let is_used = |key: View<'_>| used.contains(key.text()) || is_aliased(key);
        let sections = tree.roots().filter(|root| root.is_mapping()).filter_map(|root| root.get("vars"));
        for (key, _) in sections.flat_map(View::entries).filter(|(key, _)| !is_used(*key)) {
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
