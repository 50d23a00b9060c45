//! Defaults of attributes: the values of `defaults: { file: { mode: … } }`. They apply to the resources of one text.

use std::cell::{Cell, OnceCell};

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeSchema, Behaviour, RelationKind, SourceId, TypeSchema, Value};
use rustc_hash::FxHashMap;

use crate::diagnostic::{Diagnostic, choose};
use crate::environment::Environment;
use crate::mismatch::mismatched;
use crate::text_scope::TextScope;
use crate::tree::View;
use crate::value::{BuildResult, Values};

/// The default of an attribute.
pub(crate) struct AttributeDefault<'t> {
    view: View<'t>,
    /// The attribute in the first provider that has it.
    pub(crate) attribute: &'t AttributeSchema,
    /// The value; none if it is invalid, which has been reported.
    value: OnceCell<Option<Value>>,
}

/// Value of a default for a resource.
pub(crate) enum DefaultValue {
    Value(Value),
    /// Not evaluated, because the manifest is incomplete or the resource may not be part of the run.
    Skipped,
    /// Invalid. The problem has been reported.
    Broken,
}

/// The defaults of a type in a text.
struct TypeDefaults<'t> {
    /// Name of the type, at its first place.
    key: View<'t>,
    defaults: Vec<AttributeDefault<'t>>,
    /// True if the text declares a resource of the type.
    has_resources: Cell<bool>,
}

/// The defaults of all attributes, by text and type.
#[derive(Default)]
pub(crate) struct AttributeDefaults<'t> {
    by_type: FxHashMap<(SourceId, EcoString), TypeDefaults<'t>>,
}

impl<'t> AttributeDefaults<'t> {
    /// Adds the default of an attribute. `variants` are the schemas of the type for each of its providers.
    pub(crate) fn add(
        &mut self,
        environment: &Environment<'t>,
        type_: View<'t>,
        variants: &[&'t TypeSchema],
        (key, view): (View<'t>, View<'t>),
    ) {
        let name = key.text();
        let attribute = match attribute(variants, key) {
            Ok(attribute) => attribute,
            Err(problem) => return environment.report(problem.at(key.span())),
        };
        let of_type = self.by_type.entry((type_.span().source, type_.text().into()));
        let TypeDefaults { defaults, .. } = of_type.or_insert_with(|| TypeDefaults {
            key: type_,
            defaults: Vec::new(),
            has_resources: Cell::new(false),
        });
        // A later document of the text overrides an earlier one.
        defaults.retain(|earlier| earlier.attribute.name != *name);
        if !view.is_null() {
            defaults.push(AttributeDefault { view, attribute, value: OnceCell::new() });
        }
    }

    /// Returns the defaults for a resource of a type in a text.
    pub(crate) fn of(&self, source: SourceId, type_name: &EcoString) -> &[AttributeDefault<'t>] {
        // Most manifests have none.
        if self.by_type.is_empty() {
            return &[];
        }
        let Some(of_type) = self.by_type.get(&(source, type_name.clone())) else { return &[] };
        of_type.has_resources.set(true);
        &of_type.defaults
    }

    /// Checks the defaults that no resource has used, without fetching secrets. Warns about those whose text has no
    /// resource of the type.
    pub(crate) fn check_rest(&self, environment: &Environment<'t>) {
        let fetches = environment.allow_fetches(false);
        for (_, type_name) in self.by_type.keys() {
            debug_assert!(!type_name.is_empty());
        }
        for ((_, type_name), of_type) in &self.by_type {
            for default in of_type.defaults.iter().filter(|default| default.value.get().is_none()) {
                default.value(environment, default.attribute);
            }
            let defines_types = || of_type.key.tree().roots().any(|root| root.get("types").is_some());
            if !of_type.has_resources.get() && !of_type.defaults.is_empty() && !defines_types() {
                let message =
                    eco_format!("defaults of `{type_name}` without effect: this file declares no {type_name}");
                let hint = "defaults of attributes apply to the resources of their own file";
                environment.warn(Diagnostic::new(message).at(of_type.key.span()).hint(hint));
            }
        }
        environment.allow_fetches(fetches);
    }
}

impl<'t> AttributeDefault<'t> {
    /// Returns the value as written.
    pub(crate) fn view(&self) -> View<'t> {
        self.view
    }

