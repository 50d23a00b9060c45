//! Description of a type in libral's words.

use anstyle::{AnsiColor, Style};
use kilter_model::{AttributeSchema, Behaviour, DataType, TypeSchema};
use kilter_provider::Provider;

use super::lookup;
use crate::style::styled;

const HEADER: Style = AnsiColor::Magenta.on_default();
const NAME: Style = AnsiColor::Green.on_default();
const WORD: Style = AnsiColor::Blue.on_default();

/// Describes the provider and its attributes.
pub(super) fn explain(provider: &dyn Provider, source: &str) -> String {
    let schema = provider.schema();
    let header = format!("Provider {}\n  source: {source}", lookup::qualified(provider));
    let mut text = format!("{}\n{}\n", styled(HEADER, header), schema.desc);
    let attributes = in_order(schema);
    let widest = attributes.iter().map(|attribute| attribute.name.as_str().len()).max().unwrap_or(0);
    for attribute in attributes {
        // Further lines of the description are aligned with the first one.
        let desc = desc(attribute).replace("\n", &format!("\n{}", " ".repeat(widest + 5)));
        text += &format!("  {} : {desc}\n", styled(NAME, format!("{:widest$}", attribute.name.as_str())));
        for (what, word) in [("kind", kind(attribute.behaviour).to_owned()), ("type", type_word(&attribute.data_type))]
        {
            text += &format!("  {:widest$} . {what} = {}\n", "", styled(WORD, word));
        }
    }
    text
}

/// Returns the attributes: the name, `ensure`, and the others in alphabetical order.
pub(super) fn in_order(schema: &TypeSchema) -> Vec<&AttributeSchema> {
    let mut attributes: Vec<&AttributeSchema> = schema.attributes.iter().collect();
    attributes.sort_by_key(|attribute| {
        let rank = match attribute.name.as_str() {
            _ if attribute.behaviour == Behaviour::Namevar => 0,
            "ensure" => 1,
            _ => 2,
        };
        (rank, attribute.name.text().clone())
    });
    attributes
}

/// Returns the description of an attribute.
pub(super) fn desc(attribute: &AttributeSchema) -> &str {
    if attribute.desc.is_empty() { "(missing description)" } else { &attribute.desc }
}

/// Returns the word for readable, writable, or both.
pub(super) fn kind(behaviour: Behaviour) -> &'static str {
    match behaviour {
        Behaviour::Namevar | Behaviour::Property | Behaviour::InitOnly => "rw",
        Behaviour::Parameter => "w",
        Behaviour::ReadOnly => "r",
    }
}

/// Returns a data type in libral's notation, if libral has the type.
pub(super) fn type_word(data_type: &DataType) -> String {
    match data_type {
        DataType::String(None, None) => "string".to_owned(),
        DataType::Boolean(None) => "boolean".to_owned(),
        DataType::Enum(words) => format!("enum[{}]", words.join(", ")),
        DataType::Array(of, None, None) if matches!(**of, DataType::String(None, None)) => "array[string]".to_owned(),
        other => other.to_string(),
    }
}
