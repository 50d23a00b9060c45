//! Composite types, which a manifest defines below `types` in terms of other types.

use ecow::{EcoString, eco_format};
use kilter_model::definition;
use kilter_model::{Span, TypeSchema, Value};
use rustc_hash::FxHashMap;

use crate::definition::{shown, value_of};
use crate::diagnostic::{Diagnostic, choose, twice};
use crate::load::Loaded;
use crate::schemas::Schemas;
use crate::tree::View;

/// Keys of a composite type.
const KEYS: [&str; 3] = ["desc", "attributes", "resources"];

/// Attribute that holds the title of a composite resource.
pub(crate) const NAME: &str = "name";

/// A type whose resources expand to other resources.
pub(crate) struct Composite<'t> {
    pub(crate) schema: TypeSchema,
    /// Resources that a resource of this type expands to.
    pub(crate) members: Option<View<'t>>,
    /// Number of nodes in `members`.
    pub(crate) weight: usize,
    /// Position of its name.
    span: Span,
}

/// Composite types of a manifest, by name.
#[derive(Default)]
pub(crate) struct Composites<'t> {
    by_name: FxHashMap<EcoString, Composite<'t>>,
}

impl<'t> Composites<'t> {
    /// Reads the composite types. Adds errors to `problems`.
    pub(crate) fn read(
        loaded: &'t Loaded,
        schemas: &dyn Schemas,
        problems: &mut Vec<Diagnostic>,
        warnings: &mut Vec<Diagnostic>,
    ) -> Composites<'t> {
        let mut composites = Composites::default();
        for (key, body) in loaded.sections("types").flat_map(View::entries) {
            // The tree has already reported keys that are not texts.
            if !key.is_scalar() || key.is_null() {
                continue;
            }
            if let Some(problem) = composites.refusal(key, body, schemas) {
                problems.push(problem);
                continue;
            }
            let composite = read(key, body, problems, warnings);
            composites.by_name.insert(key.text().into(), composite);
        }
        composites
    }

    /// Returns the reason why the type is invalid, if it is.
    fn refusal(&self, key: View<'t>, body: View<'t>, schemas: &dyn Schemas) -> Option<Diagnostic> {
        let name = key.text();
        if let Some(first) = self.by_name.get(name) {
            return Some(twice(name, key.span(), first.span));
        }
        if schemas.schema(name).is_some() {
            let problem = Diagnostic::new(eco_format!("there is a type `{name}` already")).at(key.span());
            return Some(problem.hint("choose another name: `kilter types` lists the existing types"));
        }
        if !body.is_mapping() {
            let problem = Diagnostic::new(eco_format!("the type `{name}` is a mapping")).at(body.span());
            return Some(problem.hint("write `attributes:` and `resources:` below it"));
        }
        None
    }

    /// Returns the composite type with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Composite<'t>> {
        self.by_name.get(name)
    }

    /// Returns the names of the types.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(EcoString::as_str)
    }

    /// Returns the schemas of the types.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &TypeSchema> {
        self.by_name.values().map(|composite| &composite.schema)
    }
}

