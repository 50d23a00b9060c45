//! Types for people.

use kilter_model::{AttributeSchema, Behaviour, Comparison, Value};
use kilter_provider::Provider;

use crate::render::{FAINT, NAME, styled};
use crate::table::Table;
use crate::{markdown, terminal};

/// All types with one line about each.
pub(super) fn list(providers: &[&dyn Provider]) -> String {
    let mut table = Table::new(["type", "provider", "what it is"]);
    for provider in providers {
        let schema = provider.schema();
        table.row(vec![schema.name.to_string(), provider.name().to_owned(), markdown::summary(&schema.desc)]);
    }
    table.render(None).0
}

/// One type with its attributes.
pub(super) fn describe(provider: &dyn Provider) -> String {
    let schema = provider.schema();
    let width = terminal::text_width();
    let mut text =
        format!("{}  {}\n\n", styled(NAME, &schema.name), styled(FAINT, format!("provider {}", provider.name())));
    text += &markdown::render(&schema.desc, 0, width);
    text += &format!("\n{}\n", styled(NAME, "ATTRIBUTES"));
    for attribute in &schema.attributes {
        text += &describe_attribute(attribute, width);
    }
    if !schema.outputs.is_empty() {
        text += &format!("\n{}\n", styled(NAME, "OUTPUTS"));
        text += &format!("  Values for other resources, as in ${{{}[…].{}}}.\n", schema.name, schema.outputs[0].0);
        for (name, desc) in &schema.outputs {
            text += &format!("\n  {}\n{}", styled(NAME, name), markdown::render(desc, 6, width));
        }
    }
    if !schema.features.is_empty() {
        let features: Vec<&str> = schema.features.iter().map(|feature| feature.word()).collect();
        text += &format!("\n{}\n  {}\n", styled(NAME, "FEATURES OF THE PROVIDER"), features.join(", "));
    }
    text
}

fn describe_attribute(attribute: &AttributeSchema, width: usize) -> String {
    let mut traits = Vec::new();
    if attribute.behaviour != Behaviour::Property {
        traits.push(attribute.behaviour.word().to_owned());
    }
    if attribute.required {
        traits.push("required".to_owned());
    }
    if let Some(default) = &attribute.default {
        traits.push(format!("default {}", default_text(default)));
    }
    traits.extend(particulars(attribute));
    let traits = if traits.is_empty() { String::new() } else { format!("  ({})", traits.join(", ")) };
    let heading = format!("\n  {}  {}{traits}\n", styled(NAME, &attribute.name), attribute.data_type);
    heading + &markdown::render(&attribute.desc, 6, width)
}

/// What sets an attribute apart from most.
pub(super) fn particulars(attribute: &AttributeSchema) -> Vec<String> {
    let mut particulars = Vec::new();
    if attribute.comparison != Comparison::Equal {
        particulars.push(format!("compared by {}", attribute.comparison.word()));
    }
    if attribute.lazy {
        particulars.push("read when it is managed or asked for".to_owned());
    }
    if !attribute.providers.is_empty() {
        particulars.push(format!("only with {}", attribute.providers.join(", ")));
    }
    if !attribute.required_features.is_empty() {
        particulars.push(format!("needs {}", attribute.required_features.join(", ")));
    }
    particulars
}

/// A default as a manifest writes it.
pub(super) fn default_text(default: &Value) -> String {
    kilter_model::to_json(default).to_string()
}
