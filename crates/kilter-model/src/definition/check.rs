//! Checks schemas from any source for faults.

use ecow::{EcoString, eco_format};

use super::aliases::no_such_type;
use super::fault::{Fault, FaultPlace, Path};
use super::relations::word;
use crate::data_type::DataType;
use crate::expr::{Name, Template};
use crate::schema::{AttributeSchema, AutoTitle, Behaviour, TypeSchema, from_text};
use crate::suggest;
use crate::value::Value;

/// Reserved attribute names: every resource has these attributes.
const RESERVED: [&str; 16] = [
    "title",
    "provider",
    "alias",
    "audit",
    "before",
    "consume",
    "export",
    "loglevel",
    "noop",
    "notify",
    "require",
    "schedule",
    "stage",
    "subscribe",
    "tag",
    "rsapi_custom_insync_trigger",
];

/// Parts that could not be read and whose faults have been reported. Faults that may only follow from them are
/// suppressed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unread {
    /// Name of the type.
    pub(super) name: bool,
    /// All attributes.
    pub(super) attributes: bool,
    /// Behaviour of some attribute.
    pub(super) behaviours: bool,
    /// All title patterns.
    pub(super) patterns: bool,
}

/// Returns all faults of a schema.
pub fn check(schema: &TypeSchema) -> Vec<Fault> {
    faults(schema, Unread::default())
}

pub(super) fn faults(schema: &TypeSchema, unread: Unread) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !unread.name && !is_type_name(schema.name.as_str()) {
        faults.push(type_name(Path::root().key("name"), schema.name.as_str()));
    }
    for (index, attribute) in schema.attributes.iter().enumerate() {
        let path = Path::root().key("attributes").key(attribute.name.text().clone());
        if schema.attributes[..index].iter().any(|other| other.name == attribute.name) {
            let message = eco_format!("the attribute `{}` is declared twice", attribute.name);
            faults.push(Fault::new(path.clone(), message).at(FaultPlace::Key));
        }
        check_attribute(attribute, &path, &mut faults);
    }
    check_namevars(schema, unread, &mut faults);
    check_patterns(schema, unread, &mut faults);
    if !unread.attributes {
        check_relations(schema, &mut faults);
    }
    faults
}

/// Returns true if a text is a valid type name: words of `a-z`, `0-9` and `_` that start with a letter,
/// separated by `::`.
fn is_type_name(text: &str) -> bool {
    text.split("::").all(|part| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    })
}

fn type_name(path: Path, name: &str) -> Fault {
    let message = eco_format!(
        "`{name}` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and `_`"
    );
    let mended = name.to_lowercase().replace(['-', ' ', '.'], "_");
    let hint = is_type_name(&mended).then(|| eco_format!("did you mean `{mended}`?"));
    Fault::new(path, message).hint_if(hint)
}

fn check_attribute(attribute: &AttributeSchema, path: &Path, faults: &mut Vec<Fault>) {
    let name = attribute.name.as_str();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if RESERVED.contains(&name) {
        faults.push(Fault::new(path.clone(), eco_format!("the name `{name}` is reserved")).at(FaultPlace::Key));
    } else if !is_name {
        let message =
            eco_format!("`{name}` is not the name of an attribute: it must contain only letters, digits and `_`");
        faults.push(Fault::new(path.clone(), message).at(FaultPlace::Key));
    }
    if let Some(unknown) = attribute.data_type.unresolved() {
        let (message, hint) = no_such_type(&unknown, &[]);
        faults.push(Fault::new(path.key("type"), message).hint_if(hint));
    } else if let Some(default) = &attribute.default
        && let Err(mismatch) = attribute.data_type.check(default)
    {
        let hint = (!default.holds_sensitive()).then(|| quotes(&attribute.data_type, default)).flatten();
        let message = eco_format!("the default does not match the attribute's type: {mismatch}");
        faults.push(Fault::new(path.key("default"), message).hint_if(hint).tolerated());
    }
    check_behaviour(attribute, path, faults);
}

/// Returns a hint if adding or removing quotes would make the default valid.
fn quotes(data_type: &DataType, default: &Value) -> Option<EcoString> {
    let text = default.to_text()?;
    match default {
        Value::String(_) => from_text(data_type, &text).is_ok().then(|| eco_format!("take it out of quotes: {text}")),
        _ => data_type.check(&Value::String(text.clone())).is_ok().then(|| eco_format!("put it in quotes: \"{text}\"")),
    }
}

