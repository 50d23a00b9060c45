//! Registers all resources of a manifest, with the members of composite resources, before their bodies are compiled.

use std::cell::OnceCell;
use std::rc::Rc;

use ecow::{EcoString, eco_format};
use kilter_model::{Catalog, ResourceRef, Span, Title, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attributes::Body;
use crate::composite::{Composite, Composites, NAME, weigh};
use crate::diagnostic::{Diagnostic, choose, twice};
use crate::environment::Environment;
use crate::for_each::{self, TITLES};
use crate::index::{Entry, Index};
use crate::load::Loaded;
use crate::meta::Defaults;
use crate::source::small;
use crate::text_scope::{EachElement, SelfScope, TextScope};
use crate::tree::{NodeKind, Tree, View};
use crate::types::Types;

/// Maximum number of composite resources, with nested ones.
const MOST_COMPOSITE: usize = 100_000;

/// Maximum number of resources after expansion, if there are composite resources or `for_each`.
const MOST_RESOURCES: u32 = 1_000_000;

/// Maximum nesting of composite resources.
const MAX_DEPTH: usize = 16;

/// The resources of a manifest, without their attributes.
pub(crate) struct Registered<'t> {
    pub(crate) index: Index<'t>,
    /// Composite resources for the catalog.
    pub(crate) composites: Vec<kilter_model::Composite>,
    /// Number of resources for the catalog.
    pub(crate) kept: u32,
    /// Number of resources whose `when` is false.
    pub(crate) left_out: usize,
    /// Numbers of the resources whose `when` is wrong: they may not be part of the run.
    pub(crate) doubtful: FxHashSet<u32>,
    /// Resources that are written a second time.
    pub(crate) repeated: Vec<Repeated<'t>>,
}

/// A resource whose reference another resource already has.
pub(crate) struct Repeated<'t> {
    /// Number of the other resource.
    pub(crate) number: u32,
    pub(crate) type_id: u32,
    pub(crate) title: EcoString,
    pub(crate) entry: Entry<'t>,
    pub(crate) scope: TextScope<'t>,
}

/// Registers the resources of all texts.
pub(crate) fn register<'t>(
    environment: &Environment<'t>,
    loaded: &'t Loaded,
    composites: &'t Composites<'t>,
    defaults: &Defaults<'t>,
) -> Registered<'t> {
    let count = loaded.sections("resources").map(View::count).sum();
    let found = Registered {
        index: Index::new(Types::new(environment.inputs.schemas, composites), count),
        composites: Vec::new(),
        kept: 0,
        left_out: 0,
        doubtful: FxHashSet::default(),
        repeated: Vec::new(),
    };
    let (nested, may_lack_types) = (Vec::new(), OnceCell::new());
    let mut registration = Registration { environment, loaded, defaults, found, nested, owner: None, may_lack_types };
    for (key, body) in loaded.trees.iter().flat_map(Tree::resources) {
        registration.entry(key, body);
    }
    registration.found
}

struct Registration<'e, 't> {
    environment: &'e Environment<'t>,
    loaded: &'t Loaded,
    defaults: &'e Defaults<'t>,
    found: Registered<'t>,
    /// Types of the composite resources whose members are being registered.
    nested: Vec<u32>,
    /// Composite resource whose members are being registered.
    owner: Option<u32>,
    /// True if a text that could not be read completely may define types; searched on first use.
    may_lack_types: OnceCell<bool>,
}

