//! Compiles all resources: first registers their references, then compiles their bodies.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use indexmap::{Equivalent, IndexMap};
use kilter_model::{Catalog, Resource, ResourceRef, Span, Title, TypeSchema, Value};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::attributes::Body;
use crate::composite::{Composite, Composites, NAME};
use crate::diagnostic::{Diagnostic, choose};
use crate::environment::Environment;
use crate::export;
use crate::load::Loaded;
use crate::meta::Defaults;
use crate::own::SelfScope;
use crate::parts;
use crate::source::small;
use crate::tree::{Tree, View, twice};
use crate::types::Types;

/// Maximum number of comparisons for "did you mean" hints, in total.
const MOST_COMPARISONS: usize = 40_000;

/// Maximum number of composite resources, with nested ones.
const MOST_COMPOSITE: usize = 100_000;

/// Maximum number of resources after expansion, if there are composite resources.
const MOST_RESOURCES: usize = 1_000_000;

/// Maximum nesting of composite resources.
const MAX_DEPTH: usize = 16;

/// Type and title of a resource.
#[derive(PartialEq, Eq)]
struct Key {
    type_id: u32,
    title: EcoString,
}

/// A borrowed [`Key`] for lookups.
struct BorrowedKey<'a>(u32, &'a str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BorrowedKey(self.type_id, &self.title).hash(state);
    }
}

impl Hash for BorrowedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0);
        state.write(self.1.as_bytes());
    }
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.type_id && self.1 == key.title
    }
}

/// A resource in a manifest.
///
/// Entries stay in memory during the whole compilation, when memory use is highest, so they are small.
pub(crate) struct Entry<'t> {
    pub(crate) key: View<'t>,
    /// Index of its body in the tree of the key.
    body: u32,
    /// Position in the catalog, or [`LEFT_OUT`].
    at: u32,
}

/// Marks a resource without a position in the catalog.
const LEFT_OUT: u32 = u32::MAX;

impl<'t> Entry<'t> {
    /// Creates an entry with its position in the catalog; none if its `when` is false or invalid. The body must
    /// belong to the tree of the key.
    fn new(key: View<'t>, body: View<'t>, at: Option<u32>) -> Entry<'t> {
        Entry { key, body: body.index(), at: at.unwrap_or(LEFT_OUT) }
    }

    pub(crate) fn body(&self) -> View<'t> {
        self.key.of_same_tree(self.body)
    }

    /// Returns the position in the catalog.
    pub(crate) fn at(&self) -> Option<u32> {
        (self.at != LEFT_OUT).then_some(self.at)
    }
}

/// All resources of the manifest, also those that are left out.
pub(crate) struct Index<'t> {
    pub(crate) types: Types<'t>,
    entries: IndexMap<Key, Entry<'t>, FxBuildHasher>,
    /// Member numbers of each composite resource.
    groups: FxHashMap<u32, Range<u32>>,
    /// Composite owner of each member.
    owners: FxHashMap<u32, Rc<SelfScope<'t>>>,
    /// Remaining number of comparisons for "did you mean" hints.
    comparisons: Cell<usize>,
}

impl<'t> Index<'t> {
    /// Returns the number of a resource, and the schema of its type if the type is known.
    pub(crate) fn find(&self, type_name: &str, title: &str) -> Option<(u32, Option<&'t TypeSchema>)> {
        let type_id = self.types.known(type_name)?;
        let (at, _, entry) = self.entries.get_full(&BorrowedKey(type_id, title))?;
        let type_ = self.types.get(type_id);
        let provider = entry.body().get("provider").filter(|provider| !provider.is_null());
        let named = provider.and_then(|provider| self.types.of_provider(type_, provider.text()));
        Some((small(at), named.map_or(type_.schema, |named| named.schema)))
    }

    /// Returns the number of a resource. Tries the preceding resource first, because most relations refer to it.
    pub(crate) fn find_from(&self, number: u32, type_name: &str, title: &str) -> Option<u32> {
        let before = number.wrapping_sub(1);
        let type_id = self.types.known(type_name)?;
        match self.entries.get_index(before as usize) {
            Some((key, _)) if BorrowedKey(type_id, title).equivalent(key) => Some(before),
            _ => self.entries.get_index_of(&BorrowedKey(type_id, title)).map(small),
        }
    }