/// Reports keys that conflict with the behaviour of the attribute.
fn check_behaviour(attribute: &AttributeSchema, path: &Path, faults: &mut Vec<Fault>) {
    let behaviour = attribute.behaviour;
    let comparison = attribute.comparison;
    if comparison != Default::default() && !behaviour.is_compared() {
        let message = eco_format!("a {} is never compared", behaviour.word());
        faults.push(Fault::new(path.key("comparison"), message));
    } else if let Some(wanted) = comparison.lacks(&attribute.data_type) {
        let message = eco_format!(
            "the comparison `{}` is one of {wanted}, and the type {} has none",
            comparison.word(),
            attribute.data_type
        );
        faults.push(Fault::new(path.key("comparison"), message));
    }
    if attribute.lazy && matches!(behaviour, Behaviour::Namevar | Behaviour::Parameter) {
        let message = eco_format!("a {} cannot be lazy: it is not read from the system", behaviour.word());
        faults.push(Fault::new(path.key("lazy"), message));
    }
    if attribute.lazy && attribute.name == "ensure" {
        faults.push(Fault::new(path.key("lazy"), "`ensure` cannot be lazy: nothing is known without it"));
    }
    if behaviour == Behaviour::Namevar && attribute.data_type.is_sensitive() {
        let message = "a namevar cannot be Sensitive: it is shown wherever the resource is named";
        faults.push(Fault::new(path.key("type"), message));
    }
    if attribute.required && behaviour == Behaviour::ReadOnly {
        faults.push(Fault::new(path.key("required"), "a read_only attribute is never given"));
    }
}

fn check_namevars(schema: &TypeSchema, unread: Unread, faults: &mut Vec<Fault>) {
    let namevars: Vec<EcoString> = schema.namevars().map(|namevar| eco_format!("`{}`", namevar.name)).collect();
    let path = Path::root().key("attributes");
    if namevars.is_empty() && !unread.attributes && !unread.behaviours {
        let fault = Fault::new(path, "no attribute is a namevar: nothing identifies a resource").at(FaultPlace::Key);
        faults.push(fault.hint("add `behaviour: namevar` to the one that names it").tolerated());
    } else if namevars.len() > 1 && schema.title_patterns.is_empty() && !unread.patterns {
        let message = eco_format!("the namevars {} need `title_patterns`", namevars.join(", "));
        faults.push(Fault::new(path, message).at(FaultPlace::Key).tolerated());
    }
}

fn check_patterns(schema: &TypeSchema, unread: Unread, faults: &mut Vec<Fault>) {
    let namevars: Vec<&str> = schema.namevars().map(|namevar| namevar.name.as_str()).collect();
    for (index, pattern) in schema.title_patterns.iter().enumerate().filter(|(_, p)| !p.pattern.source().is_empty()) {
        let path = Path::root().key("title_patterns").index(index).key("pattern");
        let names = match pattern.names() {
            Ok(names) => names,
            Err(reason) => {
                faults.push(Fault::new(path, eco_format!("it is not a regular expression: {reason}")));
                continue;
            }
        };
        if names.is_empty() {
            let fault = Fault::new(path, "it has no named group, so that it yields no namevar").tolerated();
            faults.push(fault.hint_if(namevars.first().map(|name| eco_format!("such as (?<{name}>.*)"))));
            continue;
        }
        let unknown = |name: &str| unread.attributes || unread.behaviours && schema.find(name).is_some();
        for name in names.iter().filter(|name| !namevars.contains(&name.as_str()) && !unknown(name)) {
            let hint = match suggest::nearest(name, namevars.iter().copied()) {
                Some(near) => Some(eco_format!("did you mean `{near}`?")),
                None if schema.find(name).is_some() => Some(eco_format!("`{name}` has another behaviour")),
                None if namevars.is_empty() => None,
                None => Some(eco_format!("the namevars are {}", namevars.join(", "))),
            };
            let message = eco_format!("the group `{name}` is not a namevar");
            faults.push(Fault::new(path.clone(), message).hint_if(hint).tolerated());
        }
    }
}

fn check_relations(schema: &TypeSchema, faults: &mut Vec<Fault>) {
    for relation in &schema.relations {
        let path = Path::root().key(word(relation.kind)).key(relation.type_name.text().clone());
        if !is_type_name(relation.type_name.as_str()) {
            faults.push(type_name(path.clone(), relation.type_name.as_str()).at(FaultPlace::Key));
        }
        for (index, title) in relation.titles.iter().enumerate() {
            let path = if relation.titles.len() > 1 { path.index(index) } else { path.clone() };
            match title {
                AutoTitle::Constant(_) => {}
                AutoTitle::Attribute(name) if schema.find(name.as_str()).is_some() => {}
                AutoTitle::Attribute(name) => faults.push(no_attribute(schema, path, name.as_str())),
                AutoTitle::Expression(template) => check_names(schema, template, &path, faults),
            }
        }
    }
}

/// Checks that an expression of a relation uses only the resource's own attributes.
fn check_names(schema: &TypeSchema, template: &Template, path: &Path, faults: &mut Vec<Fault>) {
    template.names(&mut |name, at| {
        let fault = match name {
            Name::Var(name) if schema.find(name).is_some() => return,
            Name::Var(name) => no_attribute(schema, path.clone(), name),
            Name::Fact(_) | Name::Own(_) | Name::Each(_) | Name::Output(..) => {
                Fault::new(path.clone(), "only the resource's own values may be used here")
                    .hint("vars.NAME is the value of the attribute NAME")
            }
        };
        faults.push(fault.at(FaultPlace::Within(at)));
    });
}

fn no_attribute(schema: &TypeSchema, path: Path, name: &str) -> Fault {
    let names = schema.attributes.iter().map(|attribute| attribute.name.as_str());
    let near = suggest::nearest(name, names).map(|near| eco_format!("did you mean `{near}`?"));
    Fault::new(path, eco_format!("there is no attribute `{name}`")).hint_if(near)
}
