//! Reads mgmt's YAML graphs as manifests.
//!
//! A graph is converted to the tree of a manifest. Each node keeps its position in the graph, so that later problems
//! point to it. Values contain no expressions.
//!
//! - `fields`: fields of a resource, according to its kind;
//! - `kinds`: translation of kinds to types;
//! - `convert`: conversions of fields that several kinds share;
//! - `commands`: the kind `exec`;
//! - `containers`: the kinds `docker:container` and `docker:image`;
//! - `machines`: the kind `virt`;
//! - `trees`: the kind `augeas`;
//! - `timers`: the kind `cron`, a systemd timer;
//! - `edges`: order of resources;
//! - `emit`: the tree;
//! - `terms`: words of graphs, for later problems.

mod commands;
mod containers;
mod convert;
mod edges;
mod emit;
mod fields;
mod files;
mod json_edits;
mod kinds;
mod machines;
mod terms;
mod timers;
mod trees;

use std::collections::BTreeMap;

use ecow::{EcoString, eco_format};
use kilter_model::{SourceId, Span};

use crate::diagnostic::{Diagnostic, choose, here_and_more};
use crate::source::Sources;
use crate::tree::{Tree, View};
use emit::{Attribute, Lowered, Piece};
use fields::Fields;

pub(crate) use terms::Terms;

/// A graph converted to a manifest.
pub(crate) struct Graph {
    pub(crate) tree: Tree,
    pub(crate) problems: Vec<Diagnostic>,
    /// Warnings about obsolete keys.
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) terms: Terms,
}

/// Returns true if a document is a graph of mgmt.
pub(crate) fn is_graph(tree: &Tree) -> bool {
    let mut roots = tree.roots();
    let Some(root) = roots.next().filter(|root| root.is_mapping()) else { return false };
    if root.get("graph").is_some() {
        return true;
    }
    if OF_MANIFESTS.iter().any(|section| root.get(section).is_some()) {
        return false;
    }
    let lists = |resources: View<'_>| {
        resources.is_mapping()
            && resources.count() > 0
            && resources.entries().all(|(_, list)| is_list(list) && !is_titles(list))
    };
    root.get("resources").is_some_and(lists)
}

fn is_list(view: View<'_>) -> bool {
    view.kind() == crate::tree::NodeKind::Sequence
}

/// Returns true for a list of titles of a manifest.
fn is_titles(list: View<'_>) -> bool {
    list.elements().any(|one| one.is_scalar() && !one.is_null() || one.get("titles").is_some())
}

pub(crate) fn lower(tree: &Tree, id: SourceId, sources: &Sources) -> Graph {
    let left = tree.len().saturating_mul(2).saturating_add(100_000);
    let mut reader = GraphReader { is_lenient: sources.get(id).is_lenient(), left, ..GraphReader::default() };
    for (at, root) in tree.roots().enumerate() {
        match at {
            0 => reader.document(root),
            _ => reader.report(Diagnostic::new("a graph is one document").at(root.span())),
        }
    }
    let warnings = reader.warnings();
    let GraphReader { resources, collected, mut problems, terms, .. } = reader;
    let collected: Vec<(Span, &str)> = collected.iter().map(|(at, kind)| (*at, kind.type_name)).collect();
    let (tree, twice) = emit::tree(&resources, &collected, id, sources);
    problems.extend(twice);
    Graph { tree, problems, warnings, terms }
}