impl<'t> Registration<'_, 't> {
    /// Registers the resources of an entry below `resources`: one, those of `for_each`, or those of a list of titles.
    fn entry(&mut self, key: View<'t>, body: View<'t>) {
        // The tree has already reported keys that are not texts.
        if !key.is_scalar() || key.is_null() {
            return;
        }
        if key.tree().is_literal() {
            return self.register(key, body, key.text(), key.span());
        }
        if let Some(groups) = for_each::groups(key, body) {
            return groups.for_each(|group| self.group(key, group));
        }
        match body.get("for_each") {
            None => {
                if let Some(reference) = self.environment.text(key) {
                    self.register(key, body, &reference, key.span());
                }
            }
            Some(list) => self.for_each(key, body, list),
        }
    }

    /// Registers a resource for each element of `for_each`.
    fn for_each(&mut self, key: View<'t>, body: View<'t>, list: View<'t>) {
        let Some(elements) = for_each::elements(self.environment, list) else {
            self.found.index.lacks_resources = true;
            return;
        };
        let (scope, weight) = (self.environment.scope(), weigh(body, 0));
        for (number, element) in (1..).zip(elements) {
            let name = element.key.to_text().filter(|_| !element.key.holds_sensitive());
            let (variable, label) = match &name {
                Some(name) => (eco_format!("{} {name}", element.key.kind()), name.clone()),
                None => (eco_format!("{number}"), eco_format!("element {number}")),
            };
            let owner = scope.own.as_ref().map(|own| eco_format!("{} ", own.reference)).unwrap_or_default();
            let variable = eco_format!("each {variable} of {owner}{}", key.text());
            let each = EachElement { variable, span: element.view.span(), label, is_title: false };
            if !self.enter(&scope, each, (element.key, element.value), weight) {
                break;
            }
            if let Some(reference) = self.environment.text(key) {
                self.register(key, body, &reference, key.span());
            }
        }
        self.environment.within(scope);
    }

    /// Registers the resources of a group below the name of a type: a mapping with `titles`, or a title alone.
    fn group(&mut self, type_: View<'t>, group: View<'t>) {
        let list = match group.kind() {
            NodeKind::Sequence => None,
            NodeKind::Mapping => group.get(TITLES),
            _ => Some(group).filter(|title| !title.is_null()),
        };
        let Some(list) = list else {
            let message = eco_format!("the list of `{}` contains titles, or mappings with `{TITLES}`", type_.text());
            let hint = eco_format!("such as - {TITLES}: [a, b]");
            return self.environment.report(Diagnostic::new(message).at(group.span()).hint(hint));
        };
        if let Some((at, _)) = group.entries().find(|(key, _)| key.text() == "for_each") {
            let problem = Diagnostic::new(eco_format!("`for_each` and `{TITLES}` exclude each other")).at(at.span());
            let hint = eco_format!("write `{}[${{each.value}}]` with `for_each` alone", type_.text());
            return self.environment.report(problem.hint(hint));
        }
        let titles = match group.is_scalar() {
            true => self.environment.text(group).map(|text| vec![(EcoString::from(text), group)]),
            false => for_each::titles(self.environment, list),
        };
        let Some(titles) = titles else {
            self.found.index.lacks_resources = true;
            return;
        };
        let (scope, weight) = (self.environment.scope(), weigh(group, 0));
        for (title, view) in titles {
            let reference = eco_format!("{}[{title}]", type_.text());
            let owner = scope.own.as_ref().map(|own| eco_format!("{} ", own.reference)).unwrap_or_default();
            let variable = eco_format!("each of {owner}{reference}");
            let each = EachElement { variable, span: view.span(), label: title.clone(), is_title: true };
            let title = Value::String(title);
            if !self.enter(&scope, each, (title.clone(), title), weight) {
                break;
            }
            self.register(view, group, &reference, type_.span());
        }
        self.environment.within(scope);
    }

    /// Makes an element known to the texts of its resource, whose body has `weight` nodes. Returns false if there are
    /// too many resources.
    fn enter(&mut self, scope: &TextScope<'t>, each: EachElement, parts: (Value, Value), weight: usize) -> bool {
        if self.found.index.len() >= MOST_RESOURCES {
            let message = eco_format!("more than {MOST_RESOURCES} resources in all");
            self.environment.report(Diagnostic::new(message).at(each.span));
            return false;
        }
        // The nodes count twice: once in the compilation, and once in the search for outputs.
        self.environment.grant(2 * weight);
        self.environment.own(each.variable("key"), parts.0);
        self.environment.own(each.variable("value"), parts.1);
        self.environment.within(TextScope { own: scope.own.clone(), each: Some(Rc::new(each)) });
        true
    }

    /// Registers a resource in the index. `type_span` is the position of the name of its type.
    fn register(&mut self, key: View<'t>, body: View<'t>, reference: &str, type_span: Span) {
        let (type_name, title) = match ResourceRef::split(reference) {
            Ok(parts) => parts,
            Err(error) => {
                let problem = Diagnostic::new(eco_format!("{error}")).at(key.span());
                return self.environment.report(problem.hint_if(reference_hint(reference)));
            }
        };
        let type_id = self.found.index.types.id(type_name);
        if self.found.index.types.get(type_id).schema.is_none() && !self.may_lack_types() {
            self.environment.report(self.unknown(type_name, type_span));
        }
        // A title alone is its own body.
        if !body.is_mapping() && !body.is_null() && body.index() != key.index() {
            let message = eco_format!("`{reference}` is not followed by attributes");
            let hint = "write NAME: VALUE below it, or {} for none";
            self.environment.report(Diagnostic::new(message).at(body.span()).hint(hint));
        }
        if let Some((number, first)) = self.found.index.get(type_id, title) {
            let is_same_entry = key.span() == first.key.span();
            self.environment.report(self.twice(key, reference, number, first.key.span()));
            // Its body may have problems as well. A body that declares several resources is compiled with each.
            if self.nested.is_empty() && !is_same_entry {
                let (entry, scope) = (Entry::new(key, body, None), self.environment.scope());
                self.found.repeated.push(Repeated { number, type_id, title: title.into(), entry, scope });
            }
            return;
        }
        // Composite resources and resources of unknown types have no catalog position.
        let type_ = self.found.index.types.get(type_id);
        let (is_known, composite) = (type_.schema.is_some(), type_.composite);
        let wanted = self.is_wanted(body);
        // A body is checked although its `when` is wrong; parts of a composite resource would only repeat its problems.
        let is_wanted = wanted.unwrap_or(composite.is_none());
        let found = &mut self.found;
        found.left_out += usize::from(!is_wanted);
        let at = (is_wanted && is_known && composite.is_none()).then_some(found.kept);
        found.kept += u32::from(at.is_some());
        let title = EcoString::from(title);
        let number = found.index.insert(type_id, title.clone(), Entry::new(key, body, at));
        let scope = self.environment.scope();
        if !scope.is_empty() {
            found.index.set_scope(number, scope);
        }
        if wanted.is_none() {
            found.doubtful.insert(number);
        }
        let Some(composite) = composite else { return };
        if is_wanted {
            let (at, owner, kept) = (small(self.found.composites.len()), self.owner, self.found.kept);
            let reference = ResourceRef::new(composite.schema.name.clone(), Title::from(title.clone()));
            self.found.composites.push(kilter_model::Composite {
                reference,
                owner,
                parts: kept..kept,
                entries_in: Vec::new(),
            });
            self.owner = Some(at);
            self.expand(number, type_id, &title, composite);
            self.owner = owner;
            self.found.composites[at as usize].parts.end = self.found.kept;
        }
        self.found.index.close_group(number);
    }

    /// Creates the problem of a resource whose reference an earlier one has: the one with `number`, written at `first`.
    fn twice(&self, key: View<'t>, reference: &str, number: u32, first: Span) -> Diagnostic {
        if key.span() != first {
            return twice(reference, key.span(), first);
        }
        let (each, other) = (self.environment.scope().each, self.found.index.scope(number).each);
        let (Some(each), Some(other)) = (each, other) else {
            let hint = "each resource of the type has one: put `${self.name}` into the title";
            return twice(reference, key.span(), first).hint(hint);
        };
        twice(reference, each.span, other.span).hint(match each.is_title || key.text().contains("each") {
            true => "two elements give the same title: take one of them out",
            false => "each element declares a resource: put `${each.key}` or `${each.value}` into the title",
        })
    }

    /// Returns true if a text that could not be read completely may define types.
    fn may_lack_types(&self) -> bool {
        *self.may_lack_types.get_or_init(|| {
            let mut broken = self.loaded.trees.iter().filter(|tree| self.loaded.broken.contains(&tree.source));
            broken.any(|tree| tree.mentions("types:"))
        })
    }

    /// Creates the problem of a resource with an unknown type.
    fn unknown(&self, type_name: &str, at: Span) -> Diagnostic {
        match self.environment.terms.kind(type_name, at) {
            Some((at, kind)) => {
                let message = eco_format!("the kind `{kind}` is the type `{type_name}` here, which no provider has");
                let hint = "kilter -I DIR … names a directory with providers, such as `providers` of kilter's sources";
                Diagnostic::new(message).at(at).hint(hint)
            }
            None => {
                let names = self.found.index.types.names();
                let hint = kilter_model::foreign_words::type_hint(type_name, &|name| names.contains(&name));
                let hint = hint.unwrap_or_else(|| choose(type_name, &names, "known types"));
                Diagnostic::new(eco_format!("unknown type `{type_name}`")).at(at).hint(hint)
            }
        }
    }

    /// Registers the members of a composite resource.
    fn expand(&mut self, number: u32, type_id: u32, title: &EcoString, composite: &'t Composite<'t>) {
        let Some(entry) = self.found.index.entry(number) else { return };
        let span = entry.key.span();
        if let Some(first) = self.nested.iter().position(|id| *id == type_id) {
            let way: Vec<&str> =
                self.nested[first..].iter().map(|id| self.found.index.types.get(*id).name.as_str()).collect();
            let name = &composite.schema.name;
            let message = eco_format!("the type `{name}` contains itself: {} -> {name}", way.join(" -> "));
            return self.environment.report(Diagnostic::new(message).at(span));
        }
        if self.nested.len() >= MAX_DEPTH
            || self.found.index.group_count() >= MOST_COMPOSITE
            || self.found.index.len() >= MOST_RESOURCES
        {
            let message = eco_format!(
                "more than {MAX_DEPTH} levels of composite resources, {MOST_COMPOSITE} of them, or {MOST_RESOURCES} \
                 resources in all"
            );
            return self.environment.report(Diagnostic::new(message).at(span));
        }
        // The nodes count twice: once in the compilation of the members, and once in the search for outputs.
        self.environment.grant(2 * composite.weight);
        if let Some(provider) = entry.body().get("provider").filter(|provider| !provider.is_null()) {
            let problem = Diagnostic::new("a resource of a composite type has no provider").at(provider.span());
            self.environment.report(problem.hint("name an output of a resource that it expands to"));
        }
        let meta = entry.body().get("meta");
        let mut body = Body::early(self.environment, &self.found.index, self.defaults);
        let type_ = self.found.index.types.get(type_id);
        let said = body.compile(number, type_, title, entry, &mut Catalog::default());
        let outer = self.environment.scope();
        let mut own = SelfScope {
            reference: said.reference.clone(),
            schema: &composite.schema,
            span,
            meta,
            outer: outer.clone(),
            deferred: FxHashMap::default(),
        };
        for attribute in &composite.schema.attributes {
            let (name, variable) = (attribute.name.as_str(), own.variable(attribute.name.as_str()));
            let is_given = || entry.body().get(name).is_some_and(|given| !given.is_null());
            let is_broken = || said.broken().iter().any(|broken| attribute.name == **broken);
            // A given attribute without a value was reported as invalid, or is null.
            let is_told = || self.environment.problem_count() > 0;
            match said.attributes.get(name) {
                Some(value) if attribute.data_type.check(value).is_err() => self.environment.own_broken(variable),
                Some(value) => self.environment.own(variable, value.clone()),
                None if said.deferred().iter().any(|deferred| deferred.attribute == *name) => {
                    self.environment.own_later(variable);
                }
                None if attribute.required || is_broken() || is_given() && is_told() => {
                    self.environment.own_broken(variable);
                }
                None => self.environment.own(variable, Value::Undef),
            }
        }
        self.environment.own(own.variable(NAME), Value::String(title.clone()));
        for deferred in said.deferred() {
            let Some(expression) = deferred.template.expression() else {
                let problem = Diagnostic::new(
                    "a list, a mapping or a template with outputs cannot be handed to a composite resource",
                );
                self.environment.report(problem.at(deferred.span).hint("hand over the outputs, each as an attribute"));
                continue;
            };
            let is_sealed = deferred.sensitive || deferred.template.is_sealed();
            own.deferred.insert(deferred.attribute.text().clone(), (expression, is_sealed));
        }
        let own = Rc::new(own);
        self.environment.within(TextScope { own: Some(own), each: None });
        self.nested.push(type_id);
        for (key, body) in composite.members.into_iter().flat_map(View::entries) {
            self.entry(key, body);
        }
        self.nested.pop();
        self.environment.within(outer);
    }

    /// Returns the value of `when`; none if it is wrong, which has been reported.
    fn is_wanted(&self, body: View<'t>) -> Option<bool> {
        let Some(when) = body.get("when").filter(|_| !body.tree().is_literal()) else { return Some(true) };
        if !when.is_scalar() || when.is_null() {
            let problem = Diagnostic::new("`when` expects an expression").at(when.span());
            self.environment.report(problem.hint("such as when: facts.os.family == \"debian\""));
            return None;
        }
        self.environment.condition(when)
    }
}

fn reference_hint(text: &str) -> Option<EcoString> {
    let Some((type_name, rest)) = text.split_once('[') else {
        return Some(eco_format!("write `{text}[TITLE]`, or a list of titles below `{text}`: `titles: [a, b]`"));
    };
    let lower = type_name.to_lowercase();
    (lower != type_name).then(|| eco_format!("type names are in lower case: `{lower}[{rest}`"))
}
