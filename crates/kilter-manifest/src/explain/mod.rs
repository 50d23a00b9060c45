//! Explanation of values: the place of each, the layers that were read, and everything that contributed.

mod explanation;
mod names;

use ecow::{EcoString, eco_format};
use kilter_model::expr::{Lookup, Scope};
use kilter_model::{AttributeSchema, Catalog, DataType, Resource, ResourceRef, Span, Value};

use crate::compile::{Compilation, compile_with};
use crate::diagnostic::{Diagnostic, choose};
use crate::environment::Environment;
use crate::index::{Entry, Index};
use crate::inputs::Inputs;
use crate::layers::{Hierarchy, Layer};
use crate::load::Loaded;
use crate::meta::Defaults;
use crate::source::Sources;
use crate::text_scope::TextScope;
use crate::tree::View;
use crate::types::Type;
use crate::value::{BuildResult, Values};

pub use explanation::{Contribution, ExplainedValue, Explanation, Part, Subject};
use names::UsedNames;

/// Maximum nesting of names that contribute to a value.
const MAX_DEPTH: usize = 16;

/// Keys of a resource that are no attributes.
const KEYS: [&str; 8] = ["require", "before", "notify", "subscribe", "when", "for_each", "meta", "provider"];

/// Compiles manifests and explains a value.
///
/// # Errors
/// All problems of the manifests; or that the subject does not exist.
pub fn explain(
    sources: &mut Sources,
    inputs: &Inputs<'_>,
    subject: Subject<'_>,
) -> Result<Explanation, Vec<Diagnostic>> {
    let mut explained = None;
    let (_, problems) = compile_with(sources, inputs, &mut |compilation| {
        // Problems of values that have no effect are not reported.
        let before = compilation.environment.problem_count();
        if before == 0 {
            explained = Some(Explainer::new(compilation).subject(subject));
            compilation.environment.forget_problems_after(before);
        }
    });
    match explained {
        Some(result) if problems.is_empty() => result.map_err(|problem| vec![problem]),
        _ => Err(problems),
    }
}

struct Explainer<'a, 't> {
    environment: &'a Environment<'t>,
    loaded: &'t Loaded,
    index: &'a Index<'t>,
    defaults: &'a Defaults<'t>,
    catalog: &'a Catalog,
    /// Names whose explanation is being made.
    stack: Vec<EcoString>,
}

impl<'a, 't> Explainer<'a, 't> {
    fn new(compilation: &Compilation<'a, 't>) -> Explainer<'a, 't> {
        let Compilation { environment, loaded, index, defaults, catalog } = *compilation;
        environment.allow_fetches(false);
        Explainer { environment, loaded, index, defaults, catalog, stack: Vec::new() }
    }

    fn subject(&mut self, subject: Subject<'_>) -> Result<Explanation, Diagnostic> {
        match subject {
            Subject::Variable(name) => {
                if matches!(self.environment.var(name), Lookup::Missing) {
                    let names = self.environment.var_names();
                    let names: Vec<&str> = names.iter().map(EcoString::as_str).collect();
                    let problem = Diagnostic::new(eco_format!("there is no variable `{name}`"));
                    return Err(match names.is_empty() {
                        true => problem,
                        false => problem.hint(choose(name, &names, "variables")),
                    });
                }
                let values = vec![self.variable(name)];
                Ok(Explanation { resource: None, declared: Vec::new(), values })
            }
            Subject::Resource { reference, attribute } => self.resource(reference, attribute),
        }
    }

