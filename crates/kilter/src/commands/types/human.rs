//! Types for people.

use kilter_model::{AttributeSchema, Behaviour, Comparison, OutputSchema, Value};
use kilter_provider::{Candidate, Provider, Registry, Suitability};

use crate::style::{FAINT, NAME, styled};
use crate::table::Table;
use crate::{markdown, terminal};

/// Returns all types, each with its providers and one line of description.
pub(super) fn list(registry: &Registry) -> String {
    let mut table = Table::new(["type", "provider", "description"]);
    for of in registry.types().filter(|of| registry.is_for_target(of.as_ref())) {
        for candidate in registry.candidates(of.schema().name.as_str()) {
            let provider = registry.at(candidate.index);
            let schema = provider.schema();
            let summary = markdown::summary(&schema.desc);
            let said = match candidate.suitability {
                Suitability::Unsuitable(why) if provider.is_external() => format!("not suitable here: {why}"),
                _ => summary,
            };
            table.row(vec![schema.name.to_string(), provider.name().to_owned(), said]);
        }
    }
    table.render(None).0
}

/// Returns one type with its attributes.
pub(super) fn describe(provider: &dyn Provider, candidates: &[Candidate]) -> String {
    let schema = provider.schema();
    let width = terminal::text_width();
    let mut text =
        format!("{}  {}\n\n", styled(NAME, &schema.name), styled(FAINT, format!("provider {}", provider.name())));
    text += &markdown::render(&schema.desc, 0, width);
    text += &not_chosen(candidates);
    text += &format!("\n{}\n", styled(NAME, "ATTRIBUTES"));
    for attribute in &schema.attributes {
        text += &describe_attribute(attribute, width);
    }
    if schema.others.is_some() {
        text += "\n  Any other attribute is accepted too.\n";
    }
    if !schema.outputs.is_empty() {
        text += &format!("\n{}\n", styled(NAME, "OUTPUTS"));
        text += &format!("  Values for other resources, as in ${{{}[…].{}}}.\n", schema.name, schema.outputs[0].name);
        for OutputSchema { name, data_type, desc } in &schema.outputs {
            text += &format!("\n  {}  {data_type}\n{}", styled(NAME, name), markdown::render(desc, 6, width));
        }
    }
    if !schema.features.is_empty() {
        let features: Vec<&str> = schema.features.iter().map(|feature| feature.word()).collect();
        text += &format!("\n{}\n  {}\n", styled(NAME, "FEATURES OF THE PROVIDER"), features.join(", "));
    }
    text
}

/// Returns the providers of a type with the reasons of the choice; empty for a single provider.
fn not_chosen(candidates: &[Candidate]) -> String {
    let Some(chosen) = candidates.iter().find(|candidate| candidate.is_chosen) else { return String::new() };
    if let ([_], Suitability::Suitable) = (candidates, &chosen.suitability) {
        return String::new();
    }
    let mut text = format!("\n{}\n", styled(NAME, "PROVIDERS"));
    for candidate in candidates {
        let why = match (&candidate.suitability, candidate.why_not(chosen.name)) {
            (_, Some(why)) => why,
            (Suitability::Unsuitable(why), None) => format!("chosen, though it is not suitable yet: {why}").into(),
            (Suitability::Suitable, None) => "chosen".into(),
        };
        text += &format!("  {}  {}\n", styled(NAME, candidate.name), styled(FAINT, why));
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

/// Returns the unusual properties of an attribute.
pub(super) fn particulars(attribute: &AttributeSchema) -> Vec<String> {
    let mut particulars = Vec::new();
    if attribute.comparison != Comparison::Equal {
        particulars.push(format!("compared by {}", attribute.comparison.word()));
    }
    if attribute.lazy {
        particulars.push("read only if managed or requested".to_owned());
    }
    if !attribute.providers.is_empty() {
        particulars.push(format!("only with {}", attribute.providers.join(", ")));
    }
    if !attribute.required_features.is_empty() {
        particulars.push(format!("needs {}", attribute.required_features.join(", ")));
    }
    particulars
}

/// Returns a default as in a manifest.
pub(super) fn default_text(default: &Value) -> String {
    kilter_model::to_json(default).to_string()
}

#[cfg(test)]
mod tests {
    use kilter_provider::Preference;

    use super::*;

    fn candidate(name: &'static str, suitability: Suitability, is_chosen: bool) -> Candidate {
        Candidate { index: 0, name, suitability, preference: Preference::Normal, is_chosen }
    }

    #[test]
    fn provider_list_has_reason_for_rejection() {
        let missing = Suitability::Unsuitable("there is no command dnf".into());
        let text = not_chosen(&[
            candidate("apt", Suitability::Suitable, true),
            candidate("dnf", missing.clone(), false),
            candidate("dpkg", Suitability::Suitable, false),
        ]);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            text,
            "\nPROVIDERS\n  apt  chosen\n  dnf  it is not suitable: there is no command dnf\n  dpkg  `apt` is \
             preferred; declare `provider: dpkg` for this one\n"
        );
        assert!(not_chosen(&[candidate("apt", Suitability::Suitable, true)]).is_empty());
        assert!(not_chosen(&[candidate("dnf", missing, true)]).contains("not suitable yet"));
    }
}
