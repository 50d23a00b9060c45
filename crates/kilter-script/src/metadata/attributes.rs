//! The key `attributes`.

use ecow::{EcoString, eco_format};
use kilter_model::suggest::nearest;
use kilter_model::{AttributeSchema, Behaviour, Comparison, DataType, Value};

use super::mold::{EXISTS, RESERVED};
use super::read::MetadataReader;
use crate::convention::ConventionName;
use crate::yaml::{Node, YamlKind};

/// Known keys of an attribute.
const KEYS: [&str; 8] = ["desc", "type", "kind", "behaviour", "default", "required", "comparison", "in_sync"];

/// Naming of a provider's resources.
#[derive(Clone, Copy)]
pub(super) struct Naming<'a> {
    /// Attribute with the name of a resource.
    pub(super) key: &'a str,
    /// Calling convention.
    pub(super) convention: ConventionName,
}

/// Reads the attributes of a provider. Without the key, there is only the name, as in libral's documentation.
pub(super) fn read(provider: &Node, naming: Naming<'_>, reader: &mut MetadataReader) -> Vec<AttributeSchema> {
    let name = || AttributeSchema::new(naming.key, DataType::text(), Behaviour::Namevar, "The name of the resource.");
    let Some(node) = provider.get("attributes") else { return vec![name()] };
    let Some(entries) = node.entries() else {
        reader.fault(node, eco_format!("`attributes` is a mapping of attributes by name, not {}", node.what()));
        return vec![name()];
    };
    let mut attributes: Vec<AttributeSchema> = entries
        .iter()
        .map(|(key, value)| attribute(key.text().cloned().unwrap_or_default(), key, value, naming, reader))
        .collect();
    let is_named = attributes.iter().any(|attribute| attribute.name == *naming.key);
    if !is_named && naming.convention == ConventionName::Mold {
        attributes.insert(0, name());
    } else if !is_named {
        reader.fault_with(node, "there is no attribute `name`, which every resource has", "add `name: {type: string}`");
    }
    attributes
}

fn attribute(
    name: EcoString,
    key: &Node,
    value: &Node,
    naming: Naming<'_>,
    reader: &mut MetadataReader,
) -> AttributeSchema {
    if name == "ral" || name.starts_with("ral_") || name.starts_with("__") {
        reader.fault(key, eco_format!("the name `{name}` is reserved"));
    }
    if naming.convention == ConventionName::Mold && RESERVED.contains(&name.as_str()) {
        reader.fault(key, eco_format!("mold's documents use the key `{name}` for themselves"));
    }
    let mut attribute = AttributeSchema::new(name.clone(), DataType::text(), Behaviour::Property, "");
    if value.is_null() {
        return named(attribute, value, naming, reader);
    }
    if value.entries().is_none() {
        reader.fault(
            value,
            eco_format!("the attribute `{name}` is a mapping with `type` and `desc`, not {}", value.what()),
        );
        return named(attribute, value, naming, reader);
    }
    attribute.desc = value.get("desc").and_then(Node::text).cloned().unwrap_or_default();
    attribute.data_type = data_type(value, reader);
    attribute.behaviour = behaviour(value, reader);
    attribute.required = value.get("required").is_some_and(|node| reader.get_bool("required", node));
    attribute.default = value.get("default").map(|node| default(&attribute.data_type, node));
    if attribute.default.is_none() && tells_presence(&attribute) {
        attribute.default = Some("present".into());
    }
    attribute.comparison = value.get("comparison").map_or(Comparison::Equal, |node| comparison(node, reader));
    attribute.extra = reader.extra(value, &KEYS);
    named(attribute, value, naming, reader)
}

/// Returns true if an attribute is `ensure` with the values `present` and `absent` only. Its default is then
/// `present`.
pub(crate) fn tells_presence(attribute: &AttributeSchema) -> bool {
    let words = attribute.data_type.allowed();
    attribute.name == "ensure"
        && attribute.behaviour == Behaviour::Property
        && words.len() == 2
        && ["present", "absent"].iter().all(|word| words.contains(word))
        && attribute.data_type.check(&Value::Undef).is_err()
}

