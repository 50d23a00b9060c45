//! Resources from other machines: the entries of `collect`.

use std::fmt;

use ecow::{EcoString, eco_format};
use kilter_model::{PartOf, Span, TypeSchema};
use serde_json::{Map, Value as Json};

use crate::diagnostic::{Diagnostic, choose};
use crate::scalar::typed;
use crate::schemas::Schemas;
use crate::tree::{NodeKind, View};

/// Keys of an entry of `collect`.
const KEYS: [&str; 5] = ["type", "from", "title", "of", "set"];

/// Keys of a resource that are not attributes. They control its local treatment, so another machine may not set
/// them.
pub const RESERVED: [&str; 7] = ["meta", "provider", "when", "require", "before", "notify", "subscribe"];

/// Maximum number of nodes of an entry, with aliases expanded.
const MOST_NODES: usize = 10_000;

/// Selects resources that other machines export for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collect {
    /// Type of the resources.
    pub type_name: EcoString,
    /// Patterns for the exporting machines, in which `*` matches any text; empty for all machines.
    pub from: Vec<EcoString>,
    /// Patterns for the titles, and for names that differ from the titles.
    pub titles: Vec<EcoString>,
    /// Patterns for the owners of parts.
    pub of: Vec<EcoString>,
    /// Namevars of the type.
    pub namevars: Vec<EcoString>,
    /// Attribute that names the owner of a part.
    pub by: Option<EcoString>,
    /// Local settings for each resource, which override the exported ones: attributes, relations, `meta`.
    pub set: Map<String, Json>,
}

/// Prints the entry on one line, such as `collect file from web*`. Equal entries print the same text.
impl fmt::Display for Collect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "collect {}", self.type_name)?;
        for (word, patterns) in [("from", &self.from), ("titled", &self.titles), ("of", &self.of)] {
            if !patterns.is_empty() {
                write!(f, " {word} {}", patterns.join(", "))?;
            }
        }
        if !self.set.is_empty() {
            write!(f, " with {}", Json::Object(self.set.clone()))?;
        }
        Ok(())
    }
}

impl Collect {
    /// Returns true if a resource with this origin and title is selected.
    pub fn is_meant(&self, from: &str, title: &str) -> bool {
        self.is_from(from) && is_one(&self.titles, title)
    }

    /// Returns true if resources of a machine can be selected.
    pub fn is_from(&self, from: &str) -> bool {
        is_one(&self.from, from)
    }

    /// Returns true if the attributes match the patterns. The check covers resources whose name differs from their
    /// title.
    pub fn allows(&self, attributes: &Map<String, Json>) -> bool {
        let text = |name: &EcoString| {
            attributes
                .get(name.as_str())
                .map(|value| value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string()))
        };
        let is_name = |name: &EcoString| {
            self.set.contains_key(name.as_str()) || text(name).is_none_or(|text| is_one(&self.titles, &text))
        };
        let is_part = || self.by.as_ref().and_then(text).is_none_or(|text| is_one(&self.of, &text));
        self.namevars.iter().all(is_name) && is_part()
    }
}

/// Returns true if there are no patterns, or a text matches one of them.
fn is_one(patterns: &[EcoString], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
}

/// Returns true if a text matches a pattern in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = left.split_once(part) else { return false };
        left = after;
    }
    left.ends_with(last)
}

/// Reads the entries of `collect`.
pub(crate) fn read(
    section: View<'_>,
    schemas: &dyn Schemas,
    report: &mut dyn FnMut(Diagnostic),
) -> Vec<(Collect, Span)> {
    if section.is_null() {
        return Vec::new();
    }
    if section.kind() != NodeKind::Sequence {
        report(Diagnostic::new("`collect` is a list").at(section.span()).hint("such as - type: host"));
        return Vec::new();
    }
    section.elements().filter_map(|entry| Some((entry_of(entry, schemas, report)?, entry.span()))).collect()
}

fn entry_of(entry: View<'_>, schemas: &dyn Schemas, report: &mut dyn FnMut(Diagnostic)) -> Option<Collect> {
    let mut problems = Vec::new();
    if !entry.is_mapping() {
        report(Diagnostic::new("an entry of `collect` is a mapping").at(entry.span()).hint("such as - type: host"));
        return None;
    }
    let (mut type_name, mut from, mut titles, mut of, mut set) = (None, Vec::new(), Vec::new(), Vec::new(), None);
    for (key, value) in entry.entries() {
        match key.text() {
            "type" => type_name = Some(value),
            "from" => from = patterns("from", value, &mut problems),
            "title" => titles = patterns("title", value, &mut problems),
            "of" => of = patterns("of", value, &mut problems),
            "set" => set = Some((value, plain_values(value, &mut problems))),
            name => {
                let problem = Diagnostic::new(eco_format!("`collect` has no key `{name}`")).at(key.span());
                problems.push(problem.hint(choose(name, &KEYS, "its keys")));
            }
        }
    }
    let schema = match type_name {
        Some(value) if value.is_scalar() && !value.is_null() => {
            let schema = schemas.schema(value.text());
            if schema.is_none() {
                let problem = Diagnostic::new(eco_format!("unknown type `{}`", value.text())).at(value.span());
                problems.push(problem.hint(choose(value.text(), &schemas.names(), "known types")));
            }
            schema
        }
        _ => {
            problems.push(Diagnostic::new("`collect` needs a type").at(entry.span()).hint("such as - type: host"));
            None
        }
    };
    if let Some(schema) = schema {
        fit(schema, entry, !of.is_empty(), set.as_ref(), &mut problems);
    }
    let is_right = problems.is_empty();
    problems.into_iter().for_each(report);
    let schema = schema.filter(|_| is_right)?;
    Some(Collect {
        type_name: schema.name.text().clone(),
        from,
        titles,
        of,
        namevars: schema.namevars().map(|namevar| namevar.name.text().clone()).collect(),
        by: schema.part_of.as_ref().map(|part_of| part_of.by.text().clone()),
        set: set.map(|(_, set)| set).unwrap_or_default(),
    })
}