    /// Returns the member numbers of a composite resource.
    pub(crate) fn group(&self, at: u32) -> Option<&Range<u32>> {
        self.groups.get(&at)
    }

    /// Returns the catalog positions of a resource, or of all its members.
    pub(crate) fn positions(&self, at: u32) -> impl Iterator<Item = u32> {
        let numbers = self.group(at).cloned().unwrap_or(at..at + 1);
        numbers.filter_map(|number| self.position(number))
    }

    /// Returns the catalog position of a resource.
    pub(crate) fn position(&self, at: u32) -> Option<u32> {
        self.entries.get_index(at as usize).and_then(|(_, entry)| entry.at())
    }

    pub(crate) fn is_left_out(&self, reference: &ResourceRef) -> bool {
        self.find(reference.type_name.as_str(), reference.title.as_str())
            .is_some_and(|(at, _)| self.position(at).is_none())
    }

    /// Creates the problem of a reference to a missing resource.
    pub(crate) fn dangling(&self, reference: &str) -> Diagnostic {
        let problem = Diagnostic::new(eco_format!("there is no resource `{reference}`"));
        let type_name = reference.split('[').next().unwrap_or_default();
        if !self.types.exists(type_name)
            && self.types.known(type_name).is_none_or(|id| self.types.get(id).schema.is_some())
        {
            return Diagnostic::new(eco_format!("unknown type `{type_name}`")).hint(choose(
                type_name,
                &self.types.names(),
                "known types",
            ));
        }
        match self.nearest(type_name, reference) {
            None => problem.hint("relations and outputs name resources of the manifest"),
            Some(near) => problem.hint(eco_format!("did you mean `{near}`?")),
        }
    }

    /// Returns the most similar reference of the same type. The number of comparisons is limited, because comparing
    /// all pairs would take too long.
    fn nearest(&self, type_name: &str, reference: &str) -> Option<String> {
        let same_type = self.types.known(type_name);
        let titles = self.entries.keys().filter(|key| Some(key.type_id) == same_type);
        let left = self.comparisons.get();
        let known: Vec<String> = titles.take(left).map(|key| format!("{type_name}[{}]", key.title)).collect();
        self.comparisons.set(left - known.len());
        kilter_model::suggest::nearest(reference, known.iter().map(String::as_str)).map(str::to_owned)
    }
}

pub(crate) struct Resources<'e, 't> {
    pub(crate) environment: &'e Environment<'t>,
    pub(crate) index: Index<'t>,
    loaded: &'t Loaded,
    defaults: Defaults<'t>,
    /// Types of the composite resources whose members are being registered.
    nested: Vec<u32>,
    /// Composite resources for the catalog.
    composites: Vec<kilter_model::Composite>,
    /// Composite resource whose members are being registered.
    owner: Option<u32>,
    /// Number of resources whose `when` is false.
    left_out: usize,
    /// Numbers of the resources whose `when` is wrong: they may not be part of the run.
    doubtful: FxHashSet<u32>,
    /// Resources that are written a second time, with the number of the first.
    repeated: Vec<(u32, u32, EcoString, Entry<'t>)>,
    /// True if a text that could not be read completely may define types; searched on first use.
    may_lack_types: OnceCell<bool>,
}

impl<'e, 't> Resources<'e, 't> {
    pub(crate) fn new(
        environment: &'e Environment<'t>,
        loaded: &'t Loaded,
        composites: &'t Composites<'t>,
    ) -> Resources<'e, 't> {
        let count = loaded.sections("resources").map(View::count).sum();
        let index = Index {
            types: Types::new(environment.inputs.schemas, composites),
            entries: IndexMap::with_capacity_and_hasher(count, FxBuildHasher),
            groups: FxHashMap::default(),
            owners: FxHashMap::default(),
            comparisons: Cell::new(MOST_COMPARISONS),
        };
        let defaults = Defaults::compile(environment, loaded, composites);
        Resources {
            environment,
            index,
            loaded,
            defaults,
            nested: Vec::new(),
            composites: Vec::new(),
            owner: None,
            left_out: 0,
            doubtful: FxHashSet::default(),
            repeated: Vec::new(),
            may_lack_types: OnceCell::new(),
        }
    }

