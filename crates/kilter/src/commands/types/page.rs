//! Types as Markdown, for the pages of docs/reference/types.

use kilter_model::{AttributeSchema, OutputSchema};
use kilter_provider::Provider;

use super::human::{default_text, particulars};
use crate::markdown::summary;

/// Returns the page that lists the types.
pub(super) fn list(providers: &[&dyn Provider]) -> String {
    let mut text = "# Types\n\n| type | provider | description |\n|---|---|---|\n".to_owned();
    for provider in providers {
        let schema = provider.schema();
        let name = &schema.name;
        text +=
            &format!("| [{name}]({name}.md) | {} | {} |\n", provider.name(), summary(&schema.desc).replace('|', "\\|"));
    }
    text
}

/// Returns the page of one type.
pub(super) fn describe(provider: &dyn Provider) -> String {
    let schema = provider.schema();
    let mut text = format!("# {}\n\n{}\n\n", schema.name, schema.desc.trim());
    text += &format!("Provider: `{}`.", provider.name());
    if !schema.features.is_empty() {
        let features: Vec<String> = schema.features.iter().map(|feature| format!("`{}`", feature.word())).collect();
        text += &format!(" Features: {}.", features.join(", "));
    }
    text += "\n\n## Attributes\n";
    for attribute in &schema.attributes {
        text += &describe_attribute(attribute);
    }
    if schema.others.is_some() {
        text += "\nAny other attribute is accepted too.\n";
    }
    if !schema.outputs.is_empty() {
        text += "\n## Outputs\n\nValues for other resources.\n\n";
        for OutputSchema { name, data_type, desc } in &schema.outputs {
            text += &format!("- `{name}` · `{data_type}`: {}\n", desc.replace("\n", "\n  "));
        }
    }
    text
}

fn describe_attribute(attribute: &AttributeSchema) -> String {
    let mut traits = vec![format!("`{}`", attribute.data_type), attribute.behaviour.word().to_owned()];
    if attribute.required {
        traits.push("required".to_owned());
    }
    if let Some(default) = &attribute.default {
        traits.push(format!("default `{}`", default_text(default)));
    }
    traits.extend(particulars(attribute));
    format!("\n### {}\n\n{}\n\n{}\n", attribute.name, traits.join(" · "), attribute.desc.trim())
}
