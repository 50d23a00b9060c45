//! Values that a template makes: `{ template: PATH }`, `{ template: { inline: TEXT } }`.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, Lookup, Scope, Template};
use kilter_model::{DataType, Hash, SourceId, Span, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{BuildResult, Values};
use crate::diagnostic::{Diagnostic, choose};
use crate::jinja::{self, FUNCTIONS, Jinja, JinjaError, Names, Part, UsedName};
use crate::outputs::Outputs;
use crate::scalar_span::place;
use crate::source::small;
use crate::tree::View;

/// Maximum number of templates that one template includes, directly and through others.
const MAX_PARTS: usize = 1000;

/// Origin of the text of a template.
#[derive(Clone, Copy)]
enum InputOrigin<'t> {
    File(SourceId),
    Inline(View<'t>),
}

/// A template with its names.
struct NamedPart<'t> {
    origin: InputOrigin<'t>,
    names: Names,
}

/// Templates in the order of their first use.
struct Collected<'t> {
    parts: Vec<NamedPart<'t>>,
    jinja: Jinja,
    /// Name of the file that contains each part, for the files that it names.
    files: Vec<EcoString>,
    is_sound: bool,
}

/// A name that a template uses, as an expression.
struct TemplateInput {
    path: Vec<EcoString>,
    template: Template,
    is_sealed: bool,
    /// The value, or none if it is known only during the run.
    value: Option<Value>,
}

/// Returns true if `{ template: … }` is a template for values of the type: a text, and no mapping.
pub(super) fn is_wanted(wanted: &DataType) -> bool {
    let mapping = DataType::Hash(Box::new(DataType::Any), Box::new(DataType::Any), None, None);
    wanted.overlaps(&DataType::text()) && !wanted.overlaps(&mapping)
}