/// Value of `set`, and its position.
type RawEntry<'t> = (View<'t>, Map<String, Json>);

/// Checks an entry against the schema of its type.
fn fit(schema: &TypeSchema, entry: View<'_>, of: bool, set: Option<&RawEntry<'_>>, problems: &mut Vec<Diagnostic>) {
    for name in set.iter().flat_map(|(_, set)| set.keys()) {
        let is_known = schema.known(name).is_some() || RESERVED.contains(&name.as_str());
        if let (false, Some((at, _))) = (is_known, set) {
            let known: Vec<&str> = schema.attributes.iter().map(|one| one.name.as_str()).chain(RESERVED).collect();
            let problem = Diagnostic::new(eco_format!("`{}` has no attribute `{name}`", schema.name));
            let at = at.entries().find(|(key, _)| key.text() == name).map_or(at.span(), |(key, _)| key.span());
            problems.push(problem.at(at).hint(choose(name, &known, "its attributes")));
        }
    }
    match &schema.part_of {
        Some(PartOf { type_name, by, .. }) if !of && set.is_none_or(|(_, set)| !set.contains_key(by.as_str())) => {
            let message = eco_format!("this lets others choose the {type_name} that they add to");
            let hint = eco_format!("declare it: set: {{ {by}: … }}, or patterns: of: …");
            problems.push(Diagnostic::new(message).at(entry.span()).hint(hint));
        }
        None if of => {
            let message =
                eco_format!("a {} is not a part of another resource, so `of` does not apply to it", schema.name);
            problems.push(Diagnostic::new(message).at(entry.span()).hint("take it out"));
        }
        _ => {}
    }
}

/// Reads a pattern or a list of patterns.
fn patterns(name: &str, value: View<'_>, problems: &mut Vec<Diagnostic>) -> Vec<EcoString> {
    let one = (value.is_scalar() && !value.is_null()).then_some(value);
    let mut patterns = Vec::new();
    for pattern in value.elements().chain(one) {
        match pattern.is_scalar() && !pattern.is_null() && !pattern.text().is_empty() {
            true => patterns.push(pattern.text().into()),
            false => problems
                .push(Diagnostic::new(eco_format!("`{name}` is a pattern or a list of them")).at(pattern.span())),
        }
    }
    if patterns.is_empty() && problems.is_empty() {
        let problem = Diagnostic::new(eco_format!("`{name}` is a pattern or a list of them")).at(value.span());
        problems.push(problem.hint("such as web*; without it, all are meant"));
    }
    patterns
}

/// Reads `set`, which contains plain values only.
fn plain_values(value: View<'_>, problems: &mut Vec<Diagnostic>) -> Map<String, Json> {
    if !value.is_mapping() {
        let problem = Diagnostic::new("`set` is a mapping").at(value.span());
        problems.push(problem.hint("such as set: { notify: service[haproxy] }"));
        return Map::new();
    }
    let mut left = MOST_NODES;
    match plain(value, &mut left, problems) {
        Some(Json::Object(set)) => set,
        _ => Map::new(),
    }
}

fn plain(view: View<'_>, left: &mut usize, problems: &mut Vec<Diagnostic>) -> Option<Json> {
    let Some(fewer) = left.checked_sub(1) else {
        problems.push(Diagnostic::new(eco_format!("`set` has more than {MOST_NODES} values")).at(view.span()));
        return None;
    };
    *left = fewer;
    match view.kind() {
        NodeKind::Mapping => {
            let entry =
                |(key, value): (View<'_>, View<'_>)| Some((key.text().to_owned(), plain(value, left, problems)?));
            view.entries().map(entry).collect::<Option<Map<String, Json>>>().map(Json::Object)
        }
        NodeKind::Sequence => view
            .elements()
            .map(|element| plain(element, left, problems))
            .collect::<Option<Vec<Json>>>()
            .map(Json::Array),
        NodeKind::Plain if typed(view.text()).is_some() => Some(kilter_model::to_json(&typed(view.text())?)),
        _ if view.text().contains("${") => {
            let problem = Diagnostic::new("`set` accepts only plain values").at(view.span());
            problems.push(problem.hint("put expressions over facts and variables into the exported resource"));
            None
        }
        _ => Some(Json::String(view.text().into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text() {
        for (pattern, text, expected) in [
            ("web1", "web1", true),
            ("web1", "web12", false),
            ("web*", "web", true),
            ("*", "", true),
            ("/etc/*/x", "/etc/a/b/x", true),
            ("/etc/*/x", "/etc/x", false),
            ("a*b*a", "aba", true),
            ("a*b*a", "aa", false),
            ("*.example", "web.example", true),
            ("*.example", "web.examples", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