fn read<'t>(
    key: View<'t>,
    body: View<'t>,
    problems: &mut Vec<Diagnostic>,
    warnings: &mut Vec<Diagnostic>,
) -> Composite<'t> {
    for (key, _) in body.entries().filter(|(key, _)| !KEYS.contains(&key.text())) {
        let message = eco_format!("a composite type has no `{}`", key.text());
        let hint = choose(key.text(), &KEYS, "its keys");
        problems.push(Diagnostic::new(message).at(key.span()).hint(hint));
    }
    let members = body.get("resources").filter(|members| !members.is_null());
    if let Some(members) = members.filter(|members| !members.is_mapping()) {
        let problem = Diagnostic::new("`resources` is a mapping").at(members.span());
        problems.push(problem.hint("write type[title]: below it, such as \"file[/etc/${self.name}]\":"));
    }
    let attributes = body.get("attributes").filter(|attributes| !attributes.is_null());
    if let Some((own, _)) = attributes.and_then(|all| all.entries().find(|(key, _)| key.text() == NAME)) {
        let problem = Diagnostic::new(eco_format!("`{NAME}` is the title of the resource")).at(own.span());
        problems.push(problem.hint("remove it: `${self.name}` always exists"));
    }
    for (name, attribute) in attributes.into_iter().flat_map(View::entries) {
        check_attribute(name, attribute, problems);
    }
    let definition = Value::hash([
        ("name", Value::from(key.text())),
        ("desc", body.get("desc").map_or_else(|| Value::from("made of others"), |desc| desc.text_value())),
        ("attributes", with_name(attributes, problems)),
    ]);
    let reading = definition::read(&definition);
    let is_of_name =
        |path: &definition::Path| matches!(path.steps().get(1), Some(definition::PathSegment::Key(at)) if at == NAME);
    let told = |path: &definition::Path, place: &definition::FaultPlace, message: &str, hint| match is_of_name(path) {
        true => None,
        false if path.steps().is_empty() => Some(Diagnostic::new(message).at(key.span()).hint_if(hint)),
        false if matches!(path.steps(), [definition::PathSegment::Key(name)] if name == NAME) => {
            Some(Diagnostic::new(message).at(key.span()).hint_if(hint))
        }
        false => Some(shown(body, path, place, message, hint)),
    };
    problems.extend(
        reading.faults.into_iter().filter_map(|fault| told(&fault.path, &fault.place, &fault.message, fault.hint)),
    );
    warnings.extend(reading.warnings.into_iter().filter_map(|odd| told(&odd.path, &odd.place, &odd.message, odd.hint)));
    let mut schema = reading.schema;
    for attribute in schema.attributes.iter_mut().filter(|attribute| attribute.name != *NAME) {
        // The value of `self.NAME` is always present, unless the type allows that it is missing.
        attribute.required = attribute.default.is_none() && attribute.data_type.check(&Value::Undef).is_err();
    }
    let members = members.filter(|members| members.is_mapping());
    Composite { schema, members, weight: members.map_or(0, |members| weigh(members, 0)), span: key.span() }
}

/// Reports unsupported settings of an attribute.
fn check_attribute(name: View<'_>, attribute: View<'_>, problems: &mut Vec<Diagnostic>) {
    if ["when", "for_each", "titles", "meta", "provider"].contains(&name.text()) {
        let message = eco_format!("`{}` cannot be the name of an attribute", name.text());
        problems.push(Diagnostic::new(message).at(name.span()));
    }
    for (key, value) in attribute.entries() {
        match key.text() {
            "type" | "desc" => {}
            "default" => {
                if value.is_scalar() && !kilter_model::expr::is_plain(value.text()) {
                    let problem = Diagnostic::new("a default is a value, and nothing in it is an expression");
                    problems.push(problem.at(value.span()).hint("write `${default(self.NAME, …)}` at its use"));
                }
            }
            other => {
                let problem = Diagnostic::new(eco_format!("an attribute of a composite type has no `{other}`"));
                problems.push(problem.at(key.span()).hint(choose(other, &["type", "desc", "default"], "its keys")));
            }
        }
    }
}

/// Returns the number of nodes, up to a maximum. Aliases can multiply nodes, and the granted budget must not grow
/// with them.
pub(crate) fn weigh(view: View<'_>, depth: u32) -> usize {
    const MOST: usize = 10_000;
    if depth > 16 {
        return 1;
    }
    let mut weight = 1;
    for inner in view.entries().map(|(_, value)| value).chain(view.elements()) {
        weight += 1 + weigh(inner, depth + 1);
        if weight > MOST {
            return MOST;
        }
    }
    weight
}

/// Returns the attributes as written, with the title as an additional attribute.
fn with_name(attributes: Option<View<'_>>, problems: &mut Vec<Diagnostic>) -> Value {
    let written = match attributes.map(value_of) {
        None => Value::hash(Vec::<(EcoString, Value)>::new()),
        Some(Ok(value)) => value,
        Some(Err(problem)) => {
            problems.push(problem);
            Value::hash(Vec::<(EcoString, Value)>::new())
        }
    };
    let Some(entries) = written.as_hash() else { return written };
    let title = Value::hash([
        ("type", Value::from("String")),
        ("desc", Value::from("its title")),
        ("behaviour", Value::from("namevar")),
    ]);
    let others = entries.iter().filter(|(key, _)| *key != NAME).map(|(key, value)| (key.clone(), value.clone()));
    Value::hash([(EcoString::from(NAME), title)].into_iter().chain(others))
}