/// State of the conversion of a graph.
#[derive(Default)]
struct GraphReader {
    is_lenient: bool,
    /// Number of nodes that may still be copied.
    left: usize,
    resources: Vec<Lowered>,
    /// Kinds whose resources are collected, also those of this graph, with their positions.
    collected: Vec<(Span, &'static kinds::MgmtKind)>,
    /// The kinds below `resources` that have no type here: each is one problem, also if edges lead to its resources.
    unknown: Vec<EcoString>,
    problems: Vec<Diagnostic>,
    /// Obsolete keys, with their first position and their number.
    historical: BTreeMap<EcoString, (Span, u32)>,
    /// Resources that ignore notifications, each with the first edge that notifies it.
    unmoved: BTreeMap<usize, Span>,
    terms: Terms,
}

/// Sections of a complete graph.
const SECTIONS: [&str; 5] = ["graph", "comment", "resources", "edges", "collect"];

/// Sections that only manifests have.
const OF_MANIFESTS: [&str; 5] = ["vars", "data", "types", "defaults", "include"];

impl GraphReader {
    fn report(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    /// Reports a key that earlier versions of mgmt had: as a warning if it never changed anything (`is_harmless`) or
    /// if the graph is read leniently, as a problem otherwise.
    fn historical(&mut self, key: EcoString, at: Span, is_harmless: bool) {
        if is_harmless || self.is_lenient {
            self.historical.entry(key).or_insert((at, 0)).1 += 1;
            return;
        }
        let problem = Diagnostic::new(eco_format!("{key} no longer has an effect")).at(at);
        self.report(problem.hint("take it out, or give --lenient to have it ignored"));
    }

    fn warnings(&self) -> Vec<Diagnostic> {
        let warning = |(key, (at, count)): (&EcoString, &(Span, u32))| {
            let times = if *count > 1 { eco_format!(", {}", here_and_more(*count)) } else { EcoString::new() };
            Diagnostic::new(eco_format!("{key} no longer has an effect{times}")).at(*at)
        };
        let unmoved = |(at, span): (&usize, &Span)| {
            let Lowered { kind, title, .. } = &self.resources[*at];
            let message = eco_format!(
                "{kind}[{title}] cannot be refreshed: mgmt's {kind} has no refresh; `notify` only sets the order"
            );
            Diagnostic::new(message).at(*span).hint("take `notify: true` out of the edge")
        };
        let mut warnings: Vec<Diagnostic> = self.historical.iter().map(warning).collect();
        warnings.extend(self.unmoved.iter().map(unmoved));
        warnings.sort_by_key(|warning| warning.span);
        warnings
    }

    fn document(&mut self, root: View<'_>) {
        for (key, _) in root.entries() {
            match key.text() {
                "remote" => self.historical("`remote`".into(), key.span(), false),
                name if SECTIONS.contains(&name) => {}
                name => {
                    let hint = match OF_MANIFESTS.contains(&name) {
                        true => {
                            "a manifest has it, and may include the graph; without the key `graph` this is one".into()
                        }
                        false => choose(name, &SECTIONS, "its keys"),
                    };
                    let problem = Diagnostic::new(eco_format!("a graph has no key `{name}`")).at(key.span());
                    self.report(problem.hint(hint));
                }
            }
        }
        if !root.get("graph").is_some_and(|name| name.is_scalar() && !name.text().is_empty() && !name.is_null()) {
            let at = root.get("graph").unwrap_or(root).span();
            self.report(Diagnostic::new("a graph needs a name").at(at).hint("such as graph: mygraph"));
        }
        self.collected = self.kinds_to_collect(root);
        if let Some(resources) = root.get("resources").filter(|resources| !resources.is_null()) {
            self.kinds(resources);
        }
        if let Some(edges) = root.get("edges").filter(|edges| !edges.is_null()) {
            self.edges(edges);
        }
    }

    /// Returns the kinds whose exported resources are collected, including those of this machine.
    fn kinds_to_collect(&mut self, root: View<'_>) -> Vec<(Span, &'static kinds::MgmtKind)> {
        let Some(collect) = root.get("collect").filter(|collect| !collect.is_null()) else { return Vec::new() };
        if !is_list(collect) {
            self.report(Diagnostic::new("`collect` is a list").at(collect.span()).hint("such as - kind: file"));
        }
        let mut kinds = Vec::new();
        for entry in collect.elements() {
            for (key, value) in entry.entries() {
                match key.text() {
                    "kind" => match kinds::find(value.text()) {
                        Some(kind) => kinds.push((value.span(), kind)),
                        None => self.unknown_kind(value),
                    },
                    "pattern" => self.historical("`pattern` of `collect`".into(), key.span(), true),
                    name => {
                        let problem = Diagnostic::new(eco_format!("`collect` has no key `{name}`")).at(key.span());
                        self.report(problem.hint("its keys: kind"));
                    }
                }
            }
            if entry.get("kind").is_none() {
                self.report(Diagnostic::new("`collect` needs a kind").at(entry.span()).hint("such as - kind: file"));
            }
        }
        kinds
    }

    fn kinds(&mut self, resources: View<'_>) {
        if !resources.is_mapping() {
            let problem = Diagnostic::new("`resources` is a mapping of kinds").at(resources.span());
            return self.report(problem.hint("write `file:` below it, and a list below that"));
        }
        for (kind, list) in resources.entries() {
            let Some(known) = kinds::find(kind.text()) else {
                self.unknown_kind(kind);
                self.unknown.push(kind.text().to_lowercase().into());
                continue;
            };
            if !is_list(list) && !list.is_null() {
                let message = eco_format!("`{}` is followed by a list of resources", kind.text());
                self.report(Diagnostic::new(message).at(list.span()).hint("such as - name: x"));
            }
            self.terms.add_kind(kind.span(), known.name, known.type_name);
            for resource in list.elements() {
                self.resource(known, resource);
            }
        }
    }

    fn unknown_kind(&mut self, kind: View<'_>) {
        let name = kind.text();
        let problem = match kinds::LATER.contains(&name) {
            true => Diagnostic::new(eco_format!("kilter has no type for the kind `{name}` of mgmt")),
            false => {
                let hint = choose(name, &kinds::names(), "known kinds");
                Diagnostic::new(eco_format!("unknown kind `{name}`")).hint(hint)
            }
        };
        self.report(problem.at(kind.span()));
    }

    fn resource(&mut self, kind: &'static kinds::MgmtKind, body: View<'_>) {
        if !body.is_mapping() {
            let problem = Diagnostic::new("a resource is a mapping").at(body.span());
            return self.report(problem.hint("such as - name: x"));
        }
        let named = body.get("name").filter(|name| name.is_scalar() && !name.is_null() && !name.text().is_empty());
        let Some(name) = named else {
            let at = body.get("name").unwrap_or(body).span();
            return self.report(Diagnostic::new(eco_format!("a `{}` needs a name", kind.name)).at(at));
        };
        let (title, is_exported) = match name.text().strip_prefix("@@") {
            Some(title) => (title, true),
            None => (name.text(), false),
        };
        if title.is_empty() {
            return self.report(Diagnostic::new(eco_format!("a `{}` needs a name", kind.name)).at(name.span()));
        }
        let (before, made_with_it) = (self.problems.len(), self.resources.len());
        let fields = Fields::read(self, (kind.name, kind.fields), title, name.span(), body);
        let mut lowered = Lowered::new(kind.name, kind.type_name, title, name.span());
        (kind.lower)(self, &fields, &mut lowered);
        for attribute in &lowered.attributes {
            let field = fields.of(attribute.value.span()).filter(|field| *field != attribute.name);
            field.into_iter().for_each(|field| self.terms.add_field(attribute.value.span(), field));
        }
        if let Some(meta) = body.get("meta") {
            self.meta(meta, &mut lowered);
        }
        if is_exported {
            // The resource is for other machines. It is also for this machine if its kind is collected.
            lowered.export(!self.collected.iter().any(|(_, collected)| collected.name == kind.name));
        }
        // No further problems are reported for an invalid resource, but others may refer to it.
        if self.problems.len() > before {
            lowered.attributes.clear();
            lowered.is_broken = true;
        }
        for made in &mut self.resources[made_with_it..] {
            made.meta.clone_from(&lowered.meta);
            made.is_broken = lowered.is_broken;
        }
        self.resources.push(lowered);
    }

    /// Translates metaparameters. They are the same in mgmt, except the notation for no limit.
    fn meta(&mut self, meta: View<'_>, lowered: &mut Lowered) {
        if meta.is_null() {
            return;
        }
        if !meta.is_mapping() {
            return self.report(Diagnostic::new("`meta` is a mapping").at(meta.span()));
        }
        let limit = meta.get("limit").map(|limit| limit.text().to_lowercase());
        let is_unlimited = limit.as_deref().is_none_or(|limit| matches!(limit, ".inf" | "+.inf"));
        let mut entries = Vec::new();
        for (key, value) in meta.entries() {
            let is_none = match key.text() {
                "limit" => is_unlimited,
                // A burst without a limit has no meaning, and its default is 0.
                "burst" => is_unlimited || value.text() == "0",
                _ => false,
            };
            if is_none || value.is_null() {
                continue;
            }
            match Piece::copy(value, &mut self.left) {
                Some(copy) => entries.push(Attribute { name: key.text().into(), at: key.span(), value: copy }),
                None => self.report(Diagnostic::new("aliases add up to too much").at(value.span())),
            }
        }
        if !entries.is_empty() {
            lowered.meta = Some((meta.span(), entries));
        }
    }
}