    /// Compiles the catalog. It is complete only if there were no problems.
    pub(crate) fn compile(mut self) -> Catalog {
        let mut kept = 0;
        let loaded = self.loaded;
        for (key, body) in loaded.trees.iter().flat_map(Tree::resources) {
            self.register(key, body, &mut kept);
        }
        let composites = std::mem::take(&mut self.composites);
        let mut catalog = Catalog {
            resources: Vec::with_capacity(kept as usize),
            composites,
            left_out: self.left_out,
            ..Catalog::default()
        };
        let mut explicit = Vec::new();
        let mut body = Body::new(self.environment, &self.index, &self.defaults);
        for (at, (key, entry)) in self.index.entries.iter().enumerate() {
            let type_ = self.index.types.get(key.type_id);
            if type_.schema.is_none() {
                continue;
            }
            if !self.index.owners.is_empty() {
                self.environment.within(self.index.owners.get(&small(at)).cloned());
            }
            // A resource that may not be part of the run must not run the commands of its secrets.
            let is_certain = !self.doubtful.contains(&small(at));
            let fetches = self.environment.allow_fetches(self.environment.fetches() && is_certain);
            let resource = body.compile(small(at), type_, &key.title, entry, &mut catalog);
            self.environment.allow_fetches(fetches);
            if resource.name != key.title && !resource.is_hidden() {
                explicit.push((key.type_id, resource.name.clone(), small(at)));
            }
            if entry.at().is_some() {
                catalog.resources.push(Arc::new(resource));
            }
        }
        self.environment.within(None);
        // Providers check these resources too. Their relations are ignored, and their secrets are not fetched.
        let mut repeated = Vec::new();
        let fetches = self.environment.allow_fetches(false);
        for (number, type_id, title, entry) in &self.repeated {
            let type_ = self.index.types.get(*type_id);
            if type_.schema.is_some() {
                let resource = body.compile(*number, type_, title, entry, &mut Catalog::default());
                // A composite resource has no provider.
                repeated.extend(type_.composite.is_none().then(|| Arc::new(resource)));
            }
        }
        self.environment.allow_fetches(fetches);
        if !self.doubtful.is_empty() {
            let doubtful: FxHashSet<u32> =
                self.doubtful.iter().filter_map(|number| self.index.position(*number)).collect();
            catalog.relations.retain(|one| !doubtful.contains(&one.first) && !doubtful.contains(&one.second));
        }
        self.check_names(&explicit, &catalog);
        let is_declared = |type_name: &str, title: &str| self.index.find(type_name, title).is_some();
        // An exported part is exported by itself, and not again with its owner.
        let is_exported = |resource: &Resource| resource.meta().is_some_and(|meta| !meta.export.is_empty());
        parts::fold(&mut catalog, &|resource| !is_exported(resource), &is_declared, self.environment);
        export::add(&mut catalog, &is_declared, self.environment);
        parts::fold(&mut catalog, &is_exported, &is_declared, self.environment);
        catalog.resources.extend(repeated);
        catalog
    }