    /// Explains a variable of manifests, data or the command line.
    fn variable(&mut self, name: &str) -> ExplainedValue {
        let full = eco_format!("vars.{name}");
        let (value, reason) = known(self.environment.var(name));
        let mut explained = ExplainedValue { value, reason, ..ExplainedValue::new(full.clone()) };
        if self.stack.contains(&full) || self.stack.len() >= MAX_DEPTH {
            return explained;
        }
        self.stack.push(full);
        let scope = self.environment.within(TextScope::default());
        let mut is_decided = false;
        if let Some((_, value)) = self.environment.inputs.overrides.iter().rfind(|(known, _)| known == name) {
            let what = eco_format!("--var {name} on the command line");
            explained.tried.push(Contribution { what, span: None, value: Some(value.clone()), part: Part::Used });
            is_decided = true;
        }
        let mut contributing = Vec::new();
        for hierarchy in self.loaded.hierarchies.iter().rev() {
            let (rule, at) = hierarchy.rule(name);
            let has_key = hierarchy.layers.iter().any(|layer| entry_of(layer, name).is_some());
            let mut is_used = !is_decided && has_key;
            if is_used {
                explained.rule = Some((rule.name().into(), at));
            }
            for layer in &hierarchy.layers {
                let found = entry_of(layer, name);
                let part = match (found, is_used) {
                    (None, _) if layer.tree.is_some() => Part::NoKey,
                    (None, _) => Part::NoFile,
                    (Some(_), true) => Part::Used,
                    (Some(_), false) => Part::Overridden,
                };
                if let (Some(view), Part::Used) = (found, part) {
                    contributing.push(view);
                    is_used = rule.takes_all();
                }
                let span = Some(found.map_or(layer.declared.span, View::span));
                let value = found.and_then(|view| self.evaluated(view));
                explained.tried.push(Contribution { what: layer.declared.path.clone(), span, value, part });
            }
            is_decided |= has_key;
        }
        let mut written: Vec<View<'t>> = self.loaded.sections("vars").filter_map(|vars| vars.get(name)).collect();
        while let Some(view) = written.pop() {
            let part = if is_decided { Part::Overridden } else { Part::Used };
            if !is_decided {
                contributing.push(view);
            }
            is_decided = true;
            let (what, span, value) = ("vars".into(), Some(view.span()), self.evaluated(view));
            explained.tried.push(Contribution { what, span, value, part });
        }
        for view in contributing {
            explained.uses.extend(self.uses(view, None));
        }
        self.environment.within(scope);
        self.stack.pop();
        explained
    }

    /// Evaluates a value without fetching secrets.
    fn evaluated(&self, view: View<'t>) -> Option<Value> {
        match Values::new(self.environment).build(view, &DataType::Any) {
            BuildResult::Value(value) => Some(value),
            BuildResult::Skipped => Some(Value::sensitive(Value::Undef)),
            BuildResult::Deferred(_) | BuildResult::Broken => None,
        }
    }

    fn resource(&mut self, reference: &str, attribute: Option<&str>) -> Result<Explanation, Diagnostic> {
        let (type_name, title) =
            ResourceRef::split(reference).map_err(|error| Diagnostic::new(eco_format!("{error}")))?;
        let type_id = self.index.types.known(type_name);
        let found = type_id.and_then(|id| Some((id, self.index.get(id, title)?)));
        let Some((type_id, (number, entry))) = found else { return Err(self.index.dangling(reference)) };
        let type_ = self.index.types.get(type_id);
        let scope = self.index.scope(number);
        let mut declared = vec![Contribution {
            what: if entry.body().is_mapping() { "declared".into() } else { "declared without attributes".into() },
            span: Some(entry.key.span()),
            value: None,
            part: Part::Used,
        }];
        declared.extend(around(&scope));
        if entry.at().is_none() && type_.composite.is_none() {
            let span = entry.body().get("when").map(View::span);
            declared.push(Contribution { what: "left out by `when`".into(), span, value: None, part: Part::Used });
        }
        let scope = self.environment.within(scope);
        let names: Vec<EcoString> = match attribute {
            Some(name) => vec![self.attribute_name(type_, name)?],
            None => self.names(type_, number, entry),
        };
        let values = names.iter().map(|name| self.attribute(type_, number, entry, name)).collect();
        self.environment.within(scope);
        Ok(Explanation { resource: Some(reference.into()), declared, values })
    }

    fn attribute_name(&self, type_: &Type<'t>, name: &str) -> Result<EcoString, Diagnostic> {
        let known: Vec<&str> = type_.attributes().iter().map(|attribute| attribute.name.as_str()).collect();
        if known.contains(&name) || KEYS.contains(&name) {
            return Ok(name.into());
        }
        let message = eco_format!("`{}` has no attribute `{name}`", type_.name);
        Err(Diagnostic::new(message).hint(choose(name, &known, "its attributes")))
    }

