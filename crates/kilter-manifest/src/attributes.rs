//! Compiles the attributes of a resource and checks them against the schema of its type.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{Lookup, Name, Scope, Template};
use kilter_model::foreign_words;
use kilter_model::{
    AttributeSchema, Attributes, Behaviour, Catalog, DataType, Deferred, Meta, REDACTED, RelationKind, Resource,
    ResourceRef, Span, Title, TypeSchema, Value,
};

use crate::attribute_defaults::DefaultValue;
use crate::diagnostic::{Diagnostic, KNOWN_BEFORE, choose};
use crate::environment::Environment;
use crate::index::{Entry, Index};
use crate::meta::{self, Defaults};
use crate::metaparameters;
use crate::mismatch::mismatched;
use crate::relations::{self, RELATIONS};
use crate::text_scope::{SelfScope, TextScope};
use crate::tree::View;
use crate::types::Type;
use crate::value::{BuildResult, Values};

/// Compiles the bodies of resources in sequence.
pub(crate) struct Body<'e, 't> {
    environment: &'e Environment<'t>,
    index: &'e Index<'t>,
    defaults: &'e Defaults<'t>,
    /// For each attribute of the type, true if the current resource has it.
    given: Vec<bool>,
    /// Expected schema position of the next key: in most manifests the order of keys is that of the schema.
    guess: usize,
    /// True while not all resources are known. Relations are compiled later.
    is_early: bool,
}

impl<'e, 't> Body<'e, 't> {
    pub(crate) fn new(
        environment: &'e Environment<'t>,
        index: &'e Index<'t>,
        defaults: &'e Defaults<'t>,
    ) -> Body<'e, 't> {
        Body { environment, index, defaults, given: Vec::new(), guess: 0, is_early: false }
    }

    /// Creates a compiler for composite resources, before all resources are known.
    pub(crate) fn early(environment: &'e Environment<'t>, index: &'e Index<'t>, defaults: &'e Defaults<'t>) -> Self {
        Body { is_early: true, ..Body::new(environment, index, defaults) }
    }

    /// Compiles the resource at `number` of the index. Does not evaluate a resource that is left out.
    pub(crate) fn compile(
        &mut self,
        number: u32,
        type_: &Type<'t>,
        title: &EcoString,
        entry: &Entry<'t>,
        catalog: &mut Catalog,
    ) -> Resource {
        let provider = self.provider(type_, entry);
        let own = provider.as_deref().and_then(|provider| self.index.types.of_provider(type_, provider));
        let type_ = own.as_deref().unwrap_or(type_);
        let title = Title::from(title.clone());
        let mut resource = Resource {
            reference: ResourceRef { type_name: type_.name.clone(), title },
            name: EcoString::new(),
            attributes: Attributes::with_capacity(entry.body().count() + type_.defaults.len()),
            particulars: None,
            span: entry.key.span(),
        };
        if let Some(meta) = self.begun(type_) {
            resource.particulars_mut().meta = Some(meta);
        }
        if let Some(provider) = provider {
            resource.particulars_mut().provider = Some(provider);
        }
        self.given.clear();
        self.given.resize(type_.attributes().len(), false);
        self.guess = 0;
        let values = match self.is_early {
            true => Values::early(self.environment, self.index),
            false => Values::of_resource(self.environment, self.index, number, entry.at().is_some()),
        };
        let is_literal = entry.key.tree().is_literal();
        for (key, value) in entry.body().entries() {
            if is_literal && self.is_left_out(type_, key, value) {
                continue;
            }
            self.entry(key, value, number, type_, &values, &mut resource, catalog);
        }
        if !is_literal {
            self.add_defaults(type_, entry, &mut resource);
        }
        match type_.schema.filter(|schema| !schema.title_patterns.is_empty()) {
            Some(schema) => {
                let is_named = self.take_apart(schema, entry, &mut resource);
                self.complete(type_, entry, &mut resource);
                match is_named {
                    true => self.name_by_key(schema, entry, &mut resource),
                    false => resource.name = resource.reference.title.text().clone(),
                }
            }
            None => {
                self.name(type_, entry, &mut resource);
                self.complete(type_, entry, &mut resource);
            }
        }
        // Leaves space for an attribute that the canonical form may add.
        resource.attributes.shrink(1);
        resource
    }