impl<'t> Values<'_, 't> {
    /// Returns the text that a template makes. `view` is the value of `template`. Problems do not show the text of a
    /// secret template.
    pub(super) fn templated(&self, view: View<'t>, is_secret: bool) -> BuildResult {
        if !self.evaluate {
            return BuildResult::Skipped;
        }
        let collected = self.collected(view);
        for (part, text) in collected.iter().flat_map(|all| all.parts.iter().zip(&all.jinja.parts)) {
            if is_secret {
                self.environment.hide(part.origin.place(&(0..text.text.len())));
            }
        }
        let Some(collected) = collected.filter(|collected| collected.is_sound) else {
            return BuildResult::Broken;
        };
        let Some(inputs) = self.inputs(&collected, view) else { return BuildResult::Broken };
        let Collected { mut jinja, parts, .. } = collected;
        jinja.paths = inputs.iter().map(|input| input.path.clone()).collect();
        let is_sealed = inputs.iter().any(|input| {
            input.is_sealed || input.template.is_sealed() || input.value.as_ref().is_some_and(Value::holds_sensitive)
        });
        let known: Option<Vec<Value>> = inputs.iter().map(|input| Some(input.value.as_ref()?.expose())).collect();
        let Some(values) = known else {
            let texts = jinja.parts.iter().flat_map(|part| [part.key.as_str(), part.text.as_str()]);
            let paths = jinja.paths.iter().flatten().map(EcoString::as_str);
            jinja.identity = texts.chain(paths).flat_map(|text| [text, "\0"]).collect();
            let templates = inputs.into_iter().map(|input| input.template).collect();
            let made = BuildResult::Deferred(Template::made(Arc::new(jinja), templates));
            return if is_sealed { made.sealed() } else { made };
        };
        match jinja.render(&values) {
            Ok(text) if is_sealed => BuildResult::Value(Value::sensitive(Value::String(text))),
            Ok(text) => BuildResult::Value(Value::String(text)),
            Err(error) => {
                self.report_error(&parts, error, is_sealed, view);
                BuildResult::Broken
            }
        }
    }

    /// Reads the template and all that it includes.
    fn collected(&self, view: View<'t>) -> Option<Collected<'t>> {
        let manifest = self.environment.file_name(view.span().source);
        let (origin, file, text) = self.first_part(view, &manifest)?;
        let base = base(&manifest);
        let root = match &origin {
            InputOrigin::File(_) if !is_below(&joined(&base, &file), &base) => parent(&file),
            _ => base,
        };
        let jinja =
            Jinja { parts: Vec::new(), links: FxHashMap::default(), paths: Vec::new(), identity: EcoString::new() };
        let mut collected = Collected { parts: Vec::new(), jinja, files: Vec::new(), is_sound: true };
        self.add(&mut collected, origin, (file, text), false, view);
        let mut at = 0;
        while at < collected.parts.len() {
            self.add_used(&mut collected, at, &root, view);
            at += 1;
        }
        Some(collected)
    }

    fn first_part(&self, view: View<'t>, manifest: &EcoString) -> Option<(InputOrigin<'t>, EcoString, Arc<String>)> {
        let environment = self.environment;
        let report = |message: &str, view: View<'_>| {
            let hint = "such as { template: nginx.conf.j2 } or { template: { inline: TEXT } }";
            environment.report(Diagnostic::new(message).at(view.span()).hint(hint));
        };
        if view.is_scalar() && !view.is_null() {
            let path = environment.text(view)?;
            return match environment.file(manifest, &path, false) {
                Ok(file) => file.map(|file| (InputOrigin::File(file.id), file.name, file.text)),
                Err(why) => {
                    let problem = Diagnostic::new(eco_format!("cannot read the template `{path}`: {why}"));
                    environment.report(problem.at(view.span()));
                    None
                }
            };
        }
        let mut entries = view.entries();
        match (entries.next(), entries.next()) {
            (Some((key, text)), None) if key.text() == "inline" && text.is_scalar() && !text.is_null() => {
                Some((InputOrigin::Inline(text), manifest.clone(), Arc::new(text.text().to_owned())))
            }
            (Some((key, _)), None) if key.text() == "inline" => {
                report("the text of a template is a text", view);
                None
            }
            (Some((key, _)), _) if key.text() != "inline" => {
                report(&eco_format!("unknown key `{}` of a template", key.text()), key);
                None
            }
            _ => {
                report("`template` is the path of a file, or has the key `inline`", view);
                None
            }
        }
    }

    /// Adds a part and reads its names.
    fn add(
        &self,
        collected: &mut Collected<'t>,
        origin: InputOrigin<'t>,
        (file, text): (EcoString, Arc<String>),
        is_conditional: bool,
        view: View<'t>,
    ) {
        let names = jinja::read(&text, is_conditional).unwrap_or_else(|error| {
            let problem = Diagnostic::new(error.message).at(origin.place(&error.at));
            self.report_in(problem, origin, view);
            collected.is_sound = false;
            Names::default()
        });
        let key = match origin {
            InputOrigin::File(_) => file.clone(),
            InputOrigin::Inline(_) => eco_format!("{file} (inline)"),
        };
        collected.jinja.parts.push(Part { key, text });
        collected.files.push(file);
        collected.parts.push(NamedPart { origin, names });
    }

    /// Adds the templates that a part includes.
    fn add_used(&self, collected: &mut Collected<'t>, at: usize, root: &Path, view: View<'t>) {
        let (origin, file) = (collected.parts[at].origin, collected.files[at].clone());
        let used = std::mem::take(&mut collected.parts[at].names.templates);
        for template in used {
            let mut refuse = |message: EcoString, hint: Option<&str>| {
                let problem = Diagnostic::new(message).at(origin.place(&template.at)).hint_if(hint);
                self.report_in(problem, origin, view);
                collected.is_sound = false;
            };
            let Some(name) = &template.name else {
                refuse("the name of an included template is a text between quotes".into(), None);
                continue;
            };
            if !is_below(&joined(&parent(&file), name), root) {
                let message = eco_format!("the template `{name}` is not below the directory {}", shown(root));
                refuse(message, Some("a template includes only templates below the directory of its manifest"));
                continue;
            }
            let found = match self.environment.file(&file, name, template.may_be_missing) {
                Ok(found) => found,
                Err(why) => {
                    refuse(eco_format!("cannot read the template `{name}`: {why}"), None);
                    continue;
                }
            };
            let Some(found) = found else { continue };
            let link = (collected.jinja.parts[at].key.clone(), name.clone());
            collected.jinja.links.insert(link, found.name.clone());
            if collected.jinja.parts.iter().any(|part| part.key == found.name) {
                continue;
            }
            if collected.parts.len() >= MAX_PARTS {
                refuse(eco_format!("a template includes more than {MAX_PARTS} templates"), None);
                return;
            }
            let origin = InputOrigin::File(found.id);
            self.add(collected, origin, (found.name, found.text), template.is_conditional, view);
        }
    }

    /// Returns the names that the templates use, with their values; none if one is wrong, which has been reported.
    fn inputs(&self, collected: &Collected<'t>, view: View<'t>) -> Option<Vec<TemplateInput>> {
        let mut is_sound = true;
        let mut inputs: Vec<TemplateInput> = Vec::new();
        let mut seen: FxHashSet<Vec<EcoString>> = FxHashSet::default();
        let assigned: FxHashSet<&str> =
            collected.parts.iter().flat_map(|part| &part.names.assigned).map(|(name, _)| name.as_str()).collect();
        for part in &collected.parts {
            let mut report = |problem: Diagnostic, at: &Range<usize>| {
                self.report_in(problem.at(part.origin.place(at)), part.origin, view);
                is_sound = false;
            };
            self.check_words(&part.names, &mut report);
            for used in &part.names.used {
                if assigned.contains(used.root.as_str()) || FUNCTIONS.contains(&used.root.as_str()) {
                    continue;
                }
                match self.input(used, view) {
                    Ok(Some(input)) if seen.insert(input.path.clone()) => inputs.push(input),
                    Ok(_) => {}
                    Err(problems) => problems.into_iter().for_each(|problem| report(problem, &used.at)),
                }
            }
        }
        is_sound.then_some(inputs)
    }

    /// Checks the words that do not depend on values.
    fn check_words(&self, names: &Names, report: &mut dyn FnMut(Diagnostic, &Range<usize>)) {
        for (name, at) in &names.assigned {
            if ROOTS.contains(&name.as_str()) {
                report(
                    Diagnostic::new(eco_format!("a template cannot assign `{name}`")).hint("choose another name"),
                    at,
                );
            }
        }
        for (name, at) in names.filters.iter().filter(|(name, _)| !jinja::has_filter(name)) {
            report(Diagnostic::new(eco_format!("there is no filter `{name}`")).hint(FILTERS), at);
        }
        for (name, at) in names.tests.iter().filter(|(name, _)| !jinja::has_test(name)) {
            report(Diagnostic::new(eco_format!("there is no test `{name}`")), at);
        }
    }

    /// Returns the value of a name; none if it has none, and the engine decides whether it needs one.
    fn input(&self, used: &UsedName, view: View<'t>) -> Result<Option<TemplateInput>, Vec<Diagnostic>> {
        let one = |problem: Diagnostic| Err(vec![problem]);
        let root = used.root.as_str();
        // `super()` renders the block of the extended template.
        if used.is_called && root == "super" {
            return Ok(None);
        }
        if used.is_called {
            let hint = eco_format!("functions: {}", FUNCTIONS.join(", "));
            return one(Diagnostic::new(eco_format!("there is no function `{root}`")).hint(hint));
        }
        let (path, expression): (Vec<EcoString>, EcoString) = match (root, used.steps.as_slice()) {
            ("vars" | "facts" | "self" | "each", []) => {
                let hint = eco_format!("name an entry, such as {root}.{}", if root == "each" { "value" } else { "x" });
                return one(Diagnostic::new(eco_format!("`{root}` is no value by itself")).hint(hint));
            }
            ("vars" | "facts" | "self" | "each", [name, ..]) => {
                let quoted = kilter_model::expr::quoted(name);
                (vec![used.root.clone(), name.clone()], eco_format!("${{{root}[{quoted}]}}"))
            }
            (_, [title, output, ..]) if self.is_type(root) => {
                let path = vec![used.root.clone(), title.clone(), output.clone()];
                (path, eco_format!("${{{root}[{title}].{output}}}"))
            }
            _ => return one(self.unknown_name(used)),
        };
        let missing = match root {
            "vars" => matches!(self.environment.var(&path[1]), Lookup::Missing),
            "facts" => matches!(self.environment.fact(&path[1]), Lookup::Missing),
            _ => false,
        };
        if missing {
            return match used.is_conditional || used.is_guarded {
                true => Ok(None),
                false => one(self.missing(root, &path[1])),
            };
        }
        let read = self.environment.named(&expression, view).map_err(|errors| {
            let problem = |error: kilter_model::expr::ExprError| Diagnostic::new(error.message).hint_if(error.hint);
            errors.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        self.evaluated(read.is_sealed(), read.parsed, path)
    }

    fn evaluated(
        &self,
        is_sealed: bool,
        template: Template,
        path: Vec<EcoString>,
    ) -> Result<Option<TemplateInput>, Vec<Diagnostic>> {
        let mut problems = Vec::new();
        template.names(&mut |name, _| {
            if let kilter_model::expr::Name::Output(reference, output) = name {
                problems.extend(self.check_output(reference, output));
            }
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let scope = Outputs { environment: self.environment, index: self.index.filter(|_| !self.is_early) };
        match template.render(&scope) {
            Ok(value) => Ok(Some(TemplateInput { path, template, is_sealed, value: Some(value) })),
            Err(EvalError::Unknown(_)) if !template.references().is_empty() => {
                Ok(Some(TemplateInput { path, template, is_sealed, value: None }))
            }
            // The problem has been reported.
            Err(EvalError::Unknown(_)) => Err(Vec::new()),
            // A resource that is left out has no outputs.
            Err(_) if path.len() == 3 => Ok(None),
            Err(EvalError::Failed { message, hint, .. }) => Err(vec![Diagnostic::new(message).hint_if(hint)]),
        }
    }

    fn is_type(&self, name: &str) -> bool {
        self.environment.inputs.schemas.schema(name).is_some()
            || self.index.is_some_and(|index| index.types.exists(name))
    }

    fn unknown_name(&self, used: &UsedName) -> Diagnostic {
        let root = used.root.as_str();
        if self.is_type(root) {
            let problem = Diagnostic::new(eco_format!("`{root}` is a type, and no value by itself"));
            return problem.hint(eco_format!("name an output of a resource: {root}[\"TITLE\"].OUTPUT"));
        }
        let problem = Diagnostic::new(eco_format!("a template knows no `{root}`"));
        for (place, found) in [("vars", self.environment.var(root)), ("facts", self.environment.fact(root))] {
            if !matches!(found, Lookup::Missing) {
                return problem.hint(eco_format!("write {place}.{root}"));
            }
        }
        problem.hint(choose(root, &ROOTS, "it knows these names, outputs such as exec[\"x\"].stdout, and its own"))
    }

    /// Creates the problem of a variable or a fact that does not exist.
    fn missing(&self, root: &str, name: &str) -> Diagnostic {
        let (what, names) = match root {
            "vars" => ("variable", self.environment.var_names()),
            _ => ("fact", self.environment.fact_names()),
        };
        let near = kilter_model::suggest::nearest(name, names.iter().map(EcoString::as_str));
        let problem = Diagnostic::new(eco_format!("there is no {what} `{name}`"));
        problem.hint(match near {
            Some(near) => eco_format!("did you mean `{root}.{near}`?"),
            None => eco_format!("if it may be missing, write `{root}.{name} is defined` or a filter `default`"),
        })
    }

    fn report_error(&self, parts: &[NamedPart<'t>], error: JinjaError, is_sealed: bool, view: View<'t>) {
        let origin = parts[error.part].origin;
        let hint = error.is_undefined.then(|| self.near_name(&error.message)).flatten();
        let message = if is_sealed && !error.is_undefined { error.general } else { error.message };
        self.report_in(Diagnostic::new(message).at(origin.place(&error.at)).hint_if(hint), origin, view);
    }

    /// Returns a hint for a name without a value, such as `facts.os.famly`.
    fn near_name(&self, message: &str) -> Option<EcoString> {
        let mut steps = message.split('`').nth(1)?.split('.');
        let (root, name) = (steps.next()?, steps.next()?);
        let found = match root {
            "vars" => self.environment.var(name),
            "facts" => self.environment.fact(name),
            _ => return None,
        };
        let Lookup::Found(mut value) = found else {
            return self.missing(root, name).hints.into_iter().next();
        };
        for step in steps {
            let Value::Hash(entries) = value.unwrap_sensitive() else { return None };
            let entries: Arc<Hash> = Arc::clone(entries);
            match entries.get(step) {
                Some(inner) => value = inner.clone(),
                None => {
                    let names: Vec<&str> = entries.keys().map(EcoString::as_str).collect();
                    return Some(choose(step, &names, "its entries"));
                }
            }
        }
        None
    }

    /// Reports a problem in a template, with the place of the value that uses the template.
    fn report_in(&self, problem: Diagnostic, origin: InputOrigin<'t>, view: View<'t>) {
        self.environment.report(match origin {
            InputOrigin::File(_) => problem.also(view.span(), "the template is used here"),
            InputOrigin::Inline(_) => problem,
        });
    }
}

/// Names that a template cannot assign.
const ROOTS: [&str; 4] = ["vars", "facts", "self", "each"];

/// Hint for an unknown filter.
const FILTERS: &str = "common filters: default, join, sort, unique, upper, lower, replace, trim, indent, length, \
                       first, last, items, map, select, selectattr, tojson";

impl InputOrigin<'_> {
    fn place(self, at: &Range<usize>) -> Span {
        let (start, end) = (small(at.start), small(at.end));
        match self {
            InputOrigin::File(id) => Span::new(id, start, end.max(start)),
            InputOrigin::Inline(view) => place(view, start, end),
        }
    }
}

/// Returns the directory of a manifest, or an empty path.
fn base(manifest: &str) -> PathBuf {
    parent(manifest.strip_suffix(" (output)").unwrap_or(manifest))
}

fn parent(file: &str) -> PathBuf {
    normal(Path::new(file).parent().unwrap_or(Path::new("")))
}

fn joined(directory: &Path, path: &str) -> PathBuf {
    normal(&directory.join(path))
}

/// Returns a path without `.`, and without `..` as far as possible.
fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(result.components().next_back(), Some(Component::Normal(_))) => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// Returns true if a normal path is below a directory.
fn is_below(path: &Path, directory: &Path) -> bool {
    match path.strip_prefix(directory) {
        Ok(rest) => rest.components().all(|component| matches!(component, Component::Normal(_))),
        Err(_) => false,
    }
}

fn shown(directory: &Path) -> String {
    if directory.as_os_str().is_empty() { "of the manifest".to_owned() } else { directory.display().to_string() }
}