    /// Returns the attributes with a value.
    fn names(&self, type_: &Type<'t>, number: u32, entry: &Entry<'t>) -> Vec<EcoString> {
        let defaults = self.defaults.attributes.of(entry.key.span().source, type_.name.text());
        let compiled = self.compiled(type_, number);
        let is_set = |attribute: &&AttributeSchema| {
            let name = attribute.name.as_str();
            compiled.is_some_and(|resource| {
                resource.attributes.get(name).is_some() || resource.deferred().iter().any(|one| one.attribute == *name)
            }) || entry.body().get(name).is_some_and(|value| !value.is_null())
                || attribute.default.is_some()
                || defaults.iter().any(|default| default.attribute.name == *name)
        };
        type_.attributes().iter().filter(is_set).map(|attribute| attribute.name.text().clone()).collect()
    }

    fn compiled(&self, type_: &Type<'t>, number: u32) -> Option<&'a Resource> {
        let (_, _, title, _) = self.index.iter().nth(number as usize)?;
        let is_it = |resource: &&std::sync::Arc<Resource>| {
            resource.reference.type_name == type_.name && resource.reference.title.text() == title
        };
        self.catalog.resources.iter().find(is_it).map(AsRef::as_ref)
    }

    /// Explains an attribute, or another key, of a resource. The scope is that of the resource.
    fn attribute(&mut self, type_: &Type<'t>, number: u32, entry: &Entry<'t>, name: &str) -> ExplainedValue {
        let mut explained = ExplainedValue::new(name.into());
        let attribute = type_.attributes().iter().find(|attribute| attribute.name == *name);
        let written = entry.body().get(name);
        let contribution =
            |what: EcoString, span: Option<Span>, part: Part| Contribution { what, span, value: None, part };
        let mut is_decided = false;
        let mut contributing = None;
        if let Some(view) = written {
            let what = if view.is_null() { "declared as null, which removes a default" } else { "declared" };
            explained.tried.push(contribution(what.into(), Some(view.span()), Part::Used));
            (is_decided, contributing) = (true, Some(view));
        }
        for default in self.defaults.attributes.of(entry.key.span().source, type_.name.text()) {
            if default.attribute.name == *name {
                let part = if is_decided { Part::Overridden } else { Part::Used };
                let what = eco_format!("default of `{}` in this file", type_.name);
                let view = default.view();
                explained.tried.push(Contribution {
                    value: self.evaluated(view).filter(|_| is_decided),
                    ..contribution(what, Some(view.span()), part)
                });
                contributing = contributing.or(Some(view));
                is_decided = true;
            }
        }
        let is_null = written.is_some_and(View::is_null);
        if let Some(default) = attribute.and_then(|attribute| attribute.default.as_ref()) {
            let is_used = !is_decided || is_null;
            let part = if is_used { Part::Used } else { Part::Overridden };
            let what = eco_format!("default of the type `{}`", type_.name);
            let sensitive = attribute.is_some_and(|attribute| attribute.data_type.is_sensitive());
            let value = if sensitive { Value::sensitive(default.clone()) } else { default.clone() };
            let span = self.default_in_type(type_, name);
            explained.tried.push(Contribution { value: Some(value), ..contribution(what, span, part) });
        }
        let is_namevar = type_.namevar.is_some_and(|at| type_.attributes()[at].name == *name);
        if is_namevar && !is_decided {
            explained.tried.push(contribution("the title".into(), Some(entry.key.span()), Part::Used));
        }
        if let Some(attribute) = attribute {
            self.add_value(&mut explained, type_, number, attribute, contributing);
        }
        if explained.tried.is_empty() && explained.value.is_some() {
            explained.tried.push(contribution(
                "made from resources that are parts of this one".into(),
                None,
                Part::Used,
            ));
        }
        if explained.tried.is_empty() {
            explained.reason = Some("it is not declared".into());
        }
        if let Some(view) = contributing {
            let mut names = UsedNames::default();
            match name {
                "when" => names.read_condition(view.text()),
                _ => names.read(view, 0),
            }
            explained.uses = self.names_in(names, view, Some((number, entry)));
        }
        explained
    }

    fn add_value(
        &self,
        explained: &mut ExplainedValue,
        type_: &Type<'t>,
        number: u32,
        attribute: &AttributeSchema,
        view: Option<View<'t>>,
    ) {
        let name = attribute.name.as_str();
        if let Some(resource) = self.compiled(type_, number) {
            let deferred = resource.deferred().iter().find(|deferred| deferred.attribute == *name);
            explained.value = resource.attributes.get(name).cloned();
            explained.reason = deferred.map(|deferred| {
                let senders: Vec<String> = deferred.template.references().iter().map(ToString::to_string).collect();
                eco_format!("known after {} has run", senders.join(", "))
            });
            let is_namevar = type_.namevar.is_some_and(|at| type_.attributes()[at].name == *name);
            if explained.value.is_none() && deferred.is_none() && is_namevar {
                explained.value = Some(Value::String(resource.name.clone()));
            }
            return;
        }
        // Composite resources, parts of others, and resources that are left out are not in the catalog.
        let built = view.filter(|view| !view.is_null()).map(|view| {
            let values = Values::of_resource(self.environment, self.index, number, true);
            values.of_attribute(name).build(view, &attribute.data_type)
        });
        match built {
            Some(BuildResult::Value(value)) => explained.value = Some(attribute.data_type.sealed(value)),
            Some(BuildResult::Deferred(template)) => {
                let senders: Vec<String> = template.references().iter().map(ToString::to_string).collect();
                explained.reason = Some(eco_format!("known after {} has run", senders.join(", ")));
            }
            Some(BuildResult::Skipped) => explained.value = Some(Value::sensitive(Value::Undef)),
            Some(BuildResult::Broken) => {}
            None => explained.value = attribute.default.clone(),
        }
    }

    /// Returns the position of a default that a composite type declares.
    fn default_in_type(&self, type_: &Type<'t>, attribute: &str) -> Option<Span> {
        type_.composite?;
        let types = self.loaded.sections("types").filter_map(|types| types.get(type_.name.as_str()));
        types.filter_map(|one| one.get("attributes")?.get(attribute)?.get("default")).last().map(View::span)
    }

    /// Explains the names in a value. `of` is the resource that contains it.
    fn uses(&mut self, view: View<'t>, of: Option<(u32, &Entry<'t>)>) -> Vec<ExplainedValue> {
        let mut names = UsedNames::default();
        names.read(view, 0);
        self.names_in(names, view, of)
    }

