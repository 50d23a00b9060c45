//! Loads sources with their includes, and checks their top-level sections.

use ecow::{EcoString, eco_format};
use kilter_model::{SourceId, Span};

use crate::collect::{self, Collect};
use crate::diagnostic::{Diagnostic, choose};
use crate::inputs::Inputs;
use crate::layers::{self, Declaration, Hierarchy, Layer};
use crate::mgmt::Terms;
use crate::puppet;
use crate::source::{Source, Sources};
use crate::tree::{Tree, View};
use crate::yaml::{Parsed, parse, parse_text};

/// Maximum nesting of includes.
const MAX_DEPTH: usize = 32;

/// Maximum number of texts in a compilation.
const MAX_SOURCES: usize = 10_000;

const SECTIONS: [&str; 7] = ["vars", "data", "types", "defaults", "resources", "include", "collect"];

/// All texts as trees, in order of increasing priority.
pub(crate) struct Loaded {
    pub(crate) trees: Vec<Tree>,
    /// Layered data, in order of increasing priority.
    pub(crate) hierarchies: Vec<Hierarchy>,
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

    /// Returns the trees of all texts, data files included.
    pub(crate) fn all_trees(&self) -> impl Iterator<Item = &Tree> {
        let layers = self.hierarchies.iter().flat_map(|hierarchy| &hierarchy.layers);
        self.trees.iter().chain(layers.filter_map(|layer| layer.tree.as_ref()))
    }

    /// Returns the number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.all_trees().map(Tree::len).sum()
    }
}

/// Parses the sources and their includes. An included text has lower priority than the text that includes it.
pub(crate) fn load(sources: &mut Sources, inputs: &Inputs<'_>) -> Loaded {
    let ids: Vec<SourceId> = sources.ids().collect();
    let loaded = Loaded {
        trees: Vec::new(),
        hierarchies: Vec::new(),
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

/// Files and collections that a text names.
#[derive(Default)]
struct NamedFiles {
    includes: Vec<(EcoString, Span)>,
    data: Vec<Declaration>,
    collects: Vec<(Collect, Span)>,
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
        let mut named = NamedFiles::default();
        for root in tree.roots() {
            self.check_root(root, complete, &mut named);
        }
        for (path, span) in named.includes {
            self.include(id, &path, span);
        }
        for declaration in named.data {
            self.data(id, declaration);
        }
        for (wanted, span) in named.collects {
            self.collect(id, &wanted, span);
        }
        self.done.extend(self.stack.pop());
        self.loaded.trees.push(tree);
    }

    fn report(&mut self, problem: Diagnostic) {
        self.loaded.problems.push(problem);
    }

    fn check_root(&mut self, root: View<'_>, complete: bool, named: &mut NamedFiles) {
        if root.is_null() {
            return;
        }
        if root.elements().next().is_some() && root.elements().all(is_exported) {
            return;
        }
        if !root.is_mapping() {
            let problem = Diagnostic::new(
                "a manifest is a mapping with the keys `vars`, `data`, `types`, `defaults`, `resources`, `include` and \
                 `collect`",
            );
            return self.report(problem.at(root.span()).hint("begin with `resources:`"));
        }
        for (key, value) in root.entries() {
            match key.text() {
                "include" => self.check_include(value, &mut named.includes),
                "data" if value.is_null() => {}
                "data" => {
                    let problems = &mut self.loaded.problems;
                    named.data.push(layers::read(value, self.inputs, &mut |problem| problems.push(problem)));
                }
                "collect" => {
                    let problems = &mut self.loaded.problems;
                    named
                        .collects
                        .extend(collect::read(value, self.inputs.schemas, &mut |problem| problems.push(problem)));
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
                true => {
                    let problems = &mut self.loaded.problems;
                    let found = layers::evaluated_path(path, self.inputs, &mut |problem| problems.push(problem));
                    // The included file may declare anything.
                    self.loaded.complete &= found.is_some();
                    includes.extend(found.map(|found| (found, path.span())));
                }
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

    /// Reads the files of a hierarchy.
    fn data(&mut self, from: SourceId, mut declaration: Declaration) {
        let declared = std::mem::take(&mut declaration.layers);
        let mut hierarchy = Hierarchy::new(declaration);
        let from = self.sources.get(from).name.clone();
        for declared in declared {
            let path = &declared.path;
            let found = match declared.is_required {
                true => self.inputs.loader.load(&from, path).map(Some),
                false => self.inputs.loader.load_if_exists(&from, path),
            };
            let source = found.unwrap_or_else(|why| {
                self.loaded.complete = false;
                self.report(Diagnostic::new(eco_format!("cannot read the data `{path}`: {why}")).at(declared.span));
                None
            });
            if source.is_some() && self.sources.len() >= MAX_SOURCES {
                self.loaded.complete = false;
                self.report(Diagnostic::new(eco_format!("more than {MAX_SOURCES} files")).at(declared.span));
                break;
            }
            let tree = source.map(|source| self.data_file(source));
            hierarchy.layers.push(Layer { declared, tree });
        }
        self.loaded.warnings.extend(hierarchy.warnings());
        self.loaded.hierarchies.push(hierarchy);
    }

    fn data_file(&mut self, source: Source) -> Tree {
        let id = self.sources.add(source);
        let Parsed { tree, problems, warnings, complete, terms: _ } = parse_text(id, self.sources);
        self.loaded.problems.extend(problems);
        self.loaded.warnings.extend(warnings);
        if !complete {
            self.loaded.broken.push(id);
        }
        self.loaded.complete &= complete;
        let problems = &mut self.loaded.problems;
        layers::check(&tree, &mut |problem| problems.push(problem));
        tree
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