    /// Evaluates the default for an attribute, which may differ between providers.
    pub(crate) fn value(&self, environment: &Environment<'t>, attribute: &AttributeSchema) -> DefaultValue {
        if let Some(value) = self.value.get().filter(|_| std::ptr::eq(self.attribute, attribute)) {
            return value.clone().map_or(DefaultValue::Broken, DefaultValue::Value);
        }
        // A default belongs to no resource.
        let scope = environment.within(TextScope::default());
        let built = Values::new(environment).build(self.view, &attribute.data_type);
        let value = match built {
            BuildResult::Skipped => None,
            BuildResult::Value(Value::Undef) => Some(Some(Value::Undef)),
            BuildResult::Value(value) => Some(self.check(environment, attribute, value)),
            BuildResult::Deferred(_) | BuildResult::Broken => Some(None),
        };
        environment.within(scope);
        let Some(value) = value else { return DefaultValue::Skipped };
        if std::ptr::eq(self.attribute, attribute) {
            // It is empty: a known value was returned above.
            self.value.get_or_init(|| value.clone());
        }
        value.map_or(DefaultValue::Broken, DefaultValue::Value)
    }

    /// Returns the value if it matches the type of the attribute; otherwise reports the problem.
    fn check(&self, environment: &Environment<'t>, attribute: &AttributeSchema, value: Value) -> Option<Value> {
        match attribute.data_type.check(&value) {
            Ok(()) => Some(attribute.data_type.sealed(value)),
            Err(mismatch) => {
                let name = attribute.name.as_str();
                let problem = mismatched(name, &attribute.data_type, &value, &mismatch, Some(self.view));
                environment.report(problem.at(self.view.span()));
                None
            }
        }
    }
}

/// Returns the attribute that a default names.
///
/// # Errors
/// If the type has none, or the attribute cannot have a default.
fn attribute<'t>(variants: &[&'t TypeSchema], key: View<'t>) -> Result<&'t AttributeSchema, Diagnostic> {
    let name = key.text();
    let type_name = variants.first().map_or("", |schema| schema.name.as_str());
    let none = || Diagnostic::new(eco_format!("there are no defaults for `{name}`"));
    match variants.iter().find_map(|schema| schema.find(name)) {
        Some(attribute) => match attribute.behaviour {
            Behaviour::Namevar => Err(none().hint(eco_format!("`{name}` names a single resource"))),
            Behaviour::ReadOnly => {
                Err(none().hint(eco_format!("`{name}` is read_only: it is reported, and cannot be set")))
            }
            _ => Ok(attribute),
        },
        None if RESERVED.contains(&name) => {
            let hint = match RelationKind::of_word(name).map(opposite) {
                Some(opposite) => eco_format!(
                    "write the relation at the resources, or `{}: {type_name}[*]` at the other resource",
                    opposite.word()
                ),
                None => eco_format!("only for `meta` and the attributes of `{type_name}`"),
            };
            Err(none().hint(hint))
        }
        None => {
            let can_have = |a: &&AttributeSchema| !matches!(a.behaviour, Behaviour::Namevar | Behaviour::ReadOnly);
            let attributes = variants.iter().flat_map(|schema| &schema.attributes).filter(can_have);
            let mut known: Vec<&str> = attributes.map(|attribute| attribute.name.as_str()).chain(["meta"]).collect();
            let mut seen = rustc_hash::FxHashSet::default();
            known.retain(|name| seen.insert(*name));
            let has = |word: &str| known.contains(&word);
            let hint = match crate::metaparameters::names().contains(&name) {
                true => eco_format!("it belongs below `meta`: meta: {{ {name}: … }}"),
                false => kilter_model::foreign_words::attribute_hint(type_name, name, &has)
                    .unwrap_or_else(|| choose(name, &known, "its attributes")),
            };
            Err(Diagnostic::new(eco_format!("`{type_name}` has no attribute `{name}`")).hint(hint))
        }
    }
}

/// Returns the same relation, written at the other resource.
fn opposite(kind: RelationKind) -> RelationKind {
    match kind {
        RelationKind::Require => RelationKind::Before,
        RelationKind::Before => RelationKind::Require,
        RelationKind::Notify => RelationKind::Subscribe,
        RelationKind::Subscribe => RelationKind::Notify,
    }
}

/// Keys of a resource that have no defaults.
const RESERVED: [&str; 8] = ["provider", "when", "for_each", "titles", "require", "before", "notify", "subscribe"];