    fn names_in(&mut self, mut names: UsedNames, view: View<'t>, of: Option<(u32, &Entry<'t>)>) -> Vec<ExplainedValue> {
        if view.tree().is_literal() {
            return Vec::new();
        }
        for path in std::mem::take(&mut names.templates) {
            self.add_template(&mut names, &path, view);
        }
        let mut uses = std::mem::take(&mut names.files);
        for name in &names.vars {
            uses.push(self.variable(name));
        }
        for name in &names.facts {
            let (value, reason) = known(self.environment.fact(name));
            uses.push(ExplainedValue { value, reason, ..ExplainedValue::new(eco_format!("facts.{name}")) });
        }
        for name in &names.own {
            uses.extend(self.own(name));
        }
        for name in &names.each {
            uses.extend(self.each(name, of.map(|(_, entry)| entry)));
        }
        for (reference, output) in &names.outputs {
            let reason = Some(eco_format!("known after {reference} has run"));
            uses.push(ExplainedValue { reason, ..ExplainedValue::new(eco_format!("{reference}.{output}")) });
        }
        uses
    }

    /// Adds the names in a template file, and in the templates that it includes.
    fn add_template(&self, names: &mut UsedNames, path: &str, view: View<'t>) {
        let Some(path) = self.environment.named(path, view).ok() else { return };
        let Some(path) = path.parsed.render(self.environment).ok().and_then(|path| path.to_text()) else { return };
        let mut files = vec![(self.environment.file_name(view.span().source), path)];
        while let Some((from, path)) = files.pop() {
            let Ok(Some(file)) = self.environment.file(&from, &path, true) else { continue };
            if !names.seen.insert(eco_format!("template {}", file.name)) {
                continue;
            }
            let span = Some(Span::new(file.id, 0, 0));
            let tried = vec![Contribution { what: "template".into(), span, value: None, part: Part::Used }];
            names.files.push(ExplainedValue { tried, ..ExplainedValue::new(eco_format!("template {path}")) });
            files.extend(names.read_template(&file.text).into_iter().map(|path| (file.name.clone(), path)));
        }
    }

    /// Explains an attribute of the composite resource that contains the current text.
    fn own(&mut self, name: &str) -> Option<ExplainedValue> {
        let scope = self.environment.scope();
        let own = scope.own.as_deref()?;
        let type_id = self.index.types.known(own.reference.type_name.as_str())?;
        let (number, entry) = self.index.get(type_id, own.reference.title.as_str())?;
        let (value, _) = known(self.environment.var(&own.variable(name)));
        let full = eco_format!("self.{name}");
        if self.stack.len() >= MAX_DEPTH {
            return Some(ExplainedValue { value, ..ExplainedValue::new(full) });
        }
        self.stack.push(full.clone());
        let outer = self.environment.within(own.outer.clone());
        let type_ = self.index.types.get(type_id);
        let mut explained = match name {
            "name" => ExplainedValue {
                tried: vec![Contribution {
                    what: eco_format!("title of {}", own.reference),
                    span: Some(entry.key.span()),
                    value: None,
                    part: Part::Used,
                }],
                ..ExplainedValue::new(full.clone())
            },
            _ => self.attribute(type_, number, entry, name),
        };
        self.environment.within(outer);
        self.stack.pop();
        explained.name = full;
        explained.value = value.or(explained.value);
        Some(explained)
    }

    /// Explains a part of the element of `for_each` that the current text is evaluated for.
    fn each(&mut self, name: &str, entry: Option<&Entry<'t>>) -> Option<ExplainedValue> {
        let scope = self.environment.scope();
        let each = scope.each.as_deref()?;
        let (value, reason) = known(self.environment.var(&each.variable(name)));
        let what = eco_format!("element `{}` of {}", each.label, if each.is_title { "`titles`" } else { "`for_each`" });
        let tried = vec![Contribution { what, span: Some(each.span), value: None, part: Part::Used }];
        let list = entry.and_then(|entry| entry.body().get(if each.is_title { "titles" } else { "for_each" }));
        // The elements of the list are evaluated outside of the loop.
        let inside = self.environment.within(TextScope { own: scope.own.clone(), each: None });
        let uses = match list {
            Some(list) if self.stack.len() < MAX_DEPTH => {
                self.stack.push(eco_format!("each.{name}"));
                let uses = self.uses(list, None);
                self.stack.pop();
                uses
            }
            _ => Vec::new(),
        };
        self.environment.within(inside);
        Some(ExplainedValue { value, reason, tried, uses, ..ExplainedValue::new(eco_format!("each.{name}")) })
    }
}