    /// Registers a resource in the index.
    fn register(&mut self, key: View<'t>, body: View<'t>, kept: &mut u32) {
        let Some(reference) = self.reference(key) else { return };
        let (type_name, title) = match ResourceRef::split(&reference) {
            Ok(parts) => parts,
            Err(error) => {
                let problem = Diagnostic::new(eco_format!("{error}")).at(key.span());
                return self.environment.report(problem.hint_if(reference_hint(&reference)));
            }
        };
        let type_id = self.index.types.id(type_name);
        if self.index.types.get(type_id).schema.is_none() && !self.may_lack_types() {
            self.environment.report(self.unknown(type_name, key.span()));
        }
        if !body.is_mapping() && !body.is_null() {
            let message = eco_format!("`{reference}` is not followed by attributes");
            let hint = "write NAME: VALUE below it, or {} for none";
            self.environment.report(Diagnostic::new(message).at(body.span()).hint(hint));
        }
        if let Some(first) = self.index.entries.get(&BorrowedKey(type_id, title)) {
            let problem = twice(&reference, key.span(), first.key.span());
            let hint = (key.span() == first.key.span())
                .then_some("each resource of the type has one: put `${self.name}` into the title");
            self.environment.report(problem.hint_if(hint));
            // Its body may have problems as well. That of a part is compiled with each composite resource.
            if self.nested.is_empty() {
                let number =
                    self.index.entries.get_index_of(&BorrowedKey(type_id, title)).map(small).unwrap_or_default();
                self.repeated.push((number, type_id, title.into(), Entry::new(key, body, None)));
            }
            return;
        }
        // Composite resources and resources of unknown types have no catalog position.
        let type_ = self.index.types.get(type_id);
        let (is_known, composite) = (type_.schema.is_some(), type_.composite);
        let wanted = self.is_wanted(body);
        // A body is checked although its `when` is wrong; parts of a composite resource would only repeat its problems.
        let is_wanted = wanted.unwrap_or(composite.is_none());
        self.left_out += usize::from(!is_wanted);
        let at = (is_wanted && is_known && composite.is_none()).then_some(*kept);
        *kept += u32::from(at.is_some());
        let title = EcoString::from(title);
        let number = small(self.index.entries.len());
        if wanted.is_none() {
            self.doubtful.insert(number);
        }
        self.index.entries.insert(Key { type_id, title: title.clone() }, Entry::new(key, body, at));
        let Some(composite) = composite else { return };
        if is_wanted {
            let (at, owner) = (small(self.composites.len()), self.owner);
            let reference = ResourceRef::new(composite.schema.name.clone(), Title::from(title.clone()));
            self.composites.push(kilter_model::Composite {
                reference,
                owner,
                parts: *kept..*kept,
                entries_in: Vec::new(),
            });
            self.owner = Some(at);
            self.expand(number, type_id, &title, composite, kept);
            self.owner = owner;
            self.composites[at as usize].parts.end = *kept;
        }
        self.index.groups.insert(number, number + 1..small(self.index.entries.len()));
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
                let names = self.index.types.names();
                let hint = kilter_model::foreign_words::type_hint(type_name, &|name| names.contains(&name));
                let hint = hint.unwrap_or_else(|| choose(type_name, &names, "known types"));
                Diagnostic::new(eco_format!("unknown type `{type_name}`")).at(at).hint(hint)
            }
        }
    }

    /// Registers the members of a composite resource.
    fn expand(&mut self, number: u32, type_id: u32, title: &EcoString, composite: &'t Composite<'t>, kept: &mut u32) {
        let Some((_, entry)) = self.index.entries.get_index(number as usize) else { return };
        let span = entry.key.span();
        if let Some(first) = self.nested.iter().position(|id| *id == type_id) {
            let way: Vec<&str> =
                self.nested[first..].iter().map(|id| self.index.types.get(*id).name.as_str()).collect();
            let name = &composite.schema.name;
            let message = eco_format!("the type `{name}` contains itself: {} -> {name}", way.join(" -> "));
            return self.environment.report(Diagnostic::new(message).at(span));
        }
        if self.nested.len() >= MAX_DEPTH
            || self.index.groups.len() >= MOST_COMPOSITE
            || self.index.entries.len() >= MOST_RESOURCES
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
        let mut body = Body::early(self.environment, &self.index, &self.defaults);
        let type_ = self.index.types.get(type_id);
        let said = body.compile(number, type_, title, entry, &mut Catalog::default());
        let owner = self.environment.asker();
        let mut own = SelfScope {
            reference: said.reference.clone(),
            schema: &composite.schema,
            span,
            meta,
            owner: owner.clone(),
            deferred: FxHashMap::default(),
        };
        for attribute in &composite.schema.attributes {
            let (name, variable) = (attribute.name.as_str(), own.variable(attribute.name.as_str()));
            let is_given = || entry.body().get(name).is_some_and(|given| !given.is_null());
            // A given attribute without a value was reported as invalid, or is null.
            let is_told = || self.environment.problem_count() > 0;
            match said.attributes.get(name) {
                Some(value) if attribute.data_type.check(value).is_err() => self.environment.own_broken(variable),
                Some(value) => self.environment.own(variable, value.clone()),
                None if said.deferred().iter().any(|deferred| deferred.attribute == *name) => {
                    self.environment.own_later(variable);
                }
                None if attribute.required || is_given() && is_told() => self.environment.own_broken(variable),
                None => self.environment.own(variable, Value::Undef),
            }
        }
        self.environment.own(own.variable(NAME), Value::String(title.clone()));
        for deferred in said.deferred() {
            let Some(expression) = deferred.template.expression() else {
                let problem =
                    Diagnostic::new("a list or a mapping with outputs cannot be handed to a composite resource");
                self.environment.report(problem.at(deferred.span).hint("hand over the outputs, each as an attribute"));
                continue;
            };
            let is_sealed = deferred.sensitive || deferred.template.is_sealed();
            own.deferred.insert(deferred.attribute.text().clone(), (expression, is_sealed));
        }
        let own = Rc::new(own);
        self.environment.within(Some(own.clone()));
        self.nested.push(type_id);
        for (key, body) in composite.members.into_iter().flat_map(View::entries) {
            let before = small(self.index.entries.len());
            self.register(key, body, kept);
            if small(self.index.entries.len()) > before {
                self.index.owners.insert(before, own.clone());
            }
        }
        self.nested.pop();
        self.environment.within(owner);
    }

    fn reference(&self, key: View<'t>) -> Option<Cow<'t, str>> {
        // The tree has already reported keys that are not texts.
        if !key.is_scalar() || key.is_null() {
            return None;
        }
        if key.tree().is_literal() { Some(key.text().into()) } else { self.environment.text(key) }
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

    /// Reports explicit names that are already used by another resource of the same type. Hidden resources do not
    /// count.
    fn check_names(&self, explicit: &[(u32, EcoString, u32)], catalog: &Catalog) {
        if explicit.is_empty() {
            return;
        }
        let renamed: FxHashSet<u32> = explicit.iter().map(|(_, _, at)| *at).collect();
        let is_held = |at: u32| catalog.resources.get(at as usize).is_some_and(|resource| !resource.is_hidden());
        let mut owners: FxHashMap<(u32, &str), u32> = FxHashMap::default();
        for (at, (key, _)) in self.index.entries.iter().enumerate() {
            let is_certain = !self.doubtful.contains(&small(at));
            if is_certain && !renamed.contains(&small(at)) && self.index.position(small(at)).is_some_and(is_held) {
                owners.insert((key.type_id, &key.title), small(at));
            }
        }
        for (type_id, name, at) in explicit {
            if self.index.position(*at).is_none() || self.doubtful.contains(at) {
                continue;
            }
            if let Some(other) = owners.insert((*type_id, name), *at) {
                self.report_name(*type_id, name, other, *at);
            }
        }
    }

    fn report_name(&self, type_id: u32, name: &str, one: u32, other: u32) {
        let place = |at: u32| self.index.entries.get_index(at as usize).map(|(_, entry)| entry.key.span());
        let (Some(one), Some(other)) = (place(one), place(other)) else { return };
        let order = |span: Span| (span.source.0, span.start);
        let (first, second) = if order(one) < order(other) { (one, other) } else { (other, one) };
        let type_name = &self.index.types.get(type_id).name;
        let message = eco_format!("two resources manage the {type_name} `{name}`");
        self.environment.report(Diagnostic::new(message).at(second).also(first, "first managed here"));
    }
}

fn reference_hint(text: &str) -> Option<EcoString> {
    let Some((type_name, rest)) = text.split_once('[') else {
        return Some(eco_format!(
            "write `{text}[TITLE]`; the key `{text}` alone needs titles below it, each with its attributes"
        ));
    };
    let lower = type_name.to_lowercase();
    (lower != type_name).then(|| eco_format!("type names are in lower case: `{lower}[{rest}`"))
}

/// Returns the name of a resource on the system: the given namevar, or the title.
pub(crate) fn name_of(given: Option<&Value>, title: &Title) -> EcoString {
    // A number is a valid name, like a text.
    given.filter(|value| !value.holds_sensitive()).and_then(Value::to_text).unwrap_or_else(|| title.text().clone())
}