/// Applies the rules for the attribute that names a resource.
fn named(
    mut attribute: AttributeSchema,
    node: &Node,
    naming: Naming<'_>,
    reader: &mut MetadataReader,
) -> AttributeSchema {
    let key = naming.key;
    let is_of_mold = naming.convention == ConventionName::Mold;
    if is_of_mold && attribute.name == EXISTS && attribute.data_type.check(&Value::Boolean(true)).is_err() {
        reader.fault(node, eco_format!("`{EXISTS}` is true or false: a Boolean, not a {}", attribute.data_type));
    }
    match (attribute.name == *key, attribute.behaviour) {
        (true, Behaviour::Property | Behaviour::Namevar | Behaviour::ReadOnly) => {
            attribute.behaviour = Behaviour::Namevar;
            let takes_texts = attribute.data_type.check(&Value::from("a")).is_ok()
                || !matches!(
                    *attribute.data_type.open(),
                    DataType::Boolean(_)
                        | DataType::Integer(..)
                        | DataType::Float(..)
                        | DataType::Array(..)
                        | DataType::Hash(..)
                );
            if !takes_texts {
                reader.fault(node, eco_format!("`{key}` is a text, not a {}", attribute.data_type));
            }
        }
        (true, other) => reader.fault(node, eco_format!("`{key}` names a resource: it cannot be a {}", other.word())),
        (false, Behaviour::Namevar) if is_of_mold => {
            let name = &attribute.name;
            reader.fault_with(
                node,
                eco_format!("one attribute names a resource, which is `{key}`"),
                eco_format!("write `key: {name}` if it is this one"),
            );
        }
        (false, Behaviour::Namevar) => reader.fault(node, "only `name` is a namevar in these conventions"),
        _ => {}
    }
    attribute
}

/// Reads a default. A text attribute may have an unquoted default.
pub(super) fn default(data_type: &DataType, node: &Node) -> Value {
    let value = node.value();
    let written = node.text().filter(|_| data_type.check(&value).is_err());
    let value = written.and_then(|text| data_type.parse_word(text).ok()).unwrap_or(value);
    data_type.sealed(value)
}

/// Reads a data type in libral's or kilter's notation.
pub(super) fn data_type(attribute: &Node, reader: &mut MetadataReader) -> DataType {
    let Some(node) = attribute.get("type") else { return DataType::text() };
    let Some(text) = node.text() else {
        let hint = match node.kind {
            YamlKind::Sequence(_) | YamlKind::Mapping(_) => "put it in quotes: \"Array[String]\"",
            YamlKind::Scalar { .. } => "",
        };
        reader.fault_with(node, eco_format!("a type is a text, not {}", node.what()), hint);
        return DataType::text();
    };
    let squeezed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let libral = match DataType::parse_libral(&squeezed) {
        Ok(data_type) => return data_type,
        Err(error) => error,
    };
    if ["string", "boolean", "array", "enum"].iter().any(|word| squeezed.starts_with(word)) {
        reader.fault(node, eco_format!("`{text}` is not a type: {libral}"));
        return DataType::text();
    }
    match text.parse::<DataType>() {
        Ok(data_type) => match data_type.unresolved() {
            None => data_type,
            Some(unknown) => {
                reader.fault_hint(node, eco_format!("there is no type `{unknown}`"), meant(&unknown));
                DataType::text()
            }
        },
        Err(error) => {
            let hint =
                meant(&squeezed).unwrap_or_else(|| "such as string, enum[present, absent] or Integer[0, 255]".into());
            reader.fault_with(node, eco_format!("`{text}` is not a type: {error}"), hint);
            DataType::text()
        }
    }
}

/// Returns a hint for a misspelled type: `integer`.
fn meant(word: &str) -> Option<EcoString> {
    let known = ["String", "Boolean", "Integer", "Float", "Array", "Hash", "Optional", "Sensitive", "Enum", "Variant"];
    let mut letters = word.chars();
    let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    nearest(&capital, known).map(|near| eco_format!("did you mean `{near}`?"))
}

/// Reads `kind` of libral, or `behaviour` of kilter.
fn behaviour(attribute: &Node, reader: &mut MetadataReader) -> Behaviour {
    let (kind, behaviour) = (attribute.get("kind"), attribute.get("behaviour"));
    if let (Some(_), Some(node)) = (kind, behaviour) {
        reader.fault(node, "there are both `kind` and `behaviour`: keep one");
    }
    if let Some(node) = kind {
        return match node.text().map(|text| text.as_str()) {
            Some("rw") => Behaviour::Property,
            Some("r") => Behaviour::ReadOnly,
            Some("w") => Behaviour::Parameter,
            _ => {
                reader.fault_with(node, eco_format!("{} is not a kind", node.what()), "there are r, w and rw");
                Behaviour::Property
            }
        };
    }
    let Some(node) = behaviour else { return Behaviour::Property };
    node.text().and_then(|text| Behaviour::from_word(text)).unwrap_or_else(|| {
        let known = Behaviour::ALL.map(Behaviour::word).join(", ");
        reader.fault_with(node, eco_format!("{} is not a behaviour", node.what()), eco_format!("there are {known}"));
        Behaviour::Property
    })
}

fn comparison(node: &Node, reader: &mut MetadataReader) -> Comparison {
    node.text().and_then(|text| Comparison::from_word(text)).unwrap_or_else(|| {
        let known = Comparison::ALL.map(Comparison::word).join(", ");
        reader.fault_with(node, eco_format!("{} is not a comparison", node.what()), eco_format!("there are {known}"));
        Comparison::Equal
    })
}
