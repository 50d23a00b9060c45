//! Composite types: those that a manifest makes of others, below `types`.

use ecow::{EcoString, eco_format};
use kilter_model::definition;
use kilter_model::{Span, TypeSchema, Value};
use rustc_hash::FxHashMap;

use crate::compile::Schemas;
use crate::definition::{shown, value_of};
use crate::diagnostic::{Diagnostic, choose};
use crate::load::Loaded;
use crate::tree::{View, twice};

/// The keys that a composite type may have.
const KEYS: [&str; 3] = ["desc", "attributes", "resources"];

/// The attribute that is the title of a resource of a composite type.
pub(crate) const NAME: &str = "name";

/// A type whose resources stand for others.
pub(crate) struct Composite<'t> {
    pub(crate) schema: TypeSchema,
    /// What a resource of it stands for.
    pub(crate) members: Option<View<'t>>,
    /// How many nodes that is.
    pub(crate) weight: usize,
    /// Where its name is written.
    span: Span,
}

/// The composite types of a manifest by their names.
#[derive(Default)]
pub(crate) struct Composites<'t> {
    by_name: FxHashMap<EcoString, Composite<'t>>,
}

impl<'t> Composites<'t> {
    /// Reads them; what is wrong with them is added to the problems.
    pub(crate) fn read(
        loaded: &'t Loaded,
        schemas: &dyn Schemas,
        problems: &mut Vec<Diagnostic>,
        warnings: &mut Vec<Diagnostic>,
    ) -> Composites<'t> {
        let mut composites = Composites::default();
        for (key, body) in loaded.sections("types").flat_map(View::entries) {
            // Keys that are no texts have been reported by the tree.
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

    /// Why there cannot be such a type.
    fn refusal(&self, key: View<'t>, body: View<'t>, schemas: &dyn Schemas) -> Option<Diagnostic> {
        let name = key.text();
        if let Some(first) = self.by_name.get(name) {
            return Some(twice(name, key.span(), first.span));
        }
        if schemas.schema(name).is_some() {
            let problem = Diagnostic::new(eco_format!("there is a type `{name}` already")).at(key.span());
            return Some(problem.hint("give it a name of its own: `kilter types` lists those there are"));
        }
        if !body.is_mapping() {
            let problem = Diagnostic::new(eco_format!("the type `{name}` is a mapping")).at(body.span());
            return Some(problem.hint("write `attributes:` and `resources:` below it"));
        }
        None
    }

    /// The composite type of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Composite<'t>> {
        self.by_name.get(name)
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(EcoString::as_str)
    }

    /// Their schemas.
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
        problems.push(problem.hint("take it out: `${self.name}` is there anyway"));
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
        |path: &definition::Path| matches!(path.steps().get(1), Some(definition::Step::Key(at)) if at == NAME);
    let told = |path: &definition::Path, place: &definition::Place, message: &str, hint| match is_of_name(path) {
        true => None,
        false if path.steps().is_empty() => Some(Diagnostic::new(message).at(key.span()).hint_if(hint)),
        false if matches!(path.steps(), [definition::Step::Key(name)] if name == NAME) => {
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
        // What `self.NAME` stands for is there, unless the type says that it may be missing.
        attribute.required |= attribute.default.is_none() && attribute.data_type.check(&Value::Undef).is_err();
    }
    let members = members.filter(|members| members.is_mapping());
    Composite { schema, members, weight: members.map_or(0, |members| weigh(members, 0)), span: key.span() }
}

/// What an attribute says that it cannot.
fn check_attribute(name: View<'_>, attribute: View<'_>, problems: &mut Vec<Diagnostic>) {
    if ["when", "meta", "provider"].contains(&name.text()) {
        let message = eco_format!("`{}` cannot be the name of an attribute", name.text());
        problems.push(Diagnostic::new(message).at(name.span()));
    }
    for (key, value) in attribute.entries() {
        match key.text() {
            "type" | "desc" => {}
            "default" => {
                if value.is_scalar() && !kilter_model::expr::is_plain(value.text()) {
                    let problem = Diagnostic::new("a default is a value, and nothing in it is an expression");
                    problems.push(problem.at(value.span()).hint("write `${default(self.NAME, …)}` where it is used"));
                }
            }
            other => {
                let problem = Diagnostic::new(eco_format!("an attribute of a composite type has no `{other}`"));
                problems.push(problem.at(key.span()).hint(choose(other, &["type", "desc", "default"], "its keys")));
            }
        }
    }
}

/// How many nodes there are, as far as anybody would write them: what aliases add up to is no reason to take more.
fn weigh(view: View<'_>, depth: u32) -> usize {
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

/// The attributes as they are written, and the title as one of them.
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
