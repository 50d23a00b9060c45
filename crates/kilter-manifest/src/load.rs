//! Loads sources with their includes, and checks their top-level sections.

use ecow::{EcoString, eco_format};
use kilter_model::{SourceId, Span};

use crate::collect::{self, Collect};
use crate::diagnostic::{Diagnostic, choose};
use crate::inputs::Inputs;
use crate::mgmt::Terms;
use crate::puppet;
use crate::source::{Source, Sources};
use crate::tree::{Tree, View};
use crate::yaml::{Parsed, parse};

/// Maximum nesting of includes.
const MAX_DEPTH: usize = 32;

/// Maximum number of texts in a compilation.
const MAX_SOURCES: usize = 10_000;

const SECTIONS: [&str; 6] = ["vars", "types", "defaults", "resources", "include", "collect"];

/// All texts as trees, in order of increasing priority.
pub(crate) struct Loaded {
    pub(crate) trees: Vec<Tree>,
    pub(crate) problems: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// True if the complete manifest was read. Missing names are reported only then.
    pub(crate) complete: bool,
    /// Terms of mgmt graphs.
    pub(crate) terms: Terms,
    /// Texts that could not be read completely.
    pub(crate) broken: Vec<SourceId>,
}

impl Loaded {
    /// Returns the values of a section in all documents, in order.
    pub(crate) fn sections(&self, name: &'static str) -> impl Iterator<Item = View<'_>> {
        self.trees.iter().flat_map(Tree::roots).filter_map(move |root| root.get(name)).filter(|view| view.is_mapping())
    }

    /// Returns the number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.trees.iter().map(Tree::len).sum()
    }
}

/// Parses the sources and their includes. An included text has lower priority than the text that includes it.
pub(crate) fn load(sources: &mut Sources, inputs: &Inputs<'_>) -> Loaded {
    let ids: Vec<SourceId> = sources.ids().collect();
    let loaded = Loaded {
        trees: Vec::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
        complete: !sources.is_incomplete,
        terms: Terms::default(),
        broken: Vec::new(),
    };
    let mut walk = LoadWalk { sources, inputs, loaded, stack: Vec::new(), done: Vec::new() };
    for id in ids {
        walk.visit(id);
    }
    walk.loaded
}

struct LoadWalk<'a> {
    sources: &'a mut Sources,
    inputs: &'a Inputs<'a>,
    loaded: Loaded,
    /// Names of the texts that are being read.
    stack: Vec<EcoString>,
    /// Names of the texts that have been read.
    done: Vec<EcoString>,
}

/// Returns true for a resource in the format of `kilter get --format json`.
fn is_exported(view: View<'_>) -> bool {
    view.get("resource").is_some_and(View::is_scalar) && view.get("attributes").is_some_and(View::is_mapping)
}

