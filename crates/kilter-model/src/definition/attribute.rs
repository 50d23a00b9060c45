//! Reads attributes of a definition.

use ecow::{EcoString, eco_format};

use super::aliases::Aliases;
use super::fault::{Fault, FaultPlace, Path};
use super::read::{Entries, Reader, kind, symbol};
use crate::data_type::DataType;
use crate::schema::{AttributeSchema, Behaviour, Comparison};
use crate::suggest;
use crate::value::Value;

/// Known keys of an attribute.
const KEYS: [&str; 10] = [
    "type",
    "desc",
    "default",
    "behaviour",
    "behavior",
    "required",
    "comparison",
    "lazy",
    "providers",
    "required_features",
];

/// Reads an attribute. `is_ensurable` is true if the type has an attribute `ensure`.
pub(super) fn read(
    name: &str,
    value: &Value,
    path: &Path,
    aliases: &Aliases,
    is_ensurable: bool,
    reader: &mut Reader,
) -> AttributeSchema {
    let mut schema = AttributeSchema::new(name, DataType::Any, Behaviour::Property, "");
    let Some(entries) = value.as_hash() else {
        reader.unread.behaviours = true;
        let fault = Fault::new(path.clone(), eco_format!("expects a hash with `type` and `desc`, got {}", kind(value)));
        let text = value.as_str().filter(|text| text.parse::<DataType>().is_ok());
        reader.fault(fault.hint_if(text.map(|text| eco_format!("write {{type: \"{text}\", desc: …}}"))));
        return schema;
    };
    let entries = Entries::new(entries, path.clone(), reader);
    schema.data_type = data_type(&entries, aliases, reader);
    if name == "ensure" {
        check_ensure(&schema.data_type, path, reader);
    }
    schema.desc = reader.desc(&entries, None);
    schema.behaviour = behaviour(&entries, reader);
    schema.default = entries.get("default").map(|(value, _)| schema.data_type.sealed(value.clone()));
    if let (Some((_, path)), Behaviour::ReadOnly) = (entries.get("default"), schema.behaviour) {
        reader.warn(path, FaultPlace::Key, "the default of a read_only attribute is never used", None);
    }
    schema.required = match entries.get("required") {
        None => is_mandatory(&schema, is_ensurable),
        found => reader.get_bool(found),
    };
    schema.lazy = reader.get_bool(entries.get("lazy"));
    schema.comparison = comparison(&entries, reader);
    let only = |words: Vec<(EcoString, Path)>| words.into_iter().map(|(word, _)| word).collect();
    schema.providers = only(reader.words(entries.get("providers"), "names of providers"));
    schema.required_features = only(reader.words(entries.get("required_features"), "features"));
    schema.extra = reader.extra(&entries, &KEYS);
    schema
}

/// Returns true if a manifest must set an attribute that has no `required`, as in Puppet's implementation: its type is
/// not `Optional[…]`, and it has no default. Puppet asks for properties only if a resource has an `ensure`.
pub(super) fn is_mandatory(schema: &AttributeSchema, is_ensurable: bool) -> bool {
    let is_settable = match schema.behaviour {
        Behaviour::Parameter => true,
        Behaviour::Property | Behaviour::InitOnly => is_ensurable && schema.name != "ensure",
        Behaviour::Namevar | Behaviour::ReadOnly => false,
    };
    is_settable && schema.default.is_none() && !is_optional(&schema.data_type)
}

fn is_optional(data_type: &DataType) -> bool {
    match data_type {
        DataType::Optional(_) => true,
        DataType::Alias(alias) => is_optional(&alias.definition()),
        _ => false,
    }
}

/// Reads the data type below `type`.
pub(super) fn data_type(entries: &Entries<'_>, aliases: &Aliases, reader: &mut Reader) -> DataType {
    let found = entries.get("type");
    let Some((_, path)) = found.clone() else {
        let fault = Fault::new(entries.path.clone(), "it has no `type`").at(FaultPlace::Key);
        reader.fault(fault.hint("such as type: String"));
        return DataType::Any;
    };
    let Some(text) = reader.text(found, "the text of a data type") else { return DataType::Any };
    match aliases.data_type(text) {
        Ok(data_type) => data_type,
        Err(fault) => {
            reader.faults.extend(fault.map(|(message, hint)| Fault::new(path, message).hint_if(hint)));
            DataType::Any
        }
    }
}

/// Checks the type of `ensure`: it accepts exactly `present`, `absent` and, if optional, undef.
fn check_ensure(data_type: &DataType, path: &Path, reader: &mut Reader) {
    fn is_ensure(data_type: &DataType) -> bool {
        match data_type {
            DataType::Any => true,
            DataType::Optional(inner) => is_ensure(inner),
            DataType::Alias(alias) => is_ensure(&alias.definition()),
            DataType::Variant(types) => types.iter().all(|one| *one == DataType::Undef || is_ensure(one)),
            DataType::Enum(words) => {
                let has = |wanted| words.iter().any(|word| word == wanted);
                words.iter().all(|word| word == "present" || word == "absent") && has("present") && has("absent")
            }
            _ => false,
        }
    }
    if !is_ensure(data_type) {
        let message = eco_format!("`ensure` expects the type Enum[present, absent], got {data_type}");
        let fault = Fault::new(path.key("type"), message);
        reader.fault(fault.hint("Optional[Enum[present, absent]] does not manage undeclared attributes"));
    }
}

fn behaviour(entries: &Entries<'_>, reader: &mut Reader) -> Behaviour {
    let (british, american) = (entries.get("behaviour"), entries.get("behavior"));
    if let (Some(_), Some((_, path))) = (&british, &american) {
        let fault = Fault::new(path.clone(), "there are both `behaviour` and `behavior`, which mean the same");
        reader.fault(fault.at(FaultPlace::Key).hint("keep one"));
    }
    let found = british.or(american);
    let (Some((_, path)), Some(text)) = (found.clone(), reader.text(found.clone(), "a word")) else {
        reader.unread.behaviours |= found.is_some();
        return Behaviour::Property;
    };
    Behaviour::from_word(symbol(text)).unwrap_or_else(|| {
        reader.unread.behaviours = true;
        let known = Behaviour::ALL.map(Behaviour::word);
        reader.fault(choice(path, symbol(text), "a behaviour", &known));
        Behaviour::Property
    })
}

fn comparison(entries: &Entries<'_>, reader: &mut Reader) -> Comparison {
    let found = entries.get("comparison");
    let (Some((_, path)), Some(text)) = (found.clone(), reader.text(found, "a word")) else {
        return Comparison::Equal;
    };
    Comparison::from_word(symbol(text)).unwrap_or_else(|| {
        let known = Comparison::ALL.map(Comparison::word);
        reader.fault(choice(path, symbol(text), "a comparison", &known));
        Comparison::Equal
    })
}

/// Returns the fault for an unknown word, with a hint.
fn choice(path: Path, word: &str, what: &str, known: &[&str]) -> Fault {
    let hint = match suggest::nearest(word, known.iter().copied()) {
        Some(near) => eco_format!("did you mean `{near}`?"),
        None => eco_format!("there are {}", known.join(", ")),
    };
    Fault::new(path, eco_format!("`{word}` is not {what}")).hint(hint)
}