fn known(found: Lookup) -> (Option<Value>, Option<EcoString>) {
    match found {
        Lookup::Found(value) => (Some(value), None),
        Lookup::Missing => (None, Some("it does not exist".into())),
        Lookup::Unknown(_) => (None, Some("it is known only during the run".into())),
    }
}

/// Returns the value of a key in a layer.
fn entry_of<'t>(layer: &'t Layer, name: &str) -> Option<View<'t>> {
    Hierarchy::entries(layer).filter(|(key, _)| key.text() == name).last().map(|(_, value)| value)
}

/// Returns the loops and composite resources around a resource, the innermost first.
fn around(scope: &TextScope<'_>) -> Vec<Contribution> {
    let mut found = Vec::new();
    let mut next = Some(scope);
    while let Some(TextScope { own, each }) = next {
        let mut add = |what: EcoString, span: Span| {
            found.push(Contribution { what, span: Some(span), value: None, part: Part::Used });
        };
        if let Some(each) = each {
            let list = if each.is_title { "`titles`" } else { "`for_each`" };
            add(eco_format!("for the element `{}` of {list}", each.label), each.span);
        }
        if let Some(own) = own {
            add(eco_format!("part of {}", own.reference), own.span);
        }
        next = own.as_ref().map(|own| &own.outer);
    }
    found
}