impl LoadWalk<'_> {
    fn visit(&mut self, id: SourceId) {
        let name = self.sources.get(id).name.clone();
        if self.done.contains(&name) {
            return;
        }
        let Parsed { tree, problems, warnings, terms, complete } = parse(id, self.sources);
        self.loaded.terms.extend(terms);
        self.loaded.problems.extend(problems);
        self.loaded.warnings.extend(warnings);
        if !complete {
            self.loaded.broken.push(id);
        }
        self.loaded.complete &= complete;
        self.stack.push(name);
        let (mut includes, mut collects) = (Vec::new(), Vec::new());
        for root in tree.roots() {
            self.check_root(root, complete, &mut includes, &mut collects);
        }
        for (path, span) in includes {
            self.include(id, &path, span);
        }
        for (wanted, span) in collects {
            self.collect(id, &wanted, span);
        }
        self.done.extend(self.stack.pop());
        self.loaded.trees.push(tree);
    }

    fn report(&mut self, problem: Diagnostic) {
        self.loaded.problems.push(problem);
    }

    fn check_root(
        &mut self,
        root: View<'_>,
        complete: bool,
        includes: &mut Vec<(EcoString, Span)>,
        collects: &mut Vec<(Collect, Span)>,
    ) {
        if root.is_null() {
            return;
        }
        if root.elements().next().is_some() && root.elements().all(is_exported) {
            return;
        }
        if !root.is_mapping() {
            let problem = Diagnostic::new(
                "a manifest is a mapping with the keys `vars`, `types`, `defaults`, `resources`, `include` and \
                 `collect`",
            );
            return self.report(problem.at(root.span()).hint("begin with `resources:`"));
        }
        for (key, value) in root.entries() {
            match key.text() {
                "include" => self.check_include(value, includes),
                "collect" => {
                    let problems = &mut self.loaded.problems;
                    collects.extend(collect::read(value, self.inputs.schemas, &mut |problem| problems.push(problem)));
                }
                name @ ("vars" | "types" | "defaults" | "resources") if !value.is_mapping() && !value.is_null() => {
                    let hint = match name {
                        "vars" => "write NAME: VALUE below it",
                        "types" => "write NAME: { attributes: …, resources: … } below it",
                        "defaults" => {
                            "write TYPE: { ATTRIBUTE: VALUE, meta: { NAME: VALUE } } below it, or \"*\": for all types"
                        }
                        _ => "write type[title]: below it, such as file[/etc/motd]:",
                    };
                    let problem = Diagnostic::new(eco_format!("`{name}` is a mapping")).at(value.span());
                    self.report(problem.hint(hint));
                }
                "vars" | "types" | "defaults" | "resources" => {}
                _ if complete => self.unknown_section(key, value),
                // It may be another kind of text.
                _ => {}
            }
        }
    }

    fn unknown_section(&mut self, key: View<'_>, value: View<'_>) {
        let (name, span) = (key.text(), key.span());
        let hint = match kilter_model::ResourceRef::split(name) {
            Ok(_) => "resources belong below `resources:`".into(),
            Err(_) if puppet::is_type(key, value) => {
                "put the output of `puppet resource --to_yaml` below `resources:`, indented by two spaces".into()
            }
            Err(_) => choose(name, &SECTIONS, "known keys"),
        };
        self.report(Diagnostic::new(eco_format!("unknown key `{name}`")).at(span).hint(hint));
    }

    fn check_include(&mut self, value: View<'_>, includes: &mut Vec<(EcoString, Span)>) {
        let one = value.is_scalar() && !value.is_null();
        for path in value.elements().chain(one.then_some(value)) {
            match path.is_scalar() && !path.is_null() {
                true => includes.push((path.text().into(), path.span())),
                false => self.report(Diagnostic::new("`include` is a list of paths").at(path.span())),
            }
        }
        if value.is_mapping() {
            self.report(Diagnostic::new("`include` is a list of paths").at(value.span()));
        }
    }

    fn include(&mut self, from: SourceId, path: &str, span: Span) {
        let is_lenient = self.sources.get(from).is_lenient();
        let from = self.sources.get(from).name.clone();
        let source = match self.inputs.loader.load(&from, path) {
            Ok(source) => source.leniently(is_lenient),
            Err(why) => {
                self.loaded.complete = false;
                return self.report(Diagnostic::new(eco_format!("cannot include `{path}`: {why}")).at(span));
            }
        };
        self.add(source, span);
    }

    /// Adds resources that other machines export, in the same way as an include.
    fn collect(&mut self, from: SourceId, wanted: &Collect, span: Span) {
        let from = self.sources.get(from).name.clone();
        match self.inputs.loader.collect(&from, wanted) {
            Ok(source) => self.add(source, span),
            Err(why) => {
                self.loaded.complete = false;
                self.report(Diagnostic::new(eco_format!("cannot {wanted}: {why}")).at(span));
            }
        }
    }

    fn add(&mut self, source: Source, span: Span) {
        if let Some(first) = self.stack.iter().position(|name| *name == source.name) {
            let way: Vec<&str> = self.stack[first..].iter().map(EcoString::as_str).collect();
            let message = eco_format!("`{}` includes itself: {} -> {}", source.name, way.join(" -> "), source.name);
            return self.report(Diagnostic::new(message).at(span).hint("take one of the includes out"));
        }
        if self.stack.len() >= MAX_DEPTH || self.sources.len() >= MAX_SOURCES {
            self.loaded.complete = false;
            let message = eco_format!("more than {MAX_DEPTH} levels of includes, or {MAX_SOURCES} files");
            return self.report(Diagnostic::new(message).at(span));
        }
        if !self.done.contains(&source.name) {
            let id = self.sources.add(source);
            self.visit(id);
        }
    }
}