    /// Returns the initial metaparameters of a resource: those of its type, overridden by those of its composite
    /// owners and of their types. The innermost owner has the highest priority.
    fn begun(&self, type_: &Type<'t>) -> Option<Meta> {
        let mut begun = self.defaults.of(type_.name.as_str()).cloned();
        let asker = self.environment.scope();
        let mut owners: Vec<&SelfScope<'t>> = Vec::new();
        let mut next = asker.own.as_deref();
        while let Some(own) = next {
            owners.push(own);
            next = own.outer.own.as_deref();
        }
        for own in owners.into_iter().rev() {
            for meta in self.defaults.of_composite(own.schema.name.as_str()) {
                self.environment.within(TextScope::default());
                begun = meta::compile(self.environment, meta, &Values::new(self.environment), begun);
            }
            if let Some(meta) = own.meta {
                self.environment.within(own.outer.clone());
                begun = meta::compile(self.environment, meta, &Values::new(self.environment), begun);
            }
        }
        self.environment.within(asker);
        begun
    }

    /// Returns true if an exported attribute is only informative: a read-only attribute, or a redacted value.
    fn is_left_out(&self, type_: &Type<'t>, key: View<'t>, value: View<'t>) -> bool {
        let attribute = type_.attributes().iter().find(|attribute| attribute.name == key.text());
        attribute.is_some_and(|attribute| {
            attribute.behaviour == Behaviour::ReadOnly
                || attribute.data_type.may_hold_secrets() && tells_redacted(value, 0)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "one entry in the context of all that it may change")]
    fn entry(
        &mut self,
        key: View<'t>,
        value: View<'t>,
        number: u32,
        type_: &Type<'t>,
        values: &Values<'_, 't>,
        resource: &mut Resource,
        catalog: &mut Catalog,
    ) {
        let name = key.text();
        // The names of relations are reserved words, so this test can precede the search in the long list of
        // attributes.
        if let Some(kind) = RelationKind::of_word(name) {
            if self.is_early {
                return;
            }
            return relations::compile(self.environment, self.index, number, kind, value, &mut catalog.relations);
        }
        if let Some(at) = self.find(type_.attributes(), name) {
            self.guess = at + 1;
            let attribute = &type_.attributes()[at];
            self.given[at] = self.attribute(attribute, key, value, values, resource, catalog);
            return;
        }
        match name {
            // These keys are processed before all others.
            "when" | "provider" => {}
            "for_each" if !key.tree().is_literal() => {}
            "titles" if self.environment.scope().each.is_some_and(|each| each.is_title) => {}
            "meta" => {
                let begun = resource.meta().cloned();
                let meta = meta::compile(self.environment, value, values, begun);
                if meta.as_ref() != resource.meta() {
                    resource.particulars_mut().meta = meta;
                }
            }
            _ if !key.is_scalar() => {}
            _ => match type_.schema.and_then(|schema| schema.known(name)) {
                Some(other) => {
                    self.attribute(&other, key, value, values, resource, catalog);
                }
                None => {
                    self.unknown(type_, key);
                    resource.particulars_mut().broken.push(name.into());
                }
            },
        }
    }

    /// Adds the defaults that the text declares for attributes that the resource does not mention. `null` counts as a
    /// mention, so that it removes a default.
    fn add_defaults(&mut self, type_: &Type<'t>, entry: &Entry<'t>, resource: &mut Resource) {
        for default in self.defaults.attributes.of(entry.key.span().source, type_.name.text()) {
            let name = &default.attribute.name;
            // Another provider of the type may lack the attribute.
            let Some(at) = type_.attributes().iter().position(|attribute| attribute.name == *name) else { continue };
            let attribute = &type_.attributes()[at];
            let is_settable = !matches!(attribute.behaviour, Behaviour::Namevar | Behaviour::ReadOnly);
            if self.given[at] || !is_settable || entry.body().get(name.as_str()).is_some() {
                continue;
            }
            self.given[at] = true;
            // The value of a resource that is left out is not evaluated.
            if !self.is_early && entry.at().is_none() {
                continue;
            }
            match default.value(self.environment, attribute) {
                DefaultValue::Value(Value::Undef) => self.given[at] = false,
                DefaultValue::Value(value) => resource.attributes.push(attribute.name.clone(), value),
                DefaultValue::Skipped => {}
                DefaultValue::Broken => resource.particulars_mut().broken.push(attribute.name.text().clone()),
            }
        }
    }

    /// Returns the provider that the manifest names for the resource.
    fn provider(&self, type_: &Type<'t>, entry: &Entry<'t>) -> Option<EcoString> {
        let value = entry.body().get("provider").filter(|value| !value.is_null())?;
        if type_.attributes().iter().any(|attribute| attribute.name == *"provider") {
            return None;
        }
        if !value.is_scalar() {
            let problem = Diagnostic::new("`provider` expects the name of a provider").at(value.span());
            self.environment.report(problem.hint("`kilter types TYPE` lists the providers of a type"));
            return None;
        }
        self.environment.text(value).map(EcoString::from)
    }

    fn find(&self, attributes: &[AttributeSchema], name: &str) -> Option<usize> {
        match attributes.get(self.guess) {
            Some(attribute) if attribute.name == *name => Some(self.guess),
            _ => attributes.iter().position(|attribute| attribute.name == *name),
        }
    }

    fn unknown(&self, type_: &Type<'t>, key: View<'t>) {
        let name = key.text();
        let mut known: Vec<&str> = type_.attributes().iter().map(|a| a.name.as_str()).collect();
        known.extend(RELATIONS.iter().map(|kind| kind.word()));
        known.extend(["when", "for_each", "meta", "provider"]);
        let message = eco_format!("`{}` has no attribute `{name}`", type_.name);
        let has = |word: &str| known.contains(&word);
        let hint = match name {
            "titles" => eco_format!("several resources stand below the type alone: {}: {{ titles: … }}", type_.name),
            _ if metaparameters::names().contains(&name) => {
                eco_format!("it belongs below `meta`: meta: {{ {name}: … }}")
            }
            _ => foreign_words::attribute_hint(type_.name.as_str(), name, &has)
                .unwrap_or_else(|| choose(name, &known, "its attributes")),
        };
        self.environment.report(Diagnostic::new(message).at(key.span()).hint(hint));
    }

    /// Compiles an attribute. Returns true if it was given.
    fn attribute(
        &self,
        attribute: &AttributeSchema,
        key: View<'t>,
        view: View<'t>,
        values: &Values<'_, 't>,
        resource: &mut Resource,
        catalog: &mut Catalog,
    ) -> bool {
        if attribute.behaviour == Behaviour::ReadOnly {
            let message = eco_format!("`{}` is read_only: it is reported, and cannot be set", attribute.name);
            self.environment.report(Diagnostic::new(message).at(key.span()).hint("take it out"));
            resource.particulars_mut().broken.push(attribute.name.text().clone());
            return true;
        }
        match values.of_attribute(attribute.name.as_str()).build(view, &attribute.data_type) {
            BuildResult::Value(Value::Undef) => false,
            BuildResult::Value(value) if !self.check(&resource.reference, attribute, &value, view) => {
                resource.particulars_mut().broken.push(attribute.name.text().clone());
                true
            }
            BuildResult::Value(value) => {
                resource.attributes.push(attribute.name.clone(), attribute.data_type.sealed(value));
                true
            }
            BuildResult::Deferred(template) => {
                self.keep_names(&template, catalog);
                let sensitive = attribute.data_type.may_hold_secrets();
                let span = view.span();
                let deferred = Deferred { attribute: attribute.name.clone(), template, sensitive, span };
                resource.particulars_mut().deferred.push(deferred);
                true
            }
            BuildResult::Broken => {
                resource.particulars_mut().broken.push(attribute.name.text().clone());
                true
            }
            BuildResult::Skipped => true,
        }
    }

    /// Reports a value that does not match the type of its attribute. Returns true if it matches.
    fn check(&self, of: &ResourceRef, attribute: &AttributeSchema, value: &Value, view: View<'t>) -> bool {
        // Nearly all values are texts, for attributes that accept any text.
        if matches!((&attribute.data_type, value), (DataType::String(None, None), Value::String(_))) {
            return true;
        }
        let Err(mismatch) = attribute.data_type.check(value) else { return true };
        let name = self.environment.terms.field(view.span()).unwrap_or(attribute.name.as_str());
        let mut problem = mismatched(name, &attribute.data_type, value, &mismatch, Some(view));
        if let Some(word) = value.to_text().filter(|_| !value.holds_sensitive()) {
            let (type_name, wanted) = (of.type_name.as_str(), attribute.data_type.open());
            let hint = foreign_words::value_hint(type_name, attribute.name.as_str(), &word, &wanted.allowed());
            problem.hints = hint.map_or(problem.hints, |hint| vec![hint]);
        }
        if problem.hints.is_empty() && matches!(&*attribute.data_type.open(), DataType::Pattern(_)) {
            // A pattern says less than the description with its examples.
            problem.hints.extend(attribute.desc.lines().next().map(EcoString::from));
        }
        self.environment.report(problem.at(view.span()));
        false
    }

    /// Copies the variables and facts of a template to the catalog, for the run.
    fn keep_names(&self, template: &Template, catalog: &mut Catalog) {
        template.names(&mut |name, _| match name {
            Name::Var(name) => {
                if let Lookup::Found(value) = self.environment.var(name) {
                    catalog.vars.insert(name.clone(), value);
                }
            }
            Name::Fact(name) => {
                if let Lookup::Found(value) = self.environment.fact(name) {
                    catalog.facts.insert(name.clone(), value);
                }
            }
            Name::Own(_) | Name::Each(_) | Name::Output(..) => {}
        });
    }

    /// Sets the name of the resource. Keeps the first namevar among the attributes only if it was given and differs
    /// from the title.
    fn name(&self, type_: &Type<'t>, entry: &Entry<'t>, resource: &mut Resource) {
        let title = resource.reference.title.clone();
        let Some(namevar) = type_.namevar.map(|at| &type_.attributes()[at]) else {
            resource.name = title.text().clone();
            return;
        };
        if let Some(deferred) = resource.deferred().iter().find(|deferred| deferred.attribute == namevar.name) {
            self.report_late_name(namevar, deferred.span);
        }
        let given = resource.attributes.get(namevar.name.as_str());
        if given.is_some_and(|value| matches!(value, Value::Sensitive(_))) {
            let message = eco_format!("`{}` names the resource and cannot be sensitive", namevar.name);
            self.environment.report(Diagnostic::new(message).at(entry.key.span()));
        }
        resource.name = name_of(given, &title);
        match given {
            Some(_) if resource.name == *title.text() => {
                resource.attributes.remove(namevar.name.as_str());
            }
            Some(_) => {}
            None if *namevar.data_type.open() == DataType::String(None, None) => {}
            None => {
                let mut value = Value::String(title.text().clone());
                let typed = crate::scalar::typed(&title.to_string()).unwrap_or(Value::Undef);
                let fits = namevar.data_type.check(&value).is_ok() || namevar.data_type.check(&typed).is_ok();
                // A number that is too large is not a text either.
                if !typed.is_undef() && !namevar.data_type.overlaps(&DataType::text()) {
                    value = typed;
                }
                let is_broken = resource.broken().iter().any(|name| namevar.name == **name);
                let asked = !is_broken && resource.deferred().iter().all(|deferred| deferred.attribute != namevar.name);
                if let (false, true, Err(mismatch)) = (fits, asked, namevar.data_type.check(&value)) {
                    let problem = mismatched(namevar.name.as_str(), &namevar.data_type, &value, &mismatch, None);
                    let hint = eco_format!("the title is the `{}` unless that is given", namevar.name);
                    self.environment.report(problem.at(entry.key.span()).hint(hint));
                    resource.particulars_mut().broken.push(namevar.name.text().clone());
                }
            }
        }
    }

    fn report_late_name(&self, namevar: &AttributeSchema, span: Span) {
        let message = eco_format!("`{}` names the resource and must be known before the run", namevar.name);
        self.environment.report(Diagnostic::new(message).at(span).hint(KNOWN_BEFORE));
    }

    /// Derives the namevars that are not given from the title, with the patterns of the type (Puppet Resource API,
    /// "Composite Namevars"). Returns true if a pattern matched the title.
    fn take_apart(&mut self, schema: &TypeSchema, entry: &Entry<'t>, resource: &mut Resource) -> bool {
        let namevars = match schema.parse_title(resource.reference.title.as_str()) {
            Ok(namevars) => namevars,
            Err(error) => {
                let forms = schema.title_patterns.iter().map(|pattern| pattern.desc.as_str());
                let forms: Vec<&str> = forms.filter(|desc| !desc.is_empty()).collect();
                let hint = (!forms.is_empty()).then(|| eco_format!("titles have these forms: {}", forms.join("; ")));
                let problem = Diagnostic::new(eco_format!("{error}")).at(entry.key.span());
                self.environment.report(problem.hint_if(hint));
                let namevars = schema.namevars().map(|namevar| namevar.name.text().clone());
                resource.particulars_mut().broken.extend(namevars);
                return false;
            }
        };
        for (name, value) in namevars {
            let at = schema.attributes.iter().position(|attribute| attribute.name == name);
            let Some(at) = at.filter(|at| !self.given[*at]) else { continue };
            self.given[at] = true;
            resource.attributes.push(name, value);
        }
        true
    }

    fn name_by_key(&self, schema: &TypeSchema, entry: &Entry<'t>, resource: &mut Resource) {
        for namevar in schema.namevars() {
            if let Some(deferred) = resource.deferred().iter().find(|deferred| deferred.attribute == namevar.name) {
                self.report_late_name(namevar, deferred.span);
            }
        }
        match schema.key(&resource.attributes) {
            Some(key) => resource.name = key,
            // The name is missing because of a problem that has been reported.
            None if schema.namevars().any(|namevar| resource.broken().iter().any(|name| namevar.name == **name)) => {
                resource.name = resource.reference.title.text().clone();
            }
            None => {
                let names: Vec<&str> = schema.namevars().map(|namevar| namevar.name.as_str()).collect();
                let message = eco_format!("`{}` is not fully named: it needs {}", resource.reference, names.join(", "));
                let hint = "give them as attributes, not sealed, or in the title";
                self.environment.report(Diagnostic::new(message).at(entry.key.span()).hint(hint));
                resource.name = resource.reference.title.text().clone();
            }
        }
    }

    /// Adds defaults and reports missing attributes.
    fn complete(&self, type_: &Type<'t>, entry: &Entry<'t>, resource: &mut Resource) {
        let attributes = type_.attributes();
        for &at in &type_.defaults {
            if let (false, Some(default)) = (self.given[at], &attributes[at].default) {
                let sealed = attributes[at].data_type.is_sensitive();
                let value = if sealed { Value::sensitive(default.clone()) } else { default.clone() };
                resource.attributes.push(attributes[at].name.clone(), value);
            }
        }
        // A resource that is absent, or whose existence is not managed, needs its parameters but no properties (Puppet
        // Resource API, implementation).
        let is_absent = resource.attributes.text("ensure") == Some("absent");
        let is_open = |(a, given): (&AttributeSchema, &bool)| {
            let is_of_existence = || {
                let words = a.data_type.allowed();
                !words.is_empty() && words.iter().all(|w| ["present", "absent"].contains(w))
            };
            !given && a.name == "ensure" && a.default.is_none() && is_of_existence()
        };
        let is_without_properties =
            type_.composite.is_none() && (is_absent || attributes.iter().zip(&self.given).any(is_open));
        let mut missing = Vec::new();
        for &at in &type_.required {
            let is_needed = !is_without_properties || attributes[at].behaviour == Behaviour::Parameter;
            if !self.given[at] && attributes[at].default.is_none() && is_needed {
                missing.push(&attributes[at]);
                resource.particulars_mut().broken.push(attributes[at].name.text().clone());
            }
        }
        if !missing.is_empty() {
            self.report_missing(type_, &missing, entry.key.span(), &resource.reference);
        }
    }

    /// Reports all mandatory attributes that are missing at once, in the words of the Puppet Resource API.
    fn report_missing(&self, type_: &Type<'t>, missing: &[&AttributeSchema], span: Span, reference: &ResourceRef) {
        let names: Vec<EcoString> = missing.iter().map(|attribute| eco_format!("`{}`", attribute.name)).collect();
        let names = names.join(", ");
        let problem =
            Diagnostic::new(eco_format!("`{reference}`: mandatory attributes were not provided: {names}")).at(span);
        let schema: Option<&TypeSchema> = type_.schema;
        let hint = |attribute: &&AttributeSchema| {
            let desc = schema.and_then(|schema| schema.find(attribute.name.as_str())).map(|a| a.desc.as_str());
            let first = desc.and_then(|desc| desc.lines().next()).filter(|line| !line.is_empty());
            first.map(|line| eco_format!("`{}`: {line}", attribute.name))
        };
        self.environment.report(missing.iter().filter_map(hint).fold(problem, Diagnostic::hint));
    }
}

/// Returns true if a part of a value has been redacted.
fn tells_redacted(value: View<'_>, depth: u32) -> bool {
    if value.is_scalar() {
        return value.text() == REDACTED;
    }
    let mut parts = value.elements().chain(value.entries().map(|(_, value)| value));
    depth < 64 && parts.any(|part| tells_redacted(part, depth + 1))
}

/// Returns the name of a resource on the system: the given namevar, or the title.
fn name_of(given: Option<&Value>, title: &Title) -> EcoString {
    // A number is a valid name, like a text.
    given.filter(|value| !value.holds_sensitive()).and_then(Value::to_text).unwrap_or_else(|| title.text().clone())
}
